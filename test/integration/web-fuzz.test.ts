// The web handler under requests that Schemathesis generates from its OpenAPI document: no response is a failure of the server, each
// matches the document, and nothing of another tenant is shown or changed.
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { defineAgent, defineTool, ModelError } from 'pawl'
import { type Access, createHandler, nodeListener } from 'pawl/service'
import { scripted } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { deploy, type Deployment, SILENT } from '../support/deployment.ts'
import { findPackages, type PythonPackages, runPython } from '../support/python-packages.ts'
import { saidIn } from '../support/scenes.ts'
import { seed, size } from '../support/sizes.ts'
import { until } from '../support/until.ts'

const SECRET = `secret-${randomUUID()}`
const TENANT = `acme-${randomUUID().slice(0, 8)}`
const OTHER = `globex-${randomUUID().slice(0, 8)}`
const ACCESS: Access = { identity: 'fuzzer', scopes: ['read', 'send', 'approve', 'operate'], tenant: TENANT }

const input = z.object({ what: z.string() })
const tool = (name: string) => ({ name, description: 'Does it.', input })
const desk = defineAgent({
  name: 'desk',
  instructions: 'Serve.',
  recovery: { automatic: [] },
  model: scripted((request) => {
    const newest = saidIn(request).at(-1) ?? ''
    if (newest === 'fail') throw new ModelError('bad_request', 'No.', { retryable: false })
    const isAnswered = request.messages.at(-1)?.content !== newest
    return ['pay', 'ask', 'wire'].includes(newest) && !isAnswered
      ? [{ type: 'tool_use', id: 'toolu_1', name: newest, input: { what: 'it' } }]
      : 'Fine.'
  }),
  tools: [
    defineTool({ ...tool('pay'), effect: 'external', approval: true, execute: () => 'paid' }),
    defineTool({ ...tool('ask'), effect: 'read', execute: 'client' }),
    defineTool({
      ...tool('wire'),
      effect: 'external',
      execute: () => {
        throw new Error('reply lost')
      },
    }),
  ],
})

let here: Deployment
let server: Server
let folder: string
let found: PythonPackages | string
let origin: string
const wrong: string[] = []
let answered = 0
let operations = 0

/** The message that is sent to a session, which also names what happens in it. */
const KINDS = ['hello', 'fail', 'pay', 'ask', 'wire']

/** A session of each kind, under ids of one tenant. */
async function sessionsOf(tenant: string, context: object): Promise<string[]> {
  return Promise.all(
    KINDS.map(async (content) => {
      const id = `${tenant}:${content}`
      const run = await here.pawl.session(id, { agent: desk, context: context as never }).send(content)
      await run.settled({ timeout: 30_000 })
      await until('it is stored', () => here.pawl.sessions.get(id))
      return id
    }),
  )
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pawl-fuzz-'))
  found = await findPackages('schemathesis')
  if (typeof found === 'string') return
  here = await deploy()
  await here.startWorker({ agents: [desk] })
  const asked = new WeakSet<Request>()
  const handler = createHandler({
    pawl: here.pawl,
    agents: ['desk'],
    logger: {
      ...SILENT,
      error: (fields, message) =>
        void wrong.push(`${message}: ${JSON.stringify(fields)} ${String((fields as { err?: { stack?: string } }).err?.stack)}`),
    },
    // A stream would not end by itself, so access to it ends after this time.
    reauthorizeEvery: 300,
    authorize(request) {
      if (request.headers.get('authorization') !== 'Bearer valid' || asked.has(request)) return null
      asked.add(request)
      return ACCESS
    },
  })
  // By default, Node refuses addresses over 16 KB before the handler sees them. Here, the handler has to refuse the nonsense in them.
  server = createServer(
    { maxHeaderSize: 1_000_000 },
    nodeListener(async (asked) => {
      const request = impatient(asked)
      const response = await handler(request)
      answered += 1
      const { pathname } = new URL(request.url)
      const isForeign = decodeURIComponent(pathname).startsWith(`/v1/sessions/${OTHER}:`)
      if (isForeign && ![401, 404, 405].includes(response.status))
        wrong.push(`${request.method} ${pathname} was answered with ${response.status}`)
      const isKnown = request.headers.get('authorization') === 'Bearer valid'
      const isProbe = pathname === '/health' || pathname === '/ready'
      if (!isKnown && !isProbe && response.status !== 401) wrong.push(`${request.method} ${pathname} needed no credentials`)
      return inspected(response, (text) => {
        const isBusy = response.status === 503 && text.includes('"code":"session_unavailable"')
        if (response.status >= 500 && !isBusy) wrong.push(`${request.method} ${pathname} failed: ${text}`)
        if (text.includes(SECRET)) wrong.push(`${request.method} ${pathname} showed another tenant's data`)
      })
    }),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const ids = [...(await sessionsOf(TENANT, {})), ...(await sessionsOf(OTHER, { SECRET })), `${TENANT}:none`]
  const document = withKnownIds(handler.openApi, ids)
  operations = Object.values(document.paths).flatMap((methods) => Object.keys(methods)).length
  await writeFile(join(folder, 'openapi.json'), JSON.stringify(document))
  // On a machine that is too busy, a worker may not answer in time, and the caller is told to retry. Any other 503 is recorded above.
  await writeFile(join(folder, 'schemathesis.toml'), '[checks.not_a_server_error]\nexpected-statuses = ["2xx", "3xx", "4xx", "503"]\n')
})
afterAll(async () => {
  server?.closeAllConnections()
  await new Promise((resolve) => (server ? server.close(resolve) : resolve(undefined)))
  await here?.stop()
  await rm(folder, { recursive: true, force: true })
})

