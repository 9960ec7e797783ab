// The rows of messages, made from events. A property in ../session/sound-session.test.ts checks that they match the transcript.
import { describe, expect, it } from 'vitest'
import { messageRowsOf } from '../../../src/client/session/message-rows.ts'
import { NO_USAGE } from '../../../src/session/content.ts'
import type { EventBody, SessionEvent } from '../../../src/session/events.ts'

const numbered = (...bodies: EventBody[]): SessionEvent[] =>
  bodies.map((body, index) => ({ v: 1, seq: index + 1, at: 1_000 + index, ...body }) as SessionEvent)

const OPENED: EventBody[] = [
  { type: 'message_received', messageId: 'm1', content: 'one', metadata: { a: 1 }, by: 'ann' },
  { type: 'message_received', messageId: 'm2', content: 'two' },
  { type: 'run_started', run: 1, messageId: 'm1' },
  { type: 'turn_started', run: 1, turn: 1, takes: ['m1'] },
  {
    type: 'model_completed',
    run: 1,
    turn: 1,
    attempt: 1,
    model: 'm',
    stopReason: 'tool_use',
    usage: NO_USAGE,
    calls: [],
    content: [
      {
        type: 'tool_use',
        id: 'x',
        name: 'look',
        input: {},
      },
    ],
  },
]

describe('the rows of messages', () => {
  it('the rows of messages have author, content, run, turn and event', () => {
    const done: EventBody = { type: 'tool_completed', run: 1, turn: 1, callId: 't_1_1_0', tool: 'look', attempt: 1, value: 'seen' }
    const rows = messageRowsOf(numbered(...OPENED, done, { type: 'turn_started', run: 1, turn: 2, takes: ['m2'] }))
    expect(rows).toMatchObject([
      {
        messageId: 'm1',
        seq: 1,
        run: 1,
        turn: 1,
        role: 'user',
        kind: 'user',
        content: 'one',
        metadata: { a: 1 },
        by: 'ann',
        at: new Date(1_000),
      },
      { messageId: 'm_1_1', seq: 5, run: 1, turn: 1, role: 'assistant', kind: 'assistant', metadata: null, by: null, at: new Date(1_004) },
      { messageId: 'r_1_1', seq: 6, run: 1, turn: 1, role: 'user', kind: 'tool_results', at: new Date(1_005) },
      { messageId: 'm2', seq: 2, run: 1, turn: 2, content: 'two', by: null },
    ])
  })

  it('results that the next turn closed are listed before its messages, in the turn of their calls', () => {
    const rows = messageRowsOf(numbered(...OPENED, { type: 'turn_started', run: 1, turn: 2, takes: ['m2'] }))
    expect(rows.map(({ messageId, turn }) => [messageId, turn])).toEqual([
      ['m1', 1],
      ['m_1_1', 1],
      ['r_1_1', 1],
      ['m2', 2],
    ])
  })

  it('the rows of messages end with the messages that no turn has taken, even after a restart', () => {
    expect(messageRowsOf(numbered(...OPENED)).map(({ messageId }) => messageId)).toEqual(['m1', 'm_1_1', 'm2'])
    const rows = messageRowsOf(numbered(...OPENED, { type: 'recovery_started', run: 1, strategy: 'restart_run' }))
    expect(rows.map(({ messageId, run, turn }) => [messageId, run, turn])).toEqual([
      ['m1', null, null],
      ['m2', null, null],
    ])
  })
})
