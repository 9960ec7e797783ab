// Pages of an AI SDK that cannot take text back: they are noticed by what they still show, and get finished answers from then on.
import { Chat } from '@ai-sdk/react'
import * as ai6 from 'ai'
import type { ChatTransport, UIMessage } from 'ai'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import * as ai7 from '../../ai-sdk-7/ai.ts'
import { watchResets } from '../../../src/ui/old-client.ts'
import type { UiChunk, UiMessageChunk } from '../../../src/ui/protocol.ts'
import { PawlChatTransport } from '../../../src/ui/transport.ts'

const start = (messageId: string): UiChunk => ({
  type: 'start',
  messageId,
  messageMetadata: { pawl: { run: 1, seq: 1, status: 'running', error: null } },
})
const text = (delta: string, id = '1.0'): UiChunk[] => [
  { type: 'text-start', id },
  { type: 'text-delta', id, delta },
]
const end: UiChunk = { type: 'text-end', id: '1.0' }
const step: UiChunk = { type: 'start-step' }
const reset: UiChunk = { type: 'reset-step' }
const part = (text: string) => ({ type: 'text', text })
const ATTEMPTS = [start('m_1_1'), step, ...text('Void'), reset, ...text('Right'), end, { type: 'finish-step' as const }]

describe('what was taken back', () => {
  it('doubled text is looked for once, in the message in which it was found', () => {
    for (const [parts, isKept] of [
      [[part('Right')], false],
      [[part('Void'), part('Right')], true],
      [[], false],
    ] as const) {
      const watch = watchResets()
      for (const chunk of ATTEMPTS) watch.sent(chunk)
      expect(watch.isUncertain).toBe(true)
      expect(
        watch.isKept([
          { id: 'other', parts: [part('a'), part('b')] },
          { id: 'm_1_1', parts },
        ]),
      ).toBe(isKept)
      expect(watch.isUncertain).toBe(false)
      expect(watch.isKept([{ id: 'm_1_1', parts: [part('Void'), part('Right')] }])).toBe(false)
    }
  })

  it('doubled text is also detected in thinking', () => {
    const thought = (delta: string): UiChunk[] => [
      { type: 'reasoning-start', id: '1.0' },
      { type: 'reasoning-delta', id: '1.0', delta },
    ]
    const watch = watchResets()
    for (const chunk of [start('m'), step, ...thought('Void'), reset, ...thought('Right')]) watch.sent(chunk)
    const thinking = { type: 'reasoning', text: '' }
    expect(watch.isKept([{ id: 'm', parts: [thinking, thinking] }])).toBe(true)
  })

  it('doubled text is noticed when a stream shows an answer again from its beginning', () => {
    for (const [shown, isKept] of [
      [['Right', 'Right', 'More'], true],
      [['Right', 'More'], false],
    ] as const) {
      const watch = watchResets()
      for (const chunk of [start('m'), step, ...text('Right'), end]) watch.sent(chunk)
      for (const chunk of [start('m'), step, ...text('Right'), end, step, ...text('More', '2.0'), end]) watch.sent(chunk)
      expect(watch.isKept([{ id: 'm', parts: shown.map(part) }])).toBe(isKept)
    }
  })

  it('doubled text is looked for in an answer that was loaded, and that a decision continues', () => {
    for (const [shown, isKept] of [
      [['Loaded', 'Void', 'Right'], true],
      [['Loaded', 'Right'], false],
    ] as const) {
      const watch = watchResets()
      watch.continues({ id: 'm', parts: [part('Loaded')] })
      for (const chunk of [step, ...text('Void', '2.0'), reset, ...text('Right', '2.0'), end]) watch.sent(chunk)
      expect(watch.isKept([{ id: 'm', parts: shown.map(part) }])).toBe(isKept)
    }
  })

  it('no doubled text is found if no attempt has failed, however many texts a message has', () => {
    const watch = watchResets()
    for (const chunk of [start('m'), step, ...text('a'), end, step, reset, ...text('b', '2.0'), end]) watch.sent(chunk)
    expect(watch.isUncertain).toBe(false)
    expect(watch.isKept([{ id: 'm', parts: [part('a'), part('b'), part('c')] }])).toBe(false)
  })
})

