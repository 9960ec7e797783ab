// What an execution of the workflow knows of its session, its start argument, and its signals. A signal that arrives before the session is
// open waits for it.
import type { RepeatedRequests } from '../calls/activities.ts'
import type { ScheduledContent } from '../session/events.ts'
import type { QueuedMessage, SessionState } from '../session/state.ts'
import { defined } from '../session/defined.ts'
import {
  type AskSignal,
  REPLACED,
  SIGNALS,
  type StopSignal,
  type MessageSignal,
  isSessionId,
  sessionIdOf,
  workflowIdOf,
} from '../session/protocol/protocol.ts'
import { questionIdOf } from '../session/agents/caller.ts'
import { askIn } from '../session/agents/signals.ts'
import { requestOf } from '../session/protocol/requests.ts'
import { type Start, checkStart } from '../session/protocol/start.ts'
import { Undecodable } from '../session/protocol/undecodable.ts'
import { endRun, hasCaughtUp, hasRunInProgress, nextStep, type Session, stopDetails } from './session-parts.ts'
import type { ExecutionOpening } from './opening/loading.ts'
import type { Stop } from './stopping.ts'
import { uuid4, ApplicationFailure, patched, workflowInfo } from '@temporalio/workflow'
import { shortHash } from '../session/digest.ts'
import { checkMessage } from '../session/protocol/incoming.ts'
import { isRunInProgress } from '../session/decide.ts'
import { OVERLAP_SKIPPED } from '../session/fold/fold.ts'
import { hasRoomFor, hasRoomForScheduled } from '../session/fold/queue.ts'
import { scheduledIn } from '../session/fold/scheduled.ts'
import { cutText, TEXT_BYTES } from '../session/protocol/texts.ts'
import type { Journal } from './journal.ts'
import { answeredRequest, noteAnswered } from './requests/answered.ts'
import { continueInBudget } from './requests/raising.ts'
import { recover } from './requests/recovery.ts'

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
      return interruptOnce(execution, requestOf(raw), signal)
    case SIGNALS.close:
      return closeOnce(execution, requestOf(raw), signal)
    case SIGNALS.lateResult:
      return whenOpen(execution, (session) => receiveLateResult(session, raw), signal)
    case SIGNALS.ask:
      return whenOpen(execution, (session) => receiveQuestion(execution, session, raw), signal)
    case SIGNALS.report:
      return whenOpen(execution, (session) => receiveReport(session, raw), signal)
    default:
      return receiveMessage(execution, new Undecodable(`there is no signal ${JSON.stringify(name)}`), signal)
  }
}

function receiveMessage(execution: CurrentExecution, raw: unknown, signal?: number): void {
  if (!execution.session) execution.early.push(raw)
  whenOpen(execution, (session) => acceptMessage(session, raw), signal)
}

function acceptMessage(session: Session, raw: unknown): void {
  const message = receive(session.journal, raw)
  if (message?.at === undefined) return followArrival(session, message)
  session.alarms.follow()
  session.flushing.nudge()
}

