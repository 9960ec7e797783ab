// Tools that Anthropic runs, in whole sessions, against a fake of its API that refuses what the API would: what is recorded, shown, sent back
// and paid for.
import { randomBytes, randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { type Agent, defineAgent, defineTool, type ModelRequest } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { anthropic } from 'pawl/models'
import { scripted } from 'pawl/testing'
import { providerTool } from 'pawl/tools'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { linesOfEvent } from '../../src/cli/chat/lines.ts'
import { withBlob } from '../../src/session/blobs.ts'
import { uiMessagesOf } from '../../src/ui/messages.ts'
import { researcher } from '../guides/provider-tools.ts'
import { type Deployment, deploy, type RunningWorker } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { runPawl } from './cli/processes.ts'
import { type MessagesApi, messagesApi } from '../support/messages-api.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { gate, until } from '../support/until.ts'

const MODEL = 'claude-sonnet-5-5'
const WEB = [providerTool({ type: 'web_search_20250305', max_uses: 3 }), providerTool({ type: 'web_fetch_20250910' })]
const CODE = providerTool({ type: 'code_execution_20250825' })

let here: Deployment
let api: MessagesApi
let worker: RunningWorker
let database: pg.Pool
let agents: Agent[]
/** What the tool `note` was asked to note. */
const noted: string[] = []
/** What a model of another provider has been asked. */
const asked: ModelRequest[] = []
const other = () =>
  scripted((request) => {
    asked.push(request)
    return 'From another provider.'
  })

beforeAll(async () => {
  ;[here, api] = await Promise.all([deploy({ history: { events: 60 } }), messagesApi()])
  const look = defineTool({ name: 'look', description: 'Looks.', input: z.object({}), effect: 'read', execute: () => 'seen' })
  const note = defineTool({
    name: 'note',
    description: 'Notes.',
    input: z.object({ text: z.string() }),
    effect: 'external',
    execute: (given) => `noted as ${noted.push(given.text)}`,
  })
  const model = anthropic(MODEL, { apiKey: 'test', baseURL: api.url })
  const common = { instructions: 'Be brief.', model, tools: [look, ...WEB, CODE], recovery: { automatic: [] }, retry: { maxRetries: 0 } }
  agents = [
    { ...researcher, model },
    defineAgent({ ...common, name: 'tools' }),
    defineAgent({ ...common, name: 'moving' }),
    defineAgent({ ...common, name: 'noting', tools: [look, note, ...WEB] }),
    defineAgent({ ...common, name: 'few', limits: { maxTurns: 3 } }),
    defineAgent({ ...common, name: 'late', limits: { deadline: '4s' } }),
    defineAgent({
      ...common,
      name: 'priced',
      model: anthropic('claude-sonnet-5-5', { apiKey: 'test', baseURL: api.url, maxTokens: 2_000 }),
      limits: { maxUsd: 0.1 },
    }),
    defineAgent({
      ...common,
      name: 'compact',
      model: anthropic(MODEL, { apiKey: 'test', baseURL: api.url, contextWindow: 4_000, maxTokens: 500 }),
      compaction: {
        at: 0.5,
        keepTurns: 1,
        model: scripted(({ messages }) => `summary of ${JSON.stringify(messages).length} characters`, { contextWindow: 100_000 }),
      },
    }),
    defineAgent({ ...common, name: 'backed', fallback: other() }),
    defineAgent({ ...common, name: 'selecting', activeTools: ({ state }) => (state.run === 1 ? ['web_search', 'look'] : ['look']) }),
  ]
  worker = await here.startWorker({ agents })
  database = new pg.Pool({ connectionString: here.stack.databaseUrl })
})
afterEach(() => {
  api.reset()
  asked.length = 0
})
afterAll(async () => {
  await database?.end()
  await here?.stop()
  await api?.close()
})

const open = (agent = 'tools') => here.pawl.session(`provider-tools-${randomUUID()}`, { agent }) as SessionHandle
const say = async (session: SessionHandle, text: string) => (await session.send(text)).result({ timeout: 30_000 })
const text = (words: string) => ({ type: 'text', text: words })
const direct = { caller: { type: 'direct' } }

const PAGE = { url: 'https://example.com/rain', title: 'Rain in Oslo' }
let count = 0
/** A search and its result of about this many bytes. */
function search(bytes = 300) {
  const id = `srvtoolu_${++count}`
  const found = { type: 'web_search_result', ...PAGE, encrypted_content: randomBytes(bytes).toString('base64'), page_age: null }
  return [
    { type: 'server_tool_use', id, name: 'web_search', input: { query: 'rain in Oslo' }, ...direct },
    { type: 'web_search_tool_result', tool_use_id: id, content: [found], ...direct },
  ] as const
}
const cited = (words: string) => ({
  type: 'text',
  text: words,
  citations: [
    { type: 'web_search_result_location', ...PAGE, encrypted_index: randomBytes(20).toString('base64'), cited_text: 'It rains.' },
  ],
})
const answerOf = (blocks: ReturnType<typeof search>) => [
  text('I will look.'),
  ...blocks,
  text('According to the forecast, '),
  cited('it rains.'),
]
const withoutBreakpoint = (block: object) =>
  JSON.parse(JSON.stringify(block, (name, value: unknown) => (name === 'cache_control' ? undefined : value)))
/** The blocks of the answers in a request, without breakpoints of the cache. */
const blocksSent = (at = -1) =>
  (api.requests.at(at)?.messages ?? []).filter(({ role }) => role === 'assistant').flatMap(({ content }) => content.map(withoutBreakpoint))

/** Every request was one that the API accepts. */
function noProblems(): void {
  expect(api.requests.flatMap(({ problems }) => problems)).toEqual([])
}

const FETCH = [
  { type: 'server_tool_use', id: 'srvtoolu_f', name: 'web_fetch', input: { url: PAGE.url }, ...direct },
  {
    type: 'web_fetch_tool_result',
    tool_use_id: 'srvtoolu_f',
    content: {
      type: 'web_fetch_result',
      url: PAGE.url,
      retrieved_at: '2026-11-28T10:00:00Z',
      content: {
        type: 'document',
        title: 'Rain',
        citations: { enabled: true },
        source: { type: 'text', media_type: 'text/plain', data: 'It rains.' },
      },
    },
    ...direct,
  },
  {
    type: 'text',
    text: 'The page says that it rains.',
    citations: [
      {
        type: 'char_location',
        cited_text: 'It rains.',
        document_index: 0,
        document_title: 'Rain',
        start_char_index: 0,
        end_char_index: 9,
        file_id: null,
      },
    ],
  },
]
const BASH = [
  { type: 'server_tool_use', id: 'srvtoolu_b', name: 'bash_code_execution', input: { command: 'echo 4' }, ...direct },
  {
    type: 'bash_code_execution_tool_result',
    tool_use_id: 'srvtoolu_b',
    content: { type: 'bash_code_execution_result', stdout: '4\n', stderr: '', return_code: 0, content: [] },
  },
  { type: 'server_tool_use', id: 'srvtoolu_e', name: 'text_editor_code_execution', input: { command: 'create', path: 'a.txt' }, ...direct },
  {
    type: 'text_editor_code_execution_tool_result',
    tool_use_id: 'srvtoolu_e',
    content: { type: 'text_editor_code_execution_create_result', is_file_update: false },
  },
  { type: 'server_tool_use', id: 'srvtoolu_p', name: 'code_execution', input: { code: 'print(4)' }, ...direct },
  {
    type: 'code_execution_tool_result',
    tool_use_id: 'srvtoolu_p',
    content: { type: 'code_execution_result', stdout: '4\n', stderr: '', return_code: 0, content: [] },
  },
  text('It is 4.'),
]

describe('a session with tools that Anthropic runs', () => {
  it('the agent of the guide sends the tools as the guide declares them', async () => {
    const session = open('researcher')
    expect((await say(session, 'hi')).text).toBe('Fine.')
    expect(api.requests[0]?.body.tools).toEqual([
      { type: 'web_search_20250305', name: 'web_search', max_uses: 5, allowed_domains: ['example.com'] },
      { type: 'web_fetch_20250910', name: 'web_fetch', max_uses: 5, citations: { enabled: true }, max_content_tokens: 20_000 },
      { type: 'code_execution_20250825', name: 'code_execution', cache_control: { type: 'ephemeral' } },
    ])
    const source = await readFile(new URL('../guides/provider-tools.ts', import.meta.url), 'utf8')
    const [, snippet = ''] = /\/\/ #region guide\n([\s\S]*)\/\/ #endregion/.exec(source) ?? []
    const printed = snippet.trimEnd().replace('../../src/index.ts', 'pawl').replace('../../src/tools/index.ts', 'pawl/tools')
    expect(await readFile(new URL('../../docs/provider-tools.md', import.meta.url), 'utf8')).toContain(`\`\`\`ts\n${printed}\n\`\`\``)
  })

  it.each([
    ['a web search', () => answerOf(search())],
    ['a web fetch', () => FETCH],
    ['code execution', () => BASH],
  ])('the blocks of %s are recorded whole, and the next request has them byte for byte', async (_, make) => {
    const blocks = make()
    const session = open()
    api.answer({ blocks, searches: 1, container: 'container_1' })
    const { text: said } = await say(session, 'look')
    await say(session, 'thanks')
    noProblems()
    expect(JSON.stringify(blocksSent())).toBe(JSON.stringify(blocks))
    expect(said).toBe(blocks.flatMap((block) => ('text' in block ? [block.text] : [])).join(''))
    const { rows } = await rowsMatchEvents(here.stack, session.id)
    expect(rows.messages.filter(({ kind }) => kind === 'assistant')).toHaveLength(2)
    // Everything again, from the store alone.
    await session.close()
    await here.workflowEnded(session.id)
    await say(session, 'again')
    noProblems()
    expect(JSON.stringify(blocksSent().slice(0, blocks.length))).toBe(JSON.stringify(blocks))
  })

  it('code that a provider runs continues in the container of the last answer, or in a new one once that has expired', async () => {
    const session = open()
    api.answer({ blocks: BASH, container: 'container_old' })
    await say(session, 'calculate')
    await say(session, 'and now?')
    expect(api.requests.map(({ body }) => body.container)).toEqual([undefined, 'container_old'])
    api.expire('container_old')
    expect((await say(session, 'later')).text).toBe('Fine.')
    expect(api.requests.at(-2)?.problems).toEqual(['container container_old not found'])
    expect(api.requests.at(-1)?.body.container).toBeUndefined()
    expect(JSON.stringify(api.requests.at(-1)?.messages)).toContain('bash_code_execution')
  })

  it('a tool of the provider and a tool of pawl may be called in one answer: the provider’s result begins the next one', async () => {
    const session = open()
    const [call, result] = search()
    api.answer(
      { blocks: [call, { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} }], stop: 'tool_use' },
      { blocks: [result, cited('It rains, and I have seen it.')] },
    )
    expect((await say(session, 'look twice')).text).toBe('It rains, and I have seen it.')
    await say(session, 'thanks')
    noProblems()
    expect(blocksSent().filter(({ type }) => type !== 'tool_use' && type !== 'text')).toEqual([call, result])
  })

  it('a message whose answer mixed tools of the provider and of pawl is answered again: effects stay done once, and every request is accepted', async () => {
    const session = open('noting')
    const mixed = ([call]: ReturnType<typeof search>, id: string) => ({
      blocks: [
        call,
        { type: 'tool_use', id: `${id}_look`, name: 'look', input: {} },
        { type: 'tool_use', id: `${id}_note`, name: 'note', input: { text: 'umbrella' } },
      ],
      stop: 'tool_use',
    })
    const [first, second] = [search(), search()]
    api.answer(mixed(first, 'toolu_1'), { blocks: [first[1], cited('It rains.')], searches: 1 })
    expect((await say(session, 'look, and note it')).text).toBe('It rains.')
    api.answer(mixed(second, 'toolu_2'), { blocks: [second[1], cited('It still rains.')], searches: 1 })
    const again = await session.regenerate()
    expect((await again.result({ timeout: 30_000 })).text).toBe('It still rains.')
    await say(session, 'thanks')
    noProblems()
    expect(noted).toEqual(['umbrella'])
    expect(blocksSent().filter(({ type }) => type !== 'tool_use' && type !== 'text')).toEqual([...second])
    const parts = uiMessagesOf(await eventsOf(session)).flatMap((message) => (message.role === 'assistant' ? message.parts : []))
    expect(parts.filter(({ type }) => type === 'dynamic-tool' || type.startsWith('tool-'))).toHaveLength(3)
    expect(JSON.stringify(parts)).not.toContain(first[0].id)
    await rowsMatchEvents(here.stack, session.id)
  })

  it('a block of a type that pawl does not know ends the run with an error that names it', async () => {
    const session = open()
    api.answer({ blocks: [{ type: 'mcp_tool_use', id: 'm', name: 'find', server_name: 'shop', input: {} }, text('ok')] })
    await expect(say(session, 'find')).rejects.toThrow(/unknown_block|mcp_tool_use/)
    expect((await session.state()).error).toMatchObject({ code: 'unknown_block', reason: expect.stringContaining('"mcp_tool_use"') })
  })
})

