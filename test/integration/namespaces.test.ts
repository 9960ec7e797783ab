// Two Temporal namespaces, such as staging and production, that are given one Postgres schema: it belongs to the first one.
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { Client, Connection } from '@temporalio/client'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest'
import { doctor, migrateStore, Pawl } from 'pawl/client'
import { createWorker, type CreateWorkerOptions, type PawlWorker, superviseWorkers } from 'pawl/worker'
import { codeOf } from '../support/codes.ts'
import { SILENT } from '../support/deployment.ts'
import { startPartition } from '../support/partition.ts'
import { recorder } from '../support/recorder.ts'
import { ownSchema, type OwnSchema } from '../support/rows.ts'
import { saidIn, type Stage, stage } from '../support/scenes.ts'
import { until } from '../support/until.ts'

const TIMEOUT = { timeout: 30_000 }
const { temporalAddress: address, namespace: first, databaseUrl } = inject('stack')
const second = `second-${randomUUID().slice(0, 8)}`

let schema: OwnSchema
let player: Stage
let taskQueue: string
const open: { close(): Promise<void> }[] = []

beforeAll(async () => {
  const connection = await Connection.connect({ address })
  try {
    await connection.workflowService.registerNamespace({
      namespace: second,
      workflowExecutionRetentionPeriod: { seconds: 86_400 as never },
    })
    const { workflow } = new Client({ connection, namespace: second })
    await until('the namespace is there', async () => (await workflow.count()).count === 0, 60_000)
  } finally {
    await connection.close()
  }
})
beforeEach(async () => {
  schema = await ownSchema(databaseUrl, 'namespaces')
  player = stage()
  taskQueue = schema.name
})
afterEach(async () => {
  for (const one of open.splice(0).toReversed()) await one.close()
  await schema.close()
})
afterAll(() => expect(open).toEqual([]))

const where = (namespace: string) => ({
  temporal: { address, namespace },
  postgres: databaseUrl,
  schema: schema.name,
  taskQueue,
  logger: SILENT,
})

async function startWorker(namespace: string, more: Partial<CreateWorkerOptions> = {}): Promise<PawlWorker> {
  const worker = await createWorker({ agents: [player.agent], ...where(namespace), ...more })
  const ended = worker.run()
  open.push({ close: () => worker.shutdown().then(() => ended) })
  return worker
}

async function connect(namespace: string): Promise<Pawl> {
  const pawl = await Pawl.connect(where(namespace))
  open.push(pawl)
  return pawl
}

/** A session that repeats what it has heard. */
const play = (pawl: Pawl, id = `s-${randomUUID()}`) => player.play(pawl, { model: (request) => saidIn(request).join(', ') }, { id })

const recorded = async (): Promise<unknown[]> => (await schema.query('select name from {schema}.namespace')).map(({ name }) => name)

