// Which parts of a transcript go to Anthropic's API, and where its cache may stop.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ModelRequest } from '../../src/agent/model.ts'
import { hasThinking, wireMessages as wireMessagesWithin, withoutThinking } from '../../src/models/anthropic-messages.ts'
import { anthropicImages } from '../../src/models/image-limits.ts'
import { paramsOf } from '../../src/models/anthropic-params.ts'
import type { AssistantBlock, ContentBlock, Message } from '../../src/session/content.ts'
import { imageBlock } from '../support/images.ts'

const wireMessages = (messages: readonly Message[]) => wireMessagesWithin(messages, anthropicImages(200_000))
const text = (value: string) => ({ type: 'text' as const, text: value })
const user = (value: string): Message => ({ role: 'user', content: value })
const call = (id: string) => ({ type: 'tool_use' as const, id, name: 't', input: {} })
const result = (id: string) => ({ type: 'tool_result' as const, tool_use_id: id, content: 'done' })
const thinking = { type: 'thinking' as const, thinking: 'hm', signature: 'sig' }

describe('the transcript for the API', () => {
  it('the transcript for the API merges consecutive messages of one role', () => {
    const messages: Message[] = [
      user('a'),
      user('b'),
      { role: 'assistant', content: [text('c')] },
      { role: 'assistant', content: [text('d')] },
      user('e'),
    ]
    expect(wireMessages(messages)).toEqual([
      { role: 'user', content: [text('a'), text('b')] },
      { role: 'assistant', content: [text('c'), text('d')] },
      { role: 'user', content: [text('e')] },
    ])
  })

  it('the transcript for the API leaves out empty text and otherwise empty messages, and merges their neighbours', () => {
    const messages: Message[] = [
      user('a'),
      { role: 'assistant', content: [] },
      user(' \n'),
      user('b'),
      { role: 'assistant', content: [text(''), text('c')] },
      user('d'),
    ]
    expect(wireMessages(messages)).toEqual([
      { role: 'user', content: [text('a'), text('b')] },
      { role: 'assistant', content: [text('c')] },
      { role: 'user', content: [text('d')] },
    ])
  })

  it('the transcript for the API puts the results of calls before the user’s messages that arrived during them', () => {
    const messages: Message[] = [
      user('a'),
      { role: 'assistant', content: [call('t_1'), call('t_2')] },
      user('wait'),
      { role: 'user', content: [result('t_1'), result('t_2')] },
    ]
    expect(wireMessages(messages).at(-1)?.content).toEqual([result('t_1'), result('t_2'), text('wait')])
  })

  it('the transcript for the API sends thinking back as it came, even if its text is empty', () => {
    const blocks = [{ ...thinking, thinking: '' }, { type: 'redacted_thinking' as const, data: 'x' }, text('a')]
    expect(wireMessages([user('q'), { role: 'assistant', content: blocks }])[1]?.content).toEqual(blocks)
  })

  it('the transcript for the API leaves out thinking without a signature or with nothing after it', () => {
    const messages: Message[] = [
      user('q'),
      { role: 'assistant', content: [{ ...thinking, signature: '' }, text('a')] },
      user('r'),
      { role: 'assistant', content: [text('b'), thinking] },
      user('s'),
      { role: 'assistant', content: [thinking] },
    ]
    expect(
      wireMessages(messages)
        .filter(({ role }) => role === 'assistant')
        .map(({ content }) => content),
    ).toEqual([[text('a')], [text('b')]])
  })

  it('the transcript for the API wraps arguments that are not an object, which the API would refuse', () => {
    const inputs = ['{"a": tru', [1], null, 7, { ok: true }]
    const sent = wireMessages([{ role: 'assistant', content: inputs.map((input) => ({ ...call('t'), input })) }])
    expect(sent[1]?.content.map((block) => 'input' in block && block.input)).toEqual([
      { INVALID_JSON: '{"a": tru' },
      { INVALID_JSON: '[1]' },
      { INVALID_JSON: 'null' },
      { INVALID_JSON: '7' },
      { ok: true },
    ])
  })

  it('the transcript for the API adds text to an empty error result', () => {
    const called: Message[] = [user('q'), { role: 'assistant', content: [call('t')] }]
    const sent = wireMessages([...called, { role: 'user', content: [{ ...result('t'), content: [text('')], is_error: true }] }])
    const content = 'The call failed without a message.'
    expect(sent.at(-1)?.content).toEqual([{ type: 'tool_result', tool_use_id: 't', content, is_error: true }])
  })

  it('the transcript for the API passes images on', () => {
    const image = imageBlock()
    const byUrl = { type: 'image' as const, source: { type: 'url' as const, url: 'https://example.com/a.png' } }
    const content = [image, byUrl, { ...result('t'), content: [text('see'), image] }]
    const sent = wireMessages([user('q'), { role: 'assistant', content: [call('t')] }, { role: 'user', content }])
    expect(sent.at(-1)?.content).toEqual([content[2], image, byUrl])
  })

  it('the transcript for the API ends with the user, even if the model was stopped in the middle of its answer', () => {
    const sent = wireMessages([user('q'), { role: 'assistant', content: [text('Well, ')] }])
    expect(sent.map(({ role }) => role)).toEqual(['user', 'assistant', 'user'])
    expect(sent.at(-1)?.content).toEqual([text('[From the system, not from the user: Your answer was interrupted here. Continue it.]')])
  })

  it('the transcript for the API gives every call exactly one result, regardless of the calls’ ids', () => {
    const sent = wireMessages([
      user('q'),
      { role: 'assistant', content: [call('a b'), call('a b'), call('c')] },
      { role: 'user', content: [result('c'), result('a b'), result('lost'), result('c')] },
      { role: 'assistant', content: [call('a_b')] },
    ])
    expect(sent[1]?.content).toEqual([call('a_b'), call('a_b_2'), call('c')])
    const none = { content: 'The result of this call was not recorded.', is_error: true }
    const orphan = text('[From the system, not from the user: The result of an earlier call follows.]')
    expect(sent[2]?.content).toEqual([
      result('a_b'),
      { ...result('a_b_2'), ...none },
      result('c'),
      orphan,
      text('done'),
      orphan,
      text('done'),
    ])
    expect(sent[4]?.content).toEqual([{ ...result('a_b_3'), ...none }])
  })

  it('the transcript for the API can be stripped of thinking', () => {
    const messages: Message[] = [user('q'), { role: 'assistant', content: [thinking, call('t')] }]
    expect(hasThinking(messages)).toBe(true)
    expect(withoutThinking(messages)).toEqual([user('q'), { role: 'assistant', content: [call('t')] }])
    expect(hasThinking(withoutThinking(messages))).toBe(false)
  })
})

