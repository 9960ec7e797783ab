// Memory: what the memory tools change and refuse, why appended text never appears twice, and what going back does to the versions.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { defineAgent } from '../../../src/agent/define-agent.ts'
import { memoryDefinitions } from '../../../src/agent/memory-tools.ts'
import { defined } from '../../../src/session/defined.ts'
import type { EventOf, SessionEvent } from '../../../src/session/events.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import { type Json, jsonBytes } from '../../../src/session/json.ts'
import {
  bytesOfMemory,
  contentOf,
  type Memory,
  MEMORY_BYTES,
  memoryBlocks,
  type MemoryLimit,
  type MemoryState,
} from '../../../src/session/built-in-tools/memory.ts'
import { MEMORY } from '../../../src/session/built-in-tools/kept.ts'
import { answerOnMemory, MEMORY_TOOLS } from '../../../src/session/built-in-tools/memory-tools.ts'
import { keptBeforeRun } from '../../../src/session/recovery/kept.ts'
import type { SessionState } from '../../../src/session/state.ts'
import { addToTranscript } from '../../../src/session/transcript/adding.ts'
import { emptyTranscript } from '../../../src/session/transcript/transcript.ts'
import { BLOCKS, eventfulSessions, FIXED_SESSIONS, metInSessions } from './sound-session.ts'
import { size } from '../../support/sizes.ts'
import { memoryVersions } from '../../support/past.ts'

const LIMITS: readonly MemoryLimit[] = [
  { block: 'customer', maxChars: 100 },
  { block: 'notes', maxChars: 60 },
]

/** Plays calls one after another. Returns the answer to each, and the memory after them. */
function playing(calls: readonly (readonly [tool: string, input: Json])[], { limits = LIMITS, room = MEMORY_BYTES } = {}) {
  let state: MemoryState | undefined
  const answers = calls.map(([tool, input]) => {
    const answer = answerOnMemory(tool, input, state, { limits, room })
    if ('problem' in answer) return answer.problem
    if (answer.change) state = MEMORY.afterChange(state, (state?.version ?? 0) + 1, answer.change)
    return answer.value
  })
  return { answers, last: answers.at(-1), state, memory: state?.current ?? null, text: contentOf(state?.current, 'customer') }
}

const append = (content: Json, block = 'customer') => ['memory_append', { block, content }] as const
const replace = (content: string, old?: string) => ['memory_replace', { block: 'customer', content, ...defined({ old }) }] as const

describe('memory_append', () => {
  it('memory_append adds trimmed text on a line of its own', () => {
    const { text, answers, state } = playing([append('  Lives in Bonn.\n'), append('Likes tea.')])
    expect(text).toBe('Lives in Bonn.\nLikes tea.')
    expect(answers).toEqual([
      { status: 'success', block: 'customer', chars: 14, maxChars: 100 },
      { status: 'success', block: 'customer', chars: 25, maxChars: 100 },
    ])
    expect(state?.version).toBe(2)
  })

  it('memory_append does not add text that the block already ends with', () => {
    const { text, last, state } = playing([append('Lives in Bonn.'), append('Likes tea.'), append(' Likes tea. ')])
    expect(last).toEqual({ status: 'already_present', block: 'customer', chars: 25, maxChars: 100 })
    expect([text, state?.version]).toEqual(['Lives in Bonn.\nLikes tea.', 2])
  })

  it('memory_append adds only the rest of a text if the block already ends with its beginning', () => {
    const { text, last, state } = playing([append('Grüßt gern: drinks tea, no'), append('Grüßt gern: drinks tea, no sugar.')])
    expect(text).toBe('Grüßt gern: drinks tea, no sugar.')
    // 26 characters, two of which have two bytes.
    expect(last).toEqual({ status: 'resumed_partial', skippedBytes: 28, block: 'customer', chars: 33, maxChars: 100 })
    expect(state?.version).toBe(2)
  })

  it('memory_append matches the longest such beginning, if it has at least 20 characters', () => {
    const twenty = 'abcdefghijklmnopqrst'
    expect(playing([append(`x${twenty}`), append(`${twenty}!`)])).toMatchObject({
      text: `x${twenty}!`,
      last: { status: 'resumed_partial', skippedBytes: 20 },
    })
    const nineteen = twenty.slice(1)
    expect(playing([append(`x${nineteen}`), append(`${nineteen}!`)])).toMatchObject({
      text: `x${nineteen}\n${nineteen}!`,
      last: { status: 'success' },
    })
    const repeated = 'ab'.repeat(15)
    expect(playing([append(repeated), append(`${repeated}abc`)])).toMatchObject({ text: `${repeated}abc`, last: { skippedBytes: 30 } })
  })

  it('memory_append finds the longest overlap between the end of any block and the beginning of a text', () => {
    const letters = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 60 })
    let found = 0
    fc.assert(
      fc.property(letters, letters, (before, text) => {
        const limits = [{ block: 'customer', maxChars: 1_000 }]
        const { text: after, last } = playing(before === '' ? [append(text)] : [append(before), append(text)], { limits })
        const longest = Array.from({ length: text.length }, (_, n) => text.length - n).find((n) => before.endsWith(text.slice(0, n))) ?? 0
        if (text === '') expect(last).toMatchObject({ code: 'invalid_arguments' })
        else if (longest === text.length) expect([last, after]).toMatchObject([{ status: 'already_present' }, before])
        else if (longest >= 20) expect([last, after]).toMatchObject([{ skippedBytes: longest }, before + text.slice(longest)])
        else expect(after).toBe(before === '' ? text : `${before}\n${text}`)
        if (longest >= 20) found += 1
      }),
      { numRuns: 2_000, examples: [['ab'.repeat(20), 'ab'.repeat(25)]] },
    )
    expect(found).toBeGreaterThan(0)
  })

  it('memory_append results in the same text however often a call is repeated, and wherever its text was cut', () => {
    const words = fc.string({ minLength: 21, maxLength: 60 }).filter((text) => text.trim().length > 20)
    fc.assert(
      fc.property(words, fc.nat(), (given, at) => {
        const whole = given.trim()
        const cut = whole.slice(0, 20 + (at % (whole.length - 20)))
        expect(playing([append(whole), append(whole)]).text).toBe(whole)
        // Trimming may leave less text than an overlap needs.
        if (cut.trim().length >= 20) expect(playing([append(cut), append(whole), append(whole)]).text).toBe(whole)
      }),
    )
  })
})

