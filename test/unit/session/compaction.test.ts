// Compaction: which messages a summary replaces, what stays, and when.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { bytesOfRequest, chooseCut, isDue, mayForce, pieceEnd, requestTokens } from '../../../src/session/transcript/compaction.ts'
import type { ContentBlock, Message, UserBlock } from '../../../src/session/content.ts'
import { NO_USAGE } from '../../../src/session/content.ts'
import { defined } from '../../../src/session/defined.ts'
import type { Json } from '../../../src/session/json.ts'
import { pdfBlock, textDocument } from '../../support/documents.ts'
import type { EventBody, EventOf, SessionEvent } from '../../../src/session/events.ts'
import { cutMiddle } from '../../../src/session/transcript/measure.ts'
import { messagesBetween, messagesFor, sentFrom } from '../../../src/session/transcript/model-messages.ts'
import { addToTranscript } from '../../../src/session/transcript/adding.ts'
import { emptyTranscript, type Transcript } from '../../../src/session/transcript/transcript.ts'
import { wireMessages } from '../../../src/models/anthropic-messages.ts'
import { anthropicImages } from '../../../src/models/image-limits.ts'
import { metInSessions } from './sound-session.ts'
import { sessionStarted } from '../../support/session-started.ts'

const RESOLUTION = {
  inputDigest: 'd',
  schemaDigest: 's',
  timeoutMs: 1,
  retry: { maxRetries: 0, baseDelayMs: 0 },
  verify: false,
} as const

/** Builds a conversation turn by turn. */
function conversation() {
  const events: SessionEvent[] = []
  let run = 0
  let turn = 0
  const add = (body: EventBody): number => {
    const seq = events.length + 1
    events.push({ v: 1, seq, at: seq, ...body } as SessionEvent)
    return seq
  }
  add(sessionStarted())
  const begin = (...takes: string[]): void => {
    turn += 1
    add({ type: 'turn_started', run, turn, takes })
  }
  const answer = (content: EventOf<'model_completed'>['content'], tokens = 0): void => {
    const calls = content.flatMap((block) => (block.type === 'tool_use' ? [block.name] : []))
    add({
      type: 'model_completed',
      run,
      turn,
      attempt: 1,
      model: 'm',
      content,
      stopReason: calls.length > 0 ? 'tool_use' : 'end_turn',
      usage: { ...NO_USAGE, input_tokens: tokens, cache_read_input_tokens: tokens, output_tokens: tokens > 0 ? 1 : 0 },
      calls: calls.map((tool, index) => ({ ...RESOLUTION, index, tool, effect: tool === 'pay' ? 'external' : 'read' })),
    })
  }
  return {
    events,
    run(text: string | UserBlock[], messageId = `m${events.length}`): void {
      add({ type: 'message_received', messageId, content: text })
      run += 1
      turn = 0
      add({ type: 'run_started', run, messageId })
      begin(messageId)
    },
    /** A turn in which a tool is called. */
    call(tool: 'look' | 'pay', result: string | UserBlock[], about: { input?: string; effectId?: string; tokens?: number } = {}): void {
      const input = { what: about.input ?? tool }
      answer([{ type: 'tool_use', id: 'x', name: tool, input }], about.tokens)
      const callId = `t_${run}_${turn}_0`
      const where = { run, turn, callId, tool }
      add({ type: 'tool_issued', ...where, index: 0, effect: tool === 'pay' ? 'external' : 'read', input, inputDigest: 'd' })
      const { effectId } = about
      add({ type: 'tool_completed', ...where, attempt: 1, value: result as Json, ...defined({ effectId }) })
      begin()
    },
    say(text: string, tokens = 0): void {
      answer([{ type: 'text', text }], tokens)
      add({ type: 'run_completed', run, turns: turn, stopReason: 'end_turn', usage: NO_USAGE })
    },
    compact(keepTurns: number, about: Partial<EventOf<'compacted'>> = {}): number {
      const before = fold(events)
      const to = chooseCut(before, keepTurns)?.to ?? sentFrom(before)
      return add({
        type: 'compacted',
        run,
        turn,
        attempt: 1,
        upToSeq: before.seqs[to - 1] ?? 0,
        summary: `summary ${events.length}`,
        messages: to,
        tokens: 900,
        window: 100_000,
        ...about,
      })
    },
    add,
    fold: () => fold(events),
    seq: () => events.length,
  }
}

