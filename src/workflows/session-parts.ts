// The state and the operations that the parts of an open session share.
import { ApplicationFailure, condition } from '@temporalio/workflow'
import { decide, type SessionStep, isRunInProgress, NOTHING_DUE } from '../session/decide.ts'
import { chooseRecovery, nextAttemptAt, progressOf } from '../session/recovery/recovery.ts'
import type { Closing, UpdateRefusal, StopSignal } from '../session/protocol/protocol.ts'
import { boundedText, cutText, TEXT_BYTES } from '../session/protocol/texts.ts'
import type { AgentCalls } from './agents/agent-calls.ts'
import type { Answering } from './agents/answering.ts'
import type { Alarms } from './alarms.ts'
import type { Flushing } from './flushing.ts'
import type { Journal } from './journal.ts'
import type { Inheritance } from './inherited.ts'
import type { CallWaits } from './calls/call-waits.ts'
import type { Releasing } from './calls/releasing.ts'
import type { LateResults } from './calls/late-results.ts'
import type { Pacing } from './pacing.ts'
import type { ServingWatch } from './awaiting-worker.ts'
import type { Stopping } from './stopping.ts'
import type { BudgetRaise } from '../session/spending/spend.ts'
import type { RunState } from '../session/state.ts'
import { defined } from '../session/defined.ts'

/** The next update is carried out before the next run starts (`isHeld`), or waits for a run. */
export type CatchingUp = { isHeld: true } | ({ isHeld: false } & WaitForRun)

/**
 * An update that waits for a run. The run takes the messages up to an event. `comesFirst`: whether the update is now due, and to be carried
 * out before the run takes another step; `isBeforeRuns`: before another run starts, too.
 */
export interface WaitForRun {
  takesUpTo: number
  comesFirst?: () => boolean
  isBeforeRuns?: true
}

/** An update that is not carried out yet. `receivedAt`: the newest event when it was received. */
interface WaitingUpdate {
  receivedAt: number
}

export interface Session {
  journal: Journal
  flushing: Flushing
  serving: ServingWatch
  stopping: Stopping
  alarms: Alarms
  late: LateResults
  waits: CallWaits
  pacing: Pacing
  agents: AgentCalls
  answering: Answering
  releasing: Releasing
  /** How long after its last heartbeat an attempt counts as lost. */
  heartbeatTimeoutMs: number
  previous: string | undefined
  inherited: Inheritance
  /** Set by the signal `close`, or by cancelling the workflow. */
  closing: { wanted: Closing | undefined }
  /** How many rollbacks and forks in progress keep new runs from starting. */
  runHolds: number
  /** Set while the session carries out updates that earlier executions passed on. */
  catchesUp: CatchingUp | undefined
  /** Updates that wait to be carried out: no run takes a message that came after one of them. */
  waiting: Set<WaitingUpdate>
  /** Whether the store has another past for the session's id, so that this session must end. */
  isForeign: boolean
}

/** What the calls of one turn share: parts of the session, and their run. */
export type CallNeeds = Pick<
  Session,
  'journal' | 'flushing' | 'serving' | 'pacing' | 'alarms' | 'late' | 'waits' | 'inherited' | 'heartbeatTimeoutMs'
> & {
  run: RunState
}

/** Whether another session is being told something: continue-as-new and the end of the workflow would lose that. */
export function isTelling({ agents, answering, releasing }: Session): boolean {
  return agents.isBusy() || answering.isBusy() || releasing.isBusy()
}

export function nextStep({ journal, alarms }: Session): SessionStep['do'] {
  return decide(journal.state, alarms.due).do
}

/**
 * Whether the session has recorded what earlier executions had done and accepted, as far as that is possible without a client. Until then,
 * nothing that arrives or becomes due ends a run: what the run had done has happened, and it would be repeated if no event said so.
 */
export function hasCaughtUp(session: Session): boolean {
  const { journal, inherited, catchesUp } = session
  if (catchesUp) return false
  if (inherited.isUsedUp()) return true
  const step = decide(journal.state, NOTHING_DUE).do
  return step === 'wait' || (step === 'start_run' && !mayTakeAny(session))
}

