// Which run a message belongs to and how it ended, folded from the session's events.
import type { AssistantBlock } from '../../session/content.ts'
import { textOf } from '../../session/content.ts'
import type { EventOf, SessionEvent } from '../../session/events.ts'
import type { Json } from '../../session/json.ts'
import { apply, emptyState } from '../../session/fold/fold.ts'
import { leavesByItself } from '../../session/recovery/recovery.ts'
import type { SessionError, SessionState } from '../../session/state.ts'
import { withCallIds } from '../../session/transcript/results.ts'
import type { SettledRun } from '../types.ts'
import { type WaitingRun, waitingRun } from './waiting.ts'
import { defined } from '../../session/defined.ts'

/** How a run has ended. */
export type RunEnd = Exclude<SettledRun, WaitingRun>

/** How a run has settled, by the event with this `seq`. */
export interface SettledAt {
  settled: RunEnd
  seq: number
}

/** The types of events that may take back how a run has settled. */
export const TAKING_BACK: readonly SessionEvent['type'][] = ['recovery_started', 'rolled_back', 'message_received', 'run_started']

/** Watches for one message's run. */
export interface RunWatch {
  /** Accepts the next events; returns how the run settled, once it has, and the `seq` of the event that says so. */
  take(events: readonly SessionEvent[]): SettledAt | undefined
  /** Whether one of the events that follow those so far takes back how the run has settled. Does not accept them. */
  isTakenBackBy(events: readonly SessionEvent[]): boolean
  /** What the run waits for a person or a client to do, by the events so far or by `state`; undefined if it does not wait. */
  waiting(state?: SessionState): WaitingRun | undefined
  /** The run's number; undefined if no run has taken the message yet. */
  run(): number | undefined
  /** Where the run is, by the events so far, in sentences. `heldUp`: what keeps the session from its next step, if that is known. */
  progress(heldUp?: string): string
}

/** The state, plus the calls that did not fit into it, taken from the events. */
function withCallsOf({ current: told }: SessionState, state: SessionState): SessionState {
  const { current } = state
  if (!current?.leftOut) return state
  const known = (told?.calls ?? []).flatMap((call) => {
    const leftOut = current.leftOut?.find(({ callId }) => callId === call.callId)
    return leftOut ? [{ ...call, status: leftOut.status }] : []
  })
  return { ...state, current: { ...current, calls: [...current.calls, ...known].sort((a, b) => a.index - b.index) } }
}