function fold(events: readonly SessionEvent[]): Transcript {
  const transcript = emptyTranscript()
  for (const event of events) addToTranscript(transcript, event)
  return transcript
}

const textsOf = (messages: readonly Message[]): string[] =>
  messages.flatMap(({ role, content }) =>
    (typeof content === 'string' ? [{ type: 'text', text: content } as ContentBlock] : content).map((block) => {
      if (block.type === 'text') return `${role}: ${block.text}`
      return block.type === 'tool_use'
        ? `call ${block.id}`
        : block.type === 'tool_result'
          ? `result ${JSON.stringify(block.content)}`
          : block.type
    }),
  )

const headIn = (transcript: Transcript): string => textsOf(messagesFor(transcript).slice(0, 1)).join('\n')

describe('a compacted conversation', () => {
  it('a compacted conversation begins with its opening messages, effects and summary; the newest turns stay', () => {
    const talk = conversation()
    talk.run('I want my money back')
    talk.call('pay', 'paid 500', { input: 'order 1', effectId: 're_1' })
    talk.say('done')
    talk.run('and now the weather')
    for (let n = 1; n <= 4; n++) talk.call('look', `sky ${n}`)
    talk.compact(2, { summary: 'He got his money.' })
    const [head = '', ...kept] = textsOf(messagesFor(talk.fold()).slice(0, 1)).concat(textsOf(messagesFor(talk.fold()).slice(1)))
    expect(head).toBe('user: I want my money back')
    expect(kept[0]).toBe('user: and now the weather')
    expect(kept[1]).toContain('- pay {"what":"order 1"} (t_1_1_0, effect id re_1)')
    expect(kept[1]).not.toContain('look')
    expect(kept[1]).toMatch(/He got his money\.$/)
    expect(kept.slice(2)).toEqual(['call t_2_3_0', 'result "sky 3"', 'call t_2_4_0', 'result "sky 4"'])
  })

  it('a compacted conversation keeps an opening message where it is if its turn stays', () => {
    const talk = conversation()
    talk.run('first')
    for (let n = 1; n <= 3; n++) talk.call('look', `sky ${n}`)
    talk.say('fine')
    talk.run('second')
    talk.call('look', 'sky 4')
    talk.compact(1)
    const texts = textsOf(messagesFor(talk.fold()))
    expect(texts.filter((text) => text === 'user: second')).toHaveLength(1)
    expect(texts.indexOf('user: second')).toBeGreaterThan(1)
  })

  it('a compacted conversation is compacted again from its summary, which the new one replaces', () => {
    const talk = conversation()
    talk.run('go')
    for (let n = 1; n <= 4; n++) talk.call('look', `sky ${n}`)
    talk.compact(2, { summary: 'one' })
    for (let n = 5; n <= 8; n++) talk.call('look', `sky ${n}`)
    const transcript = talk.fold()
    const piece = messagesBetween(transcript, sentFrom(transcript), chooseCut(transcript, 2)?.to)
    expect(textsOf(piece).filter((text) => text.startsWith('result'))).toEqual([3, 4, 5, 6].map((n) => `result "sky ${n}"`))
    talk.compact(2, { summary: 'two' })
    expect(headIn(talk.fold())).toMatch(/two$/)
    expect(headIn(talk.fold())).not.toContain('one\n')
  })

  it('a compacted conversation lists effects, even if their outcome was found later, and counts those that do not fit', () => {
    const talk = conversation()
    talk.run('go')
    for (let n = 1; n <= 400; n++) talk.call('pay', `paid ${n}`, { input: `order ${n}`, effectId: `re_${n}` })
    talk.compact(2)
    const head = headIn(talk.fold())
    expect(head).toContain('re_398')
    expect(head).not.toContain('re_399')
    const others = Number(/and (\d+) earlier ones: (\d+) of pay/.exec(head)?.[1])
    const listed = head.match(/effect id/g)?.length ?? 0
    expect(others + listed).toBe(398)
    expect(head.length).toBeLessThan(17_500)
    talk.add({ type: 'tool_unknown', run: 1, turn: 3, callId: 't_1_3_0', tool: 'pay', attempt: 1, message: 'lost' })
    expect(headIn(talk.fold())).toMatch(/It is unknown whether[^]*t_1_3_0/)
  })

  it('a compacted conversation shortens results before the compaction to the given size, and leaves later ones whole', () => {
    const talk = conversation()
    talk.run('go')
    talk.call('look', 'x'.repeat(5_000))
    talk.compact(1, { upToSeq: 0, summary: '', resultBytes: 500 })
    talk.call('look', 'y'.repeat(5_000))
    const [first = '', second = ''] = textsOf(messagesFor(talk.fold())).filter((text) => text.startsWith('result'))
    expect(first).toMatch(/^result "x+.*4500 bytes left out.*x+"$/)
    expect(first.length).toBeLessThan(520)
    expect(second.length).toBeGreaterThan(5_000)
    expect(textsOf(messagesFor(talk.fold()))[0]).toBe('user: go')
  })

  it('a rollback to a point before a compaction restores the whole conversation, and one to a later point keeps the summary', () => {
    const talk = conversation()
    talk.run('go')
    for (let n = 1; n <= 5; n++) talk.call('look', `sky ${n}`)
    const before = talk.seq()
    const whole = messagesFor(talk.fold())
    const at = talk.compact(2)
    const compacted = messagesFor(talk.fold())
    talk.call('look', 'sky 6')
    const back = (toSeq: number): Message[] =>
      messagesFor(
        fold([...talk.events, { v: 1, seq: talk.seq() + 1, at: 1, type: 'rolled_back', toSeq, upToSeq: talk.seq(), effects: [] }]),
      )
    expect(back(before)).toEqual(whole)
    expect(back(at)).toEqual(compacted)
  })

  it('a summary survives a restart of its run only if it covers what came before the run', () => {
    const talk = conversation()
    talk.run('first')
    for (let n = 1; n <= 5; n++) talk.call('look', `sky ${n}`)
    talk.say('fine')
    talk.run('second')
    talk.compact(1)
    talk.call('look', 'sky 6')
    const restarted = (): Transcript =>
      fold([...talk.events, { v: 1, seq: talk.seq() + 1, at: 1, type: 'recovery_started', run: 2, strategy: 'restart_run' }])
    expect(restarted().compactions).toHaveLength(1)
    for (let n = 7; n <= 9; n++) talk.call('look', `sky ${n}`)
    talk.compact(1)
    expect(restarted().compactions).toHaveLength(1)
    expect(talk.fold().compactions).toHaveLength(2)
  })
})