describe('memory_replace', () => {
  it('memory_replace replaces a block, or the one part of it that is named', () => {
    expect(playing([append('Lives in Bonn.'), replace(' Lives in Rome. ')]).text).toBe('Lives in Rome.')
    const { text, last } = playing([append('Lives in Bonn.'), append('Likes tea.'), replace('$& coffee', 'tea')])
    expect(text).toBe('Lives in Bonn.\nLikes $& coffee.')
    expect(last).toEqual({ status: 'success', block: 'customer', chars: 31, maxChars: 100 })
  })

  it('memory_replace can empty a block, which is then no longer kept', () => {
    const { memory, last } = playing([append('Lives in Bonn.'), append('a note', 'notes'), replace('')])
    expect(memory).toEqual({ version: 3, blocks: [{ block: 'notes', content: 'a note' }] })
    expect(last).toMatchObject({ status: 'success', chars: 0 })
  })

  it('memory_replace makes no version if nothing changes', () => {
    const same = playing([append('Likes tea.'), replace('Likes tea.'), replace('tea', 'tea')])
    expect(same.answers.slice(1)).toMatchObject([{ status: 'already_present' }, { status: 'already_present' }])
    expect(same.state?.version).toBe(1)
  })

  it('memory_replace refuses a part that the block does not have, or has more than once', () => {
    expect(playing([append('Likes tea.'), replace('coffee', 'milk')]).last).toEqual({
      code: 'text_not_found',
      message: 'Block "customer" does not contain the text of `old`: use text that it has, or leave `old` out.',
    })
    expect(playing([append('aaa'), replace('b', 'aa')]).last).toMatchObject({ code: 'text_ambiguous' })
  })
})

