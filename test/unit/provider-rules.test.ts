// What goes to a provider satisfies its documented rules, whatever is in the transcript.
import { createGoogleGenerativeAI as googleV4 } from '../ai-sdk-7/google.ts'
import { createGoogleGenerativeAI as googleV3 } from '@ai-sdk/google'
import { createOpenAI as openaiV4 } from '../ai-sdk-7/openai.ts'
import { createOpenAI as openaiV3 } from '@ai-sdk/openai'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ModelRequest } from '../../src/agent/model.ts'
import { aiSdk } from '../../src/models/index.ts'
import type { AnthropicOptions } from '../../src/models/anthropic-options.ts'
import { paramsOf } from '../../src/models/anthropic-params.ts'
import type {
  AssistantBlock,
  ContentBlock,
  DocumentBlock,
  ImageBlock,
  Message,
  ToolResultBlock,
  UserBlock,
} from '../../src/session/content.ts'
import { defined } from '../../src/session/defined.ts'
import { imageFacts } from '../../src/session/image.ts'
import { pdfBlock } from '../support/documents.ts'
import { imageBlock, imageBytes } from '../support/images.ts'
import { anthropicProblems, googleProblems, openaiProblems } from '../support/provider-rules.ts'
import type { LanguageModel } from '../../src/models/ai-sdk-types.ts'

const TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'] as const
const base64 = (data: string): ImageBlock => ({ type: 'image', source: { type: 'base64', media_type: 'image/png', data } })
const byUrl = (url: string): ImageBlock => ({ type: 'image', source: { type: 'url', url } })