describe('what people see of tools that the provider runs', () => {
  it('useChat has the calls as dynamic tool parts with their results, and the sources that the text cites', async () => {
    const session = open()
    const [call, result] = search()
    api.answer({ blocks: answerOf([call, result]) })
    await say(session, 'look')
    const parts = uiMessagesOf(await eventsOf(session))
      .at(-1)
      ?.parts.filter(({ type }) => type !== 'step-start')
    expect(parts).toEqual([
      { type: 'text', text: 'I will look.', state: 'done' },
      {
        ...{ type: 'dynamic-tool', toolName: 'web_search', toolCallId: call.id, providerExecuted: true },
        ...{
          state: 'output-available',
          input: { query: 'rain in Oslo' },
          output: [{ type: 'web_search_result', ...PAGE, page_age: null }],
        },
      },
      { type: 'text', text: 'According to the forecast, ', state: 'done' },
      { type: 'text', text: 'it rains.', state: 'done' },
      { type: 'source-url', sourceId: '1.0', ...PAGE },
    ])
  })

  it('a failed call of a provider’s tool is an error of its part on the page', async () => {
    const session = open()
    const [call] = search()
    const failed = { type: 'web_search_tool_result_error', error_code: 'max_uses_exceeded' }
    api.answer({ blocks: [call, { type: 'web_search_tool_result', tool_use_id: call.id, content: failed }, text('I could not look.')] })
    await say(session, 'look')
    const parts = uiMessagesOf(await eventsOf(session)).at(-1)?.parts
    expect(parts?.find(({ type }) => type === 'dynamic-tool')).toMatchObject({ state: 'output-error', errorText: 'max_uses_exceeded' })
    await say(session, 'thanks')
    noProblems()
  })

  it('the chat in a terminal shows calls, results and sources', async () => {
    const session = open()
    api.answer({ blocks: answerOf(search()) })
    await say(session, 'look')
    const [answer] = ofType(await eventsOf(session), 'model_completed')
    const lines = linesOfEvent(answer!, { session: session.id, agent: 'tools', isOwn: () => false }).join('\n')
    expect(lines).toContain('⇢ web_search {"query":"rain in Oslo"}')
    expect(lines).toContain('⇠ web_search: Rain in Oslo (https://example.com/rain)')
    expect(lines).toContain('[1] Rain in Oslo (https://example.com/rain)')
    expect(lines).not.toContain('encrypted')
  })
})

