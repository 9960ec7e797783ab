// What an execution of the workflow knows of its session, its start argument, and its signals. A signal that arrives before the session is
// open waits for it.
import type { RepeatedRequests } from '../calls/activities.ts'
import { defined } from '../session/defined.ts'
import {
  REPLACED,
  SIGNALS,
  type StopSignal,
  type MessageSignal,
  isSessionId,
  sessionIdOf,
  workflowIdOf,
} from '../session/protocol/protocol.ts'
import { requestOf } from '../session/protocol/requests.ts'
import { type Start, checkStart } from '../session/protocol/start.ts'
import { Undecodable } from '../session/protocol/undecodable.ts'
import { hasCaughtUp, hasRunInProgress, nextStep, type Session, stopDetails } from './session-parts.ts'
import type { ExecutionOpening } from './opening/loading.ts'
import type { Stop } from './stopping.ts'
import { uuid4, ApplicationFailure, workflowInfo } from '@temporalio/workflow'
import { shortHash } from '../session/digest.ts'
import { checkMessage } from '../session/protocol/incoming.ts'
import { hasRoomFor } from '../session/fold/queue.ts'
import { cutText, TEXT_BYTES } from '../session/protocol/texts.ts'
import type { Journal } from './journal.ts'

/** One execution of the workflow. */
export interface CurrentExecution {
  start: Start
  opening: ExecutionOpening
  session?: Session | undefined
  /** The previous state of the session, while it is being reopened, or may stay closed. */
  before?: Session | undefined
  /** Whether the session was closed, and it is not known yet whether what arrived opens it. */
  mayStayClosed?: boolean
  /** Why the session cannot be opened. */
  refused?: { code: string; reason: string }
  closing: Session['closing']
  /** Messages that arrived before the session was open. */
  early: unknown[]
  /** Whether the execution has carried out an update. */
  hasCarriedOut: boolean
  /** How many signals the execution has received. */
  signals: number
  /** Work to do in order once the session is open, after what earlier executions passed on. */
  onceOpen: DeferredAct[]
  /** Requests that a reset delivered again although they had been carried out. */
  repeated: RepeatedRequests
}

/** Something to do once the session is open. `signal`: the index of the signal that requested it, from 0. */
interface DeferredAct {
  signal?: number | undefined
  act(session: Session): void
}

/** One handler receives all signals. With one handler per name, an execution's first task would deliver them by name, not in order. */
export function signalled(execution: CurrentExecution, name: string, raw: unknown): void {
  receiveSignal(execution, name, raw, execution.signals++)
}

/** `signal`: its index among the signals that this execution received; absent if an earlier execution passed it on. */
export function receiveSignal(execution: CurrentExecution, name: string, raw: unknown, signal?: number): void {
  switch (name) {
    case SIGNALS.message:
      return receiveMessage(execution, raw, signal)
    case SIGNALS.interrupt:
      return interrupt(execution, stopDetails(requestOf(raw)), signal)
    case SIGNALS.close: {
      const { by } = stopDetails(requestOf(raw))
      execution.closing.wanted ??= { when: 'idle', ...defined({ by }) }
      return
    }
    case SIGNALS.lateResult:
      return whenOpen(execution, (session) => receiveLateResult(session, raw), signal)
    default:
      return receiveMessage(execution, new Undecodable(`there is no signal ${JSON.stringify(name)}`), signal)
  }
}

function receiveMessage(execution: CurrentExecution, raw: unknown, signal?: number): void {
  if (!execution.session) execution.early.push(raw)
  whenOpen(execution, (session) => acceptMessage(session, raw), signal)
}

function acceptMessage(session: Session, raw: unknown): void {
  const { journal, stopping, alarms, flushing } = session
  const message = receive(journal, raw)
  // There is no need to interrupt a run that has not begun, because it will see this message, too.
  if (message?.interrupt && hasRunInProgress(session))
    stopOnceCaughtUp(session, { why: 'interrupt', reason: REPLACED, ...defined({ by: message.by }) })
  // A step in progress must not delay the deadline.
  if (message?.deadlineMs !== undefined) alarms.follow()
  // No model call is about to store the message: one is in progress and may take long, or the message was rejected.
  if (stopping.isActive() || nextStep(session) === 'wait') flushing.nudge()
}