describe('calls of the memory tools', () => {
  it('calls of the memory tools are refused if a block would exceed its limit, with advice on what to do', () => {
    const { last, memory } = playing([append('n'.repeat(50), 'notes'), append('m'.repeat(10), 'notes')])
    expect(last).toEqual({
      code: 'memory_full',
      message:
        'Block "notes" would have 61 characters, and the limit is 60: it has 50 now. Write less, or shorten the block first with memory_replace.',
    })
    expect(memory?.version).toBe(1)
    expect(playing([append('n'.repeat(60), 'notes')]).last).toMatchObject({ status: 'success', chars: 60 })
    expect(playing([append('Likes tea.')], { room: 20 }).last).toMatchObject({
      code: 'memory_full',
      message: expect.stringContaining('20'),
    })
  })

  it('calls of the memory tools may shorten a block that exceeds its limit because the limit was lowered', () => {
    const state = MEMORY.afterChange(undefined, 1, { do: 'append', block: 'notes', text: 'n'.repeat(90) })
    const bounds = { limits: LIMITS, room: MEMORY_BYTES }
    const shorter = answerOnMemory('memory_replace', { block: 'notes', content: 'n'.repeat(70) }, state, bounds)
    expect(shorter).toMatchObject({ value: { status: 'success', chars: 70, maxChars: 60 } })
    expect(answerOnMemory('memory_append', { block: 'notes', content: 'more' }, state, bounds)).toMatchObject({
      problem: { code: 'memory_full' },
    })
  })

  const refused: [string, Json][] = [
    ['memory_append', 'not JSON'],
    ['memory_append', null],
    ['memory_append', []],
    ['memory_append', { content: 'text' }],
    ['memory_append', { block: 7, content: 'text' }],
    ['memory_append', { block: 'notes' }],
    ['memory_append', { block: 'notes', content: 7 }],
    ['memory_append', { block: 'notes', content: ' \n' }],
    ['memory_replace', { block: 'notes' }],
    ['memory_replace', { block: 'notes', content: '', old: 7 }],
  ]
  it.each(refused)('calls of the memory tools of %s are refused if their arguments are invalid: %j', (tool, input) => {
    expect(playing([[tool, input]])).toMatchObject({
      last: { code: 'invalid_arguments', message: expect.stringMatching(/must be/) },
      memory: null,
    })
  })

  it('calls of the memory tools are refused for a block that the agent does not declare', () => {
    for (const block of ['other', 'constructor', '__proto__', '']) {
      expect(playing([append('text', block)]).last).toEqual({
        code: 'unknown_block',
        message: 'The memory has no block of that name. Its blocks are: customer, notes.',
      })
    }
    expect(playing([append('text')], { limits: [] }).last).toMatchObject({ message: expect.stringContaining('none') })
  })

  it('calls of the memory tools may have any arguments: the answer is a result or an error, and no limit is exceeded', () => {
    const anyInput = fc.oneof(
      fc.jsonValue(),
      fc.record({ block: fc.constantFrom('customer', 'notes'), content: fc.string({ maxLength: 120, unit: 'binary' }) }),
    )
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.constantFrom(...MEMORY_TOOLS), anyInput), { maxLength: 6 }), (calls) => {
        const { answers, memory } = playing(calls as [string, Json][])
        for (const answer of answers) expect(jsonBytes(answer)).toBeLessThan(1_000)
        for (const { block, maxChars } of LIMITS) expect(contentOf(memory, block).length).toBeLessThanOrEqual(maxChars)
        if (memory) expect(bytesOfMemory(memory)).toBeGreaterThanOrEqual(jsonBytes(memory))
      }),
    )
  })

  it('calls of the memory tools are described to the model with the blocks and their limits', () => {
    const [first, second] = memoryDefinitions(LIMITS)
    expect([first?.name, second?.name]).toEqual(MEMORY_TOOLS)
    expect(first?.description).toContain('Blocks: customer (at most 100 characters), notes (at most 60 characters).')
    expect(first?.input_schema).toMatchObject({ properties: { block: { enum: ['customer', 'notes'] } }, required: ['block', 'content'] })
    expect(second?.input_schema).toMatchObject({ required: ['block', 'content'] })
  })
})

describe('in any session, the memory', () => {
  const RUNS = { numRuns: size(50, 150) }

  it('the memory of any session is the result of the calls that the model sees', () => {
    const compared = metInSessions(({ events }) => {
      let met = 0
      let state: SessionState | undefined
      const transcript = emptyTranscript()
      for (const event of events) {
        state = fold(state, [event])
        addToTranscript(transcript, event)
        if (transcript.open) continue
        const seen = memorySeenIn(transcript.messages)
        expect(state?.memory?.current?.blocks ?? []).toEqual(seen?.blocks ?? [])
        if (seen) met += 1
      }
      return met
    })
    expect(compared).toBeGreaterThan(FIXED_SESSIONS)
  })

  it('in any session, the memory returns to what it was at the point to which the session goes back', () => {
    const restored = metInSessions(({ events }) => {
      let met = 0
      for (const [index, event] of events.entries()) {
        const before = events.slice(0, index)
        const now = MEMORY.at(events.slice(0, index + 1), event.seq)
        if (event.type === 'rolled_back') expect(now).toEqual(MEMORY.at(before, event.toSeq))
        if (event.type === 'recovery_started' && (event.strategy === 'abandon' || event.strategy === 'restart_run') && event.run) {
          expect(now).toEqual((keptBeforeRun(before, event.run) ?? { memory: now }).memory)
        }
        if ('restored' in event && event.restored?.memory !== undefined) met += 1
      }
      return met
    })
    expect(restored).toBeGreaterThan(0)
  })

  it('the versions of any session’s memory only increase, and the newest one that is not archived is current', () => {
    fc.assert(
      fc.property(eventfulSessions, ({ events, state }) => {
        const from = events.findLastIndex(({ type }) => type === 'session_started')
        const versions = memoryVersions(events.slice(from))
        expect(versions.map(({ version }) => version)).toEqual(versions.map((_, index) => index + 1))
        const current = versions.findLast(({ archivedSeq }) => archivedSeq === undefined)
        expect(current?.version).toBe(state.memory?.current?.version)
        expect(state.memory?.version ?? 0).toBe(versions.length)
        expect(current?.blocks).toEqual(state.memory?.current?.blocks)
      }),
      RUNS,
    )
  })
})

