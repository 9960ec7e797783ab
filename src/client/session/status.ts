// The status of a session: from its workflow if that answers, else from the side store, with what holds it up and what it waits for.
import type { Client } from '@temporalio/client'
import { WorkflowNotFoundError } from '@temporalio/client'
import type { SessionStatus } from '../../session/events.ts'
import { leavesByItself } from '../../session/recovery/recovery.ts'
import { workOf } from '../../session/watching/progress.ts'
import { type SessionWait, UNREADABLE, waitsForReader, waitsOf } from '../../session/watching/waits.ts'
import type { SessionError, SessionState } from '../../session/state.ts'
import { defined } from '../../session/defined.ts'
import { reasonOf } from '../../store/errors.ts'
import type { ListedPendingCall, ListedSession } from '../../store/listed.ts'
import type { PlanProgress } from '../../store/rows.ts'
import type { Store } from '../../store/store.ts'
import { SessionNotFoundError } from '../errors.ts'
import { erasedAtOf } from './erased.ts'
import { type ExecutionState, executionStateOf, lastingHoldUp, whyUnavailable } from './hold-ups.ts'
import { type WorkflowAnswer, askState } from './state.ts'
import { withChildren } from './tree-waits.ts'

/** The status of a session. Times are milliseconds since 1970. */
export interface SessionReport {
  /** The session's id. */
  sessionId: string
  /** The agent's name; null if not known yet. */
  agent: string | null
  /** `loading`: no worker has opened it yet, or one is reading its past; `waitsFor` says which. */
  status: SessionStatus | 'loading'
  /** When it entered this status: the run's start, the error, the oldest request, or the last event. */
  since: number | null
  /** The source: the session's workflow, or the side store if the workflow has closed or does not answer; `server`: neither can say. */
  from: 'workflow' | 'store' | 'server'
  /** Why the workflow did not answer; absent if it did, or has closed. */
  unanswered?: string
  /** The run in progress, or the one that failed. */
  run: { run: number; turn: number; startedAt: number } | null
  /** Why it is in `error`. */
  error: SessionError | null
  /**
   * What it waits for: a worker or Postgres first, as they hold up everything else, then what needs a person. Empty if it does not wait.
   */
  waitsFor: SessionWait[]
  /** Its plan; null if it has none, or if that is not known. */
  plan: PlanProgress | null
  /** Received messages that are not in a turn yet. */
  queued: number
  /** When its content was erased; absent if it was not, or if a message has started the session again. */
  erasedAt?: number
  /** When it was pruned; absent if it was not, or if a message has started it over since. */
  prunedAt?: number
  /** How far its events are stored, and when they were last stored; null if the side store has none, or does not answer. */
  stored: { seq: number; at: number } | null
  /** Why the side store could not be read; absent if no error occurred. */
  storeError?: string
  /** Number of events that are not stored yet; absent if unknown. */
  behind?: number
}

/** Where to look. Without a client, only the side store is read. */
export interface ReportSource {
  sessionId: string
  client?: Client
  store: Store | undefined
}

/** What the side store has about a session besides its events. */
interface StoredFacts {
  row: ListedSession
  pending: ListedPendingCall[]
  /** When the workflow retries the newest failed attempt. */
  retryAt?: number
}

type StoreAnswer<T> = { found: T } | { error: unknown }

/** See `SessionHandle.status`. @throws SessionNotFoundError, SessionUnavailableError. */
export async function readReport(source: ReportSource): Promise<SessionReport> {
  const { sessionId, client, store } = source
  const [live, execution, stored] = await Promise.all([
    client ? askState({ sessionId, client }) : undefined,
    client ? asked(executionStateOf(client, sessionId)) : undefined,
    asked(store ? readStored(store, sessionId) : Promise.resolve(null)),
  ])
  const about = { ...source, live, execution: execution && 'found' in execution ? execution.found : undefined, stored }
  const row = 'found' in stored ? stored.found?.row : undefined
  const erasedAt = row && erasedAtOf(row, about.execution)
  if (row && erasedAt !== undefined) return reportOfErased(about, row, erasedAt)
  if (live?.state) return withTree(store, reportOf(about, live.state, 'workflow'))
  // A message has reopened it, and no worker has continued it yet.
  if (row?.status === 'closed' && about.execution?.open) return unopened(about, about.execution)
  const past = await asked(store && 'found' in stored && stored.found ? store.state(sessionId) : Promise.resolve(null))
  const state = 'found' in past ? past.found : null
  if (state) return withTree(store, reportOf(about, live?.error ? { ...state, status: 'error', error: live.error } : state, 'store'))
  if ('found' in stored && stored.found) return reportOfRow(about, stored.found)
  if (about.execution?.open) return unopened(about, about.execution)
  if (client) throw await whyUnavailable({ sessionId, client }, { ...live, ...('error' in stored && { storeError: stored.error }) })
  throw 'error' in stored ? stored.error : new SessionNotFoundError(sessionId, { where: 'store' })
}

