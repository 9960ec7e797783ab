// The transcript: what the model receives of each event.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { AssistantBlock } from '../../../src/session/content.ts'
import { NO_USAGE } from '../../../src/session/content.ts'
import type { EventBody, EventOf, SessionEvent } from '../../../src/session/events.ts'
import type { Resolution } from '../../../src/session/call-facts.ts'
import type { Json } from '../../../src/session/json.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import { messagesFor } from '../../../src/session/transcript/model-messages.ts'
import { addToTranscript } from '../../../src/session/transcript/adding.ts'
import { emptyTranscript, type Transcript } from '../../../src/session/transcript/transcript.ts'
import { resultText, withCallIds } from '../../../src/session/transcript/results.ts'
import { size } from '../../support/sizes.ts'
import { eventfulSessions } from './sound-session.ts'

function transcriptOf(...bodies: EventBody[]): Transcript {
  const transcript = emptyTranscript()
  for (const [index, body] of bodies.entries()) addToTranscript(transcript, { v: 1, seq: index + 1, at: index, ...body } as SessionEvent)
  return transcript
}

const received = (messageId: string): EventBody => ({ type: 'message_received', messageId, content: messageId })
const runStarted = (run: number, messageId: string): EventBody => ({ type: 'run_started', run, messageId })
const turnStarted = (run: number, turn: number, ...takes: string[]): EventBody => ({ type: 'turn_started', run, turn, takes })

function answered(run: number, turn: number, ...content: AssistantBlock[]): EventBody {
  return {
    type: 'model_completed',
    run,
    turn,
    attempt: 1,
    model: 'm',
    content,
    stopReason: 'end_turn',
    usage: NO_USAGE,
    calls: content.flatMap((block) => (block.type === 'tool_use' ? [block.name] : [])).map(resolutionOf),
  }
}

function resolutionOf(tool: string, index: number): Resolution {
  const effect = EFFECTS[tool] ?? 'read'
  const retry = { maxRetries: 0, baseDelayMs: 1 }
  return { index, tool, effect, inputDigest: 'd', schemaDigest: 's', timeoutMs: 1, retry, verify: false }
}

const EFFECTS: Record<string, Resolution['effect']> = { put: 'idempotent', pay: 'external' }

const asks = (name: string, id = 'same'): AssistantBlock => ({ type: 'tool_use', id, name, input: {} })
const completed = (callId: string, value: Json, more: object = {}): EventBody => {
  return { type: 'tool_completed', run: 1, turn: 1, callId, tool: 'look', attempt: 1, value, ...more }
}
const failed = (callId: string, message: string): EventBody => ({
  type: 'tool_failed',
  run: 1,
  turn: 1,
  callId,
  tool: 'look',
  attempt: 1,
  code: 'c',
  message,
})
const result = (tool_use_id: string, content: unknown, error?: 'error') => ({
  type: 'tool_result',
  tool_use_id,
  content,
  ...(error && { is_error: true }),
})

const OPENED = [received('m1'), runStarted(1, 'm1'), turnStarted(1, 1, 'm1')]

