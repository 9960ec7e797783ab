// Loaded once in each worker thread, before any workflow, and shared by all of them: nothing in here may keep state of a session.
import '../session/attempts.ts'
import '../session/backoff.ts'
import '../session/checkpointing.ts'
import '../session/decide.ts'
import '../session/digest.ts'
import '../session/fold.ts'
import '../session/incoming.ts'
import '../session/protocol.ts'
import '../session/requests.ts'
import '../session/start.ts'
import '../session/undecodable.ts'

/**
 * The SDK takes a stack trace of every promise that a workflow makes, for a query that nobody asks; with the usual ten frames that is a
 * quarter of a replay, and a crash waits for a replay. One frame says where an error was thrown.
 */
Error.stackTraceLimit = 1
