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
 * For a query that pawl does not use, the SDK records a stack trace of every promise in a workflow. With the usual ten frames, that takes a
 * quarter of a replay's time, which delays every recovery. One frame still shows where an error was thrown.
 */
Error.stackTraceLimit = 1
