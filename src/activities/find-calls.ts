// The activity `findCalls`: the calls of a turn with their arguments, which a state drops once the calls have ended.
import { Context } from '@temporalio/activity'
import type { SessionEvent } from '../session/events.ts'
import { sessionIdOf } from '../session/protocol/protocol.ts'
import { requestedCallsOf } from '../session/fold/turn-calls.ts'
import { StaleWatermark } from '../calls/errors.ts'
import type { FindCallsInput, FindCallsResult } from '../calls/activities.ts'
import { heartbeating } from './heartbeating.ts'
import { pageOfCalls } from './load-calls.ts'
import type { SessionReader } from './session-reader.ts'

/** Makes the activity. */
export function findCallsActivity(reader: SessionReader) {
  return function findCalls(input: FindCallsInput): Promise<FindCallsResult> {
    return heartbeating(() => find(reader, input))
  }
}

async function find(reader: SessionReader, { epoch, watermark, origin, answerSeq, from }: FindCallsInput): Promise<FindCallsResult> {
  const { client, info } = Context.current()
  const { workflowId = '', runId: executionId = '' } = info.workflowExecution ?? {}
  try {
    const target = { sessionId: sessionIdOf(workflowId), epoch, executionId, watermark }
    const entries = await reader.entries(target, origin ?? { seq: 0, digest: '' }, client)
    const events = entries.filter(({ seq }) => seq >= answerSeq).map(({ json }) => JSON.parse(json) as SessionEvent)
    return { kind: 'found', ...pageOfCalls(requestedCallsOf(events), from) }
  } catch (error) {
    if (error instanceof StaleWatermark) return { kind: 'stale_watermark', reason: error.what }
    throw error
  }
}
