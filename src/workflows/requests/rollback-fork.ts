// The updates for going back: checkpoints on request, rollbacks, and the starting points of forks.
import { condition, patched } from '@temporalio/workflow'
import type { FindPlaceInput } from '../../calls/activities.ts'
import type { EventOf, Target } from '../../session/events.ts'
import { isTurnOpen } from '../../session/checkpointing.ts'
import { isOutcome } from '../../session/past/call-status.ts'
import type {
  CheckpointAnswer,
  CheckpointRequest,
  ForkPoint,
  ForkRequest,
  RollbackReport,
  RegenerateAnswer,
  RegenerateRequest,
  RollbackRequest,
} from '../../session/protocol/protocol.ts'
import { TARGET_REQUIRED, targetIn } from '../../session/protocol/requests.ts'
import { rememberedCalls, rolledBackTo } from '../../session/recovery/rolled-back.ts'
import { findPlace } from '../scheduling.ts'
import { eventsOf } from '../journal.ts'
import { endRun, hasRunInProgress, refuse, type Session, stopDetails, textOf, withholdLater, withRunsHeld } from '../session-parts.ts'
import { readFor, readWhileStill } from './reading.ts'
import type { QueuedMessage, SessionState } from '../../session/state.ts'
import { numberText } from '../../session/number-text.ts'

const MAX_REASON = 1_000

/** Makes a checkpoint now, or once the open turn has closed. */
export function makeCheckpoint({ journal, flushing }: Session, request: CheckpointRequest): CheckpointAnswer {
  const { reason } = request
  if (typeof reason !== 'string' || reason === '' || reason.length > MAX_REASON) {
    refuse('invalid_reason', `Pass a reason of 1 to ${numberText(MAX_REASON)} characters.`)
  }
  const by = textOf(request, 'by')
  if (isTurnOpen(journal.state)) {
    journal.append({ type: 'checkpoint_requested', reason, ...by })
    return { version: (journal.state.checkpoint?.version ?? 0) + 1, made: false }
  }
  journal.checkpoint({ reasons: [reason], ...by })
  flushing.nudge()
  return { version: journal.state.checkpoint?.version ?? 0, made: true }
}

/**
 * Rolls the session back. A run in progress is interrupted once the target is known to exist. `upToSeq`: the newest event when the request was
 * received; messages that were sent later are kept.
 */
export async function rollBack(
  session: Session,
  request: RollbackRequest,
  upToSeq = session.journal.watermark().seq,
): Promise<RollbackReport> {
  const target = targetIn(request.target) ?? refuse('invalid_target', TARGET_REQUIRED)
  const { keys = 'kept' } = request
  if (keys !== 'kept' && keys !== 'forgotten') refuse('invalid_keys', "`keys` must be 'kept' or 'forgotten'.")
  // The run that is stopped must not take a later message with it.
  const ended = withholdLater(session, upToSeq)
  try {
    return await withRunsHeld(session, async () => {
      await locate(session, { target })
      await interruptRun(session, { reason: 'rolled back', ...stopDetails(request) })
      const place = await (keys === 'forgotten' ? placeToForget(session, { target, upToSeq }) : locate(session, { target, upToSeq }))
      await rewindTo(session, place, { upToSeq, target, ...(keys === 'forgotten' && forgottenAt(place)), ...stopDetails(request) })
      return { toSeq: place.seq, effects: place.effects, moreEffects: place.more }
    })
  } finally {
    ended()
  }
}

/** The same place, with all effects that are known when it is found: the session may learn of an outcome during the search. */
function placeToForget(session: Session, which: { target: Target; upToSeq: number }): Promise<FoundPlace> {
  const { journal } = session
  const search = () => locate(session, { ...which, calls: rememberedCalls(journal.state) })
  return readWhileStill(journal, search, (event) => isOutcome(event) && patched('forgets-late'))
}

/** A rollback that forgets effects names each of them that the state remembers, not only those that it reports. */
function forgottenAt({ among }: FoundPlace): Pick<EventOf<'rolled_back'>, 'keys' | 'alsoForgotten'> {
  return { keys: 'forgotten', ...(among && patched('forgets-all') && { alsoForgotten: among }) }
}