describe('the transcript', () => {
  const BACK: Record<string, EventBody> = {
    'a fork that inherited the run': {
      type: 'forked',
      sessionId: 'f',
      executionId: 'e',
      coreVersion: 1,
      from: { sessionId: 's', seq: 5 },
      keys: 'carried',
    },
    'a rollback to after the run': { type: 'rolled_back', toSeq: 5, upToSeq: 5, effects: [] },
  }
  it.each(Object.keys(BACK))('the messages of a regenerated run wait again after %s', (what) => {
    const { waiting, messages } = transcriptOf(
      ...OPENED,
      answered(1, 1, { type: 'text', text: 'an answer' }),
      { type: 'run_completed', run: 1, turns: 1, stopReason: 'end_turn', usage: NO_USAGE },
      BACK[what] ?? expect.fail(what),
      { type: 'rolled_back', toSeq: 1, upToSeq: 0, effects: [], again: { messages: [{ messageId: 'm1', seq: 1 }], intent: 1 } },
    )
    expect(messages).toEqual([])
    expect([...waiting]).toMatchObject([['m1', { content: 'm1', seq: 1 }]])
  })

  it('the transcript includes messages once a turn accepts them, in the order of the turn', () => {
    expect(transcriptOf(received('m1'), received('m2')).messages).toEqual([])
    const { messages, waiting } = transcriptOf(
      received('m1'),
      received('m2'),
      received('m3'),
      runStarted(1, 'm1'),
      turnStarted(1, 1, 'm1', 'm2'),
    )
    expect(messages.map((message) => message.content)).toEqual(['m1', 'm2'])
    expect([...waiting.keys()]).toEqual(['m3'])
  })

  it('the transcript assigns its own ids to calls, regardless of the model’s', () => {
    const { messages } = transcriptOf(...OPENED, answered(1, 1, { type: 'text', text: 'so' }, asks('look', 'x y'), asks('look', 'x y')))
    expect(messages.at(-1)?.content).toMatchObject([{ type: 'text' }, { id: 't_1_1_0' }, { id: 't_1_1_1' }])
    expect(withCallIds([asks('a'), asks('b')], 2, 3)).toMatchObject([{ id: 't_2_3_0' }, { id: 't_2_3_1' }])
  })

  it('the transcript answers the calls of a turn in their order, in one message, once the last one has ended', () => {
    const events = [...OPENED, answered(1, 1, asks('look'), asks('look'), asks('look')), completed('t_1_1_2', 3), failed('t_1_1_0', 'no')]
    expect(transcriptOf(...events).messages).toHaveLength(2)
    expect(transcriptOf(...events, completed('t_1_1_1', { a: 1 })).messages.at(-1)).toEqual({
      role: 'user',
      content: [result('t_1_1_0', 'no', 'error'), result('t_1_1_1', '{"a":1}'), result('t_1_1_2', '3')],
    })
  })

  it('the transcript reports the calls that never ran before anything else', () => {
    const { messages } = transcriptOf(...OPENED, answered(1, 1, asks('look'), asks('look')), completed('t_1_1_0', 'seen'), {
      type: 'run_interrupted',
      run: 1,
    })
    expect(messages.at(-1)?.content).toMatchObject([
      { content: 'seen' },
      { is_error: true, content: expect.stringContaining('was not run') },
    ])
  })

  it('the transcript repeats the first result if an effect is requested again, and marks it as repeated', () => {
    const again = { type: 'tool_completed', run: 1, turn: 2, callId: 't_1_2_0', tool: 'look', attempt: 0, replayOf: 't_1_1_0' } as const
    const until = [...OPENED, answered(1, 1, asks('look'))]
    const after = [turnStarted(1, 2), answered(1, 2, asks('look')), again]
    const resultOfReplay = (...first: EventBody[]) => transcriptOf(...until, ...first, ...after).messages.at(-1)?.content
    expect(resultOfReplay(completed('t_1_1_0', { id: 7 }))).toEqual([result('t_1_2_0', '[idempotent replay of t_1_1_0]\n{"id":7}')])
    const blocks = [{ type: 'text', text: 'done' }]
    expect(resultOfReplay(completed('t_1_1_0', null, { content: blocks }))).toEqual([
      result('t_1_2_0', [{ type: 'text', text: '[idempotent replay of t_1_1_0]' }, ...blocks]),
    ])
    const where = { run: 1, turn: 1, callId: 't_1_1_0', tool: 'look' }
    const unknown: EventBody = { type: 'tool_unknown', ...where, attempt: 1, message: 'unknown' }
    expect(resultOfReplay(unknown, { type: 'tool_resolved', ...where, by: 'verify', happened: true, value: 'found' })).toEqual([
      result('t_1_2_0', '[idempotent replay of t_1_1_0]\nfound'),
    ])
  })

  it('the transcript knows every key whose effect completed, however long ago, and no other', () => {
    const issued = (callId: string, key: string): EventBody => {
      return { type: 'tool_issued', run: 1, turn: 1, callId, index: 0, tool: 'look', effect: 'external', key, input: {}, inputDigest: 'd' }
    }
    const many = Array.from({ length: 300 }, (_, n) => [issued(`t_1_${n}_0`, `k${n}`), completed(`t_1_${n}_0`, 'done')]).flat()
    const { keys } = transcriptOf(...many, issued('t_1_900_0', 'lost'), failed('t_1_900_0', 'no'), issued('t_1_901_0', 'k0'), {
      ...completed('t_1_901_0', null),
      replayOf: 't_1_0_0',
    } as EventBody)
    expect(keys.size).toBe(300)
    expect(keys.get('k0')).toBe('t_1_0_0')
    expect(keys.has('lost')).toBe(false)
  })

  it('the transcript has what the tool wants the model to see, rather than the value', () => {
    const { messages } = transcriptOf(...OPENED, answered(1, 1, asks('look')), completed('t_1_1_0', { secret: 1 }, { content: 'seen' }))
    expect(messages.at(-1)?.content).toEqual([result('t_1_1_0', 'seen')])
  })

  it('the transcript leaves out an empty answer', () => {
    expect(transcriptOf(...OPENED, answered(1, 1)).messages).toHaveLength(1)
  })

  it('the transcript drops a restarted run, whose messages wait again before the others', () => {
    const { messages, waiting } = transcriptOf(
      ...OPENED,
      answered(1, 1, { type: 'text', text: 'one' }),
      { type: 'run_completed', run: 1, turns: 1, stopReason: 'end_turn', usage: NO_USAGE } as const,
      received('m2'),
      runStarted(2, 'm2'),
      turnStarted(2, 1, 'm2'),
      received('m3'),
      answered(2, 1, asks('look')),
      ...([{ type: 'error_entered', run: 2, code: 'c', reason: 'r', strategy: 'restart_run' }] as const),
      ...([{ type: 'recovery_started', run: 2, strategy: 'restart_run' }] as const),
    )
    expect(messages.map((message) => message.role)).toEqual(['user', 'assistant'])
    expect([...waiting.keys()]).toEqual(['m2', 'm3'])
  })

  it('the transcript keeps what users said in an abandoned run, but nothing that the run itself said', () => {
    const { messages } = transcriptOf(...OPENED, answered(1, 1, asks('look')), { type: 'recovery_started', run: 1, strategy: 'abandon' })
    expect(messages).toEqual([{ role: 'user', content: expect.any(String) }])
  })

  it('every call in the transcript has a result after a rollback from a reopened turn that failed', () => {
    const { messages, open } = transcriptOf(
      ...OPENED,
      answered(1, 1, asks('look'), asks('look')),
      completed('t_1_1_0', 'seen'),
      failed('t_1_1_1', 'it threw'),
      { type: 'checkpoint_made', version: 1, run: 1, turn: 1, reasons: ['turn'] },
      { type: 'recovery_started', run: 1, strategy: 'selective', turn: 1, toSeq: 4, redo: [{ callId: 't_1_1_1', as: 't_1_1_1#2' }] },
      { type: 'error_entered', run: 1, code: 'deadline_exceeded', reason: 'late', strategy: 'continue_run' },
      { type: 'rolled_back', toSeq: 7, upToSeq: 9, effects: [] },
    )
    expect(open).toBeNull()
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user'])
    expect(messages.at(-1)?.content).toMatchObject([
      { content: 'seen' },
      { is_error: true, content: expect.stringContaining('was not run') },
    ])
  })
})

