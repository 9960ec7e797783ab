// Erases one session: ends its workflow, deletes its rows, and then deletes its histories.
import { type Client, WorkflowNotFoundError } from '@temporalio/client'
import { workflowIdOf } from '../../session/protocol/protocol.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import type { Store } from '../../store/index.ts'
import { RequestRefusedError, SessionNotFoundError } from '../errors.ts'
import { checkSessionId } from '../session/session-id.ts'
import { allExecutions, beginningOf, deleteExecution, type Execution, newestExecution } from './executions.ts'
import { checkErase, type EraseOptions, type EraseReport } from './upkeep-options.ts'
import { defined } from '../../session/defined.ts'

/** See `Upkeep.erase`. If it stops halfway, run it again to complete the erasure. */
export async function erase(client: Client, store: Store, id: string, options: EraseOptions): Promise<EraseReport> {
  const sessionId = checkSessionId(id)
  const { by, reason, force } = checkErase(options)
  const executions = await allExecutions(client, sessionId)
  const running = executions.find(({ open }) => open)
  if (running && !force) {
    throw new RequestRefusedError(
      'session_open',
      `Session "${sessionId}" is open. Close it first (\`${SUGGESTIONS.close(sessionId)}\`), or terminate it with force (--force).`,
    )
  }
  const terminated = running !== undefined && (await terminate(client, running))
  const unknown = await unstoredSessionOf(client, executions)
  // The rows first: from then on the store rejects late flushes.
  const erased = await store.upkeep.erase({
    sessionId,
    by,
    ...defined({ reason }),
    executions: executions.map(({ executionId }) => executionId),
    ...(unknown && { unknown }),
  })
  if (!erased) throw new SessionNotFoundError(sessionId)
  for (const execution of executions) await deleteExecution(client, execution)
  await refuseNewer(client, sessionId, executions)
  return { sessionId, terminated, executions: executions.length, ...erased, leftovers: LEFTOVERS }
}

const LEFTOVERS = [
  "backups of Postgres and of Temporal's database",
  'archived histories, if the namespace archives them',
  'logs of workers and of your own services',
  'exported traces and metrics',
  'what the model provider and your tools have stored',
]

/**
 * Returns false if the execution has ended by itself. Only the audit says who erased the session, because codecs do not encode the reason
 * for a termination.
 */
async function terminate(client: Client, { sessionId, executionId }: Execution): Promise<boolean> {
  try {
    await client.workflow.getHandle(workflowIdOf(sessionId), executionId).terminate('The session is erased.')
    return true
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false
    throw error
  }
}

/** The session's agent and epoch according to its newest execution, for a session without a row in the store. */
async function unstoredSessionOf(client: Client, [newest]: readonly Execution[]): Promise<{ agent: string; epoch: string } | undefined> {
  if (!newest) return undefined
  const { sessionId, executionId } = newest
  const { agent, carried } = (await beginningOf(client, sessionId, executionId))?.start ?? {}
  return { agent: agent ?? carried?.state.agent ?? 'unknown', epoch: carried?.state.epoch ?? executionId }
}

/** A message that arrived during the erasure may have reopened the session with its old content. */
async function refuseNewer(client: Client, sessionId: string, erased: readonly Execution[]): Promise<void> {
  const newest = await newestExecution(client, sessionId)
  if (!newest?.open || erased.some(({ executionId }) => executionId === newest.executionId)) return
  throw new RequestRefusedError(
    'session_open',
    `Session "${sessionId}" received a message during erasure and was reopened. Its earlier content is deleted; run erase again.`,
  )
}
