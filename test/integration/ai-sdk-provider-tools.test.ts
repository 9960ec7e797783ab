// Tools that OpenAI and Google run, through the packages of AI SDK 6 and 7: what is recorded, shown, sent back and paid for.
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { google as google6 } from '@ai-sdk/google'
import { openai as openai6 } from '@ai-sdk/openai'
import { type Agent, defineAgent, defineTool } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { aiSdk } from 'pawl/models'
import { providerTool } from 'pawl/tools'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { uiMessagesOf } from '../../src/ui/messages.ts'
import { google as google7 } from '../ai-sdk-7/google.ts'
import { openai as openai7 } from '../ai-sdk-7/openai.ts'
import { reporter } from '../guides/provider-tools-ai-sdk.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { streamed, WIRES } from '../support/provider-wires.ts'
import { type WireServer, wireServer } from '../support/wire-server.ts'

type Item = Record<string, unknown>

let here: Deployment
let server: WireServer

const wireOf = (name: string, version: string) =>
  WIRES.find((wire) => wire.name.includes(name) && wire.name.endsWith(version)) ?? expect.fail(`no wire ${name} ${version}`)

/** OpenAI bills searches at 10 US dollars per thousand. */
const price = { input: 0, output: 0, webSearch: 10 }

beforeAll(async () => {
  ;[here, server] = await Promise.all([deploy(), wireServer()])
  const look = defineTool({ name: 'look', description: 'Looks.', input: z.object({}), effect: 'read', execute: () => 'seen' })
  const common = { instructions: 'Be brief.', recovery: { automatic: [] }, retry: { maxRetries: 0 } }
  const agents = [
    { version: 'v3', openai: openai6, google: google6 },
    { version: 'v4', openai: openai7, google: google7 },
  ].flatMap(({ version, openai, google }): Agent[] => {
    const gpt = aiSdk(wireOf('Responses', version).model(server.url), { price })
    const gemini = aiSdk(wireOf('Google', version).model(server.url), { price })
    const ofOpenai = [providerTool(openai.tools.webSearch({})), providerTool(openai.tools.codeInterpreter({}))]
    const ofGoogle = [providerTool(google.tools.googleSearch({}), { name: 'web_search' }), providerTool(google.tools.codeExecution({}))]
    return [
      defineAgent({ ...common, name: `gpt-${version}`, model: gpt, tools: [look, ...ofOpenai, ...ofGoogle], fallback: gemini }),
      defineAgent({ ...common, name: `gemini-${version}`, model: gemini, tools: [look, ...ofGoogle, ...ofOpenai], fallback: gpt }),
    ]
  })
  await here.startWorker({ agents })
})
afterEach(() => server.reset())
afterAll(async () => {
  await here?.stop()
  await server?.close()
})

const open = (agent: string) => here.pawl.session(`ai-sdk-tools-${randomUUID()}`, { agent }) as SessionHandle
const say = async (session: SessionHandle, text: string) => (await session.send(text)).result({ timeout: 30_000 })
const sse = (...events: Item[]) => streamed(events.map((one) => `data: ${JSON.stringify(one)}\n\n`))
const bodies = () => server.received.map(({ body }) => body as Record<string, unknown> & { input: Item[]; contents: Item[]; tools: Item[] })

const SEARCH = {
  ...{ id: 'ws_1', type: 'web_search_call', status: 'completed' },
  action: { type: 'search', query: 'rain in Oslo', sources: [{ type: 'url', url: 'https://example.com/rain' }] },
}
const OPENED = { id: 'ws_2', type: 'web_search_call', status: 'completed', action: { type: 'open_page', url: 'https://example.com/rain' } }
const CODE = {
  id: 'ci_1',
  type: 'code_interpreter_call',
  status: 'completed',
  code: 'print(4)',
  container_id: 'cntr_1',
  outputs: [{ type: 'logs', logs: '4' }],
}
const CITED = { type: 'url_citation', start_index: 0, end_index: 5, url: 'https://example.com/rain', title: 'Rain in Oslo' }

/** An answer of OpenAI's Responses API with these items, and then a text that cites a page. */
function openaiAnswer(items: Item[], text = 'It rains.', annotations: Item[] = [CITED]) {
  const reasoning = { type: 'reasoning', id: 'rs_1', encrypted_content: 'c2lnbmVk', summary: [] }
  const all: Item[] = [reasoning, ...items]
  const begun = (item: Item) => ({
    ...Object.fromEntries(Object.entries(item).filter(([name]) => name !== 'action')),
    ...('outputs' in item && { outputs: null, code: '' }),
    status: 'in_progress',
  })
  const message = { type: 'message', id: 'msg_1', role: 'assistant', content: [] }
  const at = all.length
  return sse(
    { type: 'response.created', response: { id: 'resp_1', created_at: 1, model: 'gpt-5.4-2026-03-05', service_tier: null } },
    ...all.flatMap((item, output_index) => [
      { type: 'response.output_item.added', output_index, item: item.type === 'reasoning' ? item : begun(item) },
      ...(item.type === 'code_interpreter_call'
        ? [{ type: 'response.code_interpreter_call_code.done', item_id: item.id, output_index, code: item.code }]
        : []),
      { type: 'response.output_item.done', output_index, item },
    ]),
    { type: 'response.output_item.added', output_index: at, item: message },
    { type: 'response.output_text.delta', item_id: 'msg_1', output_index: at, content_index: 0, delta: text, logprobs: [] },
    ...annotations.map((annotation, annotation_index) => ({
      ...{ type: 'response.output_text.annotation.added', item_id: 'msg_1', output_index: at, content_index: 0, annotation_index },
      annotation,
    })),
    {
      type: 'response.output_item.done',
      output_index: at,
      item: { ...message, content: [{ type: 'output_text', text, annotations, logprobs: [] }] },
    },
    {
      type: 'response.completed',
      response: { incomplete_details: null, usage: { input_tokens: 5, output_tokens: 5 }, service_tier: null },
    },
  )
}

