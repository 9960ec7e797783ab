// Runs supervised workers for a module until a stop is requested, then drains them.
import type { Supervisor, SuperviseOptions, SupervisorEvent } from '../../worker/options.ts'
import { superviseWorkers } from '../../worker/index.ts'
import type { ServedStack } from '../../connect/dev-stack.ts'
import type { Announcer } from './announce.ts'
import { CliError } from '../errors.ts'
import { reloadOnSave } from './reload-on-save.ts'
import type { StopRequests } from './stop.ts'

/** How long killed processes may take to exit, in milliseconds. */
const KILL_GRACE_MS = 5_000

export interface ServeParts {
  announcer: Announcer
  requests: StopRequests
  /** Whether the module is reloaded when it or a file that it imports is saved. */
  watch: boolean
  whenReady?: () => Promise<void>
  lost?: Promise<never>
}

/**
 * Runs workers until a stop is requested, then drains them. `whenReady` is called once a worker polls, before that is announced.
 * @throws WorkerError when no process can start; CliError `workers_gone` when all exited without a request; the rejection of `lost`.
 */
export async function serve(options: SuperviseOptions, stack: ServedStack, io: ServeParts): Promise<void> {
  const { announcer, requests, lost = new Promise<never>(() => {}) } = io
  // Without the stack, the processes cannot finish anything.
  const hurry = Promise.race([requests.hurry, lost.catch(() => {})])
  const reloads = io.watch ? reloadOnSave(options.module, announcer) : undefined
  const onEvent = (event: SupervisorEvent): void => announcer.worker(event)
  const supervisor = await superviseWorkers({ ...options, onEvent, ...(reloads && { onFile: reloads.onFile }) })
  try {
    const begin = await Promise.race([supervisor.ready().then(() => 'ready' as const), requests.stop.then(() => 'stop' as const), lost])
    if (begin === 'ready') {
      await io.whenReady?.()
      announcer.ready(stack, supervisor.orchestratorPid())
      reloads?.begin(supervisor)
      await Promise.race([requests.stop, supervisor.finished, lost])
      if (!requests.stopping()) {
        throw new CliError('workers_gone', 'All executors exited unexpectedly. See the log above for the reason.')
      }
    }
    announcer.stopping()
  } finally {
    reloads?.end()
    await drain(supervisor, hurry)
  }
}

/** The processes finish their calls. On the second request they are killed, which loses nothing: another worker resumes the calls. */
async function drain(supervisor: Supervisor, hurry: Promise<void>): Promise<void> {
  const drained = Promise.all([supervisor.shutdown(), supervisor.finished])
  const end = await Promise.race([drained.then(() => 'drained' as const), hurry.then(() => 'hurry' as const)])
  if (end === 'drained') return
  supervisor.kill()
  let timer: NodeJS.Timeout | undefined
  const grace = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, KILL_GRACE_MS)
  })
  await Promise.race([drained, grace])
  clearTimeout(timer)
}
