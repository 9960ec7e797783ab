// A Temporal that speaks TLS with a private CA and requires client certificates; and the places where a worker's secrets must not be.
import { fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Pawl } from 'pawl/client'
import { createWorker, type SuperviseOptions, superviseWorkers } from 'pawl/worker'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { SILENT } from '../support/deployment.ts'
import { inOrder, stage, use } from '../support/scenes.ts'
import { clientPems, startTlsProxy, type TlsProxy } from '../support/tls-proxy.ts'

const here = (path: string): string => fileURLToPath(new URL(`./fixtures/mutual-tls/${path}`, import.meta.url))
const { namespace, databaseUrl: postgres } = inject('stack')
const apiKey = `api-key-${randomUUID()}`
const taskQueue = `tls-${randomUUID()}`
let pems: Awaited<ReturnType<typeof clientPems>>
let proxy: TlsProxy

beforeAll(async () => {
  pems = await clientPems()
  proxy = await startTlsProxy(inject('stack').temporalAddress)
})
afterAll(() => proxy.close())

const trusted = () => ({
  address: proxy.address,
  namespace,
  tls: { serverRootCACertificate: pems.ca, clientCertPair: { crt: pems.crt, key: pems.key } },
})

/** A parent in a process of its own; `pids` are those of the parent, its orchestrator and its executors. */
async function startParent(options: Omit<SuperviseOptions, 'module'>): Promise<{ pids: number[]; stop(): Promise<void> }> {
  const { DATABASE_URL: _, ...env } = process.env
  const parent = fork(here('supervise.mjs'), [], { env, serialization: 'advanced' })
  const ended = once(parent, 'exit')
  const told = once(parent, 'message')
  parent.send(options)
  const [pids] = (await Promise.race([told, ended.then(() => expect.fail('the parent ended before it served'))])) as [number[]]
  return {
    pids,
    async stop() {
      parent.send('stop')
      await ended
    },
  }
}

/** The forms in which text may carry a secret. */
function formsOf(secret: Buffer | string): string[] {
  const bytes = Buffer.from(secret)
  const text = bytes.toString().trim()
  return [text, JSON.stringify(text).slice(1, -1), encodeURIComponent(text), bytes.toString('base64'), bytes.join(',')]
}

const secretsIn = (text: string): string[] => {
  const password = new URL(postgres).password
  // A password may be an ordinary word: it counts only within an address or as the value of a variable.
  const secrets = [pems.key, apiKey, `:${password}@`, `=${password}\0`, `"${password}"`]
  return secrets.flatMap(formsOf).filter((form) => text.includes(form))
}

/** What the system shows everyone about a process. */
const shownOf = (pid: number): string => ['environ', 'cmdline'].map((file) => readFileSync(`/proc/${pid}/${file}`, 'utf8')).join('\n')

describe('a Temporal that requires client certificates', () => {
  it('a supervised worker with a client certificate serves Temporal; no other process can see its secrets', async () => {
    const parent = await startParent({ processes: 2, temporal: { ...trusted(), apiKey }, taskQueue, postgres })
    const pawl = await Pawl.connect({ temporal: { ...trusted(), apiKey }, taskQueue, postgres, logger: SILENT })
    try {
      const { text } = await (await pawl.session(randomUUID(), { agent: 'looker' }).send('look')).result({ timeout: 60_000 })
      expect(text).toContain('PATH')
      expect(secretsIn(text)).toEqual([])
      expect(parent.pids).toHaveLength(4)
      if (existsSync('/proc')) for (const pid of parent.pids) expect(secretsIn(shownOf(pid))).toEqual([])
    } finally {
      await pawl.close()
      await parent.stop()
    }
  })

  it('a worker in one process serves a Temporal with client certificates; a thread sends its heartbeats', async () => {
    const [{ agent, play }, ownQueue] = [stage(), `tls-${randomUUID()}`]
    const where = { temporal: { ...trusted(), apiKey: () => apiKey }, taskQueue: ownQueue, postgres, logger: SILENT }
    const worker = await createWorker({ ...where, agents: [agent] })
    const serving = worker.run()
    const pawl = await Pawl.connect(where)
    try {
      // An external body is entered once a heartbeat is confirmed.
      const { session, entries } = play(pawl, { model: inOrder([use('pay', 'it')], 'paid') })
      expect(await (await session.send('pay')).result({ timeout: 60_000 })).toMatchObject({ text: 'paid' })
      expect(entries).toMatchObject([{ tool: 'pay', attempt: 1 }])
    } finally {
      await pawl.close()
      await worker.shutdown()
      await serving
    }
  })

  it.each([
    ['without one', () => ({ serverRootCACertificate: pems.ca }), /\(certificate ?required\)/i],
    ['without its CA', () => ({ clientCertPair: trusted().tls.clientCertPair }), /\(.*(UnknownIssuer|self-signed certificate).*\)/],
  ])('a Temporal that requires client certificates is not served %s: workers and clients say what failed', async (_, tls, reason) => {
    const where = { temporal: { address: proxy.address, namespace, tls: tls() }, taskQueue, postgres, logger: SILENT }
    const refused = { code: 'no_temporal', message: expect.stringMatching(reason) as string }
    await Promise.all([
      expect(superviseWorkers({ ...where, module: here('agents.mjs') })).rejects.toMatchObject(refused),
      expect(createWorker({ ...where, agents: [stage().agent] })).rejects.toMatchObject(refused),
      expect(Pawl.connect(where)).rejects.toMatchObject(refused),
    ])
  })
})
