// Modules that each worker thread loads once, before any workflow. Workflows share them, so none may keep a session's state.
import '../session/attempts.ts'
import '../session/backoff.ts'
import '../session/checkpointing.ts'
import '../session/decide.ts'
import '../session/digest.ts'
import '../session/fold/fold.ts'
import '../session/protocol/incoming.ts'
import '../session/protocol/protocol.ts'
import '../session/protocol/requests.ts'
import '../session/protocol/start.ts'
import '../session/protocol/undecodable.ts'

/**
 * For a query that pawl does not use, the SDK records a stack trace of every promise in a workflow, which takes a quarter of a replay's
 * CPU. In the workflow's realm, it evaluates code with the constructor of `Promise` to find the workflow of a promise and to
 * create an error. This constructor answers both without evaluating anything, and its errors have no trace to record.
 */
const evaluate = Promise.constructor as (code: string) => () => unknown
const answers: Readonly<Record<string, (() => unknown) | undefined>> = {
  'return globalThis.__TEMPORAL_ACTIVATOR__': () => (globalThis as { __TEMPORAL_ACTIVATOR__?: unknown }).__TEMPORAL_ACTIVATOR__,
  'return globalThis.Error': () => Untraced,
}
class Untraced {
  readonly stack = undefined
}
Object.defineProperty(Promise, 'constructor', { value: (code: string) => answers[code] ?? evaluate(code) })

/** Errors of a workflow are rarely read, and each frame of a trace takes time. One frame still shows where an error was thrown. */
Error.stackTraceLimit = 1
