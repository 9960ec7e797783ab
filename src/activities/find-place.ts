// The activity `findPlace`: finds a target in a session's past, and the effects after it, which a rollback would not undo.
import { Context } from '@temporalio/activity'
import type { SessionEvent } from '../session/events.ts'
import { sessionIdOf } from '../session/protocol/protocol.ts'
import { shortHash } from '../session/digest.ts'
import { ACCEPTED_KEPT } from '../session/fold/fold.ts'
import { checkTarget, effectsAfter, locate, messagesAfter, newestRun, TargetRefused } from '../session/recovery/targets.ts'
import { keptAt, restoredFrom } from '../session/recovery/kept.ts'
import { heartbeating } from './heartbeating.ts'
import type { FindPlaceInput, FindPlaceResult } from '../calls/activities.ts'
import { StaleWatermark } from '../calls/errors.ts'
import type { SessionReader } from './session-reader.ts'
import { defined } from '../session/defined.ts'

/** Makes the activity. */
export function findPlaceActivity(reader: SessionReader) {
  return function findPlace(input: FindPlaceInput): Promise<FindPlaceResult> {
    return heartbeating(() => find(reader, input))
  }
}

async function find(reader: SessionReader, input: FindPlaceInput): Promise<FindPlaceResult> {
  const { archived, upToSeq, epoch, watermark, origin } = input
  const { client, info } = Context.current()
  const { workflowId = '', runId: executionId = '' } = info.workflowExecution ?? {}
  try {
    const from = origin ?? { seq: 0, digest: '' }
    const entries = await reader.entries({ sessionId: sessionIdOf(workflowId), epoch, executionId, watermark }, from, client)
    const parsed = entries.map(({ json, digest }) => ({ event: JSON.parse(json) as SessionEvent, digest }))
    const events = parsed.map(({ event }) => event)
    const run = input.newestRun && newestRun(events)
    if (input.newestRun && !run)
      return { kind: 'refused', code: 'run_not_found', reason: 'The session has no run to repeat: send a message.' }
    const target = run ? { run: run.run } : input.target
    const place = locate(parsed, target && checkTarget(target), { archived: archived === true })
    // A repeated run accepts its own messages again; waiting messages keep waiting.
    const messages = messagesAfter(events, place.seq, run ? 0 : (upToSeq ?? watermark.seq))
    return {
      kind: 'found',
      ...place,
      ...effectsAfter(events, place.seq),
      removed: run ? [] : messages.map(({ messageId }) => shortHash(messageId)).slice(-ACCEPTED_KEPT),
      ...(run && { again: { messages, intent: run.intent } }),
      ...defined({ restored: restoredFrom(keptAt(events, place.seq), keptAt(events, watermark.seq)) }),
    }
  } catch (error) {
    if (error instanceof TargetRefused) return { kind: 'refused', code: error.code, reason: error.message }
    if (error instanceof StaleWatermark) return { kind: 'stale_watermark', reason: error.what }
    throw error
  }
}
