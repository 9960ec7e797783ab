// The activity `findPlace`: finds a target in a session's past, and the effects after it, which a rollback would not undo.
import { Context } from '@temporalio/activity'
import type { SessionEvent } from '../session/events.ts'
import { sessionIdOf } from '../session/protocol.ts'
import { checkTarget, effectsAfter, locate, TargetRefused } from '../session/targets.ts'
import { heartbeating } from './heartbeating.ts'
import type { FindPlaceInput, FindPlaceResult } from './contract.ts'
import { StaleWatermark } from '../jobs/errors.ts'
import type { SessionReader } from './session-reader.ts'

/** Makes the activity. */
export function findPlaceActivity(reader: SessionReader) {
  return function findPlace(input: FindPlaceInput): Promise<FindPlaceResult> {
    return heartbeating(() => find(reader, input))
  }
}

async function find(reader: SessionReader, { target, archived, epoch, watermark, origin }: FindPlaceInput): Promise<FindPlaceResult> {
  const { client, info } = Context.current()
  const { workflowId = '', runId: executionId = '' } = info.workflowExecution ?? {}
  try {
    const from = origin ?? { seq: 0, digest: '' }
    const entries = await reader.entries({ sessionId: sessionIdOf(workflowId), epoch, executionId, watermark }, from, client)
    const parsed = entries.map(({ json, digest }) => ({ event: JSON.parse(json) as SessionEvent, digest }))
    const place = locate(parsed, target && checkTarget(target), { archived: archived === true })
    return {
      kind: 'found',
      ...place,
      ...effectsAfter(
        parsed.map(({ event }) => event),
        place.seq,
      ),
    }
  } catch (error) {
    if (error instanceof TargetRefused) return { kind: 'refused', code: error.code, reason: error.message }
    if (error instanceof StaleWatermark) return { kind: 'stale_watermark' }
    throw error
  }
}
