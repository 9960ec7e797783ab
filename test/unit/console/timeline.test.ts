// What the console shows of a session is what all other readers of its events say.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { timelineOf } from '../../../console/src/session/timeline.ts'
import { messageRowsOf } from '../../../src/client/session/message-rows.ts'
import type { SessionEvent } from '../../../src/session/events.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import { eventfulSessions, soundSessions } from '../session/sound-session.ts'
import { projectedTables } from '../../support/projected.ts'
import { size } from '../../support/sizes.ts'

/** A session, and a point in it. */
const moments = fc
  .oneof(soundSessions, eventfulSessions)
  .chain(({ events }) => fc.integer({ min: 1, max: events.length }).map((count) => events.slice(0, count)))
const RUNS = { numRuns: size(200, 1_000) }

/** How a call is open; undefined if it has ended, also with an unknown outcome. */
function openAs(status: string): string | undefined {
  if (status === 'running') return 'issued'
  return ['issued', 'awaiting_approval', 'awaiting_answer', 'asleep'].includes(status) ? status : undefined
}

describe('the timeline of the console', () => {
  it('the timeline of the console has each call of the newest answer with the status that the session has for it, at any event', () => {
    fc.assert(
      fc.property(moments, (events) => {
        const calls = new Map(
          timelineOf(events)
            .flatMap((item) => (item.kind === 'answer' ? item.calls : []))
            .map((call) => [call.callId, call]),
        )
        const known = fold(undefined, structuredClone(events))?.current?.calls ?? []
        expect(known.map(({ callId }) => [callId, calls.get(callId)?.status])).toEqual(known.map(({ callId, status }) => [callId, status]))
      }),
      RUNS,
    )
  })

  it('the timeline of the console shows that a call waits, or is to run, only if its row says so, at any event', () => {
    fc.assert(
      fc.property(moments, (events) => {
        const { tool_calls: rows } = projectedTables(events.map((event) => ({ epoch: 'e', digest: '', json: JSON.stringify(event) })))
        const statuses = new Map(rows.map(({ call_id, status }) => [call_id, String(status)]))
        const items = timelineOf(events).flatMap((item) => (item.kind === 'answer' && !item.isOut ? item.calls : []))
        // Calls that a fork inherits have no rows, and the rows of those that another session answers do not say that they wait.
        const shown = items.filter(({ callId, status, child }) => status !== 'requested' && statuses.has(callId) && child === undefined)
        expect(shown.map(({ callId, status }) => [callId, openAs(status)])).toEqual(
          shown.map(({ callId }) => [callId, openAs(statuses.get(callId) ?? '')]),
        )
      }),
      RUNS,
    )
  })

  it('the timeline of the console shows the messages that count, and crosses out those that do not, as the transcript says', () => {
    fc.assert(
      fc.property(moments, (events) => {
        const shown = timelineOf(events).flatMap((item) => (item.kind === 'message' && !item.isOut ? [item.messageId] : []))
        const taken = messageRowsOf(events).flatMap(({ kind, messageId }) => (kind === 'user' ? [messageId] : []))
        expect(new Set(shown)).toEqual(new Set(taken))
      }),
      RUNS,
    )
  })

  it('the timeline of the console has an entry or a step for each answer, failure, kill and decision of a session that never went back', () => {
    fc.assert(
      fc.property(soundSessions, ({ events }) => {
        const items = timelineOf(events)
        const seqs = new Set(
          items.flatMap((item) => [
            item.seq,
            ...(item.kind === 'answer' ? item.calls.flatMap(({ steps }) => steps.map(({ seq }) => seq)) : []),
          ]),
        )
        const types = [
          'message_received',
          'model_completed',
          'model_attempt_failed',
          'tool_attempt_failed',
          'tool_completed',
          'approval_decided',
          'error_entered',
        ]
        const missing = events.filter(({ type, seq }) => types.includes(type) && !seqs.has(seq))
        expect(missing).toEqual([])
      }),
      RUNS,
    )
  })

  it('the timeline of the console tells attempts that died with their process from those that failed', () => {
    const base = { v: 1, at: 1, run: 1, turn: 1 }
    const call = { callId: 't_1_1_0', tool: 'pay', effect: 'external' }
    const errors = [
      { class: 'WorkerDied' },
      { class: 'HeartbeatTimeout' },
      { class: 'ModelError', code: 'rate_limit_error' },
      { class: 'TypeError' },
    ].map((error, index) => ({ attempt: index + 1, message: 'why', retryable: true, ...error }))
    const events = [
      { type: 'session_started', sessionId: 's', agent: 'a', context: null, tags: [], executionId: 'e', coreVersion: 1 },
      { type: 'message_received', messageId: 'm', content: 'Pay.' },
      { type: 'run_started', run: 1, messageId: 'm' },
      { type: 'turn_started', takes: ['m'] },
      ...errors.map((error) => ({ type: 'model_attempt_failed', error })),
      {
        type: 'model_completed',
        attempt: 5,
        model: 'm',
        content: [{ type: 'tool_use', id: 'u', name: 'pay', input: {} }],
        usage: {},
        calls: [{ index: 0, ...call }],
      },
      { type: 'tool_issued', ...call, input: {} },
      ...errors.map((error) => ({ type: 'tool_attempt_failed', ...call, error })),
    ].map((event, index) => ({ ...base, seq: index + 1, ...event })) as never as SessionEvent[]
    const items = timelineOf(events)
    const ofModel = items.flatMap((item) => (item.kind === 'step' && item.step.text.startsWith('the model') ? [item.step] : []))
    const ofCall = items.flatMap((item) => (item.kind === 'answer' ? item.calls.flatMap(({ steps }) => steps) : []))
    const ends = ['was killed with its process', 'was lost: its worker did not respond', 'failed: rate_limit_error', 'failed: TypeError']
    const tones = ['bad', 'bad', 'warn', 'warn']
    expect(ofModel.map(({ text, tone }) => [text, tone])).toEqual(
      ends.map((end, at) => [`the model call, attempt ${at + 1}, ${end}`, tones[at]]),
    )
    expect(ofCall.map(({ text, tone }) => [text, tone])).toEqual(ends.map((end, at) => [`attempt ${at + 1} ${end}`, tones[at]]))
  })
})