it('the command line prints calls, results and the number of searches, and never what only the provider can read', async () => {
  const session = open()
  api.answer({ blocks: answerOf(search()), searches: 2 })
  await say(session, 'look')
  await rowsMatchEvents(here.stack, session.id)
  const env = {
    DATABASE_URL: here.stack.databaseUrl,
    TEMPORAL_ADDRESS: here.stack.temporalAddress,
    TEMPORAL_NAMESPACE: here.stack.namespace,
  }
  const run = async (...args: string[]) => (await runPawl(args, { cwd: tmpdir(), env })).stdout
  const messages = await run('messages', session.id, '--wide')
  expect(messages).toContain('⇢ web_search {"query":"rain in Oslo"} ⇠ web_search: Rain in Oslo (https://example.com/rain)')
  expect(messages).not.toContain('encrypted')
  expect(await run('show', session.id)).toMatch(/10 in, 20 out, 2 web searches/)
  expect(await run('usage', session.id, '--by', 'model', '--wide')).toMatch(/searches[^]*\b2\b/)
})

describe('large blocks', () => {
  it.each([200_000, 3_000_000])(
    'blocks with %i bytes are in the side store, and every later request has them byte for byte',
    async (bytes) => {
      const blocks = answerOf(search(bytes))
      const session = open()
      api.answer({ blocks })
      await say(session, 'look')
      await worker.stop()
      worker = await here.startWorker({ agents })
      await say(session, 'thanks')
      noProblems()
      expect(JSON.stringify(blocksSent())).toBe(JSON.stringify(blocks))
      const [answer] = ofType(await eventsOf(session), 'model_completed')
      expect(answer?.blob?.bytes).toBeGreaterThan(bytes)
      expect(JSON.stringify(answer?.content).length).toBeLessThan(2_000)
      const whole = JSON.parse((await session.blob(answer!.blob!.sha256)) ?? '')
      expect(JSON.stringify(withBlob(answer!, whole))).toContain(JSON.stringify(blocks[1]))
      const row = (await session.messages()).find(({ kind }) => kind === 'assistant')
      expect(JSON.stringify(row?.content)).toContain(JSON.stringify(blocks[2]))
      await rowsMatchEvents(here.stack, session.id)
    },
  )
})