it('a transport whose page keeps retracted text warns once, and asks for finished answers from then on', async () => {
  const warned = vi.spyOn(console, 'warn').mockReturnValue()
  onTestFinished(() => warned.mockRestore())
  const events = [...ATTEMPTS, { type: 'finish' as const }]
  const body = `${events.map((chunk, n) => `${n === 7 ? 'id: after=5\n' : ''}data: ${JSON.stringify(chunk)}\n\n`).join('')}data: [DONE]\n\n`
  const asked: string[] = []
  const transport = new PawlChatTransport({
    fetch: async (to) => {
      asked.push(String(to))
      return new Response(body)
    },
  })
  const send = async (messages: { id: string; role: string; parts: { type: string }[] }[]): Promise<void> => {
    const stream = await transport.sendMessages({ trigger: 'submit-message', chatId: 'c', messages })
    for await (const _ of stream);
  }
  const user = { id: 'u', role: 'user', parts: [{ type: 'text' }] }
  await send([user])
  const kept = { id: 'm_1_1', role: 'assistant', parts: [part('Void'), part('Right')] }
  await send([user, kept, user])
  await send([user, kept, user])
  expect(asked.map((to) => new URLSearchParams(to.split('?')[1]).get('show'))).toEqual(['pieces', 'steps', 'steps'])
  expect(warned).toHaveBeenCalledTimes(1)
  expect(warned.mock.calls[0]?.[0]).toContain('ai@7')
})

describe('with version 6, an answer that is cut off', () => {
  afterEach(() => void vi.useRealTimers())

  /** The answer up to its first text, as a stream sends it. */
  const beginning = [start('m_1_1'), step, ...text('One'), end, { type: 'finish-step' as const }, step]
  const rest = [...text('Two', '2.0'), { ...end, id: '2.0' }, { type: 'finish-step' as const }, { type: 'finish' as const }]
  const bodyOf = (chunks: readonly UiChunk[]): string =>
    chunks.map((chunk, n) => `id: after=${n}\ndata: ${JSON.stringify(chunk)}\n\n`).join('')

  /** A chat as `useChat` of version 6 has it: it does not know that `transport` resumes answers from their beginning. */
  function chatOf(transport: PawlChatTransport, messages: UIMessage[] = []): Chat<UIMessage> {
    const typed: ChatTransport<UIMessage> = transport
    return new Chat({
      id: 'c',
      messages,
      transport: {
        sendMessages: (request) => typed.sendMessages(request),
        reconnectToStream: (request) => typed.reconnectToStream(request),
      },
    })
  }
  const texts = ({ messages }: Chat<UIMessage>): string[] =>
    messages.flatMap(({ role, parts }) => (role === 'user' ? [] : parts.flatMap((shown) => (shown.type === 'text' ? [shown.text] : []))))

  /** A server that is away after the beginning of an answer, until it is back. */
  function lossy(): { transport: PawlChatTransport; returns(): void } {
    let isAway = false
    const transport = new PawlChatTransport({
      show: 'steps',
      fetch: async (to, init) => {
        if (init?.method === 'POST') {
          isAway = true
          return new Response(bodyOf(beginning))
        }
        if (isAway) throw new TypeError('Failed to fetch')
        const path = String(to)
        if (path.includes('/changes')) return new Response(new ReadableStream())
        if (path.includes('/messages'))
          return Response.json({ messages: [{ id: 'm_1_1', role: 'assistant', parts: [part('One')] }], seq: 5 })
        return new Response(`${bodyOf([...beginning, ...rest])}data: [DONE]\n\n`)
      },
    })
    return { transport, returns: () => void (isAway = false) }
  }

  it('an answer that is cut off is shown once by version 6 when it is resumed from its beginning', async () => {
    vi.useFakeTimers()
    const server = lossy()
    const chat = chatOf(server.transport)
    const sent = chat.sendMessage({ text: 'Go' })
    await vi.runAllTimersAsync()
    await sent
    expect(chat.status).toBe('error')
    expect(texts(chat)).toEqual(['One'])
    server.returns()
    await chat.resumeStream()
    expect(chat.status).toBe('ready')
    expect(texts(chat)).toEqual(['One', 'Two'])
  })

  it('a page of version 6 that follows resumes an answer that was cut off, although nothing new has happened', async () => {
    vi.useFakeTimers()
    const server = lossy()
    const chat = chatOf(server.transport)
    const sent = chat.sendMessage({ text: 'Go' })
    const stop = server.transport.follow('c', {
      setMessages: (update) => void (chat.messages = update(chat.messages)),
      resumeStream: () => chat.resumeStream(),
    })
    onTestFinished(stop)
    await vi.advanceTimersByTimeAsync(60_000)
    await sent
    expect(chat.status).toBe('error')
    server.returns()
    await vi.advanceTimersByTimeAsync(30_000)
    expect(chat.status).toBe('ready')
    expect(texts(chat)).toEqual(['One', 'Two'])
  })

  it('an answer that is cut off is shown once by version 6 if the decision that continues it did not arrive', async () => {
    const fetch: typeof globalThis.fetch = async (_, init) => {
      if (init?.method === 'POST') throw new TypeError('Failed to fetch')
      return new Response(`${bodyOf([...beginning, ...rest])}data: [DONE]\n\n`)
    }
    const loaded: UIMessage = { id: 'm_1_1', role: 'assistant', parts: [{ type: 'text', text: 'One' }] }
    const chat = chatOf(new PawlChatTransport({ show: 'steps', fetch }), [loaded])
    await chat.sendMessage()
    expect(chat.status).toBe('error')
    await chat.resumeStream()
    expect(texts(chat)).toEqual(['One', 'Two'])
  })
})