describe('a call that was made again', () => {
  it('a repeated call stays in the transcript after a rollback to a later point, and no note says that it is gone', () => {
    const transcript = transcriptOf(
      ...OPENED,
      answered(1, 1, asks('put')),
      { type: 'tool_issued', run: 1, turn: 1, callId: 't_1_1_0', tool: 'put', effect: 'external', index: 0, input: {}, inputDigest: 'd' },
      failed('t_1_1_0', 'it threw'),
      { type: 'recovery_started', run: 1, strategy: 'selective', turn: 1, toSeq: 4, redo: [{ callId: 't_1_1_0', as: 't_1_1_0#2' }] },
      { type: 'tool_issued', run: 1, turn: 1, callId: 't_1_1_0#2', tool: 'put', effect: 'external', index: 0, input: {}, inputDigest: 'd' },
      completed('t_1_1_0#2', 'done'),
      { type: 'rolled_back', toSeq: 6, upToSeq: 9, effects: [] },
    )
    expect(transcript.messages.at(-1)?.content).toEqual([result('t_1_1_0', 'done')])
    expect(transcript.notes).toEqual([])
  })
})

describe('a call whose outcome becomes known after the model was told that it is unknown', () => {
  const PAY = { run: 1, turn: 1, callId: 't_1_1_0', tool: 'pay' }
  const unknown: EventBody = { type: 'tool_unknown', ...PAY, attempt: 1, message: 'it may have happened' }
  const resolved = (more: Partial<EventOf<'tool_resolved'>>): EventBody => ({
    type: 'tool_resolved',
    ...PAY,
    by: 'person',
    happened: true,
    value: 'paid 5',
    ...more,
  })
  const interrupted: EventBody = { type: 'run_interrupted', run: 1 }
  const told = (...bodies: EventBody[]) =>
    messagesFor(transcriptOf(...OPENED, answered(1, 1, asks('pay')), ...bodies)).map(({ content }) =>
      typeof content === 'string' ? content : JSON.stringify(content),
    )

  it('a call whose outcome becomes known keeps the result that the model saw, and a later note says what happened', () => {
    const [, , result, note, next] = told(unknown, interrupted, resolved({ effectId: 'pay_1' }), received('m2'), runStarted(2, 'm2'), {
      ...turnStarted(2, 1, 'm2'),
    })
    expect(result).toContain('it may have happened')
    expect(note).toContain('pay (t_1_1_0, effect id pay_1): It completed; do not repeat it for the same purpose: paid 5')
    expect(next).toBe('m2')
  })

  it('the model is told that an unknown call did not happen, no matter who found out', () => {
    expect(told(unknown, interrupted, resolved({ by: 'verify', happened: false })).at(-1)).toContain('It did not take effect')
  })

  it.each<[string, EventBody[]]>([
    ['was waiting for a person when its run ended', [{ ...unknown, ask: true }, interrupted]],
    [
      'was skipped',
      [
        { ...unknown, ask: true },
        resolved({ happened: false, decision: 'skip' }),
        { type: 'tool_failed', ...PAY, attempt: 1, code: 'skipped', message: 'skipped' },
      ],
    ],
  ])('a call whose unknown outcome becomes known has a note in the transcript if it %s', (_, bodies) => {
    expect(told(...bodies, resolved({})).at(-1)).toContain('It completed')
  })

  it('the note on a call’s late outcome survives a rollback to where it was unknown, and leaves with the call', () => {
    const back = (toSeq: number): EventBody => ({ type: 'rolled_back', toSeq, upToSeq: 7, effects: [] })
    expect(told(unknown, interrupted, resolved({}), back(6)).at(-1)).toContain('no longer unknown')
    expect(told(unknown, interrupted, resolved({}), back(3))).toMatchObject([
      'm1',
      expect.stringContaining('a part of this conversation was removed'),
    ])
  })

  it('a call’s late outcome is its result if the model has not been told that it is unknown', () => {
    const look = { ...completed('t_1_1_1', 'seen') }
    const { messages, notes } = transcriptOf(...OPENED, answered(1, 1, asks('pay'), asks('look')), unknown, resolved({}), look)
    expect(messages.at(-1)?.content).toEqual([result('t_1_1_0', 'paid 5'), result('t_1_1_1', 'seen')])
    expect(notes).toEqual([])
  })

  it('a call’s late outcome is its result if a recovery makes other calls of its turn again', () => {
    const { messages, notes } = transcriptOf(
      ...OPENED,
      answered(1, 1, asks('pay'), asks('look')),
      unknown,
      failed('t_1_1_1', 'it threw'),
      { type: 'error_entered', run: 1, code: 'c', reason: 'r', strategy: 'selective' },
      resolved({}),
      { type: 'recovery_started', run: 1, strategy: 'selective', turn: 1, toSeq: 4, redo: [{ callId: 't_1_1_1', as: 't_1_1_1#2' }] },
      completed('t_1_1_1#2', 'seen'),
    )
    expect(messages.at(-1)?.content).toEqual([result('t_1_1_0', 'paid 5'), result('t_1_1_1', 'seen')])
    expect(notes).toEqual([])
  })
})

