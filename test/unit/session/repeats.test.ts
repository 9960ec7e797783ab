// Calls that a model repeats without progress: which rows count, and what the model and a limit see of them.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { NO_USAGE } from '../../../src/session/content.ts'
import type { EventBody, SessionEvent } from '../../../src/session/events.ts'
import type { Json } from '../../../src/session/json.ts'
import { addToTranscript } from '../../../src/session/transcript/adding.ts'
import { pieceEnd } from '../../../src/session/transcript/compaction.ts'
import { messagesBetween, messagesFor } from '../../../src/session/transcript/model-messages.ts'
import { newestRepeats } from '../../../src/session/transcript/repeats.ts'
import { emptyTranscript, type Transcript } from '../../../src/session/transcript/transcript.ts'
import { seed, size } from '../../support/sizes.ts'

/** One call and its outcome. */
interface Call {
  tool?: string
  input?: Json
  value?: Json
  error?: string
}

/** A session in which a run makes these calls, each in a turn of its own, with other events between them. */
function session(steps: readonly (Call | EventBody)[]): Transcript {
  const transcript = emptyTranscript()
  let seq = 0
  let turn = 0
  const add = (body: EventBody): void => addToTranscript(transcript, { v: 1, seq: ++seq, at: seq, ...body } as SessionEvent)
  add({ type: 'message_received', messageId: 'm1', content: 'go' })
  add({ type: 'run_started', run: 1, messageId: 'm1' })
  for (const step of steps) {
    if ('type' in step) {
      add(step)
      continue
    }
    const { tool = 'look', input = { what: 'it' }, value = 'nothing new', error } = step
    const call = { run: 1, turn: ++turn, callId: `t_1_${turn}_0`, tool, attempt: 1 }
    add({ type: 'turn_started', run: 1, turn, takes: turn === 1 ? ['m1'] : [] })
    add({
      type: 'model_completed',
      run: 1,
      turn,
      attempt: 1,
      model: 'm',
      content: [{ type: 'tool_use', id: 'same', name: tool, input }],
      stopReason: 'tool_use',
      usage: NO_USAGE,
      calls: [
        {
          index: 0,
          tool,
          effect: 'read',
          inputDigest: 'd',
          schemaDigest: 's',
          timeoutMs: 1,
          retry: { maxRetries: 0, baseDelayMs: 1 },
          verify: false,
        },
      ],
    })
    add(error === undefined ? { type: 'tool_completed', ...call, value } : { type: 'tool_failed', ...call, code: 'c', message: error })
  }
  return transcript
}

const times = (count: number, call: Call = {}): Call[] => Array.from({ length: count }, () => call)
const countOf = (...steps: (Call | EventBody)[]): number | undefined => newestRepeats(session(steps))?.count

/** The results that tell the model about repetitions, by their position. */
function notedIn(transcript: Transcript): number[] {
  const results = messagesFor(transcript).flatMap(({ content }) =>
    typeof content === 'string' ? [] : content.filter(({ type }) => type === 'tool_result'),
  )
  return results.flatMap((result, index) => (JSON.stringify(result).includes('times in a row') ? [index + 1] : []))
}