/** The memory that results from the calls in a transcript. */
function memorySeenIn(messages: ReturnType<typeof emptyTranscript>['messages']): Memory | null {
  const blocks = messages.flatMap(({ content }) => (typeof content === 'string' ? [] : content))
  const failed = new Set(blocks.flatMap((block) => (block.type === 'tool_result' && block.is_error ? [block.tool_use_id] : [])))
  const calls = blocks.flatMap((block) => (block.type === 'tool_use' && !failed.has(block.id) ? [[block.name, block.input] as const] : []))
  return playing(
    calls.filter(([name]) => (MEMORY_TOOLS as readonly string[]).includes(name)),
    { limits: BLOCKS },
  ).memory
}

describe('the versions of a memory', () => {
  const at = (seq: number) => ({ v: 1 as const, seq, at: seq * 1_000 })
  const made = (seq: number, version: number, change: EventOf<'memory_changed'>['change']): SessionEvent => ({
    ...at(seq),
    type: 'memory_changed',
    run: 1,
    turn: seq,
    callId: `t_1_${seq}_0`,
    tool: 'memory_append',
    version,
    change,
  })

  it('the versions of a memory are kept when the session goes back, and their numbers are never reused', () => {
    const first = made(1, 1, { do: 'append', block: 'notes', text: 'one' })
    const second = made(2, 2, { do: 'append', block: 'notes', text: '\ntwo' })
    const back: SessionEvent = {
      ...at(3),
      type: 'rolled_back',
      toSeq: 1,
      upToSeq: 2,
      effects: [],
      restored: { memory: MEMORY.at([first], 1) },
    }
    const third = made(4, 3, { do: 'replace', block: 'notes', content: 'three', old: 'one' })
    expect(memoryVersions([first, second, back, third])).toMatchObject([
      { version: 1, blocks: [{ content: 'one' }] },
      { version: 2, archivedSeq: 3, blocks: [{ content: 'one\ntwo' }] },
      { version: 3, blocks: [{ content: 'three' }], at: 4_000, run: 1, turn: 4 },
    ])
  })
})

it('blocks are listed in the order in which the agent declares them, then those that it no longer declares', () => {
  const { memory } = playing([append('a note', 'notes'), append('Likes tea.')])
  expect(memoryBlocks(memory, [{ block: 'new', maxChars: 5 }, ...LIMITS.slice(0, 1)])).toEqual([
    { block: 'new', content: '', maxChars: 5 },
    { block: 'customer', content: 'Likes tea.', maxChars: 100 },
    { block: 'notes', content: 'a note' },
  ])
  expect(memoryBlocks(undefined)).toEqual([])
})

describe('the memory option of an agent', () => {
  const declared = (memory: unknown) => defineAgent({ name: 'a', instructions: '', model: 'claude', memory: memory as [] }).memory
  const many = (count: number, maxChars: number) => Array.from({ length: count }, (_, n) => ({ block: `b${n}`, maxChars }))

  it('the memory option of an agent declares blocks within the bounds', () => {
    expect(declared(LIMITS)).toEqual(LIMITS)
    expect(declared(undefined)).toEqual([])
    expect(declared(many(20, 1_500))).toHaveLength(20)
  })

  it('the memory option of an agent is refused if two blocks have the same name', () => {
    expect(() => declared([...LIMITS, { block: 'notes', maxChars: 5 }])).toThrow(
      expect.objectContaining({ code: 'duplicate_block', message: 'Agent "a" has two blocks of memory named "notes". Rename one.' }),
    )
  })

  it('the memory option of an agent is refused if it is anything else', () => {
    const wrong = [
      'notes',
      { block: 'notes', maxChars: 5 },
      [{ block: 'notes' }],
      [{ block: 'two words', maxChars: 5 }],
      [{ block: '', maxChars: 5 }],
      [{ block: 'notes', maxChars: 0 }],
      [{ block: 'notes', maxChars: 1.5 }],
      [{ block: 'notes', maxChars: 5, maxBytes: 5 }],
      [null],
      many(21, 1),
      many(20, 1_501),
    ]
    for (const memory of wrong) expect(() => declared(memory)).toThrow(expect.objectContaining({ code: 'invalid_agent' }))
  })
})
