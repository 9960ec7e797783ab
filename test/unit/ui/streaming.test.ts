// Pages of AI SDK UI over random sessions: whenever they are loaded, and however often their streams are cut, they show what is recorded.
import { readUIMessageStream, type UIMessage, type UIMessageChunk } from '../../ai-sdk-7/ai.ts'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { AssistantBlock } from '../../../src/session/content.ts'
import type { ModelDelta } from '../../../src/session/watching/deltas.ts'
import type { EventOf, SessionEvent } from '../../../src/session/events.ts'
import { addToTranscript } from '../../../src/session/transcript/adding.ts'
import { emptyTranscript, isFromUser } from '../../../src/session/transcript/transcript.ts'
import { textOf } from '../../../src/session/content.ts'
import { uiMessagesOf } from '../../../src/ui/messages.ts'
import { addToOutline, emptyOutline, type UiOutline } from '../../../src/ui/outline.ts'
import { outputSeq, withOutputOf } from '../../../src/ui/outputs.ts'
import { messagesOfPage, partOf, planPage } from '../../../src/ui/pages.ts'
import type { LoosePart, UiChunk, UiMessage, UiShow } from '../../../src/ui/protocol.ts'
import { resumePoint, startStreaming, type UiSentChunk, type UiChunkStream } from '../../../src/ui/streaming.ts'
import { seededRandom } from '../../../src/testing/crash/random.ts'
import { eventfulSessions, type SoundSession, soundSessions } from '../session/sound-session.ts'
import { sessionStarted } from '../../support/session-started.ts'

const RUNS = { numRuns: 15, endOnFailure: true }

function outlineOf(events: readonly SessionEvent[]): UiOutline {
  const outline = emptyOutline()
  for (const event of events) addToOutline(outline, event)
  return outline
}

/** The event with this `seq`, as a service reads it: with the output that it shows. */
function contentsIn(events: readonly SessionEvent[], { seq, output }: { seq: number; output: number | undefined }): SessionEvent {
  const [event, source] = [seq, output].map((one) => events.find((event) => event.seq === one))
  return withOutputOf(event as SessionEvent, source)
}

const plain = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T

/** The message that the AI SDK makes of the chunks of one answer. */
async function read(chunks: readonly UiChunk[], message?: UiMessage): Promise<UiMessage> {
  const stream = new ReadableStream<UIMessageChunk>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk as UIMessageChunk)
      controller.close()
    },
  })
  let newest: unknown
  const onError = (error: unknown): never => expect.fail(String(error))
  const given = message && { message: structuredClone(message) as unknown as UIMessage }
  for await (const now of readUIMessageStream({ stream, onError, ...given })) newest = now
  return plain(newest) as UiMessage
}

/** The messages of a page whose stream has sent these chunks: a `start` begins another message, as in a stream that is resumed. */
async function shownWith(messages: readonly UiMessage[], chunks: readonly UiChunk[]): Promise<UiMessage[]> {
  const shown = [...messages]
  // Nothing can be added to a message that the client does not have.
  if (chunks.length > 0) expect(chunks[0]?.type).toBe('start')
  const starts = chunks.flatMap(({ type }, n) => (type === 'start' ? [n] : []))
  for (const [n, from] of starts.entries()) {
    const message = await read(chunks.slice(from, starts[n + 1]))
    const place = shown.findIndex(({ id }) => id === message.id)
    if (place < 0) shown.push(message)
    else shown[place] = message
  }
  return shown
}

/** What the model streams before the event, in a stream that shows pieces. */
function piecesBefore(event: SessionEvent, stream: UiChunkStream, random: () => number): UiSentChunk[] {
  const sent: UiSentChunk[] = []
  const at = 'run' in event && 'turn' in event ? { run: event.run ?? 0, turn: event.turn ?? 0 } : undefined
  if (!at) return sent
  for (let times = 0; times < 3 && random() < 0.3; times++) {
    sent.push(...stream.delta(at, { type: 'text', index: 0, text: 'void ' }))
    if (random() < 0.5) sent.push(...stream.delta(at, { type: 'tool_input', index: 1, partialJson: '{"a', name: 'void' }))
    sent.push(...stream.reset())
  }
  if (event.type !== 'model_completed') return sent
  for (const piece of piecesOf(event, random)) sent.push(...stream.delta(at, piece))
  return sent
}