/** The request. One that waits for a run waits for only a second, because most are for messages that were never sent. */
function impatient(request: Request): Request {
  const url = new URL(request.url)
  const waits = url.searchParams.getAll('wait')
  if (request.method !== 'GET' || !url.pathname.endsWith('/run') || waits.length > 1 || !/^([1-9]|[1-5]\d|60)$/.test(waits[0] ?? '20'))
    return request
  url.searchParams.set('wait', '1')
  return new Request(url, request)
}

/** The response. Whatever is read from it is shown to `look` first. An event of a stream is never split. */
function inspected(response: Response, inspect: (text: string) => void): Response {
  const inspection = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      inspect(new TextDecoder().decode(chunk))
      controller.enqueue(chunk)
    },
  })
  return new Response(response.body?.pipeThrough(inspection) ?? null, response)
}

interface Document {
  paths: Record<string, Record<string, { parameters: { name: string; schema: object }[] }>>
}

/** The document, with ids of existing sessions and calls. Otherwise, nearly all responses would only say that there are none. */
function withKnownIds(document: object, ids: readonly string[]): Document {
  const copy = structuredClone(document) as Document
  const known: Record<string, object> = {
    session: { schema: { enum: ids } },
    call: { schema: { enum: ['t_1_1_0', 't_9_9_9'] } },
  }
  for (const methods of Object.values(copy.paths)) {
    for (const { parameters = [] } of Object.values(methods)) {
      for (const parameter of parameters) Object.assign(parameter, known[parameter.name])
    }
  }
  return copy
}

const RUN = ['-m', 'schemathesis.cli', 'run', '--no-color']
/** What Schemathesis generates from a document: as many requests as the size says, the same ones for the same seed. */
const OPTIONS = [
  ...['--header', 'Authorization: Bearer valid', '--seed', String(seed), '--max-examples', String(size(2, 40))],
  ...['--phases', size('fuzzing', 'coverage,fuzzing'), '--no-shrink', '--generation-database', 'none'],
  // Several threads would parse Python at the same time, for which CPython 3.11 occasionally raises a SystemError.
  ...['--workers', '1'],
  // Longer than the longest `wait`.
  ...['--request-timeout', '90', '--max-response-time', '70'],
  ...['--suppress-health-check', 'all', '--warnings', 'off', '--continue-on-failure'],
  // A schema cannot express what a request means, so a valid one may be refused.
  ...['--checks', 'all', '--exclude-checks'],
  'positive_data_acceptance,use_after_free,ensure_resource_availability,object_level_authorization',
]

describe('requests generated from the document', () => {
  it('the service answers generated requests as the document says, never fails, and never shows data of other tenants', async ({
    skip,
  }) => {
    if (typeof found === 'string') return skip(`no Schemathesis: ${found}`)
    const before = await eventsOfOthers()
    const { code, output } = await runPython(found, [...RUN, join(folder, 'openapi.json'), '--url', origin, ...OPTIONS], { cwd: folder })
    expect(wrong, `seed ${seed}`).toEqual([])
    expect(code, output).toBe(0)
    // Each operation was requested at least once.
    expect(answered).toBeGreaterThan(operations)
    expect(await eventsOfOthers()).toEqual(before)
    // Whatever was requested, no session is stuck.
    for (const kind of KINDS) await expect(here.pawl.session(`${TENANT}:${kind}`).state()).resolves.toMatchObject({ agent: 'desk' })
  })
})

/** The other tenant's sessions, with the number of events of each. */
async function eventsOfOthers(): Promise<object[]> {
  const { items } = await here.pawl.sessions.list({ idPrefix: `${OTHER}:` })
  return Promise.all(items.map(async ({ sessionId }) => ({ sessionId, seq: (await here.pawl.session(sessionId).state()).seq })))
}
