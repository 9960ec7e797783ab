// `pawl show <session> --tree`: a session and those that answer its agent calls, with what each costs and what it waits for.
import type { StoreQueries } from '../client/queries/queries.ts'
import type { ListedPendingCall, ListedSession } from '../client/index.ts'
import { CHILD_PART } from '../session/agents/agent-calls.ts'
import { type QueryOptions, dollarsOf, queryStore, sayAs } from './queries.ts'
import { type Column, linesOfTable } from './table.ts'

/** One session of a tree. */
interface Branch extends Pick<ListedSession, 'sessionId' | 'agent' | 'status' | 'error' | 'paused' | 'turns' | 'usd' | 'updatedAt'> {
  /** How many sessions of the tree are above it. */
  depth: number
  /** Its calls that wait for a person or a client. */
  pending: Pick<ListedPendingCall, 'kind' | 'callId' | 'tool'>[]
}

const COLUMNS: Column<Branch>[] = [
  { name: 'agent', of: ({ depth, agent }) => `${'  '.repeat(depth)}${agent}` },
  { name: 'status', of: statusOf, status: true },
  { name: 'waits for', of: ({ pending }) => pending.map(({ kind, tool, callId }) => `${kind} of ${tool} (${callId})`).join(', ') || null },
  { name: 'turns', of: (row) => row.turns, right: true, optional: true },
  { name: 'usd', of: (row) => dollarsOf(row.usd), right: true },
  { name: 'updated', of: (row) => row.updatedAt, optional: true },
  { name: 'session', of: (row) => row.sessionId, whole: true },
]

/** @throws SessionNotFoundError `session_not_found`. */
export async function showTree(id: string, options: QueryOptions): Promise<void> {
  const branches = await queryStore(options, (queries) => branchesOf(queries, id))
  sayAs(options, { session: id, tree: branches }, () => linesOfTable(COLUMNS, branches, { wide: options.wide }))
}

/** Each session is followed by those below it: their ids begin with its own. */
async function branchesOf(queries: StoreQueries, id: string): Promise<Branch[]> {
  await queries.sessions.get(id)
  const calls = await queries.session(id).pending({ tree: true })
  const sessions: ListedSession[] = []
  for await (const session of queries.sessions.list({ tree: id, limit: 1_000 })) sessions.push(session)
  const inOrder = sessions.sort((one, other) => (one.sessionId < other.sessionId ? -1 : 1))
  return inOrder.map(({ sessionId, agent, status, error, paused, turns, usd, updatedAt }) => ({
    ...{ sessionId, agent, status, error, paused, turns, usd, updatedAt },
    depth: (sessionId.length - id.length) / CHILD_PART,
    pending: calls.filter((call) => call.sessionId === sessionId).map(({ kind, callId, tool }) => ({ kind, callId, tool })),
  }))
}

function statusOf({ status, error, paused }: Branch): string {
  return [error ? `${status} ${error.code}` : status, ...(paused ? ['paused'] : [])].join(', ')
}