/** The answer in pieces, the last of which may never come. Some Models stream something other than what they return. */
function piecesOf({ content }: EventOf<'model_completed'>, random: () => number): ModelDelta[] {
  if (random() < 0.1) return [{ type: 'text', index: 7, text: 'another' }]
  const pieces = content.flatMap((block, index): ModelDelta[] => {
    if (block.type === 'tool_use') {
      const json = JSON.stringify(block.input)
      const cut = Math.floor(random() * json.length)
      return [
        { type: 'tool_input', index, partialJson: json.slice(0, cut), name: block.name },
        { type: 'tool_input', index, partialJson: json.slice(cut) },
      ]
    }
    if (block.type === 'provider') return block.part === 'call' ? [{ type: 'provider_call', index, id: block.id, name: block.name }] : []
    const text = block.type === 'text' ? block.text : block.type === 'thinking' ? block.thinking : ''
    const cut = Math.floor(random() * text.length)
    const parts = [text.slice(0, cut), text.slice(cut)].filter((part) => part !== '')
    return parts.map((part) => (block.type === 'text' ? { type: 'text', index, text: part } : { type: 'thinking', index, thinking: part }))
  })
  return pieces.slice(0, Math.ceil(random() * pieces.length + random()))
}

/**
 * The same session with calls of a tool that the provider runs. Their results come at once, with the next answer, or never, and some
 * providers use an id again.
 */
function withProvider(events: readonly SessionEvent[], random: () => number): SessionEvent[] {
  let count = 0
  let open: string[] = []
  return events.map((event): SessionEvent => {
    if (event.type === 'run_started') open = []
    if (event.type !== 'model_completed') return event
    const content = [...event.content]
    const result = (id: string): AssistantBlock => ({
      type: 'provider',
      part: 'result',
      id,
      name: 'search',
      block: { content: `${++count}` },
    })
    content.unshift(
      ...open.splice(0).flatMap((id) => (random() < 0.6 ? [{ ...result(id), ...(random() < 0.3 && { is_error: true }) }] : [])),
    )
    for (let times = 0; times < 2 && random() < 0.5; times++) {
      const id = `srv_${Math.floor(random() * 3)}`
      const blocks: AssistantBlock[] = [{ type: 'provider', part: 'call', id, name: 'search', input: { count: ++count } }]
      if (random() < 0.6) blocks.push(result(id))
      else open.push(id)
      if (random() < 0.5)
        blocks.push({ type: 'text', text: `found ${count}`, sources: [{ type: 'url', url: `https://found.test/${count}` }] })
      content.splice(Math.floor(random() * (content.length + 1)), 0, ...blocks)
    }
    return { ...event, content }
  })
}

interface Page {
  loads: number
  cuts: number
  resets: number
}

/** Loads a page again and again, at random events. It resumes what is in progress, is cut off, and is compared with what is recorded. */
async function browse(session: SoundSession, random: () => number, show: UiShow): Promise<Page> {
  const events = withProvider(session.events, random)
  const page = { loads: 0, cuts: 0, resets: 0 }
  for (let at = Math.floor(random() * 20); at < events.length; at++) {
    const past = (): SessionEvent[] => events.slice(0, at)
    page.loads += 1
    let cursor = resumePoint(outlineOf(past()))
    if (!cursor) continue
    const loaded = plain(uiMessagesOf(past()))
    const chunks: UiChunk[] = []
    let isUncertain = false
    let isChanged = false
    const take = (sent: readonly UiSentChunk[]): void => {
      for (const one of sent) {
        chunks.push(one.chunk)
        if (one.chunk.type === 'reset-step') page.resets += 1
        isUncertain = one.cursor === undefined && one.chunk.type !== 'reset-step'
        cursor = one.cursor ?? cursor
      }
    }
    for (let isFirst = true, going = true; going; isFirst = false) {
      const opened = startStreaming({ from: cursor, show, past: outlineOf(past()), ...(isFirst && { isFresh: true as const }) })
      const { stream } = opened
      for (const place of opened.toShow) take(stream.past(contentsIn(past(), place), place))
      for (;;) {
        const event = events[at]
        going = stream.end() === 'open' && event !== undefined
        if (!going || !event || random() < 0.05) break
        take(piecesBefore(event, stream, random))
        at += 1
        const output = outputSeq(events, event)
        take(stream.event(contentsIn(events, { seq: event.seq, output })))
      }
      const last = stream.last()
      isChanged = last.type === 'error' && last.code === 'history_changed'
      // The transport does this with what a cut stream had begun to say.
      if (isUncertain && show === 'pieces') chunks.push({ type: 'reset-step' })
      if (isUncertain) expect(show).toBe('pieces')
      isUncertain = false
      if (going) page.cuts += 1
    }
    const shown = (await shownWith(loaded, chunks)).filter(({ role }) => role === 'assistant')
    const recorded = plain(uiMessagesOf(past())).filter(({ role }) => role === 'assistant')
    expect(new Set(shown.map(({ id }) => id)).size).toBe(shown.length)
    if (!isChanged && show === 'pieces') expect(shown).toEqual(recorded)
    if (!isChanged && show === 'steps')
      expect(shown.map(withoutApprovals)).toEqual(recorded.map((message, n) => inSteps(message, shown[n])))
  }
  return page
}