describe('repeated calls', () => {
  it('repeated calls are equal calls in a row, each with an equal result', () => {
    expect(countOf(...times(3))).toBe(3)
    expect(countOf(...times(3), { tool: 'other' }, ...times(2))).toBe(2)
    expect(countOf(...times(3), { input: { what: 'else' } }, {})).toBe(1)
    expect(countOf(...times(3), { value: 'news' })).toBe(1)
    expect(countOf(...times(3), { error: 'nothing new' })).toBe(1)
    expect(countOf(...times(4, { error: 'no' }))).toBe(4)
  })

  it('repeated calls are equal regardless of the order of their arguments', () => {
    expect(countOf({ input: { a: 1, b: [{ c: 2, d: null }] } }, { input: { b: [{ d: null, c: 2 }], a: 1 } })).toBe(2)
    expect(countOf({ input: { a: [] } }, { input: { a: {} } })).toBe(1)
    expect(countOf({ input: { a: [1, 2] } }, { input: { a: [2, 1] } })).toBe(1)
  })

  it('the count of repeated calls starts over after a message of the user and after a recovery', () => {
    const said: EventBody[] = [
      { type: 'message_received', messageId: 'm2', content: 'look again' },
      { type: 'turn_started', run: 1, turn: 9, takes: ['m2'] },
    ]
    expect(countOf(...times(3), ...said, ...times(2))).toBe(2)
    const recovered = { type: 'recovery_started', run: 1, attempt: 1, strategy: 'continue_run', by: 'ann' } as unknown as EventBody
    expect(countOf(...times(3), recovered)).toBeUndefined()
    expect(countOf(...times(3), recovered, ...times(2))).toBe(2)
  })

  it('repeated calls get a note in each result from the twentieth on, which says how many there were', () => {
    expect(notedIn(session(times(19)))).toEqual([])
    const transcript = session([...times(21), { value: 'news' }])
    expect(notedIn(transcript)).toEqual([20, 21])
    expect(JSON.stringify(messagesFor(transcript))).toContain(
      'nothing new\\n\\n[From the system, not from the user: you have made this call 20 times in a row, and its result was the same each time.',
    )
  })

  it('repeated calls keep their notes, and results that were sent before never change', () => {
    const before = messagesFor(session(times(22)))
    const after = messagesFor(session([...times(22), { value: 'news' }, ...times(3)]))
    expect(after.slice(0, before.length)).toEqual(before)
  })

  it('repeated calls have the same notes in any part of the conversation', () => {
    // Long rows, short ones, and a user's message now and then.
    const step = fc.oneof(
      { weight: 6, arbitrary: fc.integer({ min: 1, max: 90 }).map((count) => times(count)) },
      { weight: 3, arbitrary: fc.constantFrom('news', 'more news').map((value) => [{ value }]) },
      { weight: 1, arbitrary: fc.constant('say' as const) },
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 6 }), fc.nat(), fc.nat(), (steps, from, to) => {
        const said = (id: string): EventBody[] => [
          { type: 'message_received', messageId: id, content: 'go on' },
          { type: 'turn_started', run: 1, turn: 999, takes: [id] },
        ]
        const transcript = session(steps.flatMap((one, index): (Call | EventBody)[] => (one === 'say' ? said(`more-${index}`) : one)))
        const all = messagesFor(transcript)
        const [first = 0, last] = [from % all.length, to % all.length].toSorted((a, b) => a - b)
        expect(messagesBetween(transcript, first, last)).toEqual(all.slice(first, last))
        const values = steps.flatMap((one) => (one === 'say' ? [one] : one.map(({ value = 'nothing new' }: Call) => value)))
        const others = values.findLastIndex((value) => value !== values.at(-1))
        expect(newestRepeats(transcript)?.count).toBe(
          values.length === 0 || values.at(-1) === 'say' ? undefined : values.length - 1 - others,
        )
      }),
      { numRuns: size(100, 1_000), seed },
    )
  })

  it('a request of a long conversation is built from its newest messages, and so is the next piece of a compaction', () => {
    const TURNS = 2_000
    const transcript = session(Array.from({ length: TURNS }, (_, turn) => ({ input: { turn }, value: `result ${turn}` })))
    let read = 0
    const { messages } = transcript
    transcript.messages = new Proxy(messages, {
      get(target, name): unknown {
        if (typeof name === 'string' && /^\d+$/.test(name)) read++
        return Reflect.get(target, name)
      },
    })
    const from = messages.length - 21
    expect(messagesBetween(transcript, from)).toHaveLength(21)
    expect(newestRepeats(transcript)?.count).toBe(1)
    expect(read).toBeLessThan(200)
    read = 0
    expect(pieceEnd(transcript, messages.length, 1e9)).toBe(messages.length)
    expect(read).toBeLessThan(40 * TURNS)
  })

  it('repeated calls whose results are blocks get the note as the last block', () => {
    const blocks = [{ type: 'text', text: 'nothing' }]
    const last = messagesFor(session(times(20, { value: blocks }))).at(-1)
    expect(last?.content).toMatchObject([{ content: [...blocks, { type: 'text', text: expect.stringContaining('20 times') }] }])
  })
})
