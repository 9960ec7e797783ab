// The columns of a session's row, folded from its events: the part of the session's state that people query.
import { rootIdOf } from '../../session/agents/agent-calls.ts'
import { addUsage, NO_USAGE, type Usage } from '../../session/content.ts'
import { spentBy } from '../../session/spending/budget.ts'
import type { EventOf, EventType, SessionEvent, SessionStatus } from '../../session/events.ts'
import { addToCalls, isWaiting, needsInput, type TurnCalls } from '../../session/past/call-status.ts'
import { errorOf } from '../../session/fold/fold.ts'
import { stayOpen } from '../../session/pause.ts'
import type { Json } from '../../session/json.ts'
import type { Plan } from '../../session/built-in-tools/plan.ts'
import { PLAN } from '../../session/built-in-tools/kept.ts'
import { sanitiser } from '../postgres/sanitise.ts'
import { exactUsd } from '../../session/spending/model-price.ts'
import { costOf, providerOf } from '../../session/spending/prices.ts'
import { paidCallIn } from '../../session/spending/paid-call.ts'
import type { SessionRow } from '../rows.ts'
import { type Incident, incidentAfter } from './incidents.ts'
import { defined } from '../../session/defined.ts'

/** The parts of a session's row that an event may change. */
export interface SessionColumns {
  status: SessionStatus
  /** Number of the newest run. */
  run: number
  /** The run in progress, or the one that failed. */
  currentRun: number | null
  turns: number
  error: SessionRow['error']
  /** The incident that has not ended. */
  incident: Incident | null
  paused: SessionRow['paused']
  plan: Plan | null
  /** Whether the events have changed the plan, so that it must be written. Not a column. */
  planIsNew: boolean
  usage: Usage
  /** Null while no call's price is known. */
  usd: number | null
  /** What counts towards its budget, including what a fork inherits. */
  spent: { tokens: number; usd: number }
  /** The model of the newest completed model call. */
  model: string | null
  provider: string | null
  /** Version of the newest checkpoint. */
  checkpoint: number
  forkedFrom: { sessionId: string; seq: number } | null
  /** The root of its tree, if it answers calls of another session. */
  root: string | null
  /** The calls of the newest answer during the run. Not a column: derived from the open turn's events. */
  calls: TurnCalls
  updatedAt: number
}

/** The columns before any event of the session was applied. */
export function newSessionColumns(): SessionColumns {
  return {
    ...idleStatus(),
    ...nothingSpent(),
    spent: { tokens: 0, usd: 0 },
    model: null,
    provider: null,
    checkpoint: 0,
    forkedFrom: null,
    root: null,
    plan: null,
    planIsNew: false,
    run: 0,
    updatedAt: 0,
  }
}

const idleStatus = (): Pick<SessionColumns, 'status' | 'currentRun' | 'error' | 'incident' | 'paused' | 'calls'> => ({
  status: 'idle',
  currentRun: null,
  error: null,
  incident: null,
  paused: null,
  calls: new Map(),
})

const nothingSpent = (): Pick<SessionColumns, 'turns' | 'usage' | 'usd'> => ({ turns: 0, usage: NO_USAGE, usd: null })

/** Resets what does not apply to an inherited past: it does not count in sums, and is idle. */
export function asInherited(session: SessionColumns): void {
  Object.assign(session, idleStatus(), nothingSpent())
}

export function pausedColumns(paused: SessionRow['paused']): { paused: string | null; paused_raw: string | null } {
  const safe = sanitiser()
  const json = paused as unknown as Json
  return paused ? { paused: safe.json(json), paused_raw: safe.raw(json) } : { paused: null, paused_raw: null }
}

export function planColumns(plan: Plan | null): { plan: string | null; plan_raw: string | null } {
  const safe = sanitiser()
  const json = plan as unknown as Json
  return plan ? { plan: safe.json(json), plan_raw: safe.raw(json) } : { plan: null, plan_raw: null }
}

/** How many calls wait for a person or a client. */
export function waitingCalls({ calls }: SessionColumns): number {
  return [...calls.values()].filter((call) => isWaiting(call) && call.status !== 'asleep').length
}

