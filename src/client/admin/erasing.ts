// Erases one session: ends its workflow, deletes its rows, and then deletes its histories.
import { type Client, WorkflowNotFoundError } from '@temporalio/client'
import { workflowIdOf } from '../../session/protocol/protocol.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import type { Store } from '../../store/index.ts'
import { RequestRefusedError, SessionNotFoundError } from '../errors.ts'
import { checkSessionId } from '../session/session-id.ts'
import {
  allExecutions,
  beginningOf,
  childrenAskedBy,
  childrenInTemporal,
  deleteExecution,
  type Execution,
  newestExecution,
} from './executions.ts'
import { checkErase, type EraseOptions, type EraseReport } from './upkeep-options.ts'
import { defined } from '../../session/defined.ts'

/** See `Upkeep.erase`. If it stops halfway, run it again to complete the erasure. */
export async function erase(client: Client, store: Store, id: string, options: EraseOptions): Promise<EraseReport> {
  return eraseTree(client, store, checkSessionId(id), checkErase(options), new Set())
}

/** Erases a session, and then those that answer its calls. `done`: sessions that this erasure has erased. */
async function eraseTree(
  client: Client,
  store: Store,
  sessionId: string,
  options: ReturnType<typeof checkErase>,
  done: Set<string>,
): Promise<EraseReport> {
  const { by, reason, force } = options
  done.add(sessionId)
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
  const known = await childrenOf(client, store, sessionId, executions)
  if (!erased && known.length === 0) throw new SessionNotFoundError(sessionId)
  for (const execution of executions) await deleteExecution(client, execution)
  await refuseNewer(client, sessionId, executions)
  // Nobody else waits for their answers.
  const children = new Set<string>()
  const eraseAll = async (ids: readonly string[]): Promise<string[]> => {
    const absent: string[] = []
    for (const child of ids) {
      const gone = await eraseChild(client, store, child, options, done)
      for (const id of gone) children.add(id)
      if (gone.length === 0) absent.push(child)
    }
    return absent
  }
  // What was about to begin one of them when its caller ended may have done so meanwhile.
  await eraseAll(await eraseAll(known))
  const { rows, forks, parent } = erased ?? { rows: {}, forks: [], parent: null }
  return {
    sessionId,
    terminated,
    executions: executions.length,
    rows,
    forks,
    parent,
    children: [...children].sort(nearestFirst),
    leftovers: LEFTOVERS,
  }
}

/**
 * The sessions below, those nearest to it first. The store may lack the rows of some: of those that have just begun, or all after an outage.
 * The server does not list those that have just begun either, so the histories of the executions are read, too.
 */
async function childrenOf(client: Client, store: Store, sessionId: string, executions: readonly Execution[]): Promise<string[]> {
  const found = [store.upkeep.children(sessionId), childrenInTemporal(client, sessionId)]
  const known = new Set((await Promise.all(found)).flat())
  for (const execution of executions) for (const child of await childrenAskedBy(client, execution)) known.add(child)
  return [...known].sort(nearestFirst)
}

const nearestFirst = (one: string, other: string): number => one.length - other.length || (one < other ? -1 : 1)

/**
 * Erases a session that was asked, and those below; returns their ids, or none if it has never begun. An earlier erasure that was interrupted
 * may have deleted its rows, and not its histories.
 */
async function eraseChild(
  client: Client,
  store: Store,
  child: string,
  options: ReturnType<typeof checkErase>,
  done: Set<string>,
): Promise<string[]> {
  if (done.has(child)) return [child]
  const row = await store.lists.session(child)
  if (row?.erasedAt && (await allExecutions(client, child)).length === 0) return [child]
  try {
    const { children } = await eraseTree(client, store, child, { ...options, force: true }, done)
    return [child, ...children]
  } catch (error) {
    if (!(error instanceof SessionNotFoundError)) throw error
    done.delete(child)
    return []
  }
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