describe('cache breakpoints', () => {
  const request = (messages: Message[]): ModelRequest => ({
    system: 'Be brief.',
    messages,
    tools: ['a', 'b'].map((name) => ({ name, description: name, input_schema: { type: 'object' } })),
    sessionId: 's',
    run: 1,
    turn: 1,
  })
  const breakpoint = { cache_control: { type: 'ephemeral' } }
  const count = (value: unknown) => JSON.stringify(value).split('"cache_control"').length - 1

  it('cache breakpoints are on the last tool, the system prompt, the last message and the user’s message before it', () => {
    const params = paramsOf(
      'claude',
      {},
      request([user('a'), { role: 'assistant', content: [call('t')] }, { role: 'user', content: [result('t')] }]),
    )
    expect(params.tools).toMatchObject([{ name: 'a' }, { name: 'b', ...breakpoint }])
    expect(params.system).toEqual([{ ...text('Be brief.'), ...breakpoint }])
    expect(params.messages.map(({ content }) => content)).toEqual([
      [{ ...text('a'), ...breakpoint }],
      [call('t')],
      [{ ...result('t'), ...breakpoint }],
    ])
    expect(count(params)).toBe(4)
  })

  it('cache breakpoints come before the text that changes from call to call, even if the user has said nothing else', () => {
    const volatile = (content: ContentBlock[]): Message => ({ role: 'user', content: [...content, text('now')] })
    const sent = (messages: Message[]) =>
      paramsOf('claude', {}, { ...request(messages), volatileBlocks: 1 }).messages.map((one) => one.content)
    expect(sent([user('a'), { role: 'assistant', content: [call('t')] }, volatile([result('t'), text('b')])])).toEqual([
      [{ ...text('a'), ...breakpoint }],
      [call('t')],
      [result('t'), { ...text('b'), ...breakpoint }, text('now')],
    ])
    expect(sent([volatile([text(' ')])])).toEqual([[text('now')]])
  })

  it('cache breakpoints are not set if the cache is off', () => {
    expect(count(paramsOf('claude', { cache: 'off' }, request([user('a')])))).toBe(0)
  })

  it('there are at most four cache breakpoints in any transcript, never on thinking, and nothing else changes', () => {
    const block: fc.Arbitrary<AssistantBlock> = fc.oneof(
      fc.constantFrom<AssistantBlock[]>(text('x'), text(''), thinking, { type: 'redacted_thinking' as const, data: 'd' }, call('t')),
      fc.record({ type: fc.constant('text' as const), text: fc.string() }),
    )
    const message: fc.Arbitrary<Message> = fc.oneof(
      fc.record({ role: fc.constant('assistant' as const), content: fc.array(block, { maxLength: 4 }) }),
      fc.record({
        role: fc.constant('user' as const),
        content: fc.oneof(fc.string(), fc.constant<ContentBlock[]>([result('t'), text('x')])),
      }),
    )
    fc.assert(
      fc.property(fc.array(message, { maxLength: 8 }), (messages) => {
        const marked = paramsOf('claude', {}, request(messages))
        expect(count(marked)).toBeLessThanOrEqual(4)
        for (const { content } of marked.messages) {
          for (const sent of content) {
            if (typeof sent === 'object' && (sent.type === 'thinking' || sent.type === 'redacted_thinking'))
              expect(sent).not.toHaveProperty('cache_control')
          }
        }
        const bare = JSON.parse(JSON.stringify(marked, (key, value) => (key === 'cache_control' ? undefined : value)))
        expect(bare).toEqual(JSON.parse(JSON.stringify(paramsOf('claude', { cache: 'off' }, request(messages)))))
      }),
    )
  })

  it('cache breakpoints rely on the same bytes for the same request, and on a common prefix for a longer one', () => {
    const shorter = [
      user('a'),
      { role: 'assistant' as const, content: [thinking, call('t')] },
      { role: 'user' as const, content: [result('t')] },
    ]
    const longer = [...shorter, { role: 'assistant' as const, content: [text('Done.')] }, user('and?')]
    const body = (messages: Message[]) => JSON.stringify(paramsOf('claude', { cache: 'off' }, request(messages)).messages)
    expect(body(longer)).toBe(body(structuredClone(longer)))
    expect(body(longer).startsWith(body(shorter).slice(0, -1))).toBe(true)
  })
})