describe('the documents of a compacted conversation', () => {
  const titles = (message: Message | undefined): (string | undefined)[] =>
    typeof message?.content === 'string'
      ? []
      : (message?.content ?? []).flatMap((block) => (block.type === 'document' ? [block.title] : []))
  /** A conversation whose first messages have documents; the newest turns are about the weather. */
  function talkWithDocuments() {
    const talk = conversation()
    talk.run([{ type: 'text', text: 'Compare these.' }, textDocument('one', 'one.txt')])
    talk.say('One is fine.')
    talk.run([{ type: 'text', text: 'And these?' }, textDocument('two', 'two.txt'), textDocument('three', 'three.txt')])
    talk.call('look', [pdfBlock({ title: 'found.pdf' })])
    talk.say('Two and three are fine.')
    talk.run('And the weather?')
    for (let n = 1; n <= 4; n++) talk.call('look', `sky ${n}`)
    talk.compact(2)
    return talk
  }

  it('documents that the model no longer sees after a compaction are named, including those of tools', () => {
    const transcript = talkWithDocuments().fold()
    expect(titles(messagesFor(transcript)[0])).toEqual(['one.txt'])
    const head = headIn(transcript)
    for (const title of ['two.txt', 'three.txt', 'found.pdf']) expect(head).toContain(`- [document "${title}"`)
    expect(head).not.toContain('- [document "one.txt"')
  })

  it('a document of a compacted conversation is shown again once a message names it, in any case', () => {
    const talk = talkWithDocuments()
    talk.say('It rains.')
    talk.run('What does TWO.TXT say about it, and found.pdf?')
    const transcript = talk.fold()
    expect(titles(messagesFor(transcript)[0])).toEqual(['one.txt', 'two.txt', 'found.pdf'])
    expect(headIn(transcript)).toContain('- [document "three.txt"')
    expect(headIn(transcript)).not.toContain('- [document "two.txt"')
  })

  it('the documents of a compacted conversation fill at most half of the window; those of the task come first', () => {
    const talk = conversation()
    talk.run([{ type: 'text', text: 'Read this.' }, textDocument('a '.repeat(6_000), 'first.txt')])
    talk.say('I did.')
    talk.run([{ type: 'text', text: 'And this.' }, textDocument('b '.repeat(6_000), 'task.txt')])
    for (let n = 1; n <= 4; n++) talk.call('look', `sky ${n}`)
    talk.compact(2, { window: 10_000 })
    const [head] = messagesFor(talk.fold())
    expect(titles(head)).toEqual(['task.txt'])
    expect(textsOf(head ? [head] : [])).toContain('user: [document "first.txt", text, 12 KB]')
  })

  it('after a compaction, the model sees the newest of several documents with the same name', () => {
    const talk = conversation()
    talk.run('Hello.')
    talk.say('Hello.')
    for (const text of ['old', 'new']) {
      talk.run([{ type: 'text', text: 'Here.' }, textDocument(text, 'plan.txt')])
      talk.say('Thanks.')
    }
    talk.run('And the weather?')
    for (let n = 1; n <= 4; n++) talk.call('look', `plan.txt ${n}`, { input: 'plan.txt' })
    talk.compact(2)
    expect(JSON.stringify(messagesFor(talk.fold())[0])).toContain('"data":"new"')
    expect(JSON.stringify(messagesFor(talk.fold())[0])).not.toContain('"data":"old"')
  })
})

