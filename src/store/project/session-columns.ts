// The columns of a session's row, folded from its events: the part of the session's state that people query.
import { addUsage, NO_USAGE, type Usage } from '../../session/content.ts'
import { spentBy } from '../../session/spending/budget.ts'
import { callIdOf, type Effect, type EventOf, type Resolution, type SessionEvent, type SessionStatus } from '../../session/events.ts'
import { isWaiting, needsInput } from '../../session/fold/calls.ts'
import { stayOpen } from '../../session/pause.ts'
import { saidBy } from '../../session/hooks/hooks.ts'
import type { Json } from '../../session/json.ts'
import { removesTurns } from '../../session/recovery/recovery.ts'
import type { CallState } from '../../session/state.ts'
import { sanitiser } from '../postgres/sanitise.ts'
import { exactUsd } from '../../session/spending/model-price.ts'
import { costOf, providerOf } from '../../session/spending/prices.ts'
import { paidCallIn } from '../../session/spending/paid-call.ts'
import type { SessionRow } from '../rows.ts'
import { defined } from '../../session/defined.ts'

/** What an event may change of a session's row. */
export interface SessionColumns {
  status: SessionStatus
  /** Number of the newest run. */
  run: number
  /** The run in progress, or the one that failed. */
  currentRun: number | null
  turns: number
  error: SessionRow['error']
  paused: SessionRow['paused']
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
  /** The calls of the newest answer during the run. Not a column: derived from the open turn's events. */
  calls: Map<string, OpenCall>
  updatedAt: number
}

/** The status of one of the newest turn's calls. */
export interface OpenCall {
  status: CallState['status']
  tool: string
  effect: Effect
  /** A client answers the call. */
  isClient: boolean
  /** The model's own arguments. */
  asked: Json
  /** Its effect may have happened without an event: an attempt was cut off or failed. */
  mayHaveBegun?: true
  /** A hook has changed its arguments. */
  isChanged?: true
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
    run: 0,
    updatedAt: 0,
  }
}

const idleStatus = (): Pick<SessionColumns, 'status' | 'currentRun' | 'error' | 'paused' | 'calls'> => ({
  status: 'idle',
  currentRun: null,
  error: null,
  paused: null,
  calls: new Map(),
})

const nothingSpent = (): Pick<SessionColumns, 'turns' | 'usage' | 'usd'> => ({ turns: 0, usage: NO_USAGE, usd: null })

/** Resets what does not apply to an inherited past: it does not count in sums, and is idle. */
export function asInherited(session: SessionColumns): void {
  Object.assign(session, idleStatus(), nothingSpent())
}

/** The columns of a pause. */
export function pausedColumns(paused: SessionRow['paused']): { paused: string | null; paused_raw: string | null } {
  const safe = sanitiser()
  return paused ? { paused: safe.json({ ...paused }), paused_raw: safe.raw({ ...paused }) } : { paused: null, paused_raw: null }
}

/** How many calls wait for a person or a client. */
export function waitingCalls({ calls }: SessionColumns): number {
  return [...calls.values()].filter(isWaiting).length
}

/** Applies one event, in place. It must agree with the fold in `src/session/fold/fold.ts`, which a property test checks. */
export function applyToSession(session: SessionColumns, event: SessionEvent): void {
  session.updatedAt = event.at
  const cost = spentBy(event)
  if (cost) session.spent = { tokens: session.spent.tokens + cost.tokens, usd: exactUsd(session.spent.usd + cost.usd) }
  // A resolution of an attempt whose call continues changes nothing.
  const isStillOpen = event.type === 'tool_resolved' && session.calls.get(event.callId)?.status === 'issued'
  trackCalls(session, event)
  switch (event.type) {
    case 'session_started':
      Object.assign(session, idleStatus(), nothingSpent(), { forkedFrom: null, spent: { tokens: 0, usd: 0 } })
      session.run = event.after?.run ?? 0
      session.checkpoint = event.after?.checkpoint ?? 0
      return
    case 'session_resumed':
      if (session.error && session.error.strategy !== 'automatic') {
        session.status = 'error'
        return
      }
      session.status = session.currentRun !== null ? 'running' : 'idle'
      session.error = null
      settleStatus(session)
      return
    case 'run_started':
      session.status = 'running'
      session.run = event.run
      session.currentRun = event.run
      session.error = null
      return
    case 'turn_started':
      if (session.currentRun !== null) session.turns += 1
      return
    case 'model_completed':
      session.model = event.model
      session.provider = providerOf(event.model)
      countCall(session, event)
      return
    case 'compacted':
      countCall(session, event)
      return
    case 'tool_issued':
    case 'tool_completed':
    case 'tool_failed':
    case 'tool_unknown':
    case 'approval_requested':
    case 'approval_decided':
    case 'answer_requested':
      settleStatus(session)
      return
    case 'tool_resolved':
      if (!event.happened && event.decision !== 'skip' && !isStillOpen) settleStatus(session)
      return
    case 'checkpoint_made':
      session.checkpoint = event.version
      return
    case 'run_completed':
    case 'run_interrupted':
      session.status = 'idle'
      session.currentRun = null
      session.error = null
      return
    case 'error_entered':
      session.status = 'error'
      session.error = errorOf(event)
      return
    case 'recovery_started':
      if (event.strategy === 'restart_run' || event.strategy === 'abandon') session.currentRun = null
      return
    case 'recovery_ended':
      session.status = session.currentRun === null ? 'idle' : 'running'
      session.error = null
      settleStatus(session)
      return
    case 'rolled_back':
      session.error = null
      if (!event.keepsRun) session.currentRun = null
      session.status = session.currentRun === null ? 'idle' : 'running'
      return
    case 'forked':
      asInherited(session)
      session.forkedFrom = event.from
      return
    case 'session_paused': {
      const { at, by, reason, code } = event
      session.paused = { at, ...defined({ by, reason, code }) }
      stayOpen(session)
      return
    }
    case 'session_unpaused':
      session.paused = null
      stayOpen(session)
      return
    case 'message_received':
      if (session.paused) stayOpen(session)
      return
    case 'session_closed':
      session.status = 'closed'
      return
    default:
      return
  }
}