/** What follows once the session has recorded a message, or has rejected one. */
export function followArrival(session: Session, message: Pick<MessageSignal, 'interrupt' | 'by' | 'deadlineMs'> | undefined): void {
  const { stopping, alarms, flushing } = session
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

/** A session that calls this one's agent asks its question, or no longer needs the answer. */
function receiveQuestion(execution: CurrentExecution, session: Session, raw: unknown): void {
  const ask = askIn(raw)
  if (!ask) return
  const { answering, agents, flushing, alarms } = session
  if (ask.stop) return stopAnswering(session, ask)
  // A closed session that is asked again opens to repeat its answer.
  execution.hasCarriedOut = true
  if (answering.receive(ask) === 'raised') {
    agents.grantMore()
    continueInBudget(session, {})
    alarms.follow()
  }
  if (nextStep(session) === 'wait') flushing.nudge()
}

const NOT_NEEDED = 'the session that asked no longer needs the answer'

/** Stops the run that answers the question. A question that a pause keeps from getting a run gets none later. */
function stopAnswering(session: Session, ask: AskSignal): void {
  const { answering, journal } = session
  if (!answering.isOpen(ask)) return
  const details = { reason: NOT_NEEDED, by: `agent:${ask.by}` }
  if (hasRunInProgress(session) || isRunNext(session)) stopOnceCaughtUp(session, { why: 'interrupt', ...details })
  else if (journal.state.error) recover(journal, { strategy: 'abandon', ...details })
  else {
    const queued = queuedQuestion(session)
    if (queued && patched('stops-queued-questions')) endQueuedQuestion(session, queued, details)
  }
}

/** The message with the open question, if no run has taken it yet. */
function queuedQuestion({ journal }: Session): QueuedMessage | undefined {
  const { caller, inbox } = journal.state
  return caller && inbox.find(({ messageId }) => messageId === questionIdOf(caller))
}

/** A pause keeps the question from getting a run that could be interrupted, so one is recorded that ends at once. */
function endQueuedQuestion(session: Session, { messageId, intent }: QueuedMessage, details: StopSignal): void {
  const { journal } = session
  const run = journal.state.run + 1
  journal.append({ type: 'run_started', run, messageId, ...defined({ intent }) })
  journal.append({ type: 'turn_started', run, turn: 1, takes: [messageId] })
  journal.append({ type: 'run_interrupted', run, ...details })
  endRun(session)
}

function receiveReport({ agents, flushing }: Session, raw: unknown): void {
  agents.receive(raw)
  flushing.nudge()
}

/** A repeated request must not stop the run that followed. */
function interruptOnce(execution: CurrentExecution, request: StopSignal, signal?: number): void {
  const stop = (session: Session): void => {
    if (isFirst(request) && isMeant(session, request)) interruptNow(session, stopDetails(request))
  }
  whenOpen(execution, stop, signal)
}

/** Whether the request may stop what the session does now: it names the run in progress, or none. */
function isMeant(session: Session, { run }: StopSignal): boolean {
  return run === undefined || (hasRunInProgress(session) && session.journal.state.current?.run === run)
}

/** A repeated request must not close the session that was opened again. One without an id may come before the session is open. */
function closeOnce(execution: CurrentExecution, request: StopSignal, signal?: number): void {
  const { by } = stopDetails(request)
  const close = (): void => {
    if (isFirst(request)) execution.closing.wanted ??= { when: 'idle', ...defined({ by }) }
  }
  if (request.id === undefined) close()
  else whenOpen(execution, close, signal)
}

/** Whether the signal was not carried out before. Only an open session knows what earlier executions have carried out. */
function isFirst({ id }: StopSignal): boolean {
  if (typeof id !== 'string') return true
  if (answeredRequest(id)) return false
  noteAnswered(id)
  return true
}

/** Interrupts the run in progress, once the session is open. */
export function interrupt(execution: CurrentExecution, details: StopSignal, signal?: number): void {
  whenOpen(execution, (session) => interruptNow(session, details), signal)
}

function interruptNow(session: Session, details: StopSignal): void {
  // An accepted message counts as having a run, even before that run starts.
  if (hasRunInProgress(session) || isRunNext(session)) stopOnceCaughtUp(session, { why: 'interrupt', ...details })
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
  const { messageId = uuid4(), content, metadata, agent, blob, deadlineMs, at: dueAt, receivedAt, by, traceparent } = checked.message
  const { state } = journal
  if (agent !== undefined && agent !== state.agent) {
    const reason = `The session talks to the agent "${state.agent}", not to "${cutText(agent, TEXT_BYTES.name)}": use another session id.`
    journal.append({ type: 'message_rejected', messageId, code: 'agent_mismatch', reason })
    return undefined
  }
  if (isAccepted(state, messageId)) return undefined
  if (checked.message.unlessBusy && (isRunInProgress(state) || state.inbox.length > 0)) {
    const reason = 'A run is in progress, or messages wait for one, and the message was sent to be skipped then.'
    journal.append({ type: 'message_rejected', messageId, code: OVERLAP_SKIPPED, reason })
    return undefined
  }
  if (dueAt !== undefined) {
    const { interrupt } = checked.message
    const scheduled = {
      messageId,
      content,
      dueAt,
      ...defined({ metadata, blob, deadlineMs, interrupt: interrupt || undefined, by, traceparent }),
    }
    return schedule(journal, scheduled) ? checked.message : undefined
  }
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

/** Ids of scheduled messages stay accepted, however many follow. */
function isAccepted(state: SessionState, messageId: string): boolean {
  return state.accepted.includes(shortHash(messageId)) || scheduledIn(state).some((message) => message.messageId === messageId)
}

/** Records a message that is delivered later. Returns whether the session can keep it. */
function schedule(journal: Journal, message: ScheduledContent): boolean {
  const { state } = journal
  if (hasRoomForScheduled(state, message)) {
    journal.append({ type: 'message_scheduled', ...message })
    return true
  }
  const { messageId } = message
  const reason = `${scheduledIn(state).length} scheduled messages wait in the session, as many as it can keep: send the message again later, or unschedule others.`
  journal.append({ type: 'message_rejected', messageId, code: 'inbox_full', reason })
  return false
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