describe('tools that the provider runs', () => {
  it('a page of AI SDK 6 shows the calls, results and sources of a provider’s tools as a page of version 7 does', async () => {
    const about = { toolCallId: 'srv_1', toolName: 'web_search', providerExecuted: true, dynamic: true } as const
    const chunks: UiMessageChunk[] = [
      { type: 'start', messageId: 'm_1_1', messageMetadata: { pawl: { run: 1, seq: 1, status: 'running', error: null } } },
      { type: 'start-step' },
      { type: 'tool-input-start', ...about },
      { type: 'tool-input-available', ...about, input: { query: 'rain' } },
      { type: 'finish-step' },
      { type: 'start-step' },
      { type: 'tool-output-available', toolCallId: 'srv_1', output: [{ title: 'A' }] },
      { type: 'source-url', sourceId: '1.0', url: 'https://example.com', title: 'A' },
      { type: 'source-document', sourceId: '1.1', mediaType: 'text/plain', title: 'B' },
      { type: 'finish-step' },
      { type: 'finish' },
    ]
    const parts = await Promise.all(
      [ai6.readUIMessageStream, ai7.readUIMessageStream as unknown as typeof ai6.readUIMessageStream].map(async (read) => {
        let last: { parts: object[] } | undefined
        for await (const message of read({ stream: ReadableStream.from(chunks) as never })) last = message
        return JSON.parse(JSON.stringify(last?.parts))
      }),
    )
    for (const shown of parts) {
      expect(shown).toMatchObject([
        { type: 'step-start' },
        { type: 'dynamic-tool', toolName: 'web_search', state: 'output-available', output: [{ title: 'A' }], providerExecuted: true },
        { type: 'step-start' },
        { type: 'source-url', url: 'https://example.com' },
        { type: 'source-document', title: 'B' },
      ])
    }
  })
})
