// Files: documents in messages and in results, for every provider, through everything that happens to a session.
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineAgent, defineSlice, defineTool, type UserBlock } from 'pawl'
import type { SendOptions, SessionHandle } from 'pawl/client'
import { aiSdk, anthropic } from 'pawl/models'
import { type Access, createHandler, type Handler } from 'pawl/service'
import { scripted, startStack, type Stack } from 'pawl/testing'
import { PawlChatTransport } from 'pawl/ui'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import type { UIMessage } from '../ai-sdk-7/ai.ts'
import { Chat } from '../ai-sdk-7/react.ts'
import { askAbout, readInvoice } from '../guides/files.ts'
import { type Deployment, deploy, type RunningWorker, SILENT } from '../support/deployment.ts'
import { pdfBlock, pdfBytes, textDocument } from '../support/documents.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { anthropicProblems, chatProblems, googleProblems, openaiProblems } from '../support/provider-rules.ts'
import { anthropicChunks, streamed, type WireAnswerSpec, WIRES } from '../support/provider-wires.ts'
import { answersIn, saidIn, stage, use } from '../support/scenes.ts'
import { until } from '../support/until.ts'
import { webClient } from '../support/web.ts'
import { runPawl } from './cli/processes.ts'

const TIMEOUT = { timeout: 60_000 }
/** More than what a signal can carry. */
const LARGE = 1_500_000
const FOUND = { title: 'found.pdf', size: 200_000, seed: 'found' }

/** A fake of a provider's API: refuses what its documentation forbids, and keeps what it accepts. */
interface FakeApi {
  url: string
  bodies: string[]
  /** Refuses requests with this text as invalid. */
  refuses: Set<string>
  /** Requests with this text are longer than the window. */
  tooLong: string | undefined
  server: Server
}

