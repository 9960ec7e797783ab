// Modules that each worker thread loads once, before any workflow, and shares among them: none may keep a session's state.
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
 * The SDK records a stack trace of every promise in a workflow, for a query that pawl does not use. With the usual ten frames, that is a
 * quarter of the time of a replay, which delays every recovery. One frame still shows where an error was thrown.
 */
Error.stackTraceLimit = 1
