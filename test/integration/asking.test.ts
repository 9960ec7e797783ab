// Workflows of a user that ask agents, by a worker of the user's own.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { NativeConnection, Worker } from '@temporalio/worker'
import type { Agent } from 'pawl'
import { agentActivities } from 'pawl/activities'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { gate, until } from '../support/until.ts'
import { adviserWith } from './fixtures/asking/agent.ts'
import type * as workflows from './fixtures/asking/workflows.ts'

let here: Deployment
let connection: NativeConnection
let held = gate()
const taskQueue = `asking-${randomUUID()}`
const workers = new Map<Worker, Promise<void>>()

beforeAll(async () => {
  here = await deploy()
  const agent = adviserWith({ pass: (signal) => held.pass(signal) })
  await here.startWorker({ agents: [agent as Agent] })
  connection = await NativeConnection.connect({ address: here.stack.temporalAddress })
  await startWorker()
})
beforeEach(() => {
  held = gate()
})
afterAll(async () => {
  for (const worker of workers.keys()) await stop(worker)
  await connection?.close()
  await here?.stop()
})

/** A worker of the user's own workflows. */
async function startWorker(): Promise<Worker> {
  const worker = await Worker.create({
    connection,
    namespace: here.stack.namespace,
    taskQueue,
    workflowsPath: fileURLToPath(new URL('fixtures/asking/workflows.ts', import.meta.url)),
    activities: agentActivities(here.pawl),
    shutdownGraceTime: 0,
  })
  workers.set(worker, worker.run())
  return worker
}

async function stop(worker: Worker): Promise<void> {
  const ended = workers.get(worker)
  workers.delete(worker)
  worker.shutdown()
  await ended
}

function start<N extends keyof typeof workflows>(name: N, ...args: Parameters<(typeof workflows)[N]>) {
  return here.temporal.workflow.start(name, { workflowId: `asks-${randomUUID()}`, taskQueue, args })
}

/** The longest id that the server accepts. */
const longestId = (): string => `asks-${randomUUID()}`.padEnd(1_000, 'x')

const newSession = (): string => `asked-${randomUUID()}`

describe('a workflow that asks an agent', () => {
  it('a workflow that asks an agent gets its typed output, and asks again in the same session', async () => {
    const session = newSession()
    const handle = await start('advise', session, ['tea', 'coffee'])
    expect(await handle.result()).toEqual([
      { advice: 'on tea', run: 1 },
      { advice: 'on coffee', run: 2 },
    ])
    const messages = await here.pawl.session(session).messages()
    expect(messages.filter(({ kind }) => kind === 'user').map(({ by }) => by)).toEqual([
      `workflow ${handle.workflowId}`,
      `workflow ${handle.workflowId}`,
    ])
  })

  it('a workflow that asks an agent may have the longest id that the server accepts', async () => {
    const session = newSession()
    const handle = await here.temporal.workflow.start('advise', { workflowId: longestId(), taskQueue, args: [session, ['tea']] })
    expect(await handle.result()).toEqual([{ advice: 'on tea', run: 1 }])
  })

  it('a workflow that asks an agent learns why there is no answer, and its worker does not ask again', async () => {
    const session = newSession()
    const handle = await start('tryAsking', session, 'fail')
    const reason = 'no advice'
    expect(await handle.result()).toMatchObject({
      type: 'run_failed',
      session,
      run: 1,
      code: 'bad_request',
      reason,
      strategy: expect.any(String),
    })
    // Only the details of a failure pass a codec.
    const failed = (await handle.fetchHistory()).events?.find((event) => event.activityTaskFailedEventAttributes)
    expect(failed?.activityTaskFailedEventAttributes?.failure?.message).toBe(
      'The run of the message failed: bad_request. The details of this failure say why.',
    )
    const refused = await start('tryAsking', 'no such id!', 'tea')
    expect(await refused.result()).toMatchObject({ type: 'message_rejected', code: 'invalid_session_id' })
    expect((await here.pawl.session(session).messages()).filter(({ kind }) => kind === 'user')).toHaveLength(1)
  })

  it('a workflow that asks an agent waits on, once its worker is replaced, for the same run', async () => {
    const session = newSession()
    const handle = await start('tryAsking', session, 'wait')
    await held.reached
    const [first] = workers.keys()
    await stop(first as Worker)
    await startWorker()
    held.open()
    expect(await handle.result()).toMatchObject({ output: { advice: 'on wait' }, run: 1 })
    const messages = await here.pawl.session(session).messages()
    expect(messages.filter(({ kind }) => kind === 'user')).toHaveLength(1)
  })

  it.each(['cancel', 'terminate'] as const)('a run is interrupted when the workflow that asked is ended by %s', async (how) => {
    const session = newSession()
    const handle = await start('tryAsking', session, 'wait')
    await held.reached
    await handle[how]()
    if (how === 'cancel') expect(await handle.result()).toBe('cancelled')
    const events = await until('the run is interrupted', async () => {
      const found = []
      for await (const event of here.pawl.session(session).events()) if (event.type === 'run_interrupted') found.push(event)
      return found.length > 0 && found
    })
    expect(events).toMatchObject([{ by: `workflow ${handle.workflowId}`, reason: 'the workflow that asked no longer waits' }])
  })

  it('a workflow that no longer waits does not interrupt the run of somebody else in the same session', async () => {
    const id = newSession()
    const session = here.pawl.session(id, { agent: 'adviser' })
    const others = await session.send('wait')
    await held.reached
    const handle = await start('tryAsking', id, 'tea')
    await until('the question waits', async () => (await session.state()).queued === 1)
    await handle.cancel()
    const state = async () => (await handle.describe()).status.name
    // The activity learns of it with its next heartbeat.
    await sleep(4_000)
    expect((await session.state()).current?.run).toBe(1)
    held.open()
    expect(await others.result()).toMatchObject({ run: 1 })
    await until('the workflow ends', async () => (await state()) !== 'RUNNING')
    expect(await handle.result()).toBe('cancelled')
    const interrupted = []
    for await (const event of session.events()) if (event.type === 'run_interrupted') interrupted.push(event.run)
    expect(interrupted).not.toContain(1)
  })
})