describe('a call that is abandoned after an attempt of it died', () => {
  const told = (name: string) => {
    const call = { run: 1, turn: 1, callId: 't_1_1_0', tool: name }
    const error = { attempt: 1, class: 'WorkerDied', message: 'died', retryable: true }
    const { messages } = transcriptOf(
      ...OPENED,
      answered(1, 1, asks(name)),
      { type: 'tool_issued', ...call, effect: EFFECTS[name] ?? 'read', index: 0, input: {}, inputDigest: 'd' },
      { type: 'tool_attempt_failed', ...call, error },
      { type: 'error_entered', run: 1, code: 'c', reason: 'r', strategy: 'continue_run' },
      runStarted(2, 'm2'),
    )
    return JSON.stringify(messages.at(-1)?.content)
  }

  it('an abandoned call may have taken effect if one of its attempts died, unless it is a read', () => {
    expect(told('put')).toContain('may or may not have taken effect')
    expect(told('look')).toContain('was not run')
  })
})

describe('a note', () => {
  const paid = (seqRun: number): EventBody[] => [
    {
      type: 'tool_issued',
      run: seqRun,
      turn: 1,
      callId: `t_${seqRun}_1_0`,
      index: 0,
      tool: 'pay',
      effect: 'external',
      key: 'k',
      inputDigest: 'd',
      input: {},
    },
    {
      type: 'tool_completed',
      run: seqRun,
      turn: 1,
      callId: `t_${seqRun}_1_0`,
      tool: 'pay',
      attempt: 1,
      value: 'paid 5',
      effectId: 'pay_1',
    },
  ]
  const noteOf = (...bodies: EventBody[]) =>
    messagesFor(transcriptOf(...bodies)).flatMap(({ content }) =>
      typeof content === 'string' && content.startsWith('[Note') ? [content] : [],
    )

  it('a note appears where effects have left the transcript, says what they were, and is not one of the messages', () => {
    const bodies: EventBody[] = [
      ...OPENED,
      answered(1, 1, asks('pay')),
      ...paid(1),
      { type: 'recovery_started', run: 1, strategy: 'abandon' },
    ]
    expect(noteOf(...bodies)).toEqual([expect.stringContaining('- pay (t_1_1_0, effect id pay_1): paid 5')])
    expect(JSON.stringify(transcriptOf(...bodies).messages)).not.toContain('[Note')
  })

  it('a note does not appear if nothing has happened, or if the effects were undone outside pawl', () => {
    expect(noteOf(...OPENED, answered(1, 1, asks('look')), { type: 'recovery_started', run: 1, strategy: 'abandon' })).toEqual([])
    const back: EventBody & { type: 'rolled_back' } = { type: 'rolled_back', toSeq: 1, upToSeq: 99, effects: [] }
    expect(noteOf(...OPENED, answered(1, 1, asks('pay')), ...paid(1), { ...back, keys: 'forgotten' })).toEqual([])
    expect(noteOf(...OPENED, answered(1, 1, asks('pay')), ...paid(1), back)).toHaveLength(1)
  })

  it('a note is replaced by one further back, which lists all effects', () => {
    const bodies: EventBody[] = [
      ...OPENED,
      answered(1, 1, asks('pay')),
      ...paid(1),
      { type: 'recovery_started', run: 1, strategy: 'abandon' },
    ]
    expect(noteOf(...bodies, { type: 'rolled_back', toSeq: 1, upToSeq: 99, effects: [] })).toEqual([expect.stringContaining('t_1_1_0')])
  })
})