describe('an answer that pauses', () => {
  /** The first piece of an answer ends in a call; the second one begins with its result. */
  function pieces() {
    const [call, result] = search()
    return {
      call,
      result,
      first: { blocks: [text('I will look.'), call], stop: 'pause_turn' },
      second: { blocks: [result, cited('It rains.')] },
    }
  }

  it('an answer that pauses is continued as it was sent, and is one answer for the provider and on the page', async () => {
    const session = open()
    const { call, result, first, second } = pieces()
    api.answer(first, second)
    expect((await say(session, 'look')).text).toBe('It rains.')
    expect(api.requests[1]?.messages.at(-1)).toMatchObject({ role: 'assistant', content: [{ text: 'I will look.' }, { id: call.id }] })
    await say(session, 'thanks')
    noProblems()
    expect(blocksSent().map(({ type }) => type)).toEqual(['text', 'server_tool_use', 'web_search_tool_result', 'text'])
    expect(blocksSent()).toContainEqual(result)
    const parts = uiMessagesOf(await eventsOf(session)).find(({ role }) => role === 'assistant')?.parts ?? []
    expect(parts.find(({ type }) => type === 'dynamic-tool')).toMatchObject({ state: 'output-available' })
  })

  it('an answer that keeps pausing ends with maxTurns', async () => {
    const session = open('few')
    api.answer(...[1, 2, 3, 4].map(() => ({ blocks: [...search()], stop: 'pause_turn' })))
    await expect(say(session, 'look')).rejects.toThrow()
    expect((await session.state()).error?.code).toBe('max_turns')
    expect(api.requests).toHaveLength(3)
    noProblems()
  })

  it('an interrupt between two pieces leaves a conversation that the provider accepts', async () => {
    const session = open()
    const held = gate()
    const { call, first } = pieces()
    api.answer(first, { blocks: [], before: () => held.pass(new AbortController().signal) })
    const run = await session.send('look')
    await until('the second piece is asked for', () => api.requests.length === 2)
    await session.interrupt()
    expect(await run.result({ timeout: 30_000 }).catch((error: unknown) => error)).toBeDefined()
    held.open()
    api.answer({ blocks: [text('As you like.')] })
    expect((await say(session, 'never mind')).text).toBe('As you like.')
    noProblems()
    expect(JSON.stringify(api.requests.at(-1)?.messages)).toContain('the provider ran web_search')
    const parts = uiMessagesOf(await eventsOf(session)).find(({ role }) => role === 'assistant')?.parts ?? []
    expect(parts.find(({ type }) => type === 'dynamic-tool')).toMatchObject({ toolCallId: call.id, state: 'output-error' })
  })

  it('the deadline of the run ends an answer between two pieces', async () => {
    const session = open('late')
    const held = gate()
    const { first } = pieces()
    api.answer(first, { blocks: [], before: () => held.pass(new AbortController().signal) })
    await expect(say(session, 'look')).rejects.toThrow()
    held.open()
    expect((await session.state()).error?.code).toBe('deadline_exceeded')
  })

  it.each(['continue_run', 'restart_run', 'abandon'] as const)(
    'a run that fails between two pieces can be recovered with %s',
    async (strategy) => {
      const session = open()
      const { first, second } = pieces()
      api.answer(first, { blocks: [], before: (_, res) => void res.destroy() })
      await expect(say(session, 'look')).rejects.toThrow()
      api.answer(...(strategy === 'restart_run' ? [first] : []), ...(strategy === 'abandon' ? [] : [second]))
      await session.recover({ strategy })
      await until('the session is idle', async () => (await session.state()).status === 'idle')
      await say(session, 'thanks')
      noProblems()
      expect(blocksSent().some(({ type }) => type === 'web_search_tool_result')).toBe(strategy !== 'abandon')
    },
  )
})