function withoutApprovals(message: UiMessage): UiMessage {
  return { ...message, parts: (message.parts as LoosePart[]).map((part) => ({ ...part, approval: undefined })) } as UiMessage
}

/** Clients without the newest chunks learn of a decision only by the call's outcome, or by the arguments that a person has changed. */
function inSteps(message: UiMessage, shown: UiMessage | undefined): UiMessage {
  const parts = (withoutApprovals(message).parts as LoosePart[]).map((part, n) => {
    if (part.state !== 'approval-responded') return part
    const isChanged = (shown?.parts as LoosePart[] | undefined)?.[n]?.state === 'input-available'
    return { ...part, state: isChanged ? 'input-available' : 'approval-requested' }
  })
  return { ...message, parts } as UiMessage
}

describe('a page', () => {
  it.each(['pieces', 'steps'] as const)(
    'a page that shows %s has each answer once and as it is recorded, whenever it is loaded or cut off',
    async (show) => {
      for (const sessions of [soundSessions, eventfulSessions]) {
        await fc.assert(
          fc.asyncProperty(
            sessions,
            fc.integer({ min: 1, max: 1_000_000 }),
            async (session, seed) => void (await browse(session, seededRandom(seed), show)),
          ),
          RUNS,
        )
      }
    },
  )
})

describe('the history', () => {
  it('a page shows the texts of users and models in the order of the transcript', () => {
    for (const sessions of [soundSessions, eventfulSessions]) {
      fc.assert(
        fc.property(sessions, ({ events }) => {
          const transcript = emptyTranscript()
          for (const event of events) addToTranscript(transcript, event)
          const said = transcript.messages.flatMap((message) => {
            if (message.role === 'assistant') return [`assistant: ${textOf(message.content)}`]
            return isFromUser(message) ? [`user: ${textOf(message.content)}`] : []
          })
          const waiting = [...transcript.waiting.values()].map(({ content }) => `user: ${textOf(content)}`)
          const shown = uiMessagesOf(events).flatMap(({ role, parts }) => {
            if (role === 'user') return [`user: ${(parts as LoosePart[]).map(({ text }) => text).join('')}`]
            const steps: string[] = []
            for (const part of parts) {
              if (part.type === 'step-start') steps.push('')
              if (part.type === 'text') steps.push(`${steps.pop()}${String(part.text)}`)
            }
            return steps.map((text) => `assistant: ${text}`)
          })
          const spoken = (all: readonly string[]) => all.filter((text) => text !== 'assistant: ')
          expect(spoken(shown)).toEqual(spoken([...said, ...waiting]))
        }),
        { numRuns: 50 },
      )
    }
  })
})