async function fakeApi(
  problemsOf: (body: Record<string, unknown>) => string[],
  answer: (spec: WireAnswerSpec) => string[],
  refusal: (message: string) => object,
): Promise<FakeApi> {
  const bodies: string[] = []
  const refuses = new Set<string>()
  const server = createServer(async (req, res) => {
    let json = ''
    for await (const chunk of req.setEncoding('utf8')) json += chunk
    const problems = problemsOf(JSON.parse(json) as Record<string, unknown>)
    const forbidden = [...refuses].find((text) => json.includes(text))
    if (forbidden !== undefined) problems.push('messages.0.content.0: The PDF specified was not valid.')
    if (api.tooLong !== undefined && json.includes(api.tooLong)) problems.push('prompt is too long: 1200000 tokens > 200000 maximum')
    if (problems.length > 0) {
      res.writeHead(400, { 'content-type': 'application/json' }).end(JSON.stringify(refusal(problems.join('; '))))
      return
    }
    bodies.push(json)
    const isAsked = json.includes('Find it') && !json.includes('I found it')
    const wantsTool = isAsked && !/tool_result|function_call_output|functionResponse|"role":"tool"/.test(json)
    const spec: WireAnswerSpec = wantsTool
      ? { calls: [{ id: 'call_1', name: 'find', json: ['{}'] }], stop: 'stop', usage: { input: 10, output: 5 } }
      : { text: [isAsked ? 'I found it.' : 'Read.'], stop: 'stop', usage: { input: 10, output: 5 } }
    streamed(answer(spec))(res)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const api: FakeApi = { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, bodies, refuses, tooLong: undefined, server }
  return api
}

const wireOf = (name: string) => WIRES.find((wire) => wire.name.includes(name)) ?? expect.fail(`no wire ${name}`)
const openai6 = wireOf('Responses API by specification v3')
const openai7 = wireOf('Responses API by specification v4')
const chat6 = wireOf('Chat Completions by specification v3')
const chat7 = wireOf('Chat Completions by specification v4')
const google7 = wireOf('Gemini API by specification v4')

/** What each session's scripted model was given, in order. */
const requests = new Map<string, string[]>()
const find = defineTool({
  name: 'find',
  description: 'Finds a report.',
  input: z.object({}),
  effect: 'read',
  execute: (): UserBlock[] => [{ type: 'text', text: 'Here it is.' }, pdfBlock(FOUND)],
})
const titles = defineSlice({
  name: 'titles',
  version: 1,
  schema: z.array(z.string()),
  initial: [],
  on: {
    message_received: (names, { content }) =>
      typeof content === 'string'
        ? names
        : [...names, ...content.flatMap((block) => (block.type === 'document' ? [block.title ?? ''] : []))],
  },
})
const files = defineAgent({
  name: 'files',
  instructions: 'Read.',
  tools: [find, readInvoice],
  slices: [titles],
  recovery: { automatic: [] },
  model: scripted((request) => {
    const json = JSON.stringify(request.messages)
    requests.set(request.sessionId, [...(requests.get(request.sessionId) ?? []), json])
    const said = saidIn(request).at(-1) ?? ''
    const last = request.messages.at(-1)?.content
    const isResult = Array.isArray(last) && last.some(({ type }) => type === 'tool_result')
    if (!isResult && said.includes('Find it')) return [{ type: 'tool_use', id: 'x', name: 'find', input: {} }]
    if (!isResult && said.includes('invoice')) return [{ type: 'tool_use', id: 'x', name: 'read_invoice', input: { id: 'i-7' } }]
    return `Answer ${answersIn(request)}.`
  }),
})

/** Its model has a small window. */
const long = stage({ name: 'long', compaction: { at: 0.5, keepTurns: 1 } }, { contextWindow: 4_000 })

let stack: Stack
let here: Deployment
let worker: RunningWorker
let database: pg.Pool
let claude: FakeApi
let gpt: FakeApi
let gemini: FakeApi
let completions: FakeApi
let agents: ReturnType<typeof defineAgent>[]

beforeAll(async () => {
  // These tests stop and start Postgres, so they have their own.
  stack = await startStack({ temporal: ['path', 'cache', 'download', 'go'], postgres: ['embedded'] })
  ;[here, claude, gpt, gemini, completions] = await Promise.all([
    deploy({ stack }),
    fakeApi(anthropicProblems, anthropicChunks, (message) => ({ type: 'error', error: { type: 'invalid_request_error', message } })),
    fakeApi(openaiProblems, openai7.chunks, (message) => openai7.refusal(400, 'invalid_request_error', message)),
    fakeApi(googleProblems, google7.chunks, (message) => google7.refusal(400, 'INVALID_ARGUMENT', message)),
    fakeApi(chatProblems, chat7.chunks, (message) => chat7.refusal(400, 'invalid_request_error', message)),
  ])
  const common = { instructions: 'Read.', tools: [find], retry: { maxRetries: 0 }, recovery: { automatic: [] } }
  agents = [
    files,
    long.agent,
    defineAgent({ ...common, name: 'claude', model: anthropic('claude-sonnet-5-5', { apiKey: 'test', baseURL: claude.url }) }),
    defineAgent({ ...common, name: 'gpt-6', model: aiSdk(openai6.model(gpt.url)) }),
    defineAgent({ ...common, name: 'gpt-7', model: aiSdk(openai7.model(gpt.url)) }),
    defineAgent({ ...common, name: 'chat-6', model: aiSdk(chat6.model(completions.url)) }),
    defineAgent({ ...common, name: 'chat-7', model: aiSdk(chat7.model(completions.url)) }),
    defineAgent({ ...common, name: 'gemini', model: aiSdk(google7.model(gemini.url)) }),
  ] as ReturnType<typeof defineAgent>[]
  await startWorker()
  database = new pg.Pool({ connectionString: stack.databaseUrl })
  database.on('error', () => undefined)
})
afterAll(async () => {
  await database?.end()
  for (const api of [claude, gpt, gemini, completions]) api?.server.close()
  await here?.stop()
  await stack?.stop()
})
beforeEach(() => stack.postgres.start())

async function startWorker(): Promise<void> {
  const archive = { invoice: async (id: string) => pdfBytes({ size: 150_000, seed: id }) }
  worker = await here.startWorker({ agents, services: { archive } })
}

const open = (agent = 'files', id = `files-${randomUUID()}`) => here.pawl.session(id, { agent }) as SessionHandle
async function say(session: SessionHandle, content: string | UserBlock[], options: SendOptions = {}): Promise<string> {
  return (await (await session.send(content, options)).result(TIMEOUT)).text
}
const text = (value: string): UserBlock => ({ type: 'text', text: value })
const dataOf = (block: { source: unknown }): string => (block.source as { data: string }).data
const newest = (session: SessionHandle): string => requests.get(session.id)?.at(-1) ?? expect.fail('the model was not asked')
async function anotherWorker(): Promise<void> {
  await worker.stop()
  await startWorker()
}
async function blobsOf(id: string): Promise<number> {
  const { rows } = await database.query('select count(*)::int as n from pawl.blobs where session_id = $1', [id])
  return rows[0].n as number
}
async function stored(session: SessionHandle): Promise<void> {
  const last = (await eventsOf((await here.connect({ postgres: false })).session(session.id))).at(-1)?.seq ?? 0
  await until('everything is stored', async () => {
    const { rows } = await database.query('select flushed_seq::int as seq from pawl.sessions where session_id = $1', [session.id])
    return rows[0]?.seq >= last
  })
}

describe('a file', () => {
  it.each([
    ['claude', () => claude],
    ['gpt-6', () => gpt],
    ['gpt-7', () => gpt],
    ['chat-6', () => completions],
    ['chat-7', () => completions],
    ['gemini', () => gemini],
  ] as const)('a file in a message and one in a result reach %s in every later turn, from another worker, too', async (agent, api) => {
    const { bodies } = api()
    const session = open(agent)
    const sent = pdfBlock({ title: 'sent.pdf', size: LARGE, seed: agent })
    const note = textDocument('The budget is €500.', 'note.txt')
    const before = bodies.length
    expect(await say(session, [sent, note, text('Find it, please.')])).toBe('I found it.')
    await anotherWorker()
    expect(await say(session, 'And now?')).toBe('Read.')
    const own = bodies.slice(before)
    expect(own).toHaveLength(3)
    for (const body of own) expect(body.includes(dataOf(sent)) && body.includes('The budget is €500.')).toBe(true)
    expect(own.map((body) => body.includes(dataOf(pdfBlock(FOUND))))).toEqual([false, true, true])
    expect(ofType(await eventsOf(session), 'content_replaced')).toEqual([])
  })

  it('a file that the provider refuses is replaced by a note, and the session continues', async () => {
    const session = open('claude')
    const bad = pdfBlock({ title: 'bad.pdf', size: LARGE, seed: 'refused' })
    claude.refuses.add(dataOf(bad).slice(2_000, 2_100))
    expect(await say(session, [bad, text('What is it?')])).toBe('Read.')
    expect(await say(session, 'And now?')).toBe('Read.')
    const events = await eventsOf(session)
    expect(ofType(events, 'content_replaced')).toMatchObject([
      { content: [{ kind: 'document' }], reason: expect.stringContaining('not valid') },
    ])
    expect(claude.bodies.at(-1)).toContain('A document is left out here, because the provider of the model refuses it')
    expect(claude.bodies.at(-1)).toContain('What is it?')
  })

  it('a file that is longer than the model’s window is replaced by a note, and the session continues', async () => {
    const session = open('claude')
    await say(session, 'Hello.')
    claude.tooLong = 'Chapter 9'
    const book = textDocument('Chapter 9: and so on. '.repeat(5_000), 'book.txt')
    expect(await say(session, [book, text('Summarise it.')])).toBe('Read.')
    expect(await say(session, 'And now?')).toBe('Read.')
    claude.tooLong = undefined
    expect(ofType(await eventsOf(session), 'content_replaced')).toMatchObject([{ content: [{ kind: 'document' }] }])
    expect(claude.bodies.at(-1)).toContain('refuses it: claude-sonnet-5-5: 400 prompt is too long')
  })

  it('a file’s title, context and citations reach Claude as documented, and its file id only the provider that gave it', async () => {
    const session = open('claude')
    const cited = { ...textDocument('a', 'a.txt'), context: 'From the bank.', citations: { enabled: true } }
    const uploaded: UserBlock = { type: 'document', source: { type: 'file', file_id: 'file_011' } }
    const foreign: UserBlock = { type: 'document', source: { type: 'file', file_id: 'file-abc' } }
    await say(session, [cited, uploaded, foreign, text('Read.')])
    const [message] = (JSON.parse(claude.bodies.at(-1) ?? '') as { messages: { content: Record<string, unknown>[] }[] }).messages
    expect(message?.content.map((block) => ({ ...block, cache_control: undefined }))).toEqual([
      cited,
      { ...uploaded, citations: { enabled: true } },
      text('[A document that is not shown: its file id is not one of this provider. It is document, file file-abc]'),
      text('Read.'),
    ])
    const other = open('gpt-7')
    await say(other, [uploaded, foreign, text('Read.')])
    expect(gpt.bodies.at(-1)).toContain('"file_id":"file-abc"')
    expect(gpt.bodies.at(-1)).not.toContain('"file_id":"file_011"')
  })
})

describe('a file that no model can read', () => {
  const bad: [string, UserBlock, string][] = [
    ['an encrypted PDF', pdfBlock({ encrypted: true, size: LARGE }), 'encrypted_file'],
    [
      'bytes that are not a PDF',
      { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'UEsDBAoAAAA=' } },
      'invalid_file',
    ],
    [
      'half of a base64 text',
      { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0' } },
      'invalid_file',
    ],
    ['a text without text', textDocument(' '), 'invalid_file'],
    [
      'a Word file',
      { type: 'document', source: { type: 'base64', media_type: 'application/msword', data: 'UEsDBAoAAAA=' } } as never,
      'invalid_message',
    ],
  ]

  it.each(bad)('%s is refused before anything is recorded', async (_, block, code) => {
    const session = open()
    await expect(session.send([block, text('Read.')])).rejects.toMatchObject({ name: 'InvalidMessageError', code })
    await expect(session.state()).rejects.toMatchObject({ code: 'session_not_found' })
    expect(await blobsOf(session.id)).toBe(0)
  })

  it('a PDF of 200 MB is refused by its size, before its bytes are looked at', async () => {
    const data = 'JVBERi0x'.repeat(200_000_000 / 6)
    const session = open()
    const block: UserBlock = { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data } }
    await expect(session.send([block])).rejects.toMatchObject({ code: 'message_too_large', message: expect.stringContaining('20,000,000') })
    await expect(session.state()).rejects.toMatchObject({ code: 'session_not_found' })
  })

  it('a file that no model can read and that another client signals is recorded as rejected', async () => {
    const session = open()
    await say(session, 'Hello.')
    const content = [pdfBlock({ encrypted: true })]
    await here.temporal.workflow.getHandle(`pawl:${session.id}`).signal('message', { messageId: 'bad', content })
    await until('it is rejected', async () => ofType(await eventsOf(session), 'message_rejected').length > 0)
    expect(ofType(await eventsOf(session), 'message_rejected')).toMatchObject([{ messageId: 'bad', code: 'encrypted_file' }])
    expect(await say(session, 'And now?')).toMatch(/^Answer/)
  })
})

describe('a large file', () => {
  it('a large file is a small reference in history, with the text and the names that lists show', async () => {
    const session = open()
    const block = pdfBlock({ title: 'a.pdf', size: LARGE })
    await say(session, [text('What is in it?'), block])
    const [received] = ofType(await eventsOf(session), 'message_received')
    expect(received).toMatchObject({ content: 'What is in it?\n[document "a.pdf", PDF, 1,500 KB]', blob: { bytes: expect.any(Number) } })
    const { historySize } = await here.temporal.workflow.getHandle(`pawl:${session.id}`).describe()
    expect(historySize).toBeLessThan(100_000)
    await stored(session)
    expect((await session.messages())[0]?.content).toEqual([text('What is in it?'), block])
    expect(await session.slice(titles)).toEqual(['a.pdf'])
  })

  it('a large file belongs to a fork, which keeps its own copy, and not to what a rollback leaves', async () => {
    const session = open()
    const block = pdfBlock({ title: 'a.pdf', size: LARGE })
    await say(session, 'Hello.')
    const { version } = await session.checkpoint('before the file')
    await say(session, [block, text('Read it.')])
    const fork = await session.fork()
    await session.rollback({ checkpoint: version })
    await anotherWorker()
    await say(fork, 'And now?')
    expect(newest(fork)).toContain(dataOf(block))
    await say(session, 'And now?')
    expect(newest(session)).not.toContain('a.pdf')
    await here.pawl.erase(session.id, { by: 'ann', force: true })
    expect([await blobsOf(session.id), await blobsOf(fork.id)]).toEqual([0, 1])
    await anotherWorker()
    await say(fork, 'And after that?')
    expect(newest(fork)).toContain(dataOf(block))
  })

  it('a large file is restored by a rebuild of the rows, and stays with the archive of a pruned session', async () => {
    const session = open()
    const block = pdfBlock({ title: 'a.pdf', size: LARGE })
    await say(session, [block, text('Read it.')])
    await stored(session)
    const before = await session.messages()
    for (const table of ['messages', 'events', 'checkpoints', 'token_usage', 'slices', 'commits', 'sessions']) {
      await database.query(`delete from pawl.${table} where session_id = $1`, [session.id])
    }
    await here.pawl.rebuild({ session: session.id })
    expect(await session.messages()).toEqual(before)
    await session.close()
    await here.workflowEnded(session.id)
    const old = (table: string, column: string) =>
      database.query(`update pawl.${table} set ${column} = now() - interval '100 days' where session_id = $1`, [session.id])
    await database.query(
      `update pawl.sessions set updated_at = now() - interval '100 days', flushed_at = now() - interval '100 days' where session_id = $1`,
      [session.id],
    )
    await old('blobs', 'created_at')
    expect(await here.pawl.prune({ olderThan: '90d' })).toMatchObject({ sessions: 1 })
    expect(await blobsOf(session.id)).toBe(1)
    await old('archived_messages', 'archived_at')
    expect(await here.pawl.prune({ olderThan: '90d', archiveRetention: '90d' })).toMatchObject({ archive: { blobs: 1 } })
    expect(await blobsOf(session.id)).toBe(0)
  })

  it('a large file is refused while Postgres is away, and nothing is recorded; a small one is sent', async () => {
    const session = open()
    await say(session, 'Hello.')
    const pawl = await here.connect()
    await stack.postgres.stop()
    const away = pawl.session(session.id) as SessionHandle
    await expect(away.send([pdfBlock({ size: LARGE })], { messageId: 'large' })).rejects.toMatchObject({ code: 'store_unavailable' })
    const run = await away.send([textDocument('The budget is €500.', 'note.txt'), text('Read it.')])
    await stack.postgres.start()
    await run.result(TIMEOUT)
    expect(newest(session)).toContain('The budget is €500.')
    expect(ofType(await eventsOf(session), 'message_received')).toHaveLength(2)
  })

  it('a large file whose client died before it sent the message is sent once by a repetition, or removed after 30 days', async () => {
    const { temporalAddress: address, namespace, databaseUrl: postgres } = stack
    const options = JSON.stringify({ address, namespace, postgres, taskQueue: here.taskQueue })
    const program = fileURLToPath(new URL('./fixtures/files-killed-client.ts', import.meta.url))
    const [repeated, lost] = [open(), open()]
    for (const { id } of [repeated, lost]) {
      const signal = await new Promise((resolve) => {
        execFile(process.execPath, [...process.execArgv, '--import', 'tsx', program, options, id], (error) => resolve(error?.signal))
      })
      expect(signal).toBe('SIGKILL')
      expect(await blobsOf(id)).toBe(1)
    }
    await expect(lost.state()).rejects.toMatchObject({ code: 'session_not_found' })
    const block = pdfBlock({ title: 'lost.pdf', size: LARGE })
    expect(await say(repeated, [block], { messageId: 'once' })).toMatch(/^Answer/)
    expect(newest(repeated)).toContain(dataOf(block))
    expect(await blobsOf(repeated.id)).toBe(1)
    await stored(repeated)
    const age = (days: number) =>
      database.query(`update pawl.blobs set created_at = now() - interval '${days} days' where session_id = any($1)`, [
        [repeated.id, lost.id],
      ])
    await age(29)
    await here.pawl.prune({ olderThan: '90d' })
    expect(await blobsOf(lost.id)).toBe(1)
    await age(31)
    expect((await here.pawl.prune({ olderThan: '90d', dryRun: true })).rows.blobs).toBe(1)
    expect((await here.pawl.prune({ olderThan: '90d' })).rows.blobs).toBe(1)
    expect([await blobsOf(lost.id), await blobsOf(repeated.id)]).toEqual([0, 1])
  })
})

describe('a file in a long conversation', () => {
  it('a file in a long conversation stays while messages name it; the model gets the names of the others', async () => {
    const {
      session,
      requests: asked,
      summaries,
    } = long.play(here.pawl, {
      model: (request) => {
        const last = request.messages.at(-1)?.content
        return Array.isArray(last) && last.some((block) => block.type === 'text' && block.text.startsWith('look'))
          ? [use('look', 'far')]
          : 'Fine.'
      },
      look: () => 'x'.repeat(3_000),
      summary: () => 'They compared prices.',
    })
    await say(session, 'Hello.')
    await say(session, [text('Compare these.'), textDocument('a,1', 'a.csv'), textDocument('b,2', 'b.csv')])
    for (let n = 0; n < 3; n++) await say(session, [text(`look ${n}`)])
    const newest = (): string => JSON.stringify(asked.at(-1)?.messages)
    await until('it is compacted', async () => ofType(await eventsOf(session), 'compacted').length > 0)
    await say(session, 'Thanks.')
    expect(JSON.stringify(summaries)).toContain('[document \\"a.csv\\", text, 3 bytes]')
    expect(newest()).toContain('- [document \\"a.csv\\"')
    expect(newest()).not.toContain('"data":"a,1"')
    await say(session, 'What was in A.CSV?')
    expect(newest()).toContain('"data":"a,1"')
    expect(newest()).not.toContain('"data":"b,2"')
    expect(newest()).toContain('- [document \\"b.csv\\"')
  })
})

describe('a file over HTTP', () => {
  const ACCESSES: Record<string, Access> = {
    acme: { identity: 'ann', scopes: ['read', 'send'], tenant: 'acme' },
    globex: { identity: 'gil', scopes: ['read', 'send'], tenant: 'globex' },
    page: { identity: 'ann', scopes: ['read', 'send', 'operate'] },
  }
  let handler: Handler
  beforeAll(() => {
    const authorize = (request: Request): Access | null =>
      ACCESSES[(request.headers.get('authorization') ?? '').replace('Bearer ', '')] ?? null
    handler = createHandler({ pawl: here.pawl, authorize, logger: SILENT, maxBodyBytes: 21_000_000 })
  })

  it('a file over HTTP belongs to its session: no other tenant can read it or refer to it', async () => {
    const [acme, globex] = [webClient(handler, 'acme'), webClient(handler, 'globex')]
    const block = pdfBlock({ title: 'secret.pdf', size: LARGE })
    const id = `acme:${randomUUID()}`
    const sent = await acme.post(`/v1/sessions/${id}/messages`, { agent: 'files', content: [block, text('Read it.')] })
    expect(sent.status).toBeLessThan(300)
    const session = here.pawl.session(id) as SessionHandle
    await until('the model has it', () => requests.get(id)?.at(-1)?.includes(dataOf(block)) ?? false)
    const blob = ofType(await eventsOf(session), 'message_received')[0]?.blob ?? expect.fail('no reference')
    expect((await acme.get(`/v1/sessions/${id}/blobs/${blob.sha256}`)).status).toBe(200)
    expect((await globex.get(`/v1/sessions/${id}/blobs/${blob.sha256}`)).status).toBe(404)
    const own = `globex:${randomUUID()}`
    const body = { agent: 'files', content: 'Read this.', blob }
    expect(await globex.post(`/v1/sessions/${own}/messages`, body)).toMatchObject({ status: 400, body: { code: 'invalid_input' } })
    await globex.post(`/v1/sessions/${own}/messages`, { agent: 'files', content: 'Hello.' })
    expect((await globex.get(`/v1/sessions/${own}/blobs/${blob.sha256}`)).status).toBe(404)
    // Not even a client of Temporal can: a reference names a value of the same session.
    await here.temporal.workflow.getHandle(`pawl:${own}`).signal('message', { messageId: 'ref', content: 'a value', blob })
    await until('the model has been asked', () => requests.get(own)?.at(-1)?.includes('A value of') ?? false)
    expect(requests.get(own)?.at(-1)).not.toContain(dataOf(block).slice(5_000, 5_100))
  })

  it('a file over HTTP that cannot be read is a problem with its code', async () => {
    const acme = webClient(handler, 'acme')
    const post = (block: unknown) => acme.post(`/v1/sessions/acme:${randomUUID()}/messages`, { agent: 'files', content: [block] })
    expect(await post(pdfBlock({ encrypted: true }))).toMatchObject({ status: 400, body: { code: 'encrypted_file' } })
    expect(await post({ ...pdfBlock(), source: { type: 'base64', media_type: 'application/pdf', data: 'UEsDBA==' } })).toMatchObject({
      status: 400,
      body: { code: 'invalid_file' },
    })
    expect(await post({ ...pdfBlock(), source: { type: 'base64', media_type: 'image/tiff', data: 'UEsDBA==' } })).toMatchObject({
      status: 400,
      body: { code: 'invalid_input' },
    })
    expect(await post(pdfBlock({ size: 20_000_000 }))).toMatchObject({ status: 413, body: { code: 'body_too_large' } })
  })

  it('a file goes from `useChat` to the model and back to the page, with its name', async () => {
    const fetch = (url: string | URL | Request, init?: RequestInit) => {
      const request = new Request(new URL(url instanceof Request ? url.url : url, 'http://page.test'), init)
      request.headers.set('authorization', 'Bearer page')
      return handler(request)
    }
    const transport = new PawlChatTransport({ api: '', agent: 'files', fetch: fetch as typeof globalThis.fetch })
    const id = `page-${randomUUID()}`
    const chat = new Chat<UIMessage>({ id, transport: transport as never })
    const url = (type: string, bytes: string | Buffer) => `data:${type};base64,${Buffer.from(bytes as string).toString('base64')}`
    const parts = [
      { type: 'file' as const, mediaType: 'application/pdf', filename: 'a.pdf', url: url('application/pdf', pdfBytes({ size: 50_000 })) },
      { type: 'file' as const, mediaType: 'text/csv', filename: 'b.csv', url: url('text/csv', 'a,b\n1,2') },
    ]
    await chat.sendMessage({ text: 'Read these.', files: parts })
    expect(chat.error).toBeUndefined()
    expect(newest({ id } as SessionHandle)).toContain(JSON.stringify(textDocument('a,b\n1,2', 'b.csv')))
    const [said, answered] = await transport.messages(id)
    expect(said?.parts).toEqual(
      expect.arrayContaining([
        { type: 'text', text: 'Read these.' },
        parts[0],
        { type: 'file', mediaType: 'text/plain', filename: 'b.csv', url: url('text/plain', 'a,b\n1,2') },
      ]),
    )
    expect(answered?.role).toBe('assistant')
    // Larger than what a page loads: the page shows what it was.
    const big = url('application/pdf', pdfBytes({ size: LARGE }))
    const messageId = 'big'
    await chat.sendMessage({
      id: messageId,
      role: 'user',
      parts: [
        { type: 'text', text: 'And this.' },
        { ...parts[0]!, url: big },
      ],
    } as never)
    expect((await transport.messages(id)).findLast(({ role }) => role === 'user')?.parts).toEqual([
      { type: 'text', text: 'And this.\n[document "a.pdf", PDF, 1,500 KB]' },
    ])
    // A repeated edit of the same message is not another one.
    const runs = (await eventsOf(here.pawl.session(id))).filter(({ type }) => type === 'run_started').length
    await chat.sendMessage({
      parts: [
        { type: 'text', text: 'And this.' },
        { ...parts[0]!, url: big },
      ],
      messageId: chat.messages.at(-2)?.id,
    } as never)
    expect((await eventsOf(here.pawl.session(id))).filter(({ type }) => type === 'rolled_back')).toEqual([])
    expect((await eventsOf(here.pawl.session(id))).filter(({ type }) => type === 'run_started')).toHaveLength(runs)
    await chat.sendMessage({
      text: 'Read this.',
      files: [{ ...parts[0]!, mediaType: 'application/zip', url: url('application/zip', 'PK\0') }],
    })
    expect(chat.error).toMatchObject({ code: 'invalid_input' })
  })
})

describe('pawl send --file', () => {
  it('pawl send --file sends PDFs, images and text, and refuses other files before they are read', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'pawl-files-'))
    onTestFinished(() => rm(folder, { recursive: true, force: true }))
    const pdf = pdfBytes({ size: LARGE })
    await writeFile(join(folder, 'a.pdf'), pdf)
    await writeFile(join(folder, 'b.csv'), 'a,b')
    await writeFile(join(folder, 'c.docx'), Buffer.from('PK\u0003\u0004\0'))
    await writeFile(join(folder, 'd.pdf'), '')
    await truncate(join(folder, 'd.pdf'), 200_000_000)
    const session = open()
    const { temporalAddress: TEMPORAL_ADDRESS, namespace: TEMPORAL_NAMESPACE, databaseUrl: DATABASE_URL } = stack
    const send = (...given: string[]) =>
      runPawl(['send', session.id, 'Read these.', '--agent', 'files', '--task-queue', here.taskQueue, '--json', ...given], {
        cwd: folder,
        env: { TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, DATABASE_URL },
      })
    for (const [name, code] of [
      ['c.docx', 'invalid_file'],
      ['d.pdf', 'message_too_large'],
      ['none.pdf', 'invalid_file'],
    ] as const) {
      const refused = await send('--file', name)
      expect(refused.code).not.toBe(0)
      expect(refused.stdout + refused.stderr).toContain(code)
    }
    const sent = await send('--file', 'a.pdf', '--file', 'b.csv')
    expect(sent).toMatchObject({ code: 0 })
    await until('the model has them', () => requests.has(session.id))
    expect(newest(session)).toContain(pdf.toString('base64'))
    expect(newest(session)).toContain(JSON.stringify(textDocument('a,b', 'b.csv')))
  })
})

