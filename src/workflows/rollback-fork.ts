// Checkpoints on request, going back, and where forks begin: what moves a session other than its own steps.
import { condition } from '@temporalio/workflow'
import type { Target } from '../session/events.ts'
import type { CheckpointRequest, ForkPoint, ForkRequest, Moved, RollbackRequest } from '../session/protocol.ts'
import { SAY_WHERE_TO, targetIn } from '../session/requests.ts'
import { answerIn, findPlace, whyLost } from './activities.ts'
import { eventsOf } from './journal.ts'
import { endRun, isGoingOn, refuse, type Session, stopDetails, textOf } from './open-session.ts'
import { defined } from '../session/defined.ts'

const MAX_REASON = 1_000
/** A watermark may be of a task that was rejected: asked again, it is not. */
const ASKS = 3

/** Makes a checkpoint now. */
export function makeCheckpoint({ journal, flushing }: Session, request: CheckpointRequest): { version: number } {
  const { reason } = request
  if (typeof reason !== 'string' || reason === '' || reason.length > MAX_REASON) {
    refuse('invalid_reason', `Say why: a reason of 1 to ${MAX_REASON} characters.`)
  }
  journal.checkpoint(reason, textOf(request, 'by').by)
  flushing.nudge()
  return { version: journal.state.checkpoint?.version ?? 0 }
}

/** Moves the session back. The run that is going on is interrupted first, once the target is known to be there. */
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
      // What was sent while this was going on is not of the past.
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

/** Where a fork of the session begins: at a target, also of a past that was left behind, or at its head. */
export async function forkPoint(session: Session, request: ForkRequest): Promise<ForkPoint> {
  const { interrupt } = request
  const target = request.target === undefined ? undefined : (targetIn(request.target) ?? refuse('invalid_target', SAY_WHERE_TO))
  return held(session, async () => {
    if (target !== undefined) await placeOf(session, target, true)
    if (interrupt !== false) await interruptRun(session, { reason: 'forked', ...stopDetails(request) })
    const { seq: toSeq, digest, effects, more } = await placeOf(session, target, true)
    // The fork is made of what is stored.
    session.flushing.nudge()
    return { toSeq, digest, effects, moreEffects: more }
  })
}

/** No new run starts while `work` is going on. */
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
    if (journal.hasEnded) refuse('workflow_reset', 'The workflow was reset meanwhile: look at the session and ask again.')
  }
}

async function placeOf({ journal }: Session, target: Target | undefined, archived?: true) {
  for (let ask = 1; ; ask++) {
    let place: Awaited<ReturnType<typeof findPlace>>
    try {
      place = answerIn(await findPlace({ ...eventsOf(journal), ...(target && { target }), ...(archived && { archived }) }))
    } catch (error) {
      // An update that fails with what is not a failure of Temporal's would fail the task.
      const lost = whyLost(error)
      return refuse('events_unavailable', lost.how === 'cancelled' ? 'The session was cancelled meanwhile.' : lost.message)
    }
    if (place.kind === 'found') return place
    if (place.kind === 'refused') return refuse(place.code, place.reason)
    if (ask === ASKS) refuse('stale_watermark', 'The events of the session could not be read back: try again.')
  }
}