function receiveLateResult(session: Session, raw: unknown): void {
  session.late.receive(raw, session.journal)
  session.flushing.nudge()
}

/** Interrupts the run in progress, once the session is open. */
export function interrupt(execution: CurrentExecution, details: StopSignal, signal?: number): void {
  const stop = (session: Session): void => {
    // An accepted message counts as having a run, even before that run starts.
    if (hasRunInProgress(session) || isRunNext(session)) stopOnceCaughtUp(session, { why: 'interrupt', ...details })
  }
  whenOpen(execution, stop, signal)
}

/** Whether a run is about to start, perhaps after the hooks of the one before. */
function isRunNext(session: Session): boolean {
  const step = nextStep(session)
  return step === 'start_run' || (step === 'end_hooks' && session.journal.state.inbox.length > 0)
}

/** What the run had done in an execution that could not be replayed is recorded first: it has happened. */
function stopOnceCaughtUp(session: Session, stop: Stop): void {
  session.stopping.requestOnce(() => hasCaughtUp(session), stop)
}

/** A workflow that an operator cancelled closes as if a client had requested it, so that nothing is lost. */
export function cancel(execution: CurrentExecution): void {
  execution.closing.wanted = { ...execution.closing.wanted, when: 'now' }
  interrupt(execution, { reason: 'cancelled' })
}

/** Does it now if the session is open, or once it is: after everything that the execution has received so far. */
export function whenOpen({ session, onceOpen }: CurrentExecution, act: DeferredAct['act'], signal?: number): void {
  if (session) act(session)
  else onceOpen.push({ signal, act })
}

/** Does the work that waited for the session to open, except what was carried out before. */
export function doWaiting({ onceOpen, repeated }: CurrentExecution, session: Session): void {
  for (const { signal, act } of onceOpen.splice(0)) {
    if (signal === undefined || !repeated.signals.includes(signal)) act(session)
  }
}

/**
 * Checks, records and returns a message. No input can fail the workflow. Returns undefined if the message is rejected, or if its id was
 * accepted before, which changes nothing.
 */
function receive(journal: Journal, raw: unknown): MessageSignal | undefined {
  const checked = checkMessage(raw)
  if ('refusal' in checked) {
    const { messageId } = checked
    journal.append({ type: 'message_rejected', ...defined({ messageId }), ...checked.refusal })
    return undefined
  }
  const { messageId = uuid4(), content, metadata, agent, blob, deadlineMs, receivedAt, by, traceparent } = checked.message
  const { state } = journal
  if (agent !== undefined && agent !== state.agent) {
    const reason = `The session talks to the agent "${state.agent}", not to "${cutText(agent, TEXT_BYTES.name)}": use another session id.`
    journal.append({ type: 'message_rejected', messageId, code: 'agent_mismatch', reason })
    return undefined
  }
  if (state.accepted.includes(shortHash(messageId))) return undefined
  if (!hasRoomFor(state, { messageId, deadlineMs })) {
    const reason = `${state.inbox.length} messages already wait for the agent, as many as a session can hold: send the message again once the agent has seen them.`
    journal.append({ type: 'message_rejected', messageId, code: 'inbox_full', reason })
    return undefined
  }
  journal.append({
    type: 'message_received',
    messageId,
    content,
    ...(metadata && { metadata }),
    ...(blob && { blob }),
    ...defined({ deadlineMs, receivedAt, by, traceparent }),
  })
  return checked.message
}

/** The start argument of this execution. Fails the workflow if its id is not a session id, because nothing could be recorded. */
export function readStart(raw: unknown): Start {
  const { workflowId, continuedFromExecutionRunId } = workflowInfo()
  const sessionId = sessionIdOf(workflowId)
  if (!isSessionId(sessionId) || workflowIdOf(sessionId) !== workflowId) {
    throw ApplicationFailure.nonRetryable(
      `The workflow id "${workflowId}" is not a session's. Start a session as "${workflowIdOf('<session id>')}", with an id of 1 to 200 of [A-Za-z0-9._:/@-].`,
      'invalid_session_id',
    )
  }
  return checkStart(raw, continuedFromExecutionRunId)
}