describe('the guide to files', () => {
  it('the guide to files shows its examples exactly as they run here', async () => {
    const source = await readFile(new URL('../guides/files.ts', import.meta.url), 'utf8')
    const guide = await readFile(new URL('../../docs/files.md', import.meta.url), 'utf8')
    for (const region of ['send', 'tool']) {
      const [, snippet = ''] = new RegExp(`// #region ${region}\n([\\s\\S]*?)// #endregion`).exec(source) ?? []
      expect(guide).toContain(`\`\`\`ts\n${snippet.trimEnd()}\n\`\`\``)
    }
  })

  it('the guide to files sends a PDF, and its tool returns one', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'pawl-files-'))
    onTestFinished(() => rm(folder, { recursive: true, force: true }))
    const pdf = pdfBytes({ seed: 'guide' })
    await writeFile(join(folder, 'terms.pdf'), pdf)
    const session = open()
    expect(await askAbout(session, join(folder, 'terms.pdf'), 'What does it say?')).toMatch(/^Answer/)
    expect(newest(session)).toContain(pdf.toString('base64'))
    await say(session, 'And the invoice?')
    expect(newest(session)).toContain(pdfBytes({ size: 150_000, seed: 'i-7' }).toString('base64'))
    expect(newest(session)).toContain('"title":"i-7.pdf"')
  })
})