describe('the size of a request', () => {
  it('the size of a request is the usage of the newest answer, plus one token for every three bytes since', () => {
    const talk = conversation()
    talk.run('go')
    talk.call('look', 'x'.repeat(3_000), { tokens: 10_000 })
    expect(requestTokens(talk.fold(), () => 999_999)).toBe(20_001 + 1_000)
  })

  it('the size of a request is estimated from all bytes if nothing was measured or the measured part was replaced', () => {
    const talk = conversation()
    talk.run('go')
    talk.call('look', 'x'.repeat(3_000))
    const transcript = talk.fold()
    expect(requestTokens(transcript, () => 300)).toBe(Math.ceil(bytesOfRequest(transcript, 300) / 3))
    const measured = conversation()
    measured.run('go')
    for (let n = 0; n < 4; n++) measured.call('look', 'x'.repeat(3_000), { tokens: 10_000 })
    measured.compact(1)
    expect(requestTokens(measured.fold(), () => 0)).toBeLessThan(2_000)
  })

  it('the size of a request counts an image by its tokens, not by its bytes', () => {
    const transcript = emptyTranscript()
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'A'.repeat(1_000_000) } } as const
    transcript.messages.push({ role: 'user', content: [image] })
    transcript.seqs.push(1)
    expect(requestTokens(transcript, () => 0)).toBe(1_600)
  })
})

