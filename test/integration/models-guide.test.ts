// The adapter in docs/models.md is the one that is compiled and run here.
import { readFile } from 'node:fs/promises'
import { LLMock } from '@copilotkit/aimock'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import type { Model, ModelRequest } from '../../src/agent/model.ts'
import { chatCompletions } from '../guides/chat-completions.ts'
import { streamed, WIRES } from '../support/provider-wires.ts'
import { wireServer } from '../support/wire-server.ts'

const fromRoot = (path: string) => new URL(`../../${path}`, import.meta.url)

async function expectPrinted(example: string): Promise<void> {
  const source = await readFile(fromRoot(`test/guides/${example}.ts`), 'utf8')
  const [, snippet = ''] = /\/\/ #region guide\n([\s\S]*)\/\/ #endregion/.exec(source) ?? []
  const guide = await readFile(fromRoot('docs/models.md'), 'utf8')
  const printed = snippet.trimEnd().replace('../../src/models/index.ts', 'pawl/models').replace('../../src/index.ts', 'pawl')
  expect(guide).toContain(`\`\`\`ts\n${printed}\n\`\`\``)
}

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

  it('the guide’s adapter for another provider is printed as it is tested', () => expectPrinted('chat-completions'))

  it('the guide’s adapter for another provider carries a tool call and its result', async () => {
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

  it('the guide’s adapter for another provider says which failures are retryable', async () => {
    fake.onMessage('order', { error: { message: 'slow down' }, status: 429, retryAfter: 2 })
    await expect(model().generate(asking, ctx)).rejects.toMatchObject({ code: 'http_429', retryable: true, retryAfterMs: 2000 })
    fake.reset()
    fake.onMessage('order', { error: { message: 'bad key' }, status: 401 })
    await expect(model().generate(asking, ctx)).rejects.toMatchObject({ code: 'http_401', retryable: false })
  })
})

describe('the guide’s agent with AI SDK models', () => {
  afterEach(() => {
    vi.unstubAllEnvs()
    vi.unstubAllGlobals()
  })

  it('the guide’s agent with AI SDK models is printed as it is tested', () => expectPrinted('ai-sdk'))

  it('the guide’s agent with AI SDK models reads its keys from the environment, as the packages do', async () => {
    const server = await wireServer()
    const wire = WIRES.find(({ name }) => name.includes('Responses'))
    vi.stubEnv('OPENAI_API_KEY', 'key-from-env')
    const { fetch } = globalThis
    // The package reads its address when it is loaded.
    vi.stubGlobal('fetch', (address: string, init: RequestInit) => fetch(address.replace('https://api.openai.com', server.url), init))
    vi.stubEnv('GOOGLE_GENERATIVE_AI_API_KEY', undefined)
    try {
      const { support } = await import('../guides/ai-sdk.ts')
      const [fallback] = support.fallback
      const ask = (model: unknown) =>
        (model as Model).generate(
          { system: '', messages: [{ role: 'user', content: 'hello' }], tools: [], sessionId: 's', run: 1, turn: 1 },
          { signal: new AbortController().signal, attempt: 1, onDelta: () => undefined },
        )
      server.answer(streamed(wire?.chunks({ text: ['Hello.'], stop: 'stop' }) ?? []))
      expect((await ask(support.model)).content).toMatchObject([{ type: 'text', text: 'Hello.' }])
      expect(server.received[0]).toMatchObject({
        headers: { authorization: 'Bearer key-from-env' },
        body: { model: 'gpt-5.4', reasoning: { effort: 'low' }, store: false },
      })
      await expect(ask(fallback)).rejects.toMatchObject({ code: 'no_api_key', retryable: false, fallback: true })
    } finally {
      await server.close()
    }
  })
})
