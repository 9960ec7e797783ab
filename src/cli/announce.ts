// What `pawl dev` and `pawl worker` say while they serve: lines for people, or JSON lines for programs.
import type { SupervisorEvent } from '../worker/options.ts'
import type { ServedStack } from '../connect/dev-stack.ts'
import { oneLine, paint } from './terminal.ts'

/** Says what happens. */
export interface Announcer {
  /** Something takes a while. */
  progress(text: string): void
  worker(event: SupervisorEvent): void
  ready(stack: ServedStack, orchestratorPid?: number): void
  stopping(): void
}

/** JSON lines on standard output; progress goes to standard error. */
export function announceAsJson(): Announcer {
  const tell = (event: object) => process.stdout.write(`${JSON.stringify(event)}\n`)
  return {
    progress: (text) => process.stderr.write(`${text}\n`),
    worker(event) {
      switch (event.event) {
        case 'worker_started':
        case 'worker_ready':
        case 'orchestrator_started':
          return tell({ event: event.event, pid: event.pid })
        case 'worker_died':
        case 'orchestrator_died':
          return tell({ event: event.event, pid: event.pid, code: event.code, signal: event.signal })
        default:
          return
      }
    },
    ready: (stack, orchestratorPid) => tell({ event: 'ready', ...stack, ...(orchestratorPid !== undefined && { orchestratorPid }) }),
    stopping() {},
  }
}

/** Lines for a person. `hints` are printed below the addresses. */
export function announceToPeople(hints: (stack: ServedStack) => string[]): Announcer {
  const say = (text: string) => process.stdout.write(`${text}\n`)
  return {
    progress: (text) => say(paint('dim', text)),
    worker: (event) => workerLine(event).forEach(say),
    ready: (stack) => [...readyLines(stack), ...hints(stack)].forEach(say),
    stopping: () => say('Stopping: the workers finish what they hold. Once more to stop at once.'),
  }
}

function workerLine(event: SupervisorEvent): string[] {
  switch (event.event) {
    case 'worker_started':
      return [paint('dim', `worker ${event.pid} started`)]
    case 'worker_ready':
      return [paint('dim', `worker ${event.pid} serves`)]
    case 'worker_died': {
      if (event.code === 0) return [paint('dim', `worker ${event.pid} ended`)]
      const held = event.calls.map((call) => `${call.sessionId} ${call.tool ?? call.call}`).join(', ')
      const how = event.signal ?? `exit code ${event.code}`
      return [paint('red', oneLine(`worker ${event.pid} died (${how})${held && ` in the middle of: ${held}`}`))]
    }
    case 'orchestrator_started':
    case 'orchestrator_ready':
      return []
    case 'orchestrator_died': {
      if (event.code === 0) return []
      return [paint('red', `orchestrator ${event.pid} died (${event.signal ?? `exit code ${event.code}`})`)]
    }
    case 'call_resumed':
      return [paint('green', oneLine(`${event.sessionId} ${event.call} goes on, ${Math.round(event.ms)} ms after the death`))]
  }
}

function readyLines(stack: ServedStack): string[] {
  const line = (name: string, value: string) => `  ${name.padEnd(12)} ${value}`
  return [
    paint(['bold', 'green'], 'ready'),
    line('Temporal', `${stack.temporalAddress}, namespace ${stack.namespace}, task queue ${stack.taskQueue}`),
    ...(stack.temporalUi ? [line('Temporal UI', stack.temporalUi)] : []),
    ...(stack.databaseUrl ? [line('Postgres', stack.databaseUrl)] : []),
  ]
}
