// The adapter in docs/models.md is the one that is compiled and run here.
import { readFile } from 'node:fs/promises'
import { LLMock } from '@copilotkit/aimock'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { ModelRequest } from '../../src/agent/model.ts'
import { chatCompletions } from '../guides/chat-completions.ts'

const fromRoot = (path: string) => new URL(`../../${path}`, import.meta.url)

describe('the guide’s adapter for another provider', () => {
  const fake = new LLMock({ port: 0, strict: true })
  const model = () => chatCompletions('gpt-x', { baseURL: `${fake.url}/v1`, apiKey: 'test' })
  const ctx = { signal: new AbortController().signal, attempt: 1, onDelta: () => undefined }
  const asking: ModelRequest = {
    system: 'Be brief.',
    messages: [{ role: 'user', content: 'order A7' }],
    tools: [{ name: 'find_order', description: 'Finds an order.', input_schema: { type: 'object', properties: {} } }],
    sessionId: 's',
    run: 1,
    turn: 1,
  }
  beforeAll(() => fake.start())
  afterAll(() => fake.stop())
  afterEach(() => fake.reset())

  it('is printed as it is tested', async () => {
    const source = await readFile(fromRoot('test/guides/chat-completions.ts'), 'utf8')
    const [, snippet = ''] = /\/\/ #region guide\n([\s\S]*)\/\/ #endregion/.exec(source) ?? []
    const guide = await readFile(fromRoot('docs/models.md'), 'utf8')
    expect(guide).toContain(`\`\`\`ts\n${snippet.trimEnd().replace('../../src/models/index.ts', 'pawl/models')}\n\`\`\``)
  })

  it('carries a call of a tool and its result', async () => {
    fake.onToolResult('t_1_1_0', { content: 'It is on its way.' })
    fake.onMessage('order', { toolCalls: [{ name: 'find_order', arguments: '{"id":"A7"}', id: 'call_1' }] })
    const first = await model().generate(asking, ctx)
    expect(first).toMatchObject({
      stopReason: 'tool_use',
      content: [{ type: 'tool_use', id: 'call_1', name: 'find_order', input: { id: 'A7' } }],
    })
    const second = await model().generate(
      {
        ...asking,
        messages: [
          ...asking.messages,
          { role: 'assistant', content: [{ type: 'tool_use', id: 't_1_1_0', name: 'find_order', input: { id: 'A7' } }] },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't_1_1_0', content: 'sent' }] },
        ],
      },
      ctx,
    )
    expect(second).toMatchObject({ stopReason: 'end_turn', content: [{ type: 'text', text: 'It is on its way.' }] })
  })

  it('says which failures may be tried again', async () => {
    fake.onMessage('order', { error: { message: 'slow down' }, status: 429, retryAfter: 2 })
    await expect(model().generate(asking, ctx)).rejects.toMatchObject({ code: 'http_429', retryable: true, retryAfterMs: 2000 })
    fake.reset()
    fake.onMessage('order', { error: { message: 'bad key' }, status: 401 })
    await expect(model().generate(asking, ctx)).rejects.toMatchObject({ code: 'http_401', retryable: false })
  })
})
