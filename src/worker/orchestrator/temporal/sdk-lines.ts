// Turns log lines of Temporal's SDK into pawl's own: adds the session, and drops lines that pawl logs itself. Pure.
import type { LogEntry } from '@temporalio/worker'
import { isOwnActivity } from './own-activities.ts'
import type { Level } from '../../../log/levels.ts'
import { isRefusal } from '../../../connect/session-queries.ts'
import { defined } from '../../../session/defined.ts'
import { PawlError } from '../../../session/errors.ts'
import { sessionIn } from '../../../session/protocol/protocol.ts'
import { thrownAs } from './thrown-errors.ts'

export interface SdkLine {
  level: Level
  message: string
  fields: object
  mayBeOutage: boolean
}

/** Fields that are of no use to a reader, or that pawl logs under another name. */
const LEFT_OUT = new Set(['sdkComponent', 'workflowId', 'runId', 'error', 'failure', 'target', 'spanContexts', 'taskToken', 'workflowInfo'])

/** How core reports a failed call. */
const CALL_FAILED = /^gRPC call \w+ retried|Status \{ code: /

/** The line for an entry of level WARN or above; undefined if pawl logs the same itself. `sessionOf`: an execution's session, if known. */
export function sdkLine(entry: LogEntry, sessionOf: (executionId: string) => string | undefined): SdkLine | undefined {
  // The worker for pawl's own activities deliberately has no workflows.
  if (entry.message.startsWith('No workflows registered')) return undefined
  const meta = (entry.meta ?? {}) as Record<string, unknown>
  const { runId: execution, workflowId, failure, sdkComponent } = meta
  const error = thrownAs(meta.error)
  // The sender repeats such a query (connect/session-queries.ts).
  if (entry.message === 'Failing legacy query request' && isRefusal(String(failure))) return undefined
  const rest = Object.entries(meta).filter(([name]) => !LEFT_OUT.has(name))
  const session =
    (typeof workflowId === 'string' ? sessionIn(workflowId) : undefined) ??
    (typeof execution === 'string' ? sessionOf(execution) : undefined)
  return {
    ...loggedAs(entry, meta.activityType, error),
    fields: {
      ...defined({ session, execution, ...saidIn(error ?? failure) }),
      sdk: sdkComponent,
      ...Object.fromEntries(rest),
    },
    mayBeOutage: CALL_FAILED.test(`${entry.message} ${typeof error === 'string' ? error : ''}`),
  }
}

function loggedAs({ level, message }: LogEntry, activityType: unknown, error: unknown): { level: Level; message: string } {
  // The session makes no progress until its workflow task succeeds.
  if (message === 'Failing workflow task') return { level: 'error', message: 'a workflow task failed: Temporal retries it' }
  if (message === 'Activity failed') {
    // The failed attempts of all other activities are in the events.
    const isUnexpected = isOwnActivity(String(activityType)) && !(error instanceof PawlError)
    return { level: isUnexpected ? 'warn' : 'debug', message: 'an activity failed' }
  }
  return { level: level === 'ERROR' ? 'error' : 'warn', message }
}

/** Core logs failures in Rust's debug format, in which only the message is useful. */
function saidIn(error: unknown): { err?: unknown; reason?: string } {
  if (typeof error !== 'string') return error === undefined ? {} : { err: error }
  const [, quoted] = /message: ("(?:[^"\\]|\\.)*")/.exec(error) ?? []
  return { reason: quoted === undefined ? error : unquoted(quoted) }
}

/** Rust's escapes are those of JSON, with few exceptions. */
function unquoted(text: string): string {
  try {
    return JSON.parse(text) as string
  } catch {
    return text.slice(1, -1)
  }
}
