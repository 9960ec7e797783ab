// Which thinking and metadata a model is sent: only those of its own provider.
import { describe, expect, it } from 'vitest'
import { readableBy, withProvider } from '../../../src/jobs/model-call/provider-blocks.ts'
import type { AssistantBlock, Message } from '../../../src/session/content.ts'

const metadata = { providerMetadata: { openai: { itemId: 'x' } } }
const ANSWER: AssistantBlock[] = [
  { type: 'thinking', thinking: 'hm', signature: 's' },
  { type: 'redacted_thinking', data: 'd' },
  { type: 'text', text: 'plain' },
  { type: 'text', text: 'signed', ...metadata },
  { type: 'tool_use', id: 't', name: 'look', input: {}, ...metadata },
]
const said = (content: AssistantBlock[]): Message[] => [
  { role: 'user', content: 'hi' },
  { role: 'assistant', content },
]

describe('the blocks of an answer', () => {
  it('the blocks of an answer name the provider that can read them, if no other provider can', () => {
    expect(withProvider('one', ANSWER).map(({ provider }) => provider)).toEqual(['one', 'one', undefined, 'one', 'one'])
    expect(withProvider('one', [{ type: 'thinking', thinking: '', signature: '', provider: 'two' }])).toMatchObject([{ provider: 'two' }])
  })

  it('the blocks of an answer are sent back to that provider as they are', () => {
    const messages = said(withProvider('one', ANSWER))
    expect(readableBy('one', messages)).toEqual(messages)
  })

  it('the blocks of an answer are sent to another provider without thinking and metadata', () => {
    expect(readableBy('two', said(withProvider('one', ANSWER)))).toEqual(
      said([
        { type: 'text', text: 'plain' },
        { type: 'text', text: 'signed' },
        { type: 'tool_use', id: 't', name: 'look', input: {} },
      ]),
    )
  })

  it('the blocks of an answer that are only thinking are not sent to another provider at all', () => {
    const thinking = withProvider('one', ANSWER.slice(0, 2))
    expect(readableBy('two', said(thinking))).toEqual([{ role: 'user', content: 'hi' }])
  })
})
