// The web handler in web frameworks: the same conversation with each of examples/web. Next.js is not installed here (test/package builds an
// application with it): its route handlers are functions from `Request` to `Response`, and are called as it calls them.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createHandler, nodeListener } from 'pawl/service'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { expressApp } from '../../examples/web/express.ts'
import { fastifyApp } from '../../examples/web/fastify.ts'
import { honoApp } from '../../examples/web/hono.ts'
import { routeHandlers } from '../../examples/web/next.ts'
import { defined } from '../../src/session/defined.ts'
import { deploy, type Deployment, SILENT } from '../support/deployment.ts'
import { stage } from '../support/scenes.ts'
import { until } from '../support/until.ts'
import { eventsUntil, webClient } from '../support/web.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const player = stage()
let here: Deployment
const closing: (() => Promise<unknown>)[] = []
beforeAll(async () => {
  here = await deploy()
  await here.startWorker({ agents: [player.agent] })
})
afterAll(async () => {
  await Promise.all(closing.map((close) => close()))
  await here?.stop()
})

function handlerAt(basePath?: string) {
  return createHandler({
    pawl: here.pawl,
    logger: SILENT,
    ...defined({ basePath }),
    authorize: ({ headers }) => (headers.get('authorization') === 'Bearer good' ? { identity: 'ann', scopes: ['read', 'send'] } : null),
  })
}

async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closing.push(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const FRAMEWORKS: Record<string, () => Promise<string>> = {
  Hono: () => {
    const app = honoApp(handlerAt())
    return listening(createServer(nodeListener(async (request) => app.fetch(request))))
  },
  Express: () => listening(createServer(expressApp(handlerAt()))),
  Fastify: async () => {
    const app = fastifyApp(handlerAt('/api/pawl'))
    closing.push(() => app.close())
    return app.listen({ port: 0, host: '127.0.0.1', listenTextResolver: () => '' })
  },
  'Next.js': () => {
    const { GET, POST } = routeHandlers(async () => handlerAt('/api/pawl'))
    return listening(createServer(nodeListener((request) => (request.method === 'GET' ? GET(request) : POST(request)))))
  },
}

describe('the whole server', () => {
  it('the complete server in docs/web.md runs as documented and shuts down cleanly', async () => {
    const source = await readFile(join(ROOT, 'examples/web/server.ts'), 'utf8')
    const guide = await readFile(join(ROOT, 'docs/web.md'), 'utf8')
    expect(guide).toContain(`\`\`\`ts\n${source.slice(source.indexOf('\n') + 1)}\`\`\``)
    const args = /`node (--import tsx) server.ts`/.exec(guide)?.[1]?.split(' ') ?? expect.fail('the guide does not say how to run it')
    const free = createServer()
    const origin = await listening(free)
    await new Promise((resolve) => free.close(resolve))
    const { temporalAddress, databaseUrl } = inject('stack')
    const env = { ...process.env, TEMPORAL_ADDRESS: temporalAddress, DATABASE_URL: databaseUrl, PORT: new URL(origin).port }
    const server = spawn(process.execPath, [...args, 'examples/web/server.ts'], {
      cwd: ROOT,
      env,
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    const ended = once(server, 'exit')
    try {
      await until('it answers', async () => (await fetch(`${origin}/api/pawl/health`).catch(() => undefined))?.status === 200)
      server.kill('SIGTERM')
      expect(await ended).toEqual([0, null])
    } finally {
      server.kill('SIGKILL')
    }
  })
})

/** The address that a client calls for the routes, as OpenAPI defines it: relative to the document's own. */
async function serverOf(document: string): Promise<string> {
  const { servers } = (await (await fetch(document)).json()) as { servers: { url: string }[] }
  return new URL(servers[0]?.url ?? '/', document).href.replace(/\/$/, '')
}

describe.each(Object.entries(FRAMEWORKS))('in %s', (name, start) => {
  it('a conversation is started, watched and read, and nothing is answered without credentials', async () => {
    const origin = await start()
    const { id } = player.play(here.pawl, {}, { id: `mounts-${name}-${process.pid}` })
    const client = webClient(fetch, 'good', origin)
    const sent = await client.post('/api/pawl/v1/sessions', { id, agent: 'player', content: 'hello' })
    expect(sent).toMatchObject({ status: 201, body: { sessionId: id } })
    const stop = new AbortController()
    const watching = await client.watch(`/api/pawl/v1/sessions/${id}/watch`, { signal: stop.signal })
    const seen = await eventsUntil(watching, ({ data }) => data.event?.type === 'run_completed')
    expect(seen.find(({ data }) => data.event?.type === 'message_received')?.data.event.content).toBe('hello')
    stop.abort()
    expect((await client.get(`/api/pawl/v1/sessions/${id}`)).body).toMatchObject({ sessionId: id, agent: 'player' })
    expect((await webClient(fetch, 'bad', origin).get(`/api/pawl/v1/sessions/${id}`)).status).toBe(401)
    expect((await client.post('/api/pawl/v1/sessions', '{"agent":')).body).toMatchObject({ code: 'invalid_json' })
    expect((await client.get(`${await serverOf(`${origin}/api/pawl/openapi.json`)}/v1/sessions`.slice(origin.length))).status).toBe(200)
    if (name !== 'Next.js') expect(await (await fetch(origin)).text()).toBe('the shop')
  })
})