const anyText = fc.oneof(
  fc.constantFrom('', ' \n', 'hello', '\ud83d', 'half \ude80', '🚀', '\u0000', 'x'.repeat(200)),
  fc.string({ unit: 'binary', maxLength: 6 }),
)
const anyId = fc.oneof(fc.constantFrom('t_1', 't_2', '', 'a b', 'toolu_' + 'x'.repeat(80), '\ud800'), anyText)
const anyJson = fc.oneof(
  fc.constantFrom(null, 7, '{"a": tru', [1], {}, { '\ud83d': ['\ude80', { deep: 'x\ud800' }] }),
  fc.dictionary(anyText, anyText, { maxKeys: 2 }),
)
const anyImage: fc.Arbitrary<ImageBlock> = fc.oneof(
  fc
    .record({ type: fc.constantFrom(...TYPES), width: fc.constantFrom(1, 2_001, 8_001), as: fc.constantFrom(...TYPES) })
    .map(({ type, width, as }) => {
      const { data } = imageBlock(type, { width }).source as { data: string }
      return { type: 'image' as const, source: { type: 'base64' as const, media_type: as, data } }
    }),
  fc.constantFrom(
    base64(''),
    base64('A'),
    base64('aGk='),
    base64(Buffer.from('<html>404</html>').toString('base64')),
    base64(`${imageBytes('image/png').toString('base64').slice(0, 40)}A`),
    base64('data:image/png;base64,iVBO'),
    byUrl('https://example.com/cat.png'),
    byUrl('http://example.com/cat.png'),
    byUrl('https://'),
  ),
)
const anyDocument: fc.Arbitrary<DocumentBlock> = fc
  .record({
    source: fc.constantFrom<DocumentBlock['source']>(
      pdfBlock().source,
      pdfBlock({ encrypted: true }).source,
      { type: 'base64', media_type: 'application/pdf', data: 'aGVsbG8=' },
      { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0' },
      { type: 'text', media_type: 'text/plain', data: 'a\ud83d,b' },
      { type: 'text', media_type: 'text/plain', data: ' ' },
      { type: 'url', url: 'https://example.com/a.pdf' },
      { type: 'url', url: 'http://example.com/a.pdf' },
      { type: 'url', url: 'https://' },
      { type: 'file', file_id: 'file_011' },
      { type: 'file', file_id: 'file-abc' },
    ),
    title: fc.constantFrom(undefined, '', 'a.pdf', 'half \ud83d'),
    context: fc.constantFrom(undefined, ' ', 'From the bank.'),
    citations: fc.constantFrom(undefined, { enabled: true }, { enabled: false }),
  })
  .map(({ source, ...about }) => ({ type: 'document', source, ...defined(about) }) as DocumentBlock)
const anyMetadata = fc.option(fc.constantFrom({ openai: { itemId: 'msg_1' } }, { google: { thoughtSignature: '\ud800' } }), {
  nil: undefined,
})
const userBlock: fc.Arbitrary<UserBlock> = fc.oneof(
  anyText.map((text) => ({ type: 'text' as const, text })),
  anyImage,
  anyDocument,
)
const resultBlock: fc.Arbitrary<ToolResultBlock> = fc
  .record({ id: anyId, content: fc.oneof(anyText, fc.array(userBlock, { maxLength: 3 })), isError: fc.boolean() })
  .map(({ id, content, isError }) => ({ type: 'tool_result', tool_use_id: id, content, ...(isError && { is_error: true }) }))
const answerBlock: fc.Arbitrary<AssistantBlock> = fc
  .tuple(
    fc.oneof(
      anyText.map((text): AssistantBlock => ({ type: 'text', text })),
      fc
        .tuple(anyText, fc.constantFrom('', 'sig'))
        .map(([thinking, signature]): AssistantBlock => ({ type: 'thinking', thinking, signature })),
      fc.constantFrom('', 'data').map((data): AssistantBlock => ({ type: 'redacted_thinking', data })),
      fc.tuple(anyId, anyText, anyJson).map(([id, name, input]): AssistantBlock => ({ type: 'tool_use', id, name, input })),
    ),
    anyMetadata,
  )
  .map(([block, providerMetadata]) => ({ ...block, ...(providerMetadata && { providerMetadata }) }))
const anyUrl = fc.constantFrom('https://example.com/a', 'https://example.com/b')
/** Blocks of tools that Anthropic runs, or another provider, in any order and with few ids, so that some belong together. */
const providerBlock: fc.Arbitrary<AssistantBlock> = fc
  .record({
    id: fc.constantFrom('srv_1', 'srv_2', 'srv_3'),
    part: fc.constantFrom('call', 'result', 'source'),
    of: fc.constantFrom('messages', 'ai-sdk', 'lost'),
    url: anyUrl,
    tool: fc.constantFrom('web_search', 'web_fetch', 'bash_code_execution'),
  })
  .map(({ id, part, of, url, tool }): AssistantBlock => {
    const about = { type: 'provider' as const, part: part as 'call', id, name: tool }
    if (of === 'lost') return about
    if (of === 'ai-sdk')
      return { ...about, block: part === 'source' ? { url } : { toolCallId: id, toolName: tool, input: {}, result: { url } } }
    if (part === 'call') return { ...about, input: { url }, block: { type: 'server_tool_use', id, name: tool, input: { url } } }
    if (part === 'source') return about
    const content =
      tool === 'web_search' ? [{ type: 'web_search_result', url, title: 'A', encrypted_content: 'c2VjcmV0' }] : { type: 'x', url }
    return { ...about, block: { type: `${tool}_tool_result`, tool_use_id: id, content } }
  })
const citedBlock: fc.Arbitrary<AssistantBlock> = fc
  .record({ url: anyUrl, type: fc.constantFrom('web_search_result_location', 'char_location') })
  .map(({ url, type }) => ({ type: 'text', text: 'It rains.', providerMetadata: { citations: [{ type, url, encrypted_index: 'aQ==' }] } }))
const anyMessage: fc.Arbitrary<Message> = fc.oneof(
  fc
    .array(fc.oneof(providerBlock, providerBlock, citedBlock, answerBlock), { maxLength: 5 })
    .map((content): Message => ({ role: 'assistant', content })),
  fc.array(answerBlock, { maxLength: 4 }).map((content): Message => ({ role: 'assistant', content })),
  anyText.map((content): Message => ({ role: 'user', content })),
  fc.array(fc.oneof(userBlock, resultBlock), { maxLength: 4 }).map((content): Message => ({ role: 'user', content })),
  // Complete turns, which are rare in arbitrary messages.
  fc
    .array(fc.oneof(userBlock, resultBlock), { maxLength: 3 })
    .map((content): Message => ({ role: 'user', content: [{ type: 'tool_result', tool_use_id: 't_1', content: 'done' }, ...content] })),
)
const anyMessages = fc.array(anyMessage, { maxLength: 8 })

const requestOf = (messages: Message[], system = ''): ModelRequest => ({
  system,
  messages,
  tools: [
    {
      name: 'look',
      description: 'Looks.\ud800',
      input_schema: { type: 'object', properties: { a: { type: 'string', description: '\ud83d' } } },
    },
  ],
  sessionId: 's',
  run: 1,
  turn: 1,
})
const user = (...content: ContentBlock[]): Message => ({ role: 'user', content })
const anthropicBody = (messages: Message[], options: AnthropicOptions = {}, system = 'Be brief.\ude80') =>
  paramsOf('claude-sonnet-4-5', options, requestOf(messages, system)) as unknown as Record<string, unknown>
const textsIn = (body: unknown): string => JSON.stringify(body)

describe('Anthropic’s API', () => {
  it('Anthropic’s API accepts every transcript, with and without a thinking budget and a cache', () => {
    const options = fc.constantFrom<AnthropicOptions>({}, { cache: 'off' }, { thinking: { type: 'enabled', budget_tokens: 2_000 } })
    fc.assert(
      fc.property(anyMessages, options, (messages, given) => {
        expect(anthropicProblems(anthropicBody(messages, given))).toEqual([])
      }),
      { numRuns: 300 },
    )
  })

  it('Anthropic’s API gets the same bytes for the same transcript', () => {
    fc.assert(
      fc.property(anyMessages, (messages) => {
        expect(textsIn(anthropicBody(structuredClone(messages)))).toBe(textsIn(anthropicBody(messages)))
      }),
    )
  })

  it('Anthropic’s API gets images as they are, with the type that their bytes have', () => {
    for (const type of TYPES) {
      const image = imageBlock(type, { width: 640, height: 480 })
      const { data } = image.source as { data: string }
      expect(imageFacts(data)).toEqual({ mediaType: type, width: 640, height: 480 })
      const declared = type === 'image/png' ? 'image/gif' : 'image/png'
      const body = anthropicBody([user({ type: 'image', source: { type: 'base64', media_type: declared, data } })], { cache: 'off' })
      expect(body.messages).toEqual([{ role: 'user', content: [image] }])
    }
  })

  it('Anthropic’s API gets a note that says why in place of an image that it would refuse', () => {
    const large = imageBlock('image/png', { size: 4_100_000 })
    const wide = imageBlock('image/jpeg', { width: 9_000 })
    const html = base64(Buffer.from('<html>404</html>').toString('base64'))
    const cut = base64(`${imageBytes('image/png').toString('base64').slice(0, 40)}A`)
    const body = anthropicBody([user(large, wide, html, cut, byUrl('http://example.com/cat.png'))])
    expect(anthropicProblems(body)).toEqual([])
    expect(textsIn(body)).not.toContain('"image"')
    expect(textsIn(body)).toContain('it has 5,466,668 bytes of base64, and the limit is 5,242,880')
    expect(textsIn(body)).toContain('it has 9000 × 8 pixels, and the limit is 8,000 on each side')
    expect(textsIn(body)).toContain('its bytes are not a JPEG, PNG, GIF or WebP image')
    expect(textsIn(body)).toContain('its base64 text is not complete')
    expect(textsIn(body)).toContain('its URL does not begin with https')
  })

  it('Anthropic’s API gets the newest images if there are too many, and its cache serves most requests while more arrive', () => {
    for (const [width, limit] of [
      [2_160, 20],
      [640, 100],
    ] as const) {
      let before = ''
      let broken = 0
      for (let count = limit - 2; count < limit + 25; count++) {
        const images = Array.from({ length: count }, (_, index) => imageBlock('image/png', { width, height: index + 1 }))
        const body = anthropicBody([user(...images)], { cache: 'off' })
        expect(anthropicProblems(body)).toEqual([])
        const sent = textsIn(body)
        const [newest] = images.slice(-1)
        expect(sent).toContain(newest?.source.type === 'base64' ? newest.source.data : 'an image')
        expect(sent.match(/"type":"image"/g)?.length).toBeGreaterThan(limit - 11)
        if (!sent.startsWith(before.slice(0, before.lastIndexOf('}]}]')))) broken++
        before = sent
      }
      expect(broken).toBeLessThanOrEqual(3)
    }
  })

  it('Anthropic’s API gets no request above 32 MB, however many images a conversation has', () => {
    const images = Array.from({ length: 12 }, () => imageBlock('image/png', { size: 3_800_000 }))
    const body = anthropicBody(images.map((image) => user(image)))
    expect(anthropicProblems(body)).toEqual([])
    expect(textsIn(body).match(/"type":"image"/g)?.length).toBeGreaterThanOrEqual(3)
  })

  it('Anthropic’s API answers calls without thinking if the answer that made them does not begin with it', () => {
    const thinking = { type: 'enabled' as const, budget_tokens: 2_000 }
    const call: AssistantBlock = { type: 'tool_use', id: 't_1', name: 'look', input: {} }
    const hm: AssistantBlock = { type: 'thinking', thinking: 'Hm.', signature: 'sig' }
    const result = user({ type: 'tool_result', tool_use_id: 't_1', content: 'seen' }, { type: 'text', text: 'status' })
    const turn = (...content: AssistantBlock[]): Message[] => [user({ type: 'text', text: 'go' }), { role: 'assistant', content }, result]
    expect(anthropicBody(turn(hm, call), { thinking }).thinking).toEqual(thinking)
    expect(anthropicBody(turn(call), { thinking }).thinking).toEqual({ type: 'disabled' })
    expect(anthropicBody(turn(call), { thinking: { type: 'adaptive' } }).thinking).toEqual({ type: 'adaptive' })
    const done: Message[] = [
      ...turn(call),
      { role: 'assistant', content: [{ type: 'text', text: 'Done.' }] },
      user({ type: 'text', text: 'And?' }),
    ]
    expect(anthropicBody(done, { thinking }).thinking).toEqual(thinking)
    const mixed = anthropicBody([...turn(hm, { ...call, id: 't_0' }), ...turn(call)], { thinking })
    expect(mixed.thinking).toEqual({ type: 'disabled' })
    expect(textsIn(mixed.messages)).not.toContain('"thinking"')
  })

  it('this test’s validator refuses what earlier requests to Anthropic’s API contained', () => {
    const wrong = {
      messages: [
        {
          role: 'assistant',
          content: [
            { type: 'text', text: ' ' },
            { type: 'tool_use', id: 'a b', name: '', input: 7 },
          ],
        },
      ],
    }
    expect(anthropicProblems(wrong).length).toBeGreaterThanOrEqual(6)
  })
})

describe('a model of the AI SDK', () => {
  const apiKey = 'test'
  /** What the provider's package sends. */
  async function sent(make: (fetch: typeof globalThis.fetch) => LanguageModel, request: ModelRequest): Promise<Record<string, unknown>> {
    let body: Record<string, unknown> = {}
    const model = make(async (_url, init) => {
      body = JSON.parse(String(init?.body)) as Record<string, unknown>
      return new Response('{"error":{"message":"no"}}', { status: 400, headers: { 'content-type': 'application/json' } })
    })
    const asked = aiSdk(model).generate(request, { signal: new AbortController().signal, attempt: 1, onDelta: () => undefined })
    await expect(asked).rejects.toMatchObject({ code: 'invalid_request_error' })
    return body
  }
  const PROVIDERS: [string, (fetch: typeof globalThis.fetch) => LanguageModel, (body: Record<string, unknown>) => string[]][] = [
    ['OpenAI’s Responses API, specification v4', (fetch) => openaiV4({ apiKey, fetch })('gpt-5.4'), openaiProblems],
    ['OpenAI’s Responses API, specification v3', (fetch) => openaiV3({ apiKey, fetch })('gpt-5.4'), openaiProblems],
    ['Google’s Gemini API, specification v4', (fetch) => googleV4({ apiKey, fetch })('gemini-3.5-flash'), googleProblems],
    ['Google’s Gemini API, specification v3', (fetch) => googleV3({ apiKey, fetch })('gemini-3.5-flash'), googleProblems],
  ]

  it.each(PROVIDERS)('a model of the AI SDK sends %s nothing that it refuses', async (_, make, problemsOf) => {
    await fc.assert(
      fc.asyncProperty(anyMessages, async (messages) => {
        expect(problemsOf(await sent(make, requestOf(messages, 'Be brief.\ud800')))).toEqual([])
      }),
      { numRuns: 100 },
    )
  })

  it('an AI SDK model turns Anthropic’s thinking budget off while it answers calls made without thinking', async () => {
    const calls: { providerOptions?: unknown; maxOutputTokens?: number }[] = []
    const model: LanguageModel = {
      specificationVersion: 'v4',
      provider: 'anthropic.messages',
      modelId: 'claude-sonnet-4-5',
      supportedUrls: {},
      doStream: async (call) => {
        calls.push(call)
        throw new Error('no')
      },
    }
    const anthropic = { thinking: { type: 'enabled', budgetTokens: 2_000 }, effort: 'low' }
    const messages: Message[] = [
      user({ type: 'text', text: 'go' }),
      { role: 'assistant', content: [{ type: 'tool_use', id: 't_1', name: 'look', input: {} }] },
      user({ type: 'tool_result', tool_use_id: 't_1', content: 'seen' }),
    ]
    const ask = (given: Message[]) =>
      aiSdk(model, { maxTokens: 4_000, settings: { providerOptions: { anthropic } } })
        .generate({ ...requestOf(given), maxTokens: 6_000 }, { signal: new AbortController().signal, attempt: 1, onDelta: () => undefined })
        .catch(() => undefined)
    await ask(messages.slice(0, 1))
    await ask(messages)
    expect(calls).toMatchObject([
      { providerOptions: { anthropic }, maxOutputTokens: 4_000 },
      { providerOptions: { anthropic: { thinking: { type: 'disabled' }, effort: 'low' } }, maxOutputTokens: 6_000 },
    ])
  })
})
