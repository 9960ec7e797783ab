// The heartbeat that allows the body of a riding call to be entered, over a network that is slow or loses it: the call waits for it, or is
// made on its own, and the effect happens once.
import { setTimeout as sleep } from 'node:timers/promises'
import { randomUUID } from 'node:crypto'
import type { RunHandle } from 'pawl/client'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { type Partition, startPartition } from '../support/partition.ts'
import { finalAnswer, type Plan, planText } from './support/plan.ts'
import { type Rig, startRig } from './support/rig.ts'

/** Less than an RPC's deadline. */
const SLOW_MS = 2_500
/** More than that, and less than a heartbeat timeout. */
const LOST_MS = 6_000

let rig: Rig
let network: Partition

beforeAll(async () => {
  process.env.PAWL_QUICK_CALLS = 'always'
  rig = await startRig()
  const { temporalAddress, namespace } = inject('stack')
  network = await startPartition(temporalAddress)
  await rig.supervise({ temporal: { address: network.address, namespace } })
})

afterAll(async () => {
  delete process.env.PAWL_QUICK_CALLS
  await rig.close()
  await network.close()
})

interface HeldCall {
  plan: Plan
  run: RunHandle
  /** Lets the model call go on: next, it asks whether it may enter the body. */
  ask(): void
}

/** An external call that the model has just requested in the session's second turn. */
async function heldCall(): Promise<HeldCall> {
  const name = randomUUID()
  const plan: Plan = [[{ tool: 'look', input: { name: 'a' } }], [{ tool: 'weigh', input: { name } }]]
  const resolved = rig.ledger.holdNext({ stage: 'checked', what: name })
  const run = await rig.pawl.session(`ride-${randomUUID()}`, { agent: 'planned' }).send(planText(plan))
  const { release } = await resolved
  return { plan, run, ask: release }
}

const entered = ({ run }: HeldCall): number => rig.ledger.marks({ session: run.sessionId, what: 'weigh', stage: 'entered' }).length

/** The body is entered once, in the first attempt; nothing fails, and the model is not asked again. */
async function expectNoTrouble({ plan, run }: HeldCall): Promise<void> {
  expect((await run.result()).text).toBe(finalAnswer(plan))
  const { sessionId: session } = run
  const stages = rig.ledger.marks({ session, what: 'weigh' }).map(({ stage, attempt }) => `${stage} ${attempt}`)
  expect(stages).toEqual(['entered 1', 'applied 1', 'left 1'])
  expect(rig.ledger.marks({ session, stage: 'model' })).toHaveLength(3)
  expect(await rig.errors(session, 0)).toEqual([])
}

it('the body of a riding call waits for a slow heartbeat, and the call is still part of the model call', async () => {
  const call = await heldCall()
  const body = rig.ledger.holdNext({ stage: 'entered', what: 'weigh' })
  network.hold()
  call.ask()
  await sleep(SLOW_MS)
  expect(entered(call)).toBe(0)
  network.release()
  const { release } = await body
  expect(await rig.pendingActivities(call.run.sessionId)).toEqual(['callModel'])
  release()
  await expectNoTrouble(call)
})

it('a call whose heartbeat is lost is not entered as part of the model call; it is made on its own, once', async () => {
  const call = await heldCall()
  const body = rig.ledger.holdNext({ stage: 'entered', what: 'weigh' })
  network.begin()
  call.ask()
  await sleep(LOST_MS)
  expect(entered(call)).toBe(0)
  network.end()
  const { release } = await body
  expect(await rig.pendingActivities(call.run.sessionId)).toEqual(['executeTool'])
  release()
  await expectNoTrouble(call)
})
