// Requests that an earlier execution received and that, according to the store, it did not carry out. This execution carries them out once,
// in their order, before the requests that it received itself.
import { allHandlersFinished, ApplicationFailure, condition, currentUpdateInfo, patched } from '@temporalio/workflow'
import type { PriorRequest } from '../../calls/activities.ts'
import { DECISIONS, PAUSES, type RaiseRequest, refusalIn, type RollbackRequest, SIGNALS, UPDATES } from '../../session/protocol/protocol.ts'
import { changesNoRun, requestOf, targetIn } from '../../session/protocol/requests.ts'
import { cutText, TEXT_BYTES } from '../../session/protocol/texts.ts'
import type { SessionState } from '../../session/state.ts'
import { opened } from '../opening/when-open.ts'
import { answeredRequest, isReused, noteAnswered, noteUntilEnd, refuseReused } from './answered.ts'
import { withoutSeen } from './moved.ts'
import { nextStep, type Session, type WaitForRun, withholdLater } from '../session-parts.ts'
import { deliverAgain } from '../scheduled.ts'
import { cancel, type CurrentExecution, receiveSignal, whenOpen } from '../signals.ts'

/** Carries out an update. `receivedAt`: the newest event when it was received, if that is not the newest one now. */
export type UpdateAction<A, R> = (open: Session, raw: A, receivedAt?: number) => R | Promise<R>

export type Updates = Map<string, UpdateAction<unknown, unknown>>

type PriorSignal = Exclude<PriorRequest, { kind: 'update' }>

/**
 * `receivedAt`: the newest event when it was received. `next`: the signals that followed, up to the next update. `begins`: lets a run take
 * messages that came after an update whose run is in progress.
 */
interface PriorUpdate {
  one: PriorRequest & { kind: 'update' }
  receivedAt: number
  next: PriorSignal[]
  begins: () => void
}

/** Updates that need no run. They keep a run from starting, or concern the session as it is. */
const OF_SESSION: readonly string[] = [...PAUSES, UPDATES.checkpoint, UPDATES.unschedule]

// Each workflow has its own instance of this module.
const outcomes = new Map<string, Promise<unknown>>()
let inProgress = 0

/**
 * For validators: whether the update in progress is one that an earlier execution has carried out, so that what it would check no longer
 * holds. Refuses another one with the same name.
 */
export function isAnswered(): boolean {
  const id = currentUpdateInfo()?.id ?? ''
  if (isReused(id)) refuseReused()
  return answeredRequest(id) !== undefined
}

/** Whether all updates of this execution are done, including those that were passed on to it. */
export function requestsFinished(): boolean {
  return inProgress === 0 && allHandlersFinished()
}

/**
 * Carries out the requests that were passed on. Signals are handled at once. Updates follow one by one, as soon as the run before them has
 * reached the point at which it was. Until then, no other run starts and the execution's own updates wait.
 */
export function carryOutPassedOn(execution: CurrentExecution, session: Session, updates: Updates, requests: readonly PriorRequest[]): void {
  const due: PriorUpdate[] = []
  // From the beginning, because an interrupt must not end the run to which an update refers.
  if (requests.some(({ kind }) => kind === 'update')) session.catchesUp = { isHeld: true }
  for (const one of requests) {
    if (one.kind === 'update') {
      const { seq } = session.journal.watermark()
      const begins = one.receivedAt === undefined ? ignore : withholdLater(session, seq)
      due.push({ one, receivedAt: one.receivedAt ?? seq, next: [], begins })
    } else {
      due.at(-1)?.next.push(one)
      receive(execution, one)
    }
  }
  if (due.length === 0) return
  inProgress += 1
  let before: Promise<unknown> = Promise.resolve()
  for (const [place, update] of due.entries()) {
    const later = due.slice(place + 1)
    const outcome = before.then(() => carryOutUpdate(session, updates, update, later))
    outcomes.set(update.one.id, outcome)
    noteUntilEnd(update.one.id, outcome)
    // A refusal is recorded, and a client that sends the update again gets it. A reset ends the wait.
    const noteDone = (answer: unknown): void => noteAnswered(update.one.id, answer)
    before = outcome.then(noteDone, ignore).then(() => {
      update.begins()
      receiveAgain(execution, session, update)
    })
  }
  void before.then(() => {
    inProgress -= 1
    session.catchesUp = undefined
  })
}

const ignore = (): void => undefined

function receive(execution: CurrentExecution, one: PriorSignal): void {
  if (one.kind === 'cancellation') cancel(execution)
  else if (one.kind === 'due')
    whenOpen(execution, (session) => deliverAgain(session, requestOf<{ message?: unknown }>(one.details).message))
  else receiveSignal(execution, one.name, one.details)
}

/**
 * After a rollback, removed messages may be sent again with the same ids, and the stop of the run that it ended is discarded. Therefore,
 * everything that followed it is received once more, from the first message on. Messages that are still accepted count once.
 */
function receiveAgain(execution: CurrentExecution, { journal }: Session, { one, next }: PriorUpdate): void {
  if (one.name !== UPDATES.rollback || journal.hasEnded) return
  const first = next.findIndex(({ name }) => name === SIGNALS.message)
  if (first >= 0) for (const signal of next.slice(first)) receive(execution, signal)
}