describe('what tools of the provider cost', () => {
  it('searches are counted in the usage of the run, and in its price', async () => {
    const session = open()
    api.answer({ blocks: answerOf(search()), searches: 2 })
    const { usage } = await say(session, 'look')
    expect(usage).toMatchObject({ input_tokens: 10, output_tokens: 20, web_search_requests: 2 })
    const { rows } = await rowsMatchEvents(here.stack, session.id)
    // 10 × $2 + 20 × $10, per million tokens, and 2 × $10, per thousand searches.
    expect(Number(rows.token_usage[0]?.usd)).toBe(0.02022)
  })

  it('a budget ends a run before a call whose searches could exceed it', async () => {
    const session = open('priced')
    api.answer({ blocks: answerOf(search()), searches: 3 }, { blocks: answerOf(search()), searches: 3 })
    await say(session, 'look')
    expect((await session.state()).spend?.usd).toBeCloseTo(0.03022, 5)
    const second = open('priced')
    api.answer({ blocks: [...search()], searches: 8, stop: 'pause_turn' })
    api.reset()
    api.answer({ blocks: [...search()], searches: 8, stop: 'pause_turn' })
    await expect(say(second, 'look more')).rejects.toThrow(/budget/)
    expect((await second.state()).error?.code).toBe('budget_exhausted')
    expect(api.requests).toHaveLength(1)
  })
})