describe('a Postgres schema that belongs to a namespace', () => {
  it('a namespace’s schema refuses workers of another namespace before they poll, in one process and supervised', async () => {
    await startWorker(first)
    expect(await recorded()).toEqual([first])
    const refused = createWorker({ agents: [player.agent], ...where(second) })
    await expect(refused).rejects.toMatchObject({
      code: 'foreign_namespace',
      message: expect.stringContaining(`belong to the Temporal namespace "${first}", but this process is connected to "${second}"`),
    })
    const module = join(import.meta.dirname, 'fixtures/processes/agents.mjs')
    expect(await codeOf(superviseWorkers({ module, processes: 1, ...where(second) }))).toBe('foreign_namespace')
    expect(await recorded()).toEqual([first])
    // The first namespace's workers can be joined and replaced.
    await startWorker(first)
  })

  it('a schema belongs to exactly one of two namespaces whose workers start at the same time', async () => {
    const both = await Promise.allSettled([startWorker(first), startWorker(second)])
    const refused = both.flatMap((one) => (one.status === 'rejected' ? [one.reason.code] : []))
    expect(refused).toEqual(['foreign_namespace'])
    expect(await recorded()).toHaveLength(1)
  })

  it('a Postgres schema that belongs to a namespace is not read by clients of another namespace, which say why', async () => {
    await startWorker(first)
    const { session, id } = play(await connect(first))
    await (await session.send('a secret')).result(TIMEOUT)
    const stranger = await connect(second)
    const theirs = stranger.session(id)
    expect(await codeOf(theirs.messages())).toBe('foreign_namespace')
    expect(await codeOf(theirs.events()[Symbol.asyncIterator]().next())).toBe('foreign_namespace')
    expect(await codeOf(stranger.sessions.list())).toBe('foreign_namespace')
    expect(await codeOf(stranger.events()[Symbol.asyncIterator]().next())).toBe('foreign_namespace')
    expect(await codeOf(stranger.erase(id, { by: 'test' }))).toBe('foreign_namespace')
    expect(await stranger.reach()).toEqual({ temporal: true, store: false })
    const run = await stranger.session(`s-${randomUUID()}`, { agent: player.agent.name }).send('hello')
    expect(await codeOf(run.result(TIMEOUT))).toBe('foreign_namespace')
    expect(await doctor(where(second))).toMatchObject({
      ok: false,
      checks: expect.arrayContaining([
        expect.objectContaining({ check: 'schema', level: 'fail', advice: expect.stringContaining('migrate') }),
      ]),
    })
    expect(await doctor(where(first))).toMatchObject({
      checks: expect.arrayContaining([
        expect.objectContaining({ check: 'schema', measured: expect.stringContaining(`of namespace "${first}"`) }),
      ]),
    })
  })

  it('a namespace’s schema takes no events of a foreign worker that started while Postgres was away', async () => {
    await startWorker(first)
    const { host, hostname, port } = new URL(databaseUrl)
    const between = await startPartition(host)
    open.push(between)
    between.begin()
    const log = recorder()
    const postgres = databaseUrl.replace(`${hostname}:${port}`, between.address)
    await startWorker(second, { postgres, logger: log })
    between.end()
    const { session, id } = player.play(
      await Pawl.connect({ ...where(second), postgres: false }).then((pawl) => (open.push(pawl), pawl)),
      { model: (request) => saidIn(request).join(', ') },
      { id: `s-${randomUUID()}` },
    )
    expect(await (await session.send('one', { isNew: true })).result(TIMEOUT)).toMatchObject({ text: 'one' })
    await until('the error is logged', () => log.about('belongs to another namespace').some(([level]) => level === 'error'))
    expect(await schema.counts(id)).toEqual({})
    expect(await recorded()).toEqual([first])
  })

  it('a schema moves to another namespace on request: new workers continue its sessions, old ones write no more', async () => {
    const log = recorder()
    await startWorker(first, { logger: log })
    const { session, id } = play(await connect(first))
    await (await session.send('one')).result(TIMEOUT)
    await session.close()
    await until(
      'it is stored',
      async () => (await schema.query('select 1 from {schema}.sessions where status = $1', ['closed'])).length === 1,
    )
    expect(await migrateStore({ postgres: databaseUrl, schema: schema.name, namespace: second })).toMatchObject({
      namespace: second,
      movedFrom: first,
    })
    expect(await schema.query('select action, details from {schema}.audit')).toEqual([
      { action: 'namespace', details: { from: first, to: second } },
    ])
    await startWorker(second)
    const moved = play(await connect(second), id)
    expect(await (await moved.session.send('two')).result(TIMEOUT)).toMatchObject({ text: 'one, two', run: 2 })
    // The first namespace's worker runs its sessions, but nothing of them is stored.
    const late = play(await Pawl.connect({ ...where(first), postgres: false }).then((pawl) => (open.push(pawl), pawl)))
    expect(await (await late.session.send('late', { isNew: true })).result(TIMEOUT)).toMatchObject({ text: 'late' })
    await until('the error is logged', () => log.about('belongs to another namespace').some(([level]) => level === 'error'))
    expect(await schema.counts(late.id)).toEqual({})
    expect(await codeOf(startWorker(first))).toBe('foreign_namespace')
    expect(await migrateStore({ postgres: databaseUrl, schema: schema.name, check: true })).toMatchObject({ namespace: second })
  })
})
