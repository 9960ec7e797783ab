// Erasing one session: its workflow ends, its rows go, and then its histories.
import type { Client } from '@temporalio/client'
import { workflowIdOf } from '../../session/protocol.ts'
import type { Store } from '../../store/index.ts'
import { RequestRefused, SessionNotFound } from '../errors.ts'
import { allExecutions, beginningOf, deleteExecution, type Execution, newestExecution } from './executions.ts'
import { checkedId, checkErase, type EraseOptions, type EraseReport } from './upkeep-options.ts'
import { defined } from '../../session/defined.ts'

/** See `Upkeep.erase`. Ended half way, it is done by being done again. */
export async function erase(client: Client, store: Store, id: string, options: EraseOptions): Promise<EraseReport> {
  const sessionId = checkedId(id)
  const { by, reason, force } = checkErase(options)
  const executions = await allExecutions(client, sessionId)
  const running = executions.find(({ open }) => open)
  if (running && !force) {
    throw new RequestRefused(
      'session_open',
      `Session "${sessionId}" is open: close it first (session.close()), or terminate it with force (--force).`,
    )
  }
  if (running) await terminate(client, running, by)
  const unknown = await strangerOf(client, executions)
  // The rows first: from then on no late flush is taken.
  const erased = await store.upkeep.erase({
    sessionId,
    by,
    ...defined({ reason }),
    executions: executions.map(({ executionId }) => executionId),
    ...(unknown && { unknown }),
  })
  if (!erased) throw new SessionNotFound(sessionId)
  for (const execution of executions) await deleteExecution(client, execution)
  await refuseNewer(client, sessionId, executions)
  return { sessionId, terminated: running !== undefined, executions: executions.length, ...erased }
}

async function terminate(client: Client, { sessionId, executionId }: Execution, by: string): Promise<void> {
  await client.workflow.getHandle(workflowIdOf(sessionId), executionId).terminate(`erased by ${by}`)
}

/** Whose the session was, as its newest execution says: for one of which the store has no row. */
async function strangerOf(client: Client, [newest]: readonly Execution[]): Promise<{ agent: string; epoch: string } | undefined> {
  if (!newest) return undefined
  const { sessionId, executionId } = newest
  const { agent, carried } = (await beginningOf(client, sessionId, executionId))?.start ?? {}
  return { agent: agent ?? carried?.state.agent ?? 'unknown', epoch: carried?.state.epoch ?? executionId }
}

/** Who spoke to the session just when it was erased may have had it opened again with what was there. */
async function refuseNewer(client: Client, sessionId: string, erased: readonly Execution[]): Promise<void> {
  const newest = await newestExecution(client, sessionId)
  if (!newest?.open || erased.some(({ executionId }) => executionId === newest.executionId)) return
  throw new RequestRefused(
    'session_open',
    `Somebody spoke to session "${sessionId}" while it was erased, and it is open again: what it had is gone from the store; erase it once more to be sure.`,
  )
}