describe('a result', () => {
  const text = { type: 'text', text: 'a' }
  const image = { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } }

  it.each<[string, Json]>([
    ['text', 'as it is'],
    ['blocks', [text, image]],
  ])('a result that is %s goes to the model as it is', (_, value) => {
    expect(resultText(value)).toBe(value)
  })

  it.each<[string, Json]>([
    ['a number', 1],
    ['null', null],
    ['an object', text],
    ['an empty list', []],
    ['a list of other things', [text, 1]],
    ['data that looks like blocks', [{ ...text, bold: true }]],
    ['an image without a source', [{ type: 'image', source: null }]],
    ['an image with a source of its own kind', [{ type: 'image', source: { type: 'file', id: 'f' } }]],
  ])('a result that is %s goes to the model as JSON', (_, value) => {
    expect(resultText(value)).toBe(JSON.stringify(value))
  })
})

it('a transcript knows the calls whose outcome is unknown that the state knows', () => {
  fc.assert(
    fc.property(eventfulSessions, ({ events }) => {
      const transcript = emptyTranscript()
      for (const event of events) addToTranscript(transcript, event)
      const known = Object.keys(fold(undefined, events)?.unknown ?? {})
      const { unknown } = transcript.lost
      expect([...unknown.keys()].slice(-known.length || unknown.size)).toEqual(known)
    }),
    { numRuns: size(80, 400) },
  )
})
