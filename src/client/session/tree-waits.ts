// What the sessions that answer agent calls wait for, according to the side store: none of their workflows is queried.
import { CHILD_PART } from '../../session/agents/agent-calls.ts'
import { defined } from '../../session/defined.ts'
import { leavesByItself } from '../../session/recovery/recovery.ts'
import type { SessionWait } from '../../session/watching/waits.ts'
import type { ListedPendingCall, ListedSession, ListedToolCall } from '../../store/listed.ts'
import type { Store } from '../../store/store.ts'

/** The most waits of each kind that are read. */
const LIMIT = 100

/** The waits; those for agents say what holds these up, as far as it is stored. Without the store, they stay as they are. */
export async function withChildren(store: Store | undefined, sessionId: string, waits: readonly SessionWait[]): Promise<SessionWait[]> {
  if (!store || !waits.some(isForAgent)) return [...waits]
  const below = await waitsBelow(store, sessionId).catch(() => [])
  return waits.map((wait) => {
    const own = isForAgent(wait)
      ? below.filter(({ session = '' }) => session === wait.session || session.startsWith(`${wait.session}/`))
      : []
    return own.length > 0 ? { ...wait, below: own } : wait
  })
}

const isForAgent = (wait: SessionWait): boolean => wait.for === 'agent'

async function waitsBelow({ lists }: Store, sessionId: string): Promise<SessionWait[]> {
  const tree = { tree: sessionId }
  const [pending, failed, paused, asleep] = await Promise.all([
    lists.pending({ session: sessionId, tree: true }, { limit: LIMIT }),
    lists.sessions({ ...tree, status: ['error'] }, { limit: LIMIT }),
    lists.sessions({ ...tree, paused: true }, { limit: LIMIT }),
    lists.toolCalls({ status: ['asleep'], idPrefix: `${sessionId}/` }, { limit: LIMIT }),
  ])
  const isBelow = (session: { sessionId: string }): boolean => session.sessionId.length >= sessionId.length + CHILD_PART
  return [
    ...pending.items.filter(isBelow).map(waitOfPending),
    ...failed.items.filter(isBelow).flatMap(waitOfError),
    ...paused.items.filter(isBelow).flatMap(waitOfPause),
    ...asleep.items.map(waitOfSleep),
  ]
}

const FOR = {
  approval: { for: 'person', to: 'approve' },
  client: { for: 'client', to: 'answer' },
  question: { for: 'client', to: 'answer' },
  unknown: { for: 'person', to: 'resolve' },
} as const

function waitOfPending({
  kind,
  sessionId: session,
  callId,
  tool,
  digest,
  reason,
  waitingSince,
  expiresAt,
}: ListedPendingCall): SessionWait {
  const shown = { digest: digest ?? undefined, reason: reason ?? undefined, until: expiresAt?.getTime() }
  return { ...FOR[kind], session, callId, tool, since: waitingSince.getTime(), ...defined(shown) }
}

function waitOfError({ sessionId: session, error, root }: ListedSession): SessionWait[] {
  if (!error) return []
  const { at: since, code, nextAttemptAt: until } = error
  const reason = `${code}: ${error.reason}`
  if (leavesByItself(error)) return [{ for: 'next_attempt', session, since, reason, ...defined({ until }) }]
  if (code !== 'budget_exhausted') return [{ for: 'person', to: 'recover', session, since, reason }]
  // What it may spend comes from above.
  return [{ for: 'person', to: 'raise', session, since, reason: `${reason} Raise the limit of session ${root ?? session}.` }]
}

function waitOfPause({ sessionId: session, paused }: ListedSession): SessionWait[] {
  return paused ? [{ for: 'person', to: 'unpause', session, since: paused.at, ...defined({ reason: paused.reason }) }] : []
}

function waitOfSleep({ sessionId: session, callId, tool, issuedAt, waitingUntil }: ListedToolCall): SessionWait {
  return { for: 'time', session, callId, tool, since: issuedAt.getTime(), ...defined({ until: waitingUntil?.getTime() }) }
}