describe('a compaction', () => {
  const policy = { at: 0.8, keepTurns: 2 }
  const long = () => {
    const talk = conversation()
    talk.run('go')
    for (let n = 1; n <= 6; n++) talk.call('look', 'x'.repeat(3_000))
    return talk
  }
  const at = (tokens: number) => ({ run: 1, turn: 7, tokens, window: 10_000 })

  it('a compaction is due from a share of the window on, if enough can be cut', () => {
    const transcript = long().fold()
    expect(isDue(transcript, policy, at(7_999))).toBe(false)
    expect(isDue(transcript, policy, at(8_000))).toBe(true)
    expect(isDue(transcript, { ...policy, keepTurns: 6 }, at(8_000))).toBe(false)
    expect(isDue(transcript, policy, { ...at(80_000), window: 100_000 })).toBe(false)
  })

  it('a compaction is due at most once in a turn', () => {
    const talk = long()
    talk.compact(2)
    expect(isDue(talk.fold(), { ...policy, keepTurns: 1 }, at(9_000))).toBe(false)
  })

  it('a compaction is not due again after a failure until the conversation has grown', () => {
    const talk = long()
    talk.add({ type: 'compaction_failed', run: 1, turn: 6, code: 'c', reason: 'r', tokens: 8_100, window: 10_000 })
    expect(isDue(talk.fold(), policy, at(8_500))).toBe(false)
    expect(isDue(talk.fold(), policy, at(8_600))).toBe(true)
  })

  it('a compaction may be forced once in a turn, and again after a recovery', () => {
    const talk = long()
    const place = { run: 1, turn: 7 }
    expect(mayForce(talk.fold(), place)).toBe(true)
    talk.compact(2, { ...place, forced: true })
    expect(mayForce(talk.fold(), place)).toBe(false)
    expect(mayForce(talk.fold(), { run: 1, turn: 8 })).toBe(true)
    talk.add({ type: 'recovery_started', run: 1, strategy: 'continue_run' })
    expect(mayForce(talk.fold(), place)).toBe(true)
  })
})

describe('the cut that a refused request needs', () => {
  const fit = (bytes: number) => ({ bytes, besides: 100, window: 1_000 })

  it('the cut that a refused request needs keeps as many turns as fit, up to the usual number', () => {
    const talk = conversation()
    talk.run('go')
    for (let n = 1; n <= 8; n++) talk.call('look', 'x'.repeat(3_000))
    const transcript = talk.fold()
    const keptAfter = (bytes: number) => (transcript.messages.length - (chooseCut(transcript, 4, fit(bytes))?.to ?? 0)) / 2
    expect(keptAfter(20_000)).toBe(4)
    expect(keptAfter(9_000)).toBe(2)
    expect(chooseCut(transcript, 4, fit(9_000))).not.toHaveProperty('resultBytes')
  })

  it('the cut that a refused request needs shortens results of the newest turn, and gives up if nothing is left', () => {
    const talk = conversation()
    talk.run('go')
    talk.call('look', 'x'.repeat(100_000))
    expect(chooseCut(talk.fold(), 4, fit(20_000))).toEqual({ to: 0, resultBytes: 16_000 })
    talk.compact(1, { upToSeq: 0, summary: '', resultBytes: 500 })
    expect(chooseCut(talk.fold(), 4, fit(300))).toBeUndefined()
  })
})

describe('a piece of a conversation', () => {
  it('a piece of a conversation consists of whole turns: as many as fit, and at least one', () => {
    const talk = conversation()
    talk.run('go')
    for (let n = 1; n <= 6; n++) talk.call('look', 'x'.repeat(1_000))
    const transcript = talk.fold()
    const to = chooseCut(transcript, 1)?.to ?? 0
    expect(pieceEnd(transcript, to, 100_000)).toBe(to)
    expect(pieceEnd(transcript, to, 2_500)).toBe(5)
    expect(pieceEnd(transcript, to, 10)).toBe(3)
  })
})

describe('a text without its middle', () => {
  it('a text without its middle has at most the given number of bytes, and no broken characters', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 400 }), fc.integer({ min: 60, max: 300 }), (text, maxBytes) => {
        const cut = cutMiddle(text, maxBytes)
        expect(new TextEncoder().encode(cut).length).toBeLessThanOrEqual(maxBytes)
        if (new TextEncoder().encode(text).length <= maxBytes) expect(cut).toBe(text)
        else if (!text.includes('\uFFFD')) expect(cut).not.toContain('\uFFFD')
      }),
    )
  })
})

