// Updates that move a session: checkpoints on request, rollbacks, and the beginnings of forks.
import { condition } from '@temporalio/workflow'
import type { Target } from '../session/events.ts'
import type { CheckpointRequest, ForkPoint, ForkRequest, Moved, RollbackRequest } from '../session/protocol.ts'
import { SAY_WHERE_TO, targetIn } from '../session/requests.ts'
import { answerIn, findPlace, whyLost } from './activities.ts'
import { eventsOf } from './journal.ts'
import { endRun, isGoingOn, refuse, type Session, stopDetails, textOf } from './open-session.ts'
import { defined } from '../session/defined.ts'

const MAX_REASON = 1_000
/** How often an activity is tried: its watermark may be of a rejected task, and the next one is not. */
const ASKS = 3

/** Makes a checkpoint now. */
export function makeCheckpoint({ journal, flushing }: Session, request: CheckpointRequest): { version: number } {
  const { reason } = request
  if (typeof reason !== 'string' || reason === '' || reason.length > MAX_REASON) {
    refuse('invalid_reason', `Give a reason of 1 to ${MAX_REASON} characters.`)
  }
  journal.checkpoint(reason, textOf(request, 'by').by)
  flushing.nudge()
  return { version: journal.state.checkpoint?.version ?? 0 }
}

/** Rolls the session back. A run in progress is interrupted once the target is known to exist. */
export async function rollBack(session: Session, request: RollbackRequest): Promise<Moved> {
  const { journal, flushing } = session
  const target = targetIn(request.target) ?? refuse('invalid_target', SAY_WHERE_TO)
  const requestedAt = journal.watermark().seq
  return held(session, async () => {
    await placeOf(session, target)
    await interruptRun(session, { reason: 'rolled back', ...stopDetails(request) })
    const { seq: toSeq, lastMessageId, effects, more } = await placeOf(session, target)
    journal.append({
      type: 'rolled_back',
      toSeq,
      // Messages that were sent during the rollback are kept.
      upToSeq: requestedAt,
      target,
      ...defined({ lastMessageId }),
      ...stopDetails(request),
      effects,
      ...(more > 0 && { moreEffects: more }),
    })
    endRun(session)
    flushing.nudge()
    return { toSeq, effects, moreEffects: more }
  })
}

/** Finds where a fork begins: at a target, even in a past that a rollback has left, or at the session's head. */
export async function forkPoint(session: Session, request: ForkRequest): Promise<ForkPoint> {
  const { interrupt } = request
  const target = request.target === undefined ? undefined : (targetIn(request.target) ?? refuse('invalid_target', SAY_WHERE_TO))
  return held(session, async () => {
    if (target !== undefined) await placeOf(session, target, true)
    if (interrupt !== false) await interruptRun(session, { reason: 'forked', ...stopDetails(request) })
    const { seq: toSeq, digest, effects, more } = await placeOf(session, target, true)
    // The fork copies stored events.
    session.flushing.nudge()
    return { toSeq, digest, effects, moreEffects: more }
  })
}

/** Keeps new runs from starting during `work`. */
async function held<T>(session: Session, work: () => Promise<T>): Promise<T> {
  session.holds += 1
  try {
    return await work()
  } finally {
    session.holds -= 1
  }
}

async function interruptRun(session: Session, details: { reason?: string; by?: string }): Promise<void> {
  const { journal, stopping } = session
  while (isGoingOn(session)) {
    stopping.request({ why: 'interrupt', ...details })
    const run = journal.state.current?.run
    await condition(() => !isGoingOn(session) || journal.state.current?.run !== run || journal.hasEnded)
    if (journal.hasEnded) refuse('workflow_reset', 'The workflow was reset meanwhile: check the session, then send the request again.')
  }
}

async function placeOf({ journal }: Session, target: Target | undefined, archived?: true) {
  for (let ask = 1; ; ask++) {
    let place: Awaited<ReturnType<typeof findPlace>>
    try {
      place = answerIn(await findPlace({ ...eventsOf(journal), ...(target && { target }), ...(archived && { archived }) }))
    } catch (error) {
      // An update that fails with anything but a Temporal failure would fail the task.
      const lost = whyLost(error)
      return refuse(
        'events_unavailable',
        lost.how === 'cancelled' ? 'The session was cancelled meanwhile: resume it, then send the request again.' : lost.message,
      )
    }
    if (place.kind === 'found') return place
    if (place.kind === 'refused') return refuse(place.code, place.reason)
    if (ask === ASKS) refuse('stale_watermark', 'The events of the session could not be read back: try again.')
  }
}
