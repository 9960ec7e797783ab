// Requests that an earlier execution had received, and that the store does not show to be done: this execution carries them out, once, in
// their order, before what it received itself.
import { allHandlersFinished, ApplicationFailure, condition, currentUpdateInfo } from '@temporalio/workflow'
import type { PriorRequest } from '../../calls/activities.ts'
import { refusalIn, type Regenerated, type RollbackRequest, UPDATES } from '../../session/protocol/protocol.ts'
import { requestOf, targetIn } from '../../session/protocol/requests.ts'
import { cutText, TEXT_BYTES } from '../../session/protocol/texts.ts'
import type { SessionState } from '../../session/state.ts'
import { opened } from '../opening/opened.ts'
import { nextStep, type Session } from '../open-session.ts'
import { cancel, type CurrentExecution, receiveSignal } from '../signals.ts'

/** What carries out an update. `receivedAt`: the newest event when it was received, if that is not the newest one now. */
export type UpdateAction<A, R> = (open: Session, raw: A, receivedAt?: number) => R | Promise<R>

/** By name. */
export type Updates = Map<string, UpdateAction<unknown, unknown>>

/** `receivedAt`: the newest event when it was received. */
interface PriorUpdate {
  one: PriorRequest & { kind: 'update' }
  receivedAt: number
}

/** Updates that need no run of the messages before them: a pause keeps it from starting. */
const OF_SESSION: readonly string[] = [UPDATES.pause, UPDATES.unpause, UPDATES.raise, UPDATES.checkpoint]

// Each workflow has its own instance of this module.
const outcomes = new Map<string, Promise<unknown>>()
let inProgress = 0

/** Whether every update of this execution is done, and everything that was passed on to it. */
export function requestsFinished(): boolean {
  return inProgress === 0 && allHandlersFinished()
}

/**
 * Carries out what was passed on: signals at once, and updates one after another, once the run that preceded them is where it had been. No
 * other run starts, and the execution's own updates wait, until then.
 */
export function carryOutPassedOn(execution: CurrentExecution, session: Session, updates: Updates, requests: readonly PriorRequest[]): void {
  const due: PriorUpdate[] = []
  for (const one of requests) {
    if (one.kind === 'update') due.push({ one, receivedAt: session.journal.watermark().seq })
    else if (one.kind === 'cancellation') cancel(execution)
    else receiveSignal(execution, one.name, one.details)
  }
  if (due.length === 0) return
  execution.catchesUp = true
  session.isHeldBack = true
  inProgress += 1
  let before: Promise<unknown> = Promise.resolve()
  for (const update of due) {
    const outcome = carryOutUpdate(session, updates, update, before)
    outcomes.set(update.one.id, outcome)
    // A refusal is recorded, and a client that sends the update again gets it. A reset ends the wait.
    before = outcome.catch(() => undefined)
  }
  void before.then(() => {
    inProgress -= 1
    execution.catchesUp = false
    session.isHeldBack = false
  })
}

async function carryOutUpdate(
  session: Session,
  updates: Updates,
  { one, receivedAt }: PriorUpdate,
  before: Promise<unknown>,
): Promise<unknown> {
  const { journal, flushing } = session
  const { id, name, details } = one
  await before
  const begins = nextStep(session) === 'start_run'
  if (!hasCaughtUp(session, one)) {
    session.isHeldBack = false
    await condition(() => journal.hasEnded || hasCaughtUp(session, one))
    session.isHeldBack = true
  }
  const record = (refused: { code?: string; reason?: string }): void => {
    if (journal.hasEnded) return
    journal.append({ type: 'request_passed_on', id, name: cutText(name, TEXT_BYTES.name), ...refused })
    flushing.nudge()
  }
  try {
    const again = begins && name === UPDATES.regenerate ? answeredAgain(session) : undefined
    const outcome = again ?? (await updates.get(name)?.(session, details, receivedAt))
    record({})
    return outcome
  } catch (error) {
    const code = (error instanceof ApplicationFailure && error.type) || 'not_carried_out'
    record({ code: cutText(code, TEXT_BYTES.code), reason: cutText(refusalIn(error as Error), TEXT_BYTES.reason) })
    throw error
  }
}

/** The run that a regeneration was to repeat has begun again in this execution: stopping it would only interrupt later messages. */
function answeredAgain({ journal }: Session): Regenerated | undefined {
  const { current, seq } = journal.state
  return current ? { toSeq: seq, effects: [], moreEffects: 0, messageId: current.messageId, seq } : undefined
}

/**
 * Whether the session has got as far as the update needs, with the messages that it has and with what it inherits: a call exists of which a
 * decision speaks, or a message has the run that is to be answered again.
 */
function hasCaughtUp(session: Session, update: PriorUpdate['one']): boolean {
  const { journal, inherited, closing } = session
  const step = nextStep(session)
  if (step === 'wait') return true
  if (step === 'start_run') return closing.wanted?.when === 'now' || !(inherited.left().length > 0 || needsRun(update, journal.state))
  const { current } = journal.state
  return !current || !inherited.isAheadOf(current)
}

/** Whether the update speaks of a run that has not begun. */
function needsRun({ name, details }: PriorUpdate['one'], { run, checkpoint }: SessionState): boolean {
  if (OF_SESSION.includes(name)) return false
  if (name !== UPDATES.rollback && name !== UPDATES.fork) return true
  const target = targetIn(requestOf<Partial<RollbackRequest>>(details).target)
  if (target === undefined || 'message' in target) return false
  return 'run' in target ? target.run > run : target.checkpoint > (checkpoint?.version ?? 0)
}

/** Carries out an update of a client once the session is open. One that was passed on, and is sent again, is not carried out twice. */
export async function carryOutOnce<A, R>(execution: CurrentExecution, raw: A, carryOut: UpdateAction<A, R>): Promise<R> {
  const id = currentUpdateInfo()?.id ?? ''
  const open = await opened(execution)
  const outcome = outcomes.get(id)
  return outcome ? (outcome as Promise<R>) : carryOut(open, raw)
}