/** Answers the newest run's messages again, under the same intent. Effects that the run completed are replayed. */
export async function regenerate(session: Session, request: RegenerateRequest): Promise<RegenerateAnswer> {
  const { journal } = session
  return withRunsHeld(session, async () => {
    // Checked before the run is stopped, because a refusal must change nothing.
    repeatable(journal.state, await locate(session, { newestRun: true }))
    await interruptRun(session, { reason: 'regenerated', ...stopDetails(request) })
    const place = await locate(session, { newestRun: true })
    const opener = repeatable(journal.state, place)
    const seq = await rewindTo(session, place, { upToSeq: 0, ...(place.again && { again: place.again }), ...stopDetails(request) })
    return { toSeq: place.seq, effects: place.effects, moreEffects: place.more, messageId: opener.messageId, seq }
  })
}

/**
 * The message that opened the newest run. Refuses a run that is no longer part of the session, and one with effects that may have happened.
 */
function repeatable({ current, unknown }: SessionState, { again, effects }: FoundPlace): QueuedMessage {
  const [opener] = again?.messages ?? []
  if (!opener)
    return refuse('run_not_found', 'The newest run is no longer part of the session, so there is nothing to repeat: send a message.')
  const asked = (current?.calls ?? []).filter(({ status }) => status === 'awaiting_resolution').map(({ callId }) => callId)
  const open = effects.flatMap(({ callId, status }) =>
    status === 'unknown' && (unknown[callId] !== undefined || asked.includes(callId)) ? [callId] : [],
  )
  if (open.length > 0) {
    refuse(
      'outcome_unknown',
      `It is unknown whether ${open.join(', ')} took effect, so answering again might repeat it. Resolve the call first.`,
    )
  }
  return opener
}

type FoundPlace = Awaited<ReturnType<typeof locate>>

/**
 * How long a rollback waits for the store before it answers. By then, a message that is sent again finds no trace of its first run there.
 */
const STORED_WITHIN_MS = 2_000

/** Rolls back; returns the `seq` of the event. */
async function rewindTo(session: Session, ...going: Parameters<typeof rolledBackTo>): Promise<number> {
  const { journal, flushing } = session
  const event = journal.watermark().seq + 1
  journal.append(rolledBackTo(...going))
  endRun(session)
  const held = flushing.hold()
  await condition(held.isStored, STORED_WITHIN_MS)
  held.release()
  return event
}

/** Finds where a fork begins: at a target, even in an archived part of the session, or at the session's head. */
export async function forkPoint(session: Session, request: ForkRequest): Promise<ForkPoint> {
  const { interrupt } = request
  const target = request.target === undefined ? undefined : (targetIn(request.target) ?? refuse('invalid_target', TARGET_REQUIRED))
  return withRunsHeld(session, async () => {
    if (target !== undefined) await locate(session, { target, archived: true })
    if (interrupt !== false) await interruptRun(session, { reason: 'forked', ...stopDetails(request) })
    const { seq: toSeq, digest, effects, more } = await locate(session, { ...(target && { target }), archived: true })
    // The fork copies only stored events.
    session.flushing.nudge()
    return { toSeq, digest, effects, moreEffects: more }
  })
}

async function interruptRun(session: Session, details: { reason?: string; by?: string }): Promise<void> {
  const { journal, stopping } = session
  while (hasRunInProgress(session)) {
    stopping.request({ why: 'interrupt', ...details })
    const run = journal.state.current?.run
    await condition(() => !hasRunInProgress(session) || journal.state.current?.run !== run || journal.hasEnded)
    if (journal.hasEnded)
      refuse('workflow_reset', 'The workflow was reset in the meantime. Check the session, then send the request again.')
  }
}

async function locate({ journal }: Session, which: Pick<FindPlaceInput, 'target' | 'upToSeq' | 'newestRun' | 'archived' | 'calls'>) {
  const place = await readFor(() => findPlace({ ...eventsOf(journal), ...which }))
  return place.kind === 'found' ? place : refuse(place.code, place.reason)
}
