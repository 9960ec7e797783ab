// pawl in other people's systems: with their connection, client, namespace, queue, pool, schema, converters and interceptors.
import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { Client, Connection } from '@temporalio/client'
import { NativeConnection } from '@temporalio/worker'
import { Pawl } from 'pawl/client'
import { createWorker } from 'pawl/worker'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Deployment, deploy, SILENT } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { dataConverter as encrypting } from '../support/own/encrypting.ts'
import { inOrder, resultsIn, type Stage, stage, use } from '../support/scenes.ts'
import { startSlowProxy } from '../support/slow-proxy.ts'
import { gate, until } from '../support/until.ts'

let here: Deployment
let player: Stage

beforeAll(async () => {
  here = await deploy()
  player = stage()
})
afterAll(() => here?.stop())

const SECRET = 'the-very-secret-word'
const scene = { model: inOrder([use('put', SECRET)], `answer with ${SECRET}`), put: ({ what }: { what: string }) => what }

/** All text and bytes of a server's answer, as text. */
function textIn(held: unknown): string {
  if (held instanceof Uint8Array) return Buffer.from(held).toString('latin1')
  return held !== null && typeof held === 'object' ? Object.values(held).map(textIn).join('\n') : String(held)
}

/** A workflow's history as the server holds it: no payload or failure is decoded. */
async function historyOf(client: Client, id: string): Promise<string> {
  const { events } = await client.workflow.getHandle(`pawl:${id}`).fetchHistory()
  return textIn(events)
}

/** The workflow's pending activities, as the server holds them. */
async function pendingOf({ workflowService, options: { namespace } }: Client, id: string) {
  const { pendingActivities } = await workflowService.describeWorkflowExecution({ namespace, execution: { workflowId: `pawl:${id}` } })
  return pendingActivities
}

describe('a payload codec that encrypts', () => {
  it('an encrypting payload codec is used for everything that goes through Temporal, including retries and refilled logs', async () => {
    const own = await deploy()
    try {
      const first = await own.startWorker({ agents: [player.agent], dataConverter: encrypting })
      const pawl = await own.connect({ dataConverter: encrypting })
      let failed = false
      const { session, id, requests } = player.play(pawl, {
        ...scene,
        put(input) {
          if (!failed) {
            failed = true
            throw new Error(SECRET)
          }
          return input.what
        },
      })
      expect(await (await session.send(SECRET)).result({ timeout: 30_000 })).toMatchObject({ text: `answer with ${SECRET}` })
      await first.stop()
      await own.startWorker({ agents: [player.agent], dataConverter: encrypting })
      await (await session.send('again')).result({ timeout: 30_000 })
      expect(requests.at(-1)!.messages).toHaveLength(5)
      expect((await session.state()).run).toBe(2)
      expect(ofType(await eventsOf(session), 'tool_attempt_failed')).toHaveLength(1)
      expect(await historyOf(own.temporal, id)).not.toContain(SECRET)
    } finally {
      await own.stop()
    }
  })

  it('what bodies and verify report and throw goes through an encrypting payload codec, in heartbeats and failures', async () => {
    const own = await deploy()
    const held = gate()
    try {
      await own.startWorker({ agents: [player.agent], dataConverter: encrypting })
      const pawl = await own.connect({ dataConverter: encrypting })
      const { session, id, count } = player.play(pawl, {
        model: inOrder([use('put', SECRET)], [use('pay', SECRET)], 'done'),
        async put(_, ctx) {
          ctx.progress({ said: SECRET })
          if (ctx.attempt === 1) throw new Error(SECRET)
          await ctx.stillMine()
          await held.pass()
        },
        pay() {
          throw new Error(SECRET)
        },
        verify() {
          throw new Error(SECRET)
        },
      })
      const run = await session.send(SECRET)
      await held.reached
      const [pending] = (await pendingOf(own.temporal, id)) ?? []
      expect(pending?.heartbeatDetails?.payloads).toHaveLength(1)
      expect(textIn(pending)).not.toContain(SECRET)
      held.open()
      await run.result({ timeout: 30_000 })
      expect(count('verify')).toBeGreaterThan(1)
      expect(await historyOf(own.temporal, id)).not.toContain(SECRET)
    } finally {
      held.open()
      await own.stop()
    }
  })
})