describe('any session that is compacted', () => {
  const idsIn = (message: Message | undefined, type: 'tool_use' | 'tool_result'): string[] =>
    message === undefined || typeof message.content === 'string'
      ? []
      : message.content.flatMap((block) => {
          if (block.type === 'tool_use' && type === 'tool_use') return [block.id]
          return block.type === 'tool_result' && type === 'tool_result' ? [block.tool_use_id] : []
        })

  it('requests of any compacted session alternate roles, have each result after its call, and keep opening and effects', () => {
    const met = metInSessions(({ events }) => {
      const transcript = emptyTranscript()
      let compacted = 0
      for (const event of events) {
        addToTranscript(transcript, event)
        if (event.type !== 'turn_started' && event.type !== 'compacted') continue
        const sent = messagesFor(transcript)
        for (const [index, message] of sent.entries()) {
          const asked = idsIn(message, 'tool_use')
          if (asked.length > 0) expect(idsIn(sent[index + 1], 'tool_result')).toEqual(asked)
          const answered = idsIn(message, 'tool_result')
          if (answered.length > 0) expect(idsIn(sent[index - 1], 'tool_use')).toEqual(answered)
        }
        const wire = wireMessages(sent, anthropicImages(200_000))
        expect(wire.every(({ role }, index) => role === (index % 2 === 0 ? 'user' : 'assistant'))).toBe(true)
        if (sentFrom(transcript) === 0) continue
        compacted++
        const head = textsOf(sent.slice(0, 1)).join('\n')
        const opening = transcript.messages.find(({ role, content }) => role === 'user' && typeof content === 'string')
        if (!events.some(({ type }) => type === 'content_replaced')) expect(head).toContain(`user: ${String(opening?.content)}`)
        const upToSeq = transcript.compactions.at(-1)?.upToSeq ?? 0
        for (const { callId, since } of transcript.effects.byCall.values())
          if (since <= upToSeq) expect(head).toMatch(new RegExp(`${callId}|earlier ones`))
      }
      return compacted
    })
    expect(met).toBeGreaterThan(100)
  })

  it('after a rollback to a point before a compaction, the messages and the transcript are as if it never happened', () => {
    const met = metInSessions(({ events }) => {
      let count = 0
      for (const [index, { type, seq }] of events.entries()) {
        if (type !== 'compacted') continue
        const later = events.slice(index)
        const end = later.findIndex((event) => OTHER_CHANGES.includes(event.type))
        const played = events.slice(0, end < 0 ? undefined : index + end)
        const last = played.at(-1)?.seq ?? 0
        const rolledBack: SessionEvent = { v: 1, seq: last + 1, at: 1, type: 'rolled_back', toSeq: seq - 1, upToSeq: last, effects: [] }
        const sent = [[...played, rolledBack], events.slice(0, index)].map((past) => messagesFor(fold([...past, ...nextRun(last + 2)])))
        expect(withoutNotes(sent[0] ?? [])).toEqual(withoutNotes(sent[1] ?? []))
        const never = fold(played.filter((event) => event.type !== 'compacted'))
        expect(fold(played).messages).toEqual(never.messages)
        count++
      }
      return count
    })
    expect(met).toBeGreaterThan(50)
  })
})

/** These change the transcript for reasons other than a compaction. */
const OTHER_CHANGES = ['recovery_started', 'rolled_back', 'session_started', 'forked', 'tool_resolved', 'content_replaced']

/** The beginning of another run, which sends a request. */
const nextRun = (seq: number): SessionEvent[] => [
  { v: 1, seq, at: 1, type: 'message_received', messageId: 'next', content: 'next' },
  { v: 1, seq: seq + 1, at: 1, type: 'run_started', run: 1_000, messageId: 'next' },
  { v: 1, seq: seq + 2, at: 1, type: 'turn_started', run: 1_000, turn: 1, takes: ['next'] },
]

/** Without the notes of rollbacks, which list the effects that they do not undo. */
const withoutNotes = (messages: readonly Message[]): Message[] =>
  messages.filter(({ content }) => typeof content !== 'string' || !content.startsWith('[Note from the system'))
