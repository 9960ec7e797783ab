// External bodies whose death went unnoticed: `verify` is called once they can no longer be running, counted from when their loss is known.
import { setTimeout as sleep } from 'node:timers/promises'
import { type Agent, defineAgent, defineTool } from 'pawl'
import { scripted } from 'pawl/testing'
import type { WorkerTuner } from '@temporalio/worker'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { z } from 'zod'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { type Partition, startPartition } from '../support/partition.ts'
import { answersIn, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'
import { linesOfReport } from '../../src/cli/reporting.ts'
import { OVERDUE_GRACE_MS } from '../../src/session/call-facts.ts'

const TIMEOUT_MS = 14_000
/** How long the call waits for a slot: longer than the grace that is added to its timeout. */
const BACKLOG_MS = 10_000
/** Most of the timeout. */
const BODY_MS = 13_000

let here: Deployment
let partition: Partition

beforeAll(async () => {
  here = await deploy()
  partition = await startPartition(here.stack.temporalAddress)
})
afterAll(async () => {
  partition?.end()
  await here?.stop()
  await partition?.close()
})

/** A worker that executes one activity at a time. */
function oneAtATime(): WorkerTuner {
  const fixed = (numSlots: number) => ({ type: 'fixed-size', numSlots }) as const
  return {
    workflowTaskSlotSupplier: fixed(10),
    activityTaskSlotSupplier: fixed(1),
    localActivityTaskSlotSupplier: fixed(1),
    nexusTaskSlotSupplier: fixed(1),
  }
}

it('an external body that started late is not verified before its own time is up', { timeout: 90_000 }, async () => {
  const [blocked, entered] = [gate(), gate()]
  const effects: string[] = []
  const verified: { happened: boolean }[] = []

  function agentOf(worker: 'cut' | 'other'): Agent {
    const pay = defineTool({
      name: 'pay',
      description: 'Pays.',
      input: z.object({ what: z.string() }),
      effect: 'external',
      timeout: TIMEOUT_MS,
      approval: true,
      async execute() {
        entered.open()
        if (worker === 'cut') await sleep(BODY_MS)
        effects.push(worker)
        return 'paid'
      },
      verify() {
        const happened = effects.length > 0
        verified.push({ happened })
        return happened ? { happened, result: 'paid' } : { happened }
      },
    })
    const block = defineTool({
      name: 'block',
      description: 'Holds the only slot.',
      input: z.object({ what: z.string() }),
      effect: 'read',
      async execute() {
        blocked.open()
        await sleep(BACKLOG_MS)
        return 'done'
      },
    })
    return defineAgent({
      name: 'payer',
      instructions: '',
      model: scripted((request) => {
        const [first] = request.messages
        return answersIn(request) > 0 ? 'done' : [use(first?.content === 'pay' ? 'pay' : 'block', 'it')]
      }),
      tools: [pay, block],
    }) as Agent
  }

  await here.startWorker({ agents: [agentOf('cut')], temporal: { address: partition.address }, tuner: oneAtATime() })
  const session = here.pawl.session(`victim-${here.taskQueue}`, { agent: 'payer' })
  const run = await session.send('pay')
  const waiting = await run.settled({ timeout: 20_000 })
  const digest = waiting.status === 'waiting' ? waiting.pending[0]?.digest : undefined
  await here.pawl.session(`blocker-${here.taskQueue}`, { agent: 'payer' }).send('block')
  await blocked.pass()
  await session.approve('t_1_1_0', { digest: digest ?? expect.fail('no digest') })
  await entered.pass()
  partition.begin()
  await here.startWorker({ agents: [agentOf('other')] })
  // Otherwise the server would reserve the session for the worker that is cut off until that worker's time is up, too.
  const { namespace } = here.stack
  await here.temporal.workflowService.resetStickyTaskQueue({ namespace, execution: { workflowId: `pawl:${session.id}` } })
  const wait = await until(
    'the status says when it is verified',
    async () => (await session.status()).waitsFor.find((one) => one.for === 'verification'),
    30_000,
  )
  expect(wait).toMatchObject({ callId: 't_1_1_0', tool: 'pay', reason: expect.stringContaining('may be running until then') })
  // The tool's timeout, and the grace of a body that ignores it.
  expect((wait.until ?? 0) - (wait.since ?? 0)).toBe(TIMEOUT_MS + OVERDUE_GRACE_MS)
  expect(linesOfReport(await session.status()).join('\n')).toMatch(/waits for +the verification of pay \(t_1_1_0\), .*until .*\(in \d+ s\)/)
  expect(await run.result({ timeout: 60_000 })).toMatchObject({ text: 'done' })
  expect(Date.now()).toBeGreaterThanOrEqual(wait.until ?? Number.POSITIVE_INFINITY)
  expect(effects).toEqual(['cut'])
  expect(verified).toEqual([{ happened: true }])
  expect(ofType(await eventsOf(session), 'tool_resolved')).toMatchObject([{ by: 'verify', happened: true }])
})

it('a session resumed after its workflow ended in an external body calls verify once the body’s time is up', async () => {
  const entered = gate()
  const at = { verified: 0 }
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({ what: z.string() }),
    effect: 'external',
    timeout: '1s',
    onUnknown: 'tell_model',
    execute: () => {
      entered.open()
      return new Promise(() => undefined)
    },
    verify() {
      at.verified = Date.now()
      return { happened: true, result: 'paid' }
    },
  })
  const model = scripted((request) => (answersIn(request) === 0 ? [use('pay', 'it')] : 'done'))
  const agent = defineAgent({ name: 'ended', instructions: '', model, tools: [pay] }) as Agent
  await here.startWorker({ agents: [agent], taskQueue: `${here.taskQueue}-ended` })
  const session = here.pawl.session(`ended-${here.taskQueue}`, { agent: 'ended', taskQueue: `${here.taskQueue}-ended` })
  const run = await session.send('pay')
  await entered.pass()
  await here.temporal.workflow.getHandle(`pawl:${session.id}`).terminate('a test')
  // Longer than the body may take, counted from its start.
  await sleep(6_500)
  await session.send('and on')
  expect(await run.result({ timeout: 30_000 })).toMatchObject({ text: 'done' })
  const [resumed] = ofType(await eventsOf(session), 'session_resumed')
  expect(at.verified - (resumed?.at ?? 0)).toBeGreaterThanOrEqual(6_000)
})