describe('a custom payload converter and custom interceptors', () => {
  it('a custom converter and interceptors are bundled; a message that cannot be decoded ends as message_rejected', async () => {
    const payloadConverterPath = fileURLToPath(new URL('../support/own/reversing-converter.js', import.meta.url))
    const interceptorModule = fileURLToPath(new URL('../support/own/workflow-interceptors.js', import.meta.url))
    const own = await deploy()
    try {
      const seen: string[] = []
      const dataConverter = { payloadConverterPath }
      await own.startWorker({
        agents: [player.agent],
        dataConverter,
        interceptors: {
          workflowModules: [interceptorModule],
          activity: [
            ({ info }) => ({
              inbound: {
                execute(input, next) {
                  if (input.headers.seen) seen.push(info.activityType)
                  return next(input)
                },
              },
            }),
          ],
        },
      })
      const pawl = await own.connect({ dataConverter })
      const { session, id, requests } = player.play(pawl, scene)
      expect(await (await session.send(SECRET)).result({ timeout: 30_000 })).toMatchObject({ text: `answer with ${SECRET}` })
      expect(resultsIn(requests[1]!)).toMatchObject([{ content: SECRET }])
      expect(new Set(seen)).toEqual(new Set(['loadSession', 'callModel', 'executeTool', 'flush']))
      expect(await historyOf(own.temporal, id)).not.toContain(SECRET)

      const before = (await session.state()).seq
      await own.temporal.workflow.getHandle(`pawl:${id}`).signal('message', { content: 'not reversed' })
      await until('it is rejected', async () => ofType(await eventsOf(session, before), 'message_rejected')[0]?.code === 'undecodable')
    } finally {
      await own.stop()
    }
  })
})

describe('a user’s own', () => {
  it('NativeConnection, Connection or Client, namespace, pool and schema are used and left open', async () => {
    const { temporalAddress: address, databaseUrl } = here.stack
    const namespace = `ns-${randomUUID().slice(0, 8)}`
    const connection = await Connection.connect({ address })
    const native = await NativeConnection.connect({ address })
    const pool = new pg.Pool({ connectionString: databaseUrl, max: 3 })
    const [taskQueue, schema] = [`own-${randomUUID().slice(0, 8)}`, `own_${randomUUID().slice(0, 8)}`]
    await connection.workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod: { seconds: 86_400 as never } })
    await until('the namespace is there', () => connection.workflowService.describeNamespace({ namespace }))
    const options = { agents: [player.agent], connection: native, namespace, taskQueue, postgres: pool, schema, logger: SILENT }
    const worker = await until('the worker can be created', () => createWorker(options))
    const serving = worker.run()
    try {
      const byConnection = await Pawl.connect({ temporal: connection, namespace, taskQueue, postgres: pool, schema })
      const byClient = await Pawl.connect({ temporal: new Client({ connection, namespace }), taskQueue, postgres: pool, schema })
      for (const pawl of [byConnection, byClient]) {
        const { session, id } = player.play(pawl, scene)
        await (await session.send(SECRET)).result({ timeout: 30_000 })
        await until('the rows are in their schema', async () => {
          const { rows } = await pool.query(`select status from ${pg.escapeIdentifier(schema)}.sessions where session_id = $1`, [id])
          return rows[0]?.status === 'idle'
        })
        await pawl.close()
      }
    } finally {
      await worker.shutdown()
      await serving
    }
    await connection.workflowService.getSystemInfo({})
    await native.workflowService.getSystemInfo({})
    await pool.query(`drop schema ${pg.escapeIdentifier(schema)} cascade`)
    await Promise.all([pool.end(), connection.close(), native.close()])
  })

  it('a user’s own task queue can be set for a single session', async () => {
    const own = await deploy()
    try {
      await own.startWorker({ agents: [player.agent] })
      const { session } = player.play(here.pawl, scene, { taskQueue: own.taskQueue })
      await (await session.send(SECRET)).result({ timeout: 30_000 })
    } finally {
      await own.stop()
    }
  })
})

describe('a client whose server has gone down', () => {
  it('a client whose server has gone down can be closed in the middle of a call: the call fails, and nothing else does', async () => {
    const { temporalAddress, namespace } = here.stack
    const between = await startSlowProxy(`http://${temporalAddress}`)
    const pawl = await Pawl.connect({ temporal: { address: new URL(between.url).host, namespace }, postgres: false, logger: SILENT })
    await between.close()
    const sent = pawl.session('nobody-hears', { agent: player.agent.name }).send('hello')
    const failed = sent.then(
      () => 'sent',
      () => 'failed',
    )
    // Let it fail once: a timer retries it, on a connection that is closed by then.
    await new Promise((resolve) => setTimeout(resolve, 50))
    await pawl.close()
    expect(await failed).toBe('failed')
  })
})