function googleAnswer(parts: Item[], more: Item = {}) {
  const candidate = (given: Item[], rest: Item = {}) => ({ candidates: [{ content: { role: 'model', parts: given }, index: 0, ...rest }] })
  return sse(...parts.map((part) => candidate([part])), {
    ...candidate([{ text: '' }], { finishReason: 'STOP', ...more }),
    usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 5, totalTokenCount: 10 },
  })
}

describe.each(['v3', 'v4'])('by specification %s', (version) => {
  it(`a search by OpenAI is recorded, shown with its source, sent back as OpenAI demands it, and paid for (${version})`, async () => {
    const session = open(`gpt-${version}`)
    server.answer(openaiAnswer([SEARCH, OPENED]), openaiAnswer([], 'Fine.', []))
    const { text, usage } = await say(session, 'look')
    expect(text).toBe('It rains.')
    // Opening a page is not a search.
    expect(usage.web_search_requests).toBe(1)
    await say(session, 'thanks')
    const [first, second] = bodies()
    expect(first?.tools.map(({ type }) => type).sort()).toEqual(['code_interpreter', 'function', 'web_search'])
    expect(second?.input.filter(({ type }) => type === 'web_search_call')).toEqual([SEARCH, OPENED])
    expect(JSON.stringify(second?.input)).toContain('c2lnbmVk')
    const events = await eventsOf(session)
    const [answer] = ofType(events, 'model_completed')
    expect(answer?.content.filter((block) => block.type === 'provider' && block.part !== 'source')).toMatchObject([
      { part: 'call', id: 'ws_1', provider: 'openai.responses' },
      { part: 'result', id: 'ws_1', sources: [{ type: 'url', url: 'https://example.com/rain' }] },
      { part: 'call', id: 'ws_2' },
      { part: 'result', id: 'ws_2' },
    ])
    const parts = uiMessagesOf(events).find(({ role }) => role === 'assistant')?.parts ?? []
    expect(parts.filter(({ type }) => type === 'dynamic-tool')).toMatchObject([
      { toolName: 'web_search', state: 'output-available', providerExecuted: true },
      { toolName: 'web_search', state: 'output-available' },
    ])
    expect(parts.filter(({ type }) => type === 'source-url')).toMatchObject([{ url: 'https://example.com/rain', title: 'Rain in Oslo' }])
    expect((await session.state()).usage.web_search_requests).toBe(1)
  })

  it(`what OpenAI’s package does not send back becomes a note (${version})`, async () => {
    const session = open(`gpt-${version}`)
    server.answer(openaiAnswer([CODE], 'It is 4.', []), openaiAnswer([], 'Fine.', []))
    await say(session, 'calculate')
    await say(session, 'thanks')
    const sent = JSON.stringify(bodies()[1]?.input)
    expect(sent).not.toContain('code_interpreter_call')
    expect(sent).toContain('the provider ran code_interpreter')
    expect(sent).toContain('\\"logs\\":\\"4\\"')
  })

  it(`a search by Google is recorded, shown with its sources, and paid for (${version})`, async () => {
    const session = open(`gemini-${version}`)
    const groundingMetadata = {
      webSearchQueries: ['rain in Oslo', 'rain today'],
      groundingChunks: [{ web: { uri: 'https://example.com/rain', title: 'Rain in Oslo' } }],
      groundingSupports: [{ segment: { startIndex: 0, endIndex: 9 }, groundingChunkIndices: [0] }],
    }
    server.answer(googleAnswer([{ text: 'It rains.' }], { groundingMetadata }), googleAnswer([{ text: 'Fine.' }]))
    expect((await say(session, 'look')).usage.web_search_requests).toBe(2)
    await say(session, 'thanks')
    const parts = uiMessagesOf(await eventsOf(session)).find(({ role }) => role === 'assistant')?.parts ?? []
    expect(parts.filter(({ type }) => type === 'source-url')).toMatchObject([{ url: 'https://example.com/rain', title: 'Rain in Oslo' }])
    expect(JSON.stringify(bodies()[0]?.tools)).toMatch(/googleSearch/)
  })

  it(`code that Google runs is recorded, and never sent back as a call without a result (${version})`, async () => {
    const session = open(`gemini-${version}`)
    server.answer(
      googleAnswer([
        { executableCode: { language: 'PYTHON', code: 'print(4)' } },
        { codeExecutionResult: { outcome: 'OUTCOME_OK', output: '4\n' } },
        { text: 'It is 4.' },
      ]),
      googleAnswer([{ text: 'Fine.' }]),
    )
    await say(session, 'calculate')
    await say(session, 'thanks')
    const [answer] = ofType(await eventsOf(session), 'model_completed')
    expect(answer?.content.map((block) => (block.type === 'provider' ? block.part : block.type))).toEqual(['call', 'result', 'text'])
    const sent = JSON.stringify(bodies()[1]?.contents)
    expect(sent).not.toContain('functionCall')
    expect(sent).toContain('the provider ran code_execution')
    expect(sent).toContain('OUTCOME_OK')
  })

  it(`calls that Google’s API names are sent back as they came (${version})`, async () => {
    const session = open(`gemini-${version}`)
    const toolCall = { toolType: 'GOOGLE_SEARCH_WEB', args: { queries: ['rain'] }, id: 'srv_1' }
    const toolResponse = { toolType: 'GOOGLE_SEARCH_WEB', response: { found: 1 }, id: 'srv_1' }
    server.answer(
      googleAnswer([{ toolCall, thoughtSignature: 'c2ln' }, { toolResponse, thoughtSignature: 'c2ln' }, { text: 'It rains.' }]),
      googleAnswer([{ text: 'Fine.' }]),
    )
    await say(session, 'look')
    await say(session, 'thanks')
    const sent = bodies()[1]?.contents.flatMap(({ parts }) => parts as Item[]) ?? []
    expect(sent.flatMap(({ toolCall: one }) => one ?? [])).toEqual([toolCall])
    expect(sent.flatMap(({ toolResponse: one }) => one ?? [])).toEqual([toolResponse])
  })

  it(`a fallback of the other provider gets its own tools, and notes in place of the first one’s blocks (${version})`, async () => {
    const session = open(`gpt-${version}`)
    server.answer(
      openaiAnswer([SEARCH]),
      (res) => void res.writeHead(401).end('{}'),
      googleAnswer([{ text: 'From Google.' }]),
      openaiAnswer([], 'Back.', []),
    )
    await say(session, 'look')
    expect((await say(session, 'again')).text).toBe('From Google.')
    const toGoogle = bodies()[2]
    expect(JSON.stringify(toGoogle?.tools)).toMatch(/googleSearch/)
    expect(JSON.stringify(toGoogle?.contents)).toContain('the provider ran web_search')
    expect(JSON.stringify(toGoogle)).not.toMatch(/ws_1|c2lnbmVk/)
    expect((await say(session, 'and now?')).text).toBe('Back.')
    expect(bodies()[3]?.input.filter(({ type }) => type === 'web_search_call')).toEqual([SEARCH])
  })
})

