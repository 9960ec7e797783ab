// The supervisor of a crash test's workers, in its own process, so that it can be killed and frozen, too. It reads its options from its
// environment, and reports the events of its processes to the test.
import { rmSync } from 'node:fs'
import { PawlError } from '../../../session/errors.ts'
import { superviseWorkers } from '../../../worker/index.ts'
import type { Supervisor, SuperviseOptions, SupervisorEvent } from '../../../worker/options.ts'

/** Messages from a supervising process. */
export type FromSupervisor =
  | { type: Exclude<SupervisorEvent['event'], 'call_resumed'>; pid: number }
  /** It cannot supervise, or its first process cannot serve. */
  | { type: 'failed'; message: string }

/** Its input. `folder` is the test's folder, which the supervising process removes if the test no longer can. */
export interface SupervisingInput {
  options: Omit<SuperviseOptions, 'logger' | 'onEvent'>
  folder: string
}

const SILENT = { debug: ignore, info: ignore, warn: ignore, error: ignore }

function tell(message: FromSupervisor, told: () => void = ignore): void {
  if (process.connected) process.send?.(message, undefined, undefined, told)
}

function failureOf(error: unknown): FromSupervisor {
  return { type: 'failed', message: error instanceof PawlError ? error.message : String((error as Error)?.stack ?? error) }
}

/** The test has exited: its workers must exit, too, and a frozen one would not do so on its own. */
function abandon(supervisor: Supervisor | undefined, folder: string): void {
  supervisor?.kill()
  rmSync(folder, { recursive: true, force: true })
  process.exit(1)
}

async function supervise({ options, folder }: SupervisingInput): Promise<void> {
  let supervisor: Supervisor | undefined
  process.once('disconnect', () => abandon(supervisor, folder))
  const stop = new Promise<void>((resolve) => process.once('message', () => resolve()))
  supervisor = await superviseWorkers({
    ...options,
    logger: SILENT,
    onEvent(event) {
      if (event.event !== 'call_resumed') tell({ type: event.event, pid: event.pid })
    },
  })
  supervisor.ready().catch((error: unknown) => tell(failureOf(error)))
  await stop
  await supervisor.shutdown()
}

function ignore(): void {}

try {
  await supervise(JSON.parse(process.env.PAWL_CRASH_SUPERVISOR ?? '{}') as SupervisingInput)
  process.exit(0)
} catch (error) {
  tell(failureOf(error), () => process.exit(1))
}