/** Applies one event, in place. It must agree with the fold in `src/session/fold/fold.ts`, which a property test checks. */
export function applyToSession(session: SessionColumns, event: SessionEvent): void {
  session.updatedAt = event.at
  stayOpen(session)
  session.incident = incidentAfter(session, event)
  const plan = PLAN.after(session.plan, event)
  if (plan !== session.plan) Object.assign(session, { plan, planIsNew: true })
  const cost = spentBy(event)
  // The column holds whole tokens; a tool or a Model may report a fraction of one.
  if (cost) session.spent = { tokens: session.spent.tokens + Math.round(cost.tokens), usd: exactUsd(session.spent.usd + cost.usd) }
  // A resolution of an attempt whose call continues changes nothing.
  const isSettled = event.type === 'tool_resolved' && session.calls.get(event.callId)?.status !== 'issued'
  addToCalls(session.calls, event)
  const applyIt = APPLIED[event.type] as ((to: SessionColumns, one: SessionEvent) => void) | undefined
  applyIt?.(session, event)
  if (isSettled && !event.happened && event.decision !== 'skip') settleStatus(session)
}

/** What events change, apart from costs and calls. */
const APPLIED: { readonly [T in EventType]?: (session: SessionColumns, event: EventOf<T>) => void } = {
  session_started(session, { after, sessionId, caller }) {
    Object.assign(session, idleStatus(), nothingSpent(), { forkedFrom: null, spent: { tokens: 0, usd: 0 } })
    session.root = rootIdOf(sessionId, caller) ?? null
    session.run = after?.run ?? 0
    session.checkpoint = after?.checkpoint ?? 0
  },
  session_resumed(session) {
    if (session.error && session.error.strategy !== 'automatic') session.status = 'error'
    else resume(session)
  },
  run_started(session, { run }) {
    session.status = 'running'
    session.run = run
    session.currentRun = run
    session.error = null
  },
  turn_started(session) {
    if (session.currentRun !== null) session.turns += 1
  },
  model_completed(session, event) {
    session.model = event.model
    session.provider = providerOf(event)
    countCall(session, event)
  },
  compacted: countCall,
  tool_issued: settleStatus,
  tool_completed: settleStatus,
  tool_failed: settleStatus,
  tool_unknown: settleStatus,
  approval_requested: settleStatus,
  approval_decided: settleStatus,
  answer_requested: settleStatus,
  sleep_started: settleStatus,
  answer_received(session, { reply }) {
    if (reply) settleStatus(session)
  },
  checkpoint_made(session, { version }) {
    session.checkpoint = version
  },
  run_completed: endRun,
  run_interrupted: endRun,
  error_entered(session, event) {
    session.status = 'error'
    session.error = errorOf(event)
  },
  recovery_started(session, { strategy }) {
    if (strategy === 'restart_run' || strategy === 'abandon') session.currentRun = null
  },
  recovery_ended: resume,
  rolled_back(session, { keepsRun }) {
    session.error = null
    if (!keepsRun) session.currentRun = null
    session.status = session.currentRun === null ? 'idle' : 'running'
  },
  forked(session, { from }) {
    asInherited(session)
    session.forkedFrom = from
    session.root = null
  },
  session_paused(session, { at, by, reason, code, raise }) {
    session.paused = { at, ...defined({ by, reason, code, raise }) }
  },
  session_unpaused(session) {
    session.paused = null
  },
  session_closed(session) {
    session.status = 'closed'
  },
}

/** The session leaves an error. */
function resume(session: SessionColumns): void {
  session.status = session.currentRun === null ? 'idle' : 'running'
  session.error = null
  settleStatus(session)
}

function endRun(session: SessionColumns): void {
  session.status = 'idle'
  session.currentRun = null
  session.error = null
}

function countCall(session: SessionColumns, event: SessionEvent): void {
  const spent = paidCallIn(event)
  if (!spent || session.currentRun === null) return
  session.usage = addUsage(session.usage, spent.usage)
  const cost = costOf(spent)
  if (cost) session.usd = exactUsd((session.usd ?? 0) + cost.usd)
}

/** A run waits if none of its calls can continue without a person or a client. */
function settleStatus(session: SessionColumns): void {
  if (session.status !== 'running' && session.status !== 'waiting') return
  session.status = needsInput(session.calls.values()) ? 'waiting' : 'running'
}