describe('tools of packages', () => {
  it('a call fails if the package leaves a tool out because its model does not have it', async () => {
    const part = { type: 'stream-start', warnings: [{ type: 'unsupported', feature: 'provider-defined tool google.file_search' }] }
    const stream = () => ReadableStream.from([part])
    const model = aiSdk({
      specificationVersion: 'v3',
      provider: 'google.ai',
      modelId: 'g',
      supportedUrls: {},
      doStream: async () => ({ stream: stream() }),
    })
    const tool = providerTool({ id: 'google.file_search', args: {} })
    const { name, provider, form, definition } = tool
    expect(model.runsTool?.(tool)).toBe(true)
    const ctx = { signal: new AbortController().signal, attempt: 1, onDelta: () => undefined }
    const request = { system: '', messages: [{ role: 'user' as const, content: 'hi' }], tools: [], sessionId: 's', run: 1, turn: 1 }
    await expect(model.generate({ ...request, providerTools: [{ name, provider, form, definition }] }, ctx)).rejects.toMatchObject({
      code: 'unsupported',
      message: expect.stringContaining('google.file_search'),
    })
  })

  it('the agent of the guide has the tools as the guide declares them', async () => {
    expect(reporter.providerTools.map(({ name, provider, definition }) => [name, provider, definition])).toEqual([
      ['web_search', 'openai', { id: 'openai.web_search', args: { searchContextSize: 'high' } }],
      ['code_interpreter', 'openai', { id: 'openai.code_interpreter', args: {} }],
      ['web_search', 'google', { id: 'google.google_search', args: {} }],
    ])
    const source = await readFile(new URL('../guides/provider-tools-ai-sdk.ts', import.meta.url), 'utf8')
    const [, snippet = ''] = /\/\/ #region guide\n([\s\S]*)\/\/ #endregion/.exec(source) ?? []
    const printed = ['index', 'models/index', 'tools/index'].reduce(
      (text, path) => text.replace(`../../src/${path}.ts`, `pawl${path === 'index' ? '' : `/${path.split('/')[0]}`}`),
      snippet.trimEnd(),
    )
    expect(await readFile(new URL('../../docs/provider-tools.md', import.meta.url), 'utf8')).toContain(`\`\`\`ts\n${printed}\n\`\`\``)
  })
})