describe('a message that was taken by a turn which was then taken out', () => {
  const usage = { input_tokens: 1, output_tokens: 1, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
  const events: SessionEvent[] = []
  const add = (body: object): void => void events.push({ v: 1, seq: events.length + 1, at: 1, ...body } as SessionEvent)
  const answer = (turn: number, text: string) =>
    add({ type: 'model_completed', run: 1, turn, attempt: 1, model: 'm', content: [{ type: 'text', text }], usage, calls: [] })
  add(sessionStarted())
  add({ type: 'message_received', messageId: 'first', content: 'first' })
  add({ type: 'run_started', run: 1, messageId: 'first' })
  add({ type: 'turn_started', run: 1, turn: 1, takes: ['first'] })
  answer(1, 'begun')
  add({ type: 'message_received', messageId: 'second', content: 'second' })
  add({ type: 'turn_started', run: 1, turn: 2, takes: ['second'] })
  answer(2, 'lost')
  add({ type: 'error_entered', run: 1, code: 'model_call_failed', reason: 'r', strategy: 'manual' })
  add({ type: 'recovery_started', strategy: 'restart_from_last_effect', run: 1, toSeq: 5, by: 'somebody' })
  const recovered = events.length
  add({ type: 'recovery_ended', strategy: 'restart_from_last_effect', run: 1 })
  add({ type: 'turn_started', run: 1, turn: 3, takes: [] })
  answer(3, 'answered')
  add({ type: 'run_completed', run: 1, turns: 3, stopReason: 'end_turn', usage })

  const textsOf = ({ role, parts }: UiMessage) => `${role}: ${(parts as LoosePart[]).map(({ text }) => text ?? '').join('')}`

  it('the metadata of a failed answer has the text for the user and the code of the failure, but no details', () => {
    const failed = uiMessagesOf(events.filter(({ seq }) => seq <= 9)).at(-1)
    const error = { code: 'model_call_failed', reason: 'The answer could not be completed.' }
    expect(failed?.metadata).toMatchObject({ pawl: { status: 'error', error } })
  })

  it('a message whose turn was removed comes before the answer to it', () => {
    expect(uiMessagesOf(events).map(textsOf)).toEqual(['user: first', 'assistant: begun', 'user: second', 'assistant: answered'])
  })

  it('a stream that waits for a message’s answer gets it, opened before or after the answer began', () => {
    for (const at of [recovered, events.length - 1]) {
      const from = { message: 'second', since: 6 }
      const { toShow, stream } = startStreaming({ from, show: 'pieces', past: outlineOf(events.slice(0, at)) })
      const sent = toShow.flatMap((place) => stream.past(contentsIn(events, place), place))
      for (const event of events.slice(at)) sent.push(...stream.event(event))
      const chunks = sent.map(({ chunk }) => chunk)
      expect(chunks[0]).toMatchObject({ type: 'start', messageId: 'm_1_3' })
      expect(chunks).toContainEqual(expect.objectContaining({ type: 'text-delta', delta: 'answered' }))
      expect(stream.end()).toBe('ended')
    }
  })
})

/** All pages of the history, oldest first. */
function pagesOf(events: readonly SessionEvent[], limit: number, characters: number): UiMessage[][] {
  const outline = outlineOf(events)
  const pages: UiMessage[][] = []
  for (let before: number | undefined; ; ) {
    const plan = planPage(outline, { before, limit, characters, maxValueBytes: 1_000_000 })
    pages.unshift(
      messagesOfPage(
        plan,
        plan.toRead.map((place) => partOf(contentsIn(events, place), place)),
      ),
    )
    if (plan.cursor === undefined) return pages
    before = plan.cursor
  }
}

describe('a call that is made again after the next turn has begun', () => {
  const usage = { input_tokens: 1, output_tokens: 1, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
  const events: SessionEvent[] = []
  const add = (body: object): void => void events.push({ v: 1, seq: events.length + 1, at: 1, ...body } as SessionEvent)
  const said = (turn: number, content: object[], calls: object[] = []) =>
    add({ type: 'model_completed', run: 1, turn, attempt: 1, model: 'm', content, usage, calls })
  const call = { run: 1, turn: 1, tool: 'ask' }
  const ask = (callId: string) => {
    add({ ...call, callId, type: 'tool_issued', effect: 'read', inputDigest: 'd', index: 0, input: {} })
    add({ ...call, callId, type: 'answer_requested' })
  }
  const answer = (callId: string, value: string) => {
    add({ ...call, callId, type: 'answer_received' })
    add({ ...call, callId, type: 'tool_completed', attempt: 1, value })
  }
  add(sessionStarted())
  add({ type: 'message_received', messageId: 'first', content: 'first' })
  add({ type: 'run_started', run: 1, messageId: 'first' })
  add({ type: 'turn_started', run: 1, turn: 1, takes: ['first'] })
  said(1, [{ type: 'tool_use', id: 'u', name: 'ask', input: {} }], [{ index: 0, tool: 'ask', effect: 'read', client: {} }])
  ask('t_1_1_0')
  answer('t_1_1_0', 'red')
  add({ type: 'message_received', messageId: 'second', content: 'second' })
  add({ type: 'turn_started', run: 1, turn: 2, takes: ['second'] })
  add({ type: 'error_entered', run: 1, code: 'model_call_failed', reason: 'r', strategy: 'manual' })
  add({ type: 'recovery_started', strategy: 'selective', run: 1, turn: 1, toSeq: 5, redo: [{ callId: 't_1_1_0', as: 't_1_1_0#2' }] })
  add({ type: 'recovery_ended', strategy: 'selective', run: 1 })
  ask('t_1_1_0#2')
  const asked = events.length
  answer('t_1_1_0#2', 'blue')
  add({ type: 'turn_started', run: 1, turn: 3, takes: [] })
  said(3, [{ type: 'text', text: 'answered' }])
  add({ type: 'run_completed', run: 1, turns: 3, stopReason: 'end_turn', usage })

  const shownBy = (messages: readonly UiMessage[]) =>
    messages.map(({ id, parts }) => [id, ...(parts as LoosePart[]).map(({ text, state, output }) => output ?? text ?? state)])

  it('a call that is made again waits in its own answer, and the message that the next turn had accepted follows it', () => {
    expect(shownBy(uiMessagesOf(events.slice(0, asked)))).toEqual([
      ['first', 'first'],
      ['m_1_1', undefined, 'input-available'],
      ['second', 'second'],
    ])
    expect(shownBy(uiMessagesOf(events))).toEqual([
      ['first', 'first'],
      ['m_1_1', undefined, 'blue'],
      ['second', 'second'],
      ['m_1_3', undefined, 'answered'],
    ])
  })

  it('a call that is made again is offered to a page that resumes until it is answered, and never again after that', () => {
    const offers = (count: number): string[] => {
      const past = outlineOf(events.slice(0, count))
      const { toShow, stream } = startStreaming({ from: { after: 3 }, show: 'pieces', past, isFresh: true })
      return toShow
        .flatMap((place) => stream.past(contentsIn(events, place), place))
        .flatMap(({ chunk }) => (/^tool-input-(start|available)$/.test(chunk.type) ? [chunk.type] : []))
    }
    expect(offers(asked)).toEqual(['tool-input-available'])
    expect(offers(asked + 1)).toEqual(['tool-input-start'])
    expect(offers(events.length)).toEqual(['tool-input-start'])
  })

  it('a page says how an answer ended if that happened after a message that nothing has answered', () => {
    const ended = [...events.slice(0, asked)]
    for (const body of [
      { type: 'run_interrupted', run: 1 },
      { type: 'message_received', messageId: 'third', content: 'third' },
      { type: 'run_started', run: 2, messageId: 'third' },
      { type: 'turn_started', run: 2, turn: 1, takes: ['third'] },
      { type: 'run_interrupted', run: 2 },
    ]) {
      ended.push({ v: 1, seq: ended.length + 1, at: 1, ...body } as SessionEvent)
    }
    const pages = pagesOf(ended, 1, 1_000_000)
    expect(pages.length).toBeGreaterThan(1)
    expect(pages[0]?.at(-1)?.metadata).toMatchObject({ pawl: { run: 1, status: 'interrupted' } })
    expect(pages.flat()).toEqual(uiMessagesOf(ended))
  })

  it('a stream that began before a call was made again says that the history has changed', () => {
    const { stream } = startStreaming({ from: { after: 12 }, show: 'pieces', past: outlineOf(events.slice(0, asked)) })
    expect([stream.end(), stream.last()]).toMatchObject(['ended', { type: 'error', code: 'history_changed' }])
  })
})

it('an answer is shown as running again once its session no longer waits for a worker, even if the model has nothing to say', () => {
  const events: SessionEvent[] = []
  const add = (body: object): void => void events.push({ v: 1, seq: events.length + 1, at: 1, ...body } as SessionEvent)
  const usage = { input_tokens: 1, output_tokens: 1, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
  add(sessionStarted())
  add({ type: 'message_received', messageId: 'first', content: 'first' })
  add({ type: 'run_started', run: 1, messageId: 'first' })
  add({ type: 'turn_started', run: 1, turn: 1, takes: ['first'] })
  const standing = () => (uiMessagesOf(events).at(-1)?.metadata as { pawl: object } | undefined)?.pawl
  add({ type: 'error_entered', run: 1, code: 'agent_not_served', reason: 'r', strategy: 'automatic' })
  expect(standing()).toMatchObject({ status: 'error', seq: 5 })
  add({ type: 'recovery_ended', strategy: 'automatic', run: 1 })
  expect(standing()).toMatchObject({ status: 'running', seq: 6, error: null })
  add({ type: 'model_completed', run: 1, turn: 1, attempt: 1, model: 'm', content: [], usage, calls: [] })
  expect(standing()).toMatchObject({ status: 'running', seq: 7 })
})

describe('pages of the history', () => {
  it('pages of the history are the whole history together, however small they are', () => {
    for (const sessions of [soundSessions, eventfulSessions]) {
      fc.assert(
        fc.property(sessions, fc.integer({ min: 1, max: 12 }), ({ events }, limit) => {
          const pages = pagesOf(events, limit, 10_000_000)
          expect(plain(pages.flat())).toEqual(plain(uiMessagesOf(events)))
          // An exchange stays together: the messages that a turn took, and the answer if there is one.
          const exchange = Math.max(0, ...events.map((event) => (event.type === 'turn_started' ? event.takes.length : 0)))
          for (const page of pages.slice(0, -1)) expect(page.length).toBeLessThanOrEqual(limit + exchange + 1)
        }),
        { numRuns: 50 },
      )
    }
  })

  it('pages of the history have all messages, and how each answer ended, however few characters they may have', () => {
    for (const sessions of [soundSessions, eventfulSessions]) {
      fc.assert(
        fc.property(sessions, fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 3_000 }), ({ events }, limit, characters) => {
          const pages = pagesOf(events, limit, characters)
          expect(pages.flat().map(outlined)).toEqual(uiMessagesOf(events).map(outlined))
        }),
        { numRuns: 50 },
      )
    }
  })

  /** The message without its texts. */
  const outlined = ({ id, role, metadata, parts }: UiMessage) =>
    plain({
      id,
      role,
      metadata: role === 'user' ? null : metadata,
      parts: (parts as LoosePart[]).map(({ type, toolCallId, state }) => [type, toolCallId, state]),
    })

  it('pages of the history have a maximum size, and shorten an answer that alone exceeds it', () => {
    const { events } = conversation(40, 1_000)
    const pages = pagesOf(events, 1_000, 10_000)
    expect(pages.length).toBeGreaterThan(5)
    expect(plain(pages.flat())).toEqual(plain(uiMessagesOf(events)))
    for (const page of pages) expect(JSON.stringify(page).length).toBeLessThan(12_000)
    const long = conversation(1, 1_000_000)
    const [page] = pagesOf(long.events, 1_000, 10_000)
    expect(page?.map(({ role }) => role)).toEqual(['user', 'assistant'])
    expect(JSON.stringify(page).length).toBeLessThan(12_000)
    expect(JSON.stringify(page)).toContain('[shortened: 1000000 characters]')
  })

  /** Runs with a long answer each. */
  function conversation(runs: number, characters: number): { events: SessionEvent[] } {
    const events: SessionEvent[] = []
    const add = (body: object): void => void events.push({ v: 1, seq: events.length + 1, at: 1, ...body } as SessionEvent)
    add(sessionStarted())
    for (let run = 1; run <= runs; run++) {
      add({ type: 'message_received', messageId: `u${run}`, content: `question ${run}` })
      add({ type: 'run_started', run, messageId: `u${run}` })
      add({ type: 'turn_started', run, turn: 1, takes: [`u${run}`] })
      const content = [{ type: 'text', text: 'x'.repeat(characters) }]
      const usage = { input_tokens: 1, output_tokens: 1, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
      add({ type: 'model_completed', run, turn: 1, attempt: 1, model: 'm', content, stopReason: 'end_turn', usage, calls: [] })
      add({ type: 'run_completed', run, stopReason: 'end_turn', usage })
    }
    return { events }
  }
})

it('the stream of a message that was refused and sent again shows its answer', () => {
  const bodies = [
    sessionStarted(),
    { type: 'message_rejected', messageId: 'm1', code: 'inbox_full', reason: 'full' },
    { type: 'message_received', messageId: 'm1', content: 'hello' },
    { type: 'run_started', run: 1, messageId: 'm1' },
    { type: 'turn_started', run: 1, turn: 1, takes: ['m1'] },
  ]
  const events = bodies.map((body, index) => ({ v: 1, seq: index + 1, at: index, ...body }) as SessionEvent)
  const streamAfter = (count: number) =>
    startStreaming({ from: { message: 'm1', since: 0 }, show: 'steps', past: outlineOf(events.slice(0, count)) }).stream
  expect(streamAfter(2).end()).toBe('ended')
  for (const count of [3, 5]) expect(streamAfter(count).end()).toBe('open')
})