/** The newest event whose message a run may take now: later ones came after an update that is not carried out yet. */
function takesUpTo({ catchesUp, waiting }: Session): number {
  const passedOn = catchesUp && !catchesUp.isHeld ? catchesUp.takesUpTo : Number.POSITIVE_INFINITY
  return Math.min(passedOn, ...[...waiting].map(({ receivedAt }) => receivedAt))
}

/** Whether a run may take the message now. */
export function mayTake(session: Session, { seq = 0 }: { seq?: number }): boolean {
  return seq <= takesUpTo(session)
}

/** Whether a run that starts now may take any of the queued messages. */
export function mayTakeAny(session: Session): boolean {
  return session.journal.state.inbox.some((message) => mayTake(session, message))
}

/** Registers an update that is not carried out yet. Returns the function that ends that. */
export function withholdLater({ waiting }: Session, receivedAt: number): () => void {
  const update: WaitingUpdate = { receivedAt }
  waiting.add(update)
  return () => waiting.delete(update)
}

/** Whether a run is in progress. This includes a waiting run, and a session in an error that it leaves by itself. */
export function hasRunInProgress({ journal: { state } }: Session): boolean {
  return isRunInProgress(state)
}

export interface Failure {
  code: string
  reason: string
  /** The cause may resolve itself, although the retries are exhausted. */
  transient?: boolean | undefined
  /** Digest of the failure, if the error did not say whether another attempt may help. */
  unexpected?: string | undefined
  /** Limits that would allow the next model call. */
  raise?: BudgetRaise[] | undefined
}

/** Puts the session into `error` because its run cannot continue. */
export function failRun(session: Session, run: number, failure: Failure): void {
  const { journal } = session
  const { state } = journal
  const { current } = state
  const choice = chooseRecovery(state, failure)
  const next = nextAttemptAt(state, failure, choice.strategy, Date.now())
  journal.append({
    type: 'error_entered',
    run,
    ...defined({ turn: current?.turn }),
    code: cutText(failure.code, TEXT_BYTES.code),
    reason: cutText(failure.reason, TEXT_BYTES.reason),
    ...choice,
    ...defined({ nextAttemptAt: next, attempts: current?.phase === 'model' ? current.modelAttempts : undefined }),
    ...(current && { progress: progressOf(state, current) }),
    ...defined({ unexpected: failure.unexpected, raise: failure.raise }),
  })
  endRun(session)
}

export function endRun({ stopping, flushing }: Session): void {
  stopping.ended()
  flushing.nudge()
}

/** Waits until nothing is held. Several may wait, and the first one to continue may hold again. */
export async function untilRunsReleased(session: Session): Promise<void> {
  while (session.runHolds > 0) await condition(() => session.runHolds === 0)
}

/** Keeps new runs from starting during `work`. One at a time, because what one of them finds in the past, another would remove. */
export async function withRunsHeld<T>(session: Session, work: () => Promise<T>): Promise<T> {
  if (session.runHolds > 0) await untilRunsReleased(session)
  session.runHolds += 1
  try {
    return await work()
  } finally {
    session.runHolds -= 1
  }
}

/** `by` and `reason` of a request. Their content is arbitrary. */
export function stopDetails(signal: StopSignal | undefined): StopSignal {
  return { ...textOf(signal, 'reason'), ...textOf(signal, 'by') }
}

/** One bounded text of a request; absent if the request does not have it. */
export function textOf<K extends 'by' | 'reason' | 'note'>(
  given: { [name in K]?: unknown } | undefined,
  kind: K,
): { [name in K]?: string } {
  const text = boundedText(given?.[kind], kind)
  return (text === undefined ? {} : { [kind]: text }) as { [name in K]?: string }
}

/**
 * Refuses an update: the client receives the code and the message, and nothing changes. The message may quote private content, so it goes
 * into the failure's details, which the user's converter and codecs encode. Everyone who can read histories can read a failure's own
 * message.
 */
export function refuse(code: string, message: string): never {
  throw ApplicationFailure.nonRetryable(REFUSED, code, { message } satisfies UpdateRefusal)
}

const REFUSED = 'The session refused the request. See the details of this failure.'
