// The heartbeat that allows an external body to be entered, over a network that is slow, loses it, or outlives the process that sent it:
// the body is never entered without a confirmed heartbeat, and never twice.
import { setTimeout as sleep } from 'node:timers/promises'
import { randomUUID } from 'node:crypto'
import type { RunHandle } from 'pawl/client'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { type Partition, startPartition } from '../support/partition.ts'
import { type Plan, finalAnswer } from './support/plan.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'
import { untilFound } from '../support/until.ts'

/** Less than an RPC's deadline. */
const SLOW_MS = 2_500
/** More than that, and less than a heartbeat timeout. */
const LOST_MS = 6_000

let rig: Rig
let network: Partition
let workers: Supervised

beforeAll(async () => {
  rig = await startRig()
  const { temporalAddress, namespace } = inject('stack')
  network = await startPartition(temporalAddress)
  workers = await rig.supervise({ temporal: { address: network.address, namespace } })
})

afterAll(async () => {
  await rig.close()
  await network.close()
})

interface HeldCall {
  plan: Plan
  run: RunHandle
  /** Lets the second check of the arguments pass: next, the executor asks whether it may enter the body. */
  ask(): void
}

/** A call that is about to have its attempt confirmed. */
async function heldCall(): Promise<HeldCall> {
  const name = randomUUID()
  const plan: Plan = [[{ tool: 'weigh', input: { name } }]]
  const resolved = rig.ledger.holdNext({ stage: 'checked', what: name })
  const run = await rig.start(plan)
  const first = await resolved
  const begins = rig.ledger.holdNext({ stage: 'checked', what: name })
  first.release()
  const { release } = await begins
  return { plan, run, ask: release }
}

const entered = ({ run }: HeldCall): number => rig.ledger.marks({ session: run.sessionId, stage: 'entered' }).length

/** The body is entered once, in the first attempt; nothing fails, and nothing is verified. */
async function expectNoTrouble(call: HeldCall): Promise<void> {
  const { plan, run } = call
  expect((await run.result()).text).toBe(finalAnswer(plan))
  const stages = rig.ledger.marks({ session: run.sessionId, what: 'weigh' }).map(({ stage, attempt }) => `${stage} ${attempt}`)
  expect(stages).toEqual(['entered 1', 'applied 1', 'left 1'])
  expect(await rig.errors(run.sessionId, 0)).toEqual([])
}

it('an external body waits for a slow heartbeat', async () => {
  const call = await heldCall()
  network.hold()
  call.ask()
  await sleep(SLOW_MS)
  expect(entered(call)).toBe(0)
  network.release()
  await expectNoTrouble(call)
})

it('an external body whose heartbeat is lost is not entered; the call is made again and counts as the first attempt', async () => {
  const call = await heldCall()
  network.begin()
  call.ask()
  await sleep(LOST_MS)
  expect(entered(call)).toBe(0)
  network.end()
  await expectNoTrouble(call)
})

it('an external body whose heartbeat is under way when the orchestrator dies waits for confirmation from the next one', async () => {
  const call = await heldCall()
  network.hold()
  call.ask()
  await sleep(SLOW_MS)
  const from = workers.events.length
  process.kill(workers.supervisor.orchestratorPid() ?? expect.fail('no orchestrator'), 'SIGKILL')
  await untilFound(() => workers.events.slice(from).some(({ event }) => event === 'orchestrator_died'))
  expect(entered(call)).toBe(0)
  network.release()
  await expectNoTrouble(call)
})
