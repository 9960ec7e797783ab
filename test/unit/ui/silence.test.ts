// A connection that is lost without a word, as behind a router that forgets it: nothing arrives any more, and nothing ends it.
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { PawlChatTransport } from '../../../src/ui/transport.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const chunk = (value: object): string => `data: ${JSON.stringify(value)}\n\n`
const ID = 'id: after=5&answer=m_1_1\n\n'

it('a chat whose connection falls silent resumes the answer on another one', async () => {
  const cursors: (string | null)[] = []
  const fetch = async (_: unknown, init?: RequestInit): Promise<Response> => {
    cursors.push(new Headers(init?.headers).get('last-event-id'))
    if (cursors.length > 1) return new Response(`${ID}${chunk({ type: 'finish' })}data: [DONE]\n\n`)
    const silent = new ReadableStream<Uint8Array>({
      start: (to) => to.enqueue(new TextEncoder().encode(`${ID}${chunk({ type: 'text-start', id: '1.0' })}`)),
    })
    return new Response(silent)
  }
  const transport = new PawlChatTransport({ fetch })
  const messages = [{ id: 'm', role: 'user', parts: [{ type: 'text', text: 'Hello?' }] }]
  const stream = await transport.sendMessages({ trigger: 'submit-message', chatId: 'c', messages })
  const types: string[] = []
  const read = (async () => {
    for await (const { type } of stream as unknown as AsyncIterable<{ type: string }>) types.push(type)
  })()
  await vi.advanceTimersByTimeAsync(50_000)
  expect(types).toEqual(['text-start'])
  await vi.advanceTimersByTimeAsync(15_000)
  await read
  expect(types).toEqual(['text-start', 'reset-step', 'finish'])
  expect(cursors).toEqual([null, 'after=5&answer=m_1_1'])
})
