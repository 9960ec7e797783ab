// The end of telemetry must not hold up that of a worker.
import type { Logger } from '../../../agent/tool.ts'

/** Waits for the work, for so long at most. Never rejects. */
export async function withinTime(work: Promise<unknown>, ms: number, logger: Logger): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([work.catch((err: unknown) => logger.debug({ err }, 'the last of telemetry was not sent')), over])
  clearTimeout(timer)
}