async function withTree(store: Store | undefined, report: SessionReport): Promise<SessionReport> {
  return { ...report, waitsFor: await withChildren(store, report.sessionId, report.waitsFor) }
}

interface StatusSources extends ReportSource {
  live: WorkflowAnswer | undefined
  execution: ExecutionState | undefined
  stored: StoreAnswer<StoredFacts | null>
}

function reportOf(about: StatusSources, state: SessionState, from: 'workflow' | 'store'): SessionReport {
  const { sessionId, execution, live } = about
  const { agent, status, current, error, inbox } = state
  const stored = 'found' in about.stored ? about.stored.found : null
  const isOpen = execution?.open === true
  const seen = { steps: isOpen ? execution.steps : [], ...defined({ calls: live?.facts?.callWaits, retryAt: stored?.retryAt }) }
  const pending = stored?.pending ?? []
  const hasEnded = execution?.open === false && isUnfinished(state)
  // Without a workflow, nothing waits for a model, a tool or the next attempt.
  const now = waitsOf(state, from === 'workflow' || isOpen ? seen : undefined).filter(
    ({ for: who }) => !hasEnded || who === 'person' || who === 'client',
  )
  const waits = withRows([...unresolvedOf(state, pending, now), ...now], pending)
  return {
    sessionId,
    agent,
    status,
    since: sinceOf(state, waits),
    from,
    ...unansweredOf(about, from),
    run: current && { run: current.run, turn: current.turn, startedAt: current.startedAt },
    error,
    waitsFor: [...heldUpBy(execution, live, state), ...waits],
    plan: progressOfPlan(state),
    queued: inbox.length,
    ...storedPart(about.stored),
    ...(stored && from === 'workflow' && { behind: Math.max(0, state.seq - stored.row.flushedSeq) }),
  }
}

/** Calls of stopped runs that may have taken effect, as the store has them: a person can still resolve them. */
function unresolvedOf({ unknown }: SessionState, pending: readonly ListedPendingCall[], waits: readonly SessionWait[]): SessionWait[] {
  return pending.flatMap(({ kind, callId, tool, reason }) =>
    kind === 'unknown' && unknown[callId] && !waits.some((wait) => wait.callId === callId)
      ? [{ for: 'person' as const, to: 'resolve' as const, callId, tool, ...defined({ reason: reason ?? undefined }) }]
      : [],
  )
}

function progressOfPlan({ plan, current, unknown }: SessionState): PlanProgress | null {
  if (!plan?.current) return null
  const { version, objective } = plan.current
  const { steps, done } = workOf({ plan, current, unknown })
  return { version, objective, steps, done }
}

/** A session whose events the store no longer has, because it was pruned, and whose workflow has closed. */
function reportOfRow(about: StatusSources, { row }: StoredFacts): SessionReport {
  const { sessionId, agent, status, error, updatedAt } = row
  return {
    sessionId,
    agent,
    status,
    since: updatedAt.getTime(),
    from: 'store',
    ...unansweredOf(about, 'store'),
    run: null,
    error,
    plan: row.plan,
    waitsFor: [{ for: 'message' }],
    queued: 0,
    ...storedPart(about.stored),
  }
}

function reportOfErased(about: StatusSources, { sessionId, agent }: ListedSession, erasedAt: number): SessionReport {
  return {
    sessionId,
    agent,
    status: 'closed',
    since: erasedAt,
    from: 'store',
    ...unansweredOf(about, 'store'),
    run: null,
    error: null,
    plan: null,
    waitsFor: [{ for: 'message' }],
    queued: 0,
    erasedAt,
    stored: null,
  }
}