describe('a conversation with blocks of the provider that changes', () => {
  it('a compaction leaves a request that the provider accepts', async () => {
    const session = open('compact')
    for (const n of [1, 2, 3]) {
      api.answer({ blocks: [...answerOf(search(3_000)), text(`That was ${n}.`)], input: 3_000 })
      await say(session, `look ${n}`)
    }
    await say(session, 'thanks')
    noProblems()
    expect(ofType(await eventsOf(session), 'compacted').length).toBeGreaterThan(0)
    expect(JSON.stringify(api.requests.at(-1)?.messages)).toContain('summary of')
  })

  it('a compaction between the pieces of an answer leaves a request that the provider accepts', async () => {
    const session = open('compact')
    const [call, result] = search(2_500)
    const [call2, result2] = search(2_500)
    api.answer(
      { blocks: [call, result, call2], stop: 'pause_turn', input: 3_000 },
      { blocks: [result2, cited('It rains.')], stop: 'pause_turn', input: 3_000 },
      { blocks: [text('And it rains more.')] },
    )
    await say(session, 'look')
    await say(session, 'thanks')
    noProblems()
    expect(ofType(await eventsOf(session), 'compacted').length).toBeGreaterThan(0)
  })

  it('a rollback and a regenerated answer leave requests that the provider accepts', async () => {
    const session = open()
    api.answer({ blocks: answerOf(search()) }, { blocks: answerOf(search()) }, { blocks: answerOf(search()) })
    await say(session, 'one')
    await say(session, 'two')
    await session.rollback({ run: 2 })
    await say(session, 'three')
    noProblems()
    expect(blocksSent()).toHaveLength(5)
  })

  it('a fork has the blocks of its parent, including large ones', async () => {
    const session = open()
    const blocks = answerOf(search(200_000))
    api.answer({ blocks })
    await say(session, 'one')
    const fork = await session.fork({ checkpoint: 1 })
    await say(fork as SessionHandle, 'two')
    noProblems()
    expect(JSON.stringify(blocksSent())).toBe(JSON.stringify(blocks))
  })

  it('a fallback of another provider gets notes in place of the blocks, and the provider gets its blocks again afterwards', async () => {
    const session = open('backed')
    const blocks = answerOf(search())
    api.answer({ blocks }, { blocks: [], before: (_, res) => void res.destroy() })
    await say(session, 'one')
    expect((await say(session, 'two')).text).toBe('From another provider.')
    const seen = JSON.stringify(asked[0]?.messages)
    expect(seen).toContain('the provider ran web_search')
    expect(seen).toContain('Rain in Oslo (https://example.com/rain)')
    expect(seen).not.toMatch(/encrypted|"provider"/)
    await say(session, 'three')
    noProblems()
    expect(JSON.stringify(blocksSent()).startsWith(JSON.stringify(blocks).slice(0, -1))).toBe(true)
  })

  it('a session whose agent changes to another provider continues, and can come back', async () => {
    const session = open('moving')
    const blocks = answerOf(search())
    api.answer({ blocks })
    await say(session, 'one')
    await worker.stop()
    const elsewhere = agents.map((agent) =>
      agent.name === 'moving' ? defineAgent({ name: 'moving', instructions: '', model: other() }) : agent,
    )
    worker = await here.startWorker({ agents: elsewhere })
    expect((await say(session, 'two')).text).toBe('From another provider.')
    expect(asked[0]?.providerTools).toBeUndefined()
    await worker.stop()
    worker = await here.startWorker({ agents })
    await say(session, 'three')
    noProblems()
    expect(JSON.stringify(blocksSent())).toContain(JSON.stringify(blocks[2]))
  })

  it('activeTools also selects tools of the provider', async () => {
    const session = open('selecting')
    await say(session, 'one')
    await say(session, 'two')
    const names = api.requests.map(({ body }) => (body.tools as { name: string }[]).map(({ name }) => name))
    expect(names).toEqual([['web_search', 'look'], ['look']])
  })
})