/** Starts to watch for the run of `messageId`. */
export function watchRun(messageId: string): RunWatch {
  let run: number | undefined
  let receivedAt: number | undefined
  /** When the message is delivered, if it is scheduled. */
  let dueAt: number | undefined
  /** Whether the session has started over without the message. What an earlier execution had received follows before the next run. */
  let isLost = false
  /** The newest completed call: a run whose last call returned its output names it. */
  let completed: { callId: string; value: Json | undefined } | undefined
  let answer: { content: AssistantBlock[]; model: string } = { content: [], model: '' }
  // What came before the first watched event does not matter here.
  const watched = emptyState()

  return {
    take(events) {
      let end: SettledAt | undefined
      for (const event of events) {
        if (isOpenedAgain(event)) end = undefined
        const settled = settledBy(event)
        foldIn(event)
        if (settled) end ??= { settled, seq: event.seq }
        // A run that a recovery continues or restarts has not settled after all.
        else if (isRecovered(event)) {
          end = undefined
          if (event.strategy === 'restart_run') run = undefined
        }
        // The message is answered again, or was sent again after it had been archived.
        else if (isRepeated(event)) end = run = undefined
      }
      return end
    },
    isTakenBackBy: (events) => events.some((event) => isRecovered(event) || isAgain(event) || isOpenedAgain(event)),
    waiting: (state) => waitingRun(state ? withCallsOf(watched, state) : watched, run),
    run: () => run,
    progress,
  }

  function isRecovered(event: SessionEvent): event is EventOf<'recovery_started'> {
    return event.type === 'recovery_started' && event.run === run && event.strategy !== 'abandon'
  }

  /** A run that is interrupted before its first turn leaves its message to the next one. */
  function isOpenedAgain(event: SessionEvent): boolean {
    return event.type === 'run_started' && event.messageId === messageId && event.run !== run
  }

  function isRepeated(event: SessionEvent): boolean {
    if (!isAgain(event)) return false
    if (event.type === 'message_received') {
      receivedAt = event.seq
      isLost = false
    }
    return true
  }

  function isAgain(event: SessionEvent): boolean {
    if (event.type === 'rolled_back') return isAnsweredAgain(event)
    return event.type === 'message_received' && event.messageId === messageId && receivedAt !== undefined
  }

  function isAnsweredAgain({ again }: EventOf<'rolled_back'>): boolean {
    return again?.messages.some((message) => message.messageId === messageId) ?? false
  }

  function progress(heldUp?: string): string {
    const { status, error, current, paused } = watched
    if (run === undefined && receivedAt === undefined && dueAt !== undefined) {
      return `The message is scheduled for ${new Date(dueAt).toISOString()}.`
    }
    if (run === undefined && receivedAt === undefined) {
      const why = heldUp ?? 'session.status() says what the session waits for.'
      return `No event for the message has arrived yet. ${why}`
    }
    if (paused?.code === 'budget_assumed') return `The session is paused: ${paused.reason ?? 'its budget may be exhausted.'}`
    if (paused) return `The session is paused${paused.by === undefined ? '' : ` by ${paused.by}`}. Unpause it.`
    if (run === undefined || current?.run !== run) return ['The message waits for its turn.', ...(heldUp ? [heldUp] : [])].join(' ')
    if (status === 'error' && error) return `Run ${run} is held up by ${error.code}: ${error.reason}${nextIn(error)}`
    if (status === 'waiting') return `Run ${run} waits for a person or a client.`
    return [`Run ${run} is in turn ${current.turn}.`, ...(heldUp ? [heldUp] : [])].join(' ')
  }

  function foldIn(event: SessionEvent): void {
    // The run that took the message began before the message arrived.
    if (event.type === 'turn_started' && event.run === run && !watched.current) {
      apply(watched, { v: 1, seq: event.seq, at: event.at, type: 'run_started', run: event.run, messageId })
    }
    apply(watched, event)
  }

  function settledBy(event: SessionEvent): RunEnd | undefined {
    switch (event.type) {
      case 'message_rejected':
        return event.messageId === messageId ? { status: 'rejected', code: event.code, reason: event.reason } : undefined
      case 'message_received':
        if (event.messageId === messageId) receivedAt ??= event.seq
        return undefined
      case 'message_scheduled':
        if (event.messageId === messageId) dueAt = event.dueAt
        return undefined
      case 'messages_unscheduled':
        return event.messageIds.includes(messageId) && receivedAt === undefined && run === undefined ? UNSCHEDULED : undefined
      case 'rolled_back':
        if (event.keepsRun || isAnsweredAgain(event)) return undefined
        if (run !== undefined) return { status: 'interrupted', run, reason: 'rolled back' }
        // The message was still waiting when the session went back, so no run will take it.
        if (receivedAt === undefined || receivedAt > event.upToSeq) return undefined
        return { status: 'rejected', code: 'rolled_back', reason: 'A rollback archived the message before a run took it. Send it again.' }
      case 'session_started':
        isLost = run !== undefined || receivedAt !== undefined
        return undefined
      case 'run_started':
        if (isLost) return { status: 'rejected', code: 'started_over', reason: STARTED_OVER }
        if (event.messageId === messageId) run = event.run
        return undefined
      case 'turn_started':
        // A message that arrived during a run belongs to the run that took it.
        if (event.takes.includes(messageId)) run = event.run
        return undefined
      case 'model_completed':
        if (event.run === run) answer = { content: withCallIds(event.content, event.run, event.turn), model: event.model }
        return undefined
      case 'tool_completed':
        if (event.run === run) completed = { callId: event.callId, value: event.value }
        return undefined
      case 'run_completed': {
        if (event.run !== run) return undefined
        const { stopReason, usage, outputCall } = event
        const output = outputCall !== undefined && completed?.callId === outputCall ? completed.value : undefined
        const { content, model } = answer
        const message = { role: 'assistant', content } as const
        return { status: 'completed', run, text: textOf(content), message, stopReason, model, usage, output }
      }
      case 'run_interrupted':
        if (event.run !== run) return undefined
        return { status: 'interrupted', run, ...defined({ reason: event.reason }) }
      case 'error_entered': {
        if (event.run !== run || leavesByItself(event)) return undefined
        const { code, reason, strategy } = event
        return { status: 'failed', code, reason, strategy, ...defined({ run }) }
      }
      case 'recovery_started':
        return event.strategy === 'abandon' && run !== undefined && event.run === run ? abandoned(run) : undefined
      case 'forked':
        if (run !== undefined) return { status: 'interrupted', run, reason: 'forked' }
        return receivedAt === undefined ? undefined : { status: 'rejected', code: 'forked', reason: FORKED }
      default:
        return undefined
    }
  }

  /** A person has abandoned the run while it waited for pawl's next attempt, so its last error ends it. */
  function abandoned(of: number): RunEnd {
    const { error } = watched
    if (!error) return { status: 'interrupted', run: of, reason: 'abandoned' }
    const { code, reason, strategy } = error
    return { status: 'failed', run: of, code, reason, strategy }
  }
}

const STARTED_OVER = 'The session has started over without its earlier events, and the outcome of the message is lost with them.'
const UNSCHEDULED = {
  status: 'rejected',
  code: 'unscheduled',
  reason: 'The message was unscheduled before it was delivered. To send it after all, use another message id.',
} as const
const FORKED = 'The fork began before a run took the message, and does not answer it. Send it to the fork again.'

/** When pawl makes the next attempt. */
function nextIn({ nextAttemptAt }: SessionError): string {
  return nextAttemptAt === undefined ? '' : ` (pawl retries it at ${new Date(nextAttemptAt).toISOString()})`
}
