// Limits how long telemetry may delay the shutdown of a worker.
import type { Logger } from '../../../agent/tool.ts'
import { inTime } from '../../../waiting/in-time.ts'

/** Waits for the work, for `ms` milliseconds at most. Never rejects. */
export async function withinTime(work: Promise<unknown>, ms: number, logger: Logger): Promise<void> {
  await inTime(
    work.catch((err: unknown) => logger.debug({ err }, 'the last telemetry could not be sent')),
    ms,
  )
}
