// Pages of an AI SDK that cannot take text back: they are noticed by what they still show, and get finished answers from then on.
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { watchResets, withoutPieces } from '../../../src/ui/old-client.ts'
import type { UiChunk } from '../../../src/ui/protocol.ts'
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
  it('is looked for once, in the message that had it', () => {
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

  it('is nothing if no attempt has failed, however many texts a message has', () => {
    const watch = watchResets()
    for (const chunk of [start('m'), step, ...text('a'), end, step, reset, ...text('b', '2.0'), end]) watch.sent(chunk)
    expect(watch.isUncertain).toBe(false)
    expect(watch.isKept([{ id: 'm', parts: [part('a'), part('b'), part('c')] }])).toBe(false)
  })
})

it('an answer without its pieces has what is recorded', async () => {
  async function* sent(): AsyncGenerator<UiChunk, undefined> {
    yield* ATTEMPTS
    yield* text('Never recorded', '2.0')
    yield { type: 'error', errorText: 'It failed.' }
  }
  const shown: UiChunk[] = []
  for await (const chunk of withoutPieces(sent())) shown.push(chunk)
  const { length } = ATTEMPTS
  expect(shown).toEqual([...ATTEMPTS.slice(0, 2), ...ATTEMPTS.slice(5, length), { type: 'error', errorText: 'It failed.' }])
})

it('a transport whose page keeps what was taken back says so once, and sends no pieces any more', async () => {
  const warned = vi.spyOn(console, 'warn').mockReturnValue()
  onTestFinished(() => warned.mockRestore())
  const events = [...ATTEMPTS, { type: 'finish' as const }]
  const body = `${events.map((chunk, n) => `${n === 7 ? 'id: after=5\n' : ''}data: ${JSON.stringify(chunk)}\n\n`).join('')}data: [DONE]\n\n`
  const transport = new PawlChatTransport({ fetch: async () => new Response(body) })
  const send = async (messages: { id: string; role: string; parts: { type: string }[] }[]): Promise<string[]> => {
    const types: string[] = []
    const stream = await transport.sendMessages({ trigger: 'submit-message', chatId: 'c', messages })
    for await (const { type } of stream as ReadableStream<UiChunk>) types.push(type)
    return types
  }
  const user = { id: 'u', role: 'user', parts: [{ type: 'text' }] }
  expect((await send([user])).filter((type) => type === 'text-start')).toHaveLength(2)
  const kept = { id: 'm_1_1', role: 'assistant', parts: [part('Void'), part('Right')] }
  expect((await send([user, kept, user])).filter((type) => type === 'text-start')).toHaveLength(1)
  await send([user, kept, user])
  expect(warned).toHaveBeenCalledTimes(1)
  expect(warned.mock.calls[0]?.[0]).toContain('ai@7')
})