describe('the rest of a request', () => {
  const request: ModelRequest = { system: ' ', messages: [user('a')], tools: [], sessionId: 's', run: 1, turn: 1 }

  it('a request has no empty system prompt and no empty list of tools', () => {
    expect(Object.keys(paramsOf('claude', {}, request)).sort()).toEqual(['max_tokens', 'messages', 'model', 'stream'])
  })

  it('a request limits the output by its own limit, the option or the thinking budget, else to 32,000 tokens', () => {
    expect(paramsOf('claude', { maxTokens: 9 }, { ...request, maxTokens: 7 }).max_tokens).toBe(7)
    expect(paramsOf('claude', { maxTokens: 9 }, request).max_tokens).toBe(9)
    expect(paramsOf('claude', { thinking: { type: 'enabled', budget_tokens: 40_000 } }, request).max_tokens).toBe(56_000)
    expect(paramsOf('claude', {}, request).max_tokens).toBe(32_000)
  })

  it('a request passes on all other options', () => {
    const params = paramsOf('claude', { effort: 'low', params: { stop_sequences: ['END'], metadata: { user_id: 'u' } } }, request)
    expect(params).toMatchObject({ output_config: { effort: 'low' }, stop_sequences: ['END'], metadata: { user_id: 'u' } })
  })
})
