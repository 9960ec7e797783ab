// The activity `findKept`: plan and memory at an earlier point of the session, which a recovery restores.
import { Context } from '@temporalio/activity'
import type { SessionEvent } from '../session/events.ts'
import { sessionIdOf } from '../session/protocol/protocol.ts'
import { keptAt, keptBeforeRun } from '../session/recovery/kept.ts'
import { StaleWatermark } from '../calls/errors.ts'
import type { FindKeptInput, FindKeptResult } from '../calls/activities.ts'
import { heartbeating } from './heartbeating.ts'
import type { SessionReader } from './session-reader.ts'
import { defined } from '../session/defined.ts'

/** Makes the activity. */
export function findKeptActivity(reader: SessionReader) {
  return function findKept(input: FindKeptInput): Promise<FindKeptResult> {
    return heartbeating(() => find(reader, input))
  }
}

async function find(reader: SessionReader, input: FindKeptInput): Promise<FindKeptResult> {
  const { epoch, watermark, origin, beforeRun, upToSeq } = input
  const { client, info } = Context.current()
  const { workflowId = '', runId: executionId = '' } = info.workflowExecution ?? {}
  try {
    const target = { sessionId: sessionIdOf(workflowId), epoch, executionId, watermark }
    const entries = await reader.entries(target, origin ?? { seq: 0, digest: '' }, client)
    const events = entries.map(({ json }) => JSON.parse(json) as SessionEvent)
    const kept = beforeRun === undefined ? keptAt(events, upToSeq ?? watermark.seq) : keptBeforeRun(events, beforeRun)
    return { kind: 'found', ...defined({ kept }) }
  } catch (error) {
    if (error instanceof StaleWatermark) return { kind: 'stale_watermark', reason: error.what }
    throw error
  }
}
