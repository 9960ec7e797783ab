// Webhooks while the processes that send them die: every notification arrives, and those of a session arrive in order.
import { randomUUID } from 'node:crypto'
import { Pawl } from 'pawl/client'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { ownSchema, type OwnSchema } from '../support/rows.ts'
import { size } from '../support/sizes.ts'
import { FOUND_WITHIN_MS, gate, until } from '../support/until.ts'
import { type ReceivedHook, type WebhookTarget, webhookTarget } from '../support/webhook-target.ts'
import { planText } from './support/plan.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'

const SESSIONS = size(6, 30)
const RUNS = 3
const KILLS = size(2, 8)
const PLAN = planText([[{ tool: 'put', input: { name: 'a' } }]])

let rig: Rig
let schema: OwnSchema
/** Of the workers on two machines. */
let machines: OwnSchema
let pawl: Pawl
let target: WebhookTarget
let worker: Supervised
const before = process.env.PAWL_WEBHOOKS

beforeAll(async () => {
  process.env.PAWL_WEBHOOKS = 'private'
  const { temporalAddress: address, namespace, databaseUrl: postgres } = inject('stack')
  const taskQueue = `crash-${randomUUID()}`
  machines = await ownSchema(postgres, 'hooked_machines')
  process.env.CRASH_SCHEMA = machines.name
  rig = await startRig()
  schema = await ownSchema(postgres, 'hooked')
  worker = await rig.supervise({ schema: schema.name, taskQueue })
  pawl = await Pawl.connect({ temporal: { address, namespace }, postgres, taskQueue, schema: schema.name })
  target = await webhookTarget()
  target.secret = (await pawl.webhooks.create({ url: target.url, types: ['run.completed'] })).secret
})
afterAll(async () => {
  if (before === undefined) delete process.env.PAWL_WEBHOOKS
  else process.env.PAWL_WEBHOOKS = before
  delete process.env.CRASH_SCHEMA
  await pawl?.close()
  await rig?.close()
  await target?.stop()
  await schema?.close()
  await machines?.close()
})

async function killOrchestrator(): Promise<void> {
  const pid = await until('an orchestrator serves', () => worker.supervisor.orchestratorPid() ?? false)
  process.kill(pid, 'SIGKILL')
  await until('another one serves', () => (worker.supervisor.orchestratorPid() ?? pid) !== pid)
}

/** The runs that a target was told of, each once, in the order in which it first heard of them. */
const runsIn = (hooks: readonly ReceivedHook[]): number[] => [...new Map(hooks.map(({ id, data }) => [id, data.run as number])).values()]

it('a notification whose sender dies before the target has answered is sent again, under the same id', async () => {
  const held = gate()
  target.answer = async () => {
    await held.pass()
    return 204
  }
  const session = pawl.session(`hooked-${randomUUID()}`, { agent: 'planned' })
  await (await session.send(PLAN)).result()
  await held.reached
  target.answer = () => 204
  // The worker's next orchestrator need not wait for the lease of the dead one.
  await schema.query(`update {schema}.consumers set held_until = now() + interval '1 day'`)
  await killOrchestrator()
  const [again] = await target.accepted(session.id, 1)
  held.open()
  await until('the first answer was given', () => target.of(session.id).length === 2)
  expect(new Set(target.of(session.id).map(({ id }) => id))).toEqual(new Set([again?.id]))
})

it('no notification is lost, and those of each session arrive in order, while orchestrators are killed', async () => {
  const sessions = Array.from({ length: SESSIONS }, () => pawl.session(`hooked-${randomUUID()}`, { agent: 'planned' }))
  const running = sessions.map(async (session) => {
    for (let run = 0; run < RUNS; run++) await (await session.send(PLAN)).result()
  })
  for (let kill = 0; kill < KILLS; kill++) {
    const heard = target.received.length
    await until('more was received', () => target.received.length > heard, FOUND_WITHIN_MS)
    await killOrchestrator()
  }
  await Promise.all(running)
  for (const { id } of sessions) await target.accepted(id, RUNS)
  for (const { id } of sessions) expect(runsIn(target.of(id)), id).toEqual([1, 2, 3])
})

it('the webhooks of a worker that dies with its machine are sent by another worker', async () => {
  const { temporalAddress: address, namespace, databaseUrl: postgres } = inject('stack')
  const machine = await rig.serve('supervise')
  const { taskQueue } = rig
  const own = await Pawl.connect({ temporal: { address, namespace }, postgres, taskQueue, schema: machines.name })
  const other = await webhookTarget()
  try {
    other.secret = (await own.webhooks.create({ url: other.url, types: ['run.completed'] })).secret
    const first = own.session(`hooked-${randomUUID()}`, { agent: 'planned' })
    await (await first.send(PLAN)).result()
    await other.accepted(first.id, 1)
    await rig.supervise({ schema: machines.name })
    process.kill(machine.pid, 'SIGKILL')
    const second = own.session(`hooked-${randomUUID()}`, { agent: 'planned' })
    await (await second.send(PLAN)).result()
    await other.accepted(second.id, 1)
  } finally {
    await own.close()
    await other.stop()
  }
})