/** A session that neither its workflow nor the store can report on yet. */
function unopened(about: StatusSources, execution: ExecutionState & { open: true }): SessionReport {
  const error = about.live?.error ?? null
  const row = 'found' in about.stored ? about.stored.found?.row : undefined
  return {
    sessionId: about.sessionId,
    agent: row && !row.erasedAt ? row.agent : null,
    status: error ? 'error' : 'loading',
    since: error?.at ?? null,
    from: error ? 'workflow' : 'server',
    ...unansweredOf(about, error ? 'workflow' : 'server'),
    run: null,
    error,
    plan: null,
    waitsFor: error?.code === UNREADABLE ? waitsForReader(error) : [waitForHoldUp(execution)],
    queued: 0,
    ...storedPart(about.stored),
  }
}

function storedPart(stored: StatusSources['stored']): Pick<SessionReport, 'stored' | 'storeError' | 'prunedAt'> {
  if ('error' in stored) return { stored: null, storeError: reasonOf(stored.error) }
  const row = stored.found?.row
  if (!row || row.erasedAt) return { stored: null }
  const { flushedSeq, flushedAt, prunedAt, updatedAt } = row
  const isPruned = prunedAt !== null && prunedAt >= updatedAt
  return { stored: { seq: flushedSeq, at: flushedAt.getTime() }, ...(isPruned && { prunedAt: prunedAt.getTime() }) }
}

/** Why the workflow did not answer; empty for a session that has closed. */
function unansweredOf({ client, live, execution }: StatusSources, from: SessionReport['from']): Pick<SessionReport, 'unanswered'> {
  if (from === 'workflow' || execution?.open === false) return {}
  if (!client) return { unanswered: 'Temporal was not asked.' }
  if (!live?.failed || live.failed instanceof WorkflowNotFoundError) return {}
  return { unanswered: execution ? 'No worker answered for its workflow.' : reasonOf(live.failed) }
}

/** What keeps the workflow itself from its next step. */
function heldUpBy(execution: ExecutionState | undefined, live: WorkflowAnswer | undefined, state: SessionState): SessionWait[] {
  // The workflow itself says what it waits for.
  if (!execution || live?.error?.code === UNREADABLE) return []
  if (!execution.open) return isUnfinished(state) ? [{ for: 'person', to: 'resume' }] : []
  return lastingHoldUp(execution) || live?.failed ? [waitForHoldUp(execution)] : []
}

/** Whether it continues without a request while its workflow is open. */
function isUnfinished({ status, error }: SessionState): boolean {
  return status === 'running' || status === 'waiting' || (error !== null && leavesByItself(error))
}

function waitForHoldUp({ holdUp, taskQueue }: ExecutionState & { open: true }): SessionWait {
  const { waitsFor = `a worker on task queue "${taskQueue}"`, since } = holdUp ?? {}
  return { for: waitsFor.startsWith('Postgres') ? 'postgres' : 'worker', reason: waitsFor, ...defined({ since }) }
}

function sinceOf({ status, error, current, updatedAt }: SessionState, waits: readonly SessionWait[]): number {
  if (status === 'error') return error?.at ?? updatedAt
  if (status === 'running') return current?.startedAt ?? updatedAt
  if (status !== 'waiting') return updatedAt
  const asked = waits.flatMap(({ since }) => since ?? [])
  return asked.length > 0 ? Math.min(...asked) : updatedAt
}

/** The state does not say when a call began to wait for a person; the store's rows do. */
function withRows(waits: readonly SessionWait[], pending: readonly ListedPendingCall[]): SessionWait[] {
  return waits.map((wait) => {
    const row = pending.find(({ callId }) => callId === wait.callId)
    if (!row) return wait
    const key = (wait.to === 'resolve' && row.key) || undefined
    return { since: row.waitingSince.getTime(), ...(wait.for === 'person' && { input: row.input, ...defined({ key }) }), ...wait }
  })
}

async function readStored(store: Store, sessionId: string): Promise<StoredFacts | null> {
  const { lists } = store
  const row = await lists.session(sessionId)
  if (!row) return null
  const [pending, errors] = await Promise.all([
    lists.pending({ session: sessionId }, { limit: 100 }),
    lists.errors({ session: sessionId }, { limit: 1 }),
  ])
  const [newest] = errors.items
  const retryAt = newest?.nextDelayMs == null ? undefined : newest.at.getTime() + newest.nextDelayMs
  return { row, pending: pending.items, ...(retryAt !== undefined && retryAt > Date.now() && { retryAt }) }
}

async function asked<T>(work: Promise<T>): Promise<StoreAnswer<T>> {
  try {
    return { found: await work }
  } catch (error) {
    return { error }
  }
}