async function carryOutUpdate(session: Session, updates: Updates, update: PriorUpdate, later: readonly PriorUpdate[]): Promise<unknown> {
  const { journal, flushing } = session
  const { one, receivedAt } = update
  const { id, name, details } = one
  const comesFirst = (): boolean => isDue(session, update, later)
  if (!comesFirst()) {
    session.catchesUp = { isHeld: false, ...waitOf(update, later, comesFirst) }
    await condition(() => journal.hasEnded || comesFirst())
    session.catchesUp = { isHeld: true }
  }
  const record = (refused: { code?: string; reason?: string }): void => {
    if (journal.hasEnded) return
    journal.append({ type: 'request_passed_on', id, name: cutText(name, TEXT_BYTES.name), ...refused })
    flushing.nudge()
  }
  try {
    const outcome = await updates.get(name)?.(session, withoutSeen(details), receivedAt)
    record({})
    return outcome
  } catch (error) {
    const code = (error instanceof ApplicationFailure && error.type) || 'not_carried_out'
    record({ code: cutText(code, TEXT_BYTES.code), reason: cutText(refusalIn(error as Error), TEXT_BYTES.reason) })
    throw error
  }
}

/** What the run before the update may do while the update waits for it. An update that changes no run does not split its messages. */
function waitOf({ one, receivedAt }: PriorUpdate, later: readonly PriorUpdate[], comesFirst: () => boolean): WaitForRun {
  const isPause = PAUSES.includes(one.name)
  if ((isPause || changesNoRun(one)) && later.every(keepsRuns) && patched(isPause ? 'passed-on-pause' : 'passed-on-beside'))
    return { takesUpTo: beforeNext(later), comesFirst, ...(!isPause && { isBeforeRuns: true }) }
  return { takesUpTo: receivedAt }
}

/** Whether the update changes no run, so that a pause before it must not wait for one. */
const keepsRuns = ({ one }: PriorUpdate): boolean => [...PAUSES, ...DECISIONS, UPDATES.resume].includes(one.name) || changesNoRun(one)

/** The newest event before the first update that may be about more than a pause, or that changes runs. */
function beforeNext(later: readonly PriorUpdate[]): number {
  return later.find(({ one }) => !PAUSES.includes(one.name) && !changesNoRun(one))?.receivedAt ?? Number.POSITIVE_INFINITY
}

/**
 * Whether the session has reached the point that the update refers to, with earlier messages and the inherited answers processed: the call
 * to decide exists, or the message whose answer is to be regenerated has its run.
 */
function isDue(session: Session, update: PriorUpdate, later: readonly PriorUpdate[]): boolean {
  const { journal, inherited, closing } = session
  const { state } = journal
  const step = nextStep(session)
  if (step === 'wait') return true
  if (step !== 'start_run') return !state.current || !inherited.isAheadOf(state.current)
  if (closing.wanted?.when === 'now') return true
  const isBefore = ({ seq = 0 }: { seq?: number }): boolean => seq <= update.receivedAt
  if (!state.inbox.some(isBefore)) return true
  // A pause would block the run that a later update needs.
  return !(inherited.isAheadOf({ run: state.run + 1, turn: 1 }) || [update, ...later].some(({ one }) => needsRun(one, state)))
}

/** Whether the update refers to a run that has not begun. */
function needsRun({ name, details }: PriorUpdate['one'], { run, checkpoint }: SessionState): boolean {
  if (OF_SESSION.includes(name)) return false
  if (name === UPDATES.raise) return requestOf<Partial<RaiseRequest>>(details).scope !== 'session'
  if (name !== UPDATES.rollback && name !== UPDATES.fork) return true
  const target = targetIn(requestOf<Partial<RollbackRequest>>(details).target)
  if (target === undefined || 'message' in target) return false
  return 'run' in target ? target.run > run : target.checkpoint > (checkpoint?.version ?? 0)
}

/**
 * Carries out an update of a client once the session is open. Until then, messages that came after it wait. An update that was passed on and
 * is sent again is not carried out twice.
 */
export async function carryOutOnce<A, R>(execution: CurrentExecution, raw: A, carryOut: UpdateAction<A, R>): Promise<R> {
  const id = currentUpdateInfo()?.id ?? ''
  let receivedAt: number | undefined
  let begins = ignore
  whenOpen(execution, (session) => {
    receivedAt = session.journal.watermark().seq
    begins = withholdLater(session, receivedAt)
  })
  try {
    const open = await opened(execution)
    const earlier = answeredRequest(id)
    if (earlier) return earlier.answer as R
    // The validator has not seen what came before the session was open. An earlier build may have carried it out.
    if (isReused(id) && patched('request-reused')) refuseReused()
    const known = outcomes.get(id)
    const outcome = known ? (known as Promise<R>) : carryOut(open, raw, receivedAt)
    const noteDone = (answer: R): void => {
      execution.hasCarriedOut = true
      noteAnswered(id, answer)
    }
    if (outcome instanceof Promise) {
      noteUntilEnd(id, outcome)
      void outcome.then(noteDone, ignore)
    } else noteDone(outcome)
    return outcome
  } finally {
    begins()
  }
}
