// What `pawl dev` and `pawl worker` print while they run: lines for people, or JSON lines for programs.
import type { ProcessDeath, SupervisorEvent } from '../../worker/options.ts'
import type { ServedStack } from '../../connect/dev-stack.ts'
import { printTo } from '../../local/progress.ts'
import { oneLine, paint } from '../terminal.ts'
import { defined } from '../../session/defined.ts'

/** Characters of a load error that are printed: it names files and may quote code. */
const MAX_REASON_CHARS = 600

export interface Announcer {
  /** A slow step. `isPassing`: the next line replaces it on a terminal. */
  progress(text: string, isPassing?: boolean): void
  worker(event: SupervisorEvent): void
  ready(stack: ServedStack, orchestratorPid?: number): void
  /** A reload starts; one of the next two calls follows, or another reload. */
  reloading(): void
  reloaded(reload: Reload): void
  reloadFailed(reload: Reload & { code: string; message: string }): void
  stopping(): void
}

/** A reload, with paths relative to the working directory. */
export interface Reload {
  module: string
  /** What was saved. */
  files: string[]
  ms: number
}

/** JSON lines on standard output; progress goes to standard error. */
export function announceAsJson(): Announcer {
  const tell = (event: object) => process.stdout.write(`${JSON.stringify(event)}\n`)
  return {
    progress: printTo(process.stderr),
    worker(event) {
      switch (event.event) {
        case 'worker_started':
        case 'worker_ready':
        case 'orchestrator_started':
          return tell({ event: event.event, pid: event.pid })
        case 'worker_died':
        case 'orchestrator_died':
          return tell({
            event: event.event,
            pid: event.pid,
            code: event.code,
            signal: event.signal,
            ...defined({ killedFor: event.killedFor }),
          })
        default:
          return
      }
    },
    ready: (stack, orchestratorPid) => tell({ event: 'ready', ...stack, ...defined({ orchestratorPid }) }),
    reloading() {},
    reloaded: (reload) => tell({ event: 'reloaded', ...reload }),
    reloadFailed: (reload) => tell({ event: 'reload_failed', ...reload }),
    stopping() {},
  }
}

/** Lines for a person. `hints` are printed below the addresses. */
export function announceAsText(hints: (stack: ServedStack) => string[]): Announcer {
  const say = (text: string) => process.stdout.write(`${text}\n`)
  const reloads = processesOfReloads()
  let isStopping = false
  return {
    progress: printTo(process.stdout, (text) => paint('dim', text)),
    worker(event) {
      // A reload prints one line of its own instead of one for each process that starts and ends.
      if (isStopping || !reloads.explain(event)) workerLine(event).forEach(say)
    },
    ready: (stack) => [...readyLines(stack), ...hints(stack)].forEach(say),
    reloading: reloads.begin,
    reloaded({ module, ms }) {
      reloads.end()
      say(paint('green', `reloaded ${module} in ${(ms / 1_000).toFixed(1)} s`))
    },
    reloadFailed({ module, message }) {
      reloads.end()
      say(paint('red', oneLine(`${module} was not reloaded: ${message} The previous code stays in use.`, MAX_REASON_CHARS)))
    },
    stopping() {
      isStopping = true
      say('Stopping: the executors finish their calls. Press Ctrl-C again to stop at once.')
    },
  }
}

/** Tracks the process events that a reload explains. */
function processesOfReloads(): { begin(): void; end(): void; explain(event: SupervisorEvent): boolean } {
  const booting = new Set<number>()
  let isReloading = false
  return {
    begin() {
      isReloading = true
    },
    end() {
      isReloading = false
    },
    explain(event) {
      switch (event.event) {
        case 'worker_started':
          if (isReloading) booting.add(event.pid)
          return isReloading
        case 'worker_ready':
          return booting.delete(event.pid)
        case 'worker_died':
          return booting.delete(event.pid) || hasEnded(event)
        default:
          return false
      }
    },
  }
}

/** Whether the process exited on request, with no calls in flight. */
function hasEnded({ code, calls }: SupervisorEvent & { event: 'worker_died' }): boolean {
  return code === 0 && calls.length === 0
}

function workerLine(event: SupervisorEvent): string[] {
  switch (event.event) {
    case 'worker_started':
      return [paint('dim', `executor ${event.pid} started`)]
    case 'worker_ready':
      return [paint('dim', `executor ${event.pid} is ready`)]
    case 'worker_died': {
      if (hasEnded(event)) return [paint('dim', `executor ${event.pid} ended`)]
      const held = event.calls.map((call) => `${call.sessionId} ${call.tool ?? call.call}`).join(', ')
      return [paint('red', oneLine(`executor ${event.pid} ${endText(event)}${held && ` during: ${held}`}`))]
    }
    case 'orchestrator_started':
    case 'orchestrator_ready':
      return []
    case 'orchestrator_died': {
      if (event.code === 0) return []
      return [paint('red', `orchestrator ${event.pid} ${endText(event)}`)]
    }
    case 'call_resumed':
      return [paint('green', oneLine(`${event.sessionId} ${event.call} resumed ${Math.round(event.ms)} ms after the death`))]
  }
}

function readyLines(stack: ServedStack): string[] {
  const line = (name: string, value: string) => `  ${name.padEnd(12)} ${value}`
  return [
    paint(['bold', 'green'], 'ready'),
    line('Temporal', `${stack.temporalAddress}, namespace ${stack.namespace}, task queue ${stack.taskQueue}`),
    ...(stack.temporalUi ? [line('Temporal UI', stack.temporalUi)] : []),
    ...(stack.databaseUrl ? [line('Postgres', stack.databaseUrl)] : []),
    ...(stack.console ? [line('Console', stack.console)] : []),
  ]
}

/** People first want to know whether pawl or something else killed the process, such as a system short of memory. */
function endText({ code, signal, killedFor }: ProcessDeath): string {
  const how = signal ?? `exit code ${code}`
  return killedFor === undefined ? `died (${how})` : `was killed by pawl: ${KILLED_FOR[killedFor]} (${how})`
}

const KILLED_FOR: Record<NonNullable<ProcessDeath['killedFor']>, string> = {
  stuck_loop: 'its event loop was blocked for too long',
  overdue: 'its call ran past the timeout',
  broken_line: 'it sent something that pawl cannot read',
  frozen: 'it was silent for a minute',
  stopped: 'the worker stops',
}