describe('providerTool', () => {
  it.each([
    [{ type: 'bash_20250124' }, /bash_20250124/],
    [{ type: 'tool_search_tool_regex_20251119' }, /tool_search_tool_regex/],
    [{ type: 'web_search_20250305', name: 'search' }, /"web_search"/],
    [{ type: 'web_search_20250305', cache_control: { type: 'ephemeral' } }, /cache_control/],
    [{ id: 'openai.local_shell', args: {}, type: 'provider', isProviderExecuted: false }, /does not run at the provider/],
    [{ id: 'search', args: {} }, /openai.web_search/],
    [{}, /neither/],
  ])('%j is refused', (given, message) => {
    expect(() => providerTool(given as never)).toThrow(message)
  })

  it('an agent with a budget in US dollars needs the price of searches', () => {
    const tools = [providerTool({ id: 'openai.web_search', args: {} })]
    const model = (webSearch?: number) => ({
      name: 'gpt',
      price: { input: 1, output: 1, ...(webSearch !== undefined && { webSearch }) },
      runsTool: () => true,
      generate: () => Promise.reject(new Error('never called')),
    })
    const declare = (given: ReturnType<typeof model>) =>
      defineAgent({ name: 'a', instructions: '', model: given, tools, limits: { maxUsd: 1 } })
    expect(() => declare(model())).toThrow(expect.objectContaining({ code: 'no_price', message: expect.stringContaining('webSearch') }))
    expect(() => declare(model(0))).not.toThrow()
  })

  it('an agent without a model whose provider runs the tool is refused', () => {
    const gpt = providerTool({ id: 'openai.web_search', args: {} })
    expect(() => defineAgent({ name: 'a', instructions: '', model: MODEL, tools: [gpt] })).toThrow(/"web_search".*"openai"/)
    expect(() => defineAgent({ name: 'a', instructions: '', model: MODEL, tools: [...WEB, ...WEB] })).toThrow(/two tools named/)
    const same = defineTool({ name: 'web_search', description: 'Searches.', input: z.object({}), effect: 'read', execute: () => '' })
    expect(() => defineAgent({ name: 'a', instructions: '', model: MODEL, tools: [same, ...WEB] })).toThrow(/two tools named/)
  })
})