function errorOf(event: EventOf<'error_entered'>): NonNullable<SessionRow['error']> {
  const { code, reason, run, turn, at, strategy, options, nextAttemptAt, attempts, progress } = event
  return { code, reason, at, strategy, ...defined({ run, turn, options, nextAttemptAt, attempts, progress }) }
}

function countCall(session: SessionColumns, event: SessionEvent): void {
  const spent = paidCallIn(event)
  if (!spent || session.currentRun === null) return
  session.usage = addUsage(session.usage, spent.usage)
  const cost = costOf(spent)
  if (cost) session.usd = exactUsd((session.usd ?? 0) + cost.usd)
}

/** Applies one event to the open calls. */
export function trackCalls({ calls }: SessionColumns, event: SessionEvent): void {
  switch (event.type) {
    case 'model_completed':
      requestCalls(calls, event)
      return
    case 'hook_answered': {
      const call = event.callId === undefined ? undefined : calls.get(event.callId)
      if (call && saidBy(event, 'modify')) call.isChanged = true
      return
    }
    case 'tool_issued':
      setStatus(calls, event, 'issued')
      replaceResolution(calls, event)
      return
    case 'approval_requested':
      setStatus(calls, event, 'awaiting_approval')
      return
    case 'answer_requested':
      setStatus(calls, event, 'awaiting_answer')
      return
    case 'approval_decided':
      if (!event.approved) return
      setStatus(calls, event, 'issued')
      replaceResolution(calls, event)
      return
    case 'tool_completed':
      setStatus(calls, event, 'completed')
      return
    case 'tool_failed':
      setStatus(calls, event, 'failed')
      return
    case 'tool_unknown':
      setStatus(calls, event, event.ask ? 'awaiting_resolution' : 'unknown')
      return
    case 'tool_resolved':
      if (event.happened || event.decision === 'skip') return
      if (calls.get(event.callId)?.status === 'awaiting_resolution') setStatus(calls, event, 'issued')
      return
    case 'tool_attempt_failed':
      // An external call's attempt is settled before anything else happens to the call.
      if (calls.get(event.callId)?.effect === 'idempotent') markBegun(calls.get(event.callId))
      return
    case 'session_resumed':
      // Its workflow had ended, perhaps during an issued call.
      for (const call of calls.values()) if (call.status === 'issued') markBegun(call)
      return
    case 'session_started':
    case 'run_started':
    case 'run_completed':
    case 'run_interrupted':
    case 'rolled_back':
    case 'forked':
      calls.clear()
      return
    case 'recovery_started':
      if (removesTurns(event)) calls.clear()
      if (event.strategy === 'selective') redoCalls(calls, event)
      return
    default:
      return
  }
}

function requestCalls(calls: SessionColumns['calls'], event: EventOf<'model_completed'>): void {
  calls.clear()
  const asked = event.content.flatMap((block) => (block.type === 'tool_use' ? [block.input] : []))
  for (const { index, tool, effect, client } of event.calls) {
    const call = { status: 'requested', tool, effect, isClient: client !== undefined, asked: asked[index] ?? null } as const
    calls.set(callIdOf(event.run, event.turn, index), call)
  }
}

/** Repeated calls take the places of the original ones. */
function redoCalls(calls: SessionColumns['calls'], { redo = [], skip = [] }: EventOf<'recovery_started'>): void {
  const again = new Map(redo.map(({ callId, as }) => [callId, as]))
  const before = [...calls]
  calls.clear()
  for (const [callId, call] of before) {
    const as = again.get(callId) ?? callId
    const { mayHaveBegun: _, ...fresh } = call
    const isWithdrawn = as !== callId || (call.status === 'failed' && skip.includes(callId))
    calls.set(as, isWithdrawn ? { ...fresh, status: 'requested' } : call)
  }
}

function setStatus(calls: SessionColumns['calls'], { callId }: { callId: string }, status: OpenCall['status']): void {
  const call = calls.get(callId)
  if (call) call.status = status
}

/** Another build has resolved the call again, or it was approved with other arguments. */
function replaceResolution(calls: SessionColumns['calls'], { callId, resolution }: { callId: string; resolution?: Resolution }): void {
  const call = calls.get(callId)
  if (call && resolution) Object.assign(call, { effect: resolution.effect, isClient: resolution.client !== undefined })
}

function markBegun(call: OpenCall | undefined): void {
  if (call) call.mayHaveBegun = true
}

/** A run waits if none of its calls can continue without a person or a client. */
function settleStatus(session: SessionColumns): void {
  if (session.status !== 'running' && session.status !== 'waiting') return
  session.status = needsInput([...session.calls.values()]) ? 'waiting' : 'running'
}
