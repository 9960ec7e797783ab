// A server that cannot be reached while external bodies run: it accepts their results once they can be delivered, however late.
import { setTimeout as sleep } from 'node:timers/promises'
import type { RunHandle } from 'pawl/client'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { eventsOf, ofType } from '../support/events.ts'
import { type Partition, startPartition } from '../support/partition.ts'
import { until } from '../support/until.ts'
import type { HeldMark } from './support/ledger.ts'
import { type Plan, finalAnswer } from './support/plan.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'

/** The first has no `verify`; the second has one. */
const TOOLS = ['entrust', 'dawdle'] as const
type Tool = (typeof TOOLS)[number]

const call = (tool: Tool): Plan => [[{ tool, input: { name: 'a', ...(tool === 'dawdle' && { ms: 0 }) } }]]

interface HeldCall {
  tool: Tool
  run: RunHandle
  mark: HeldMark
}

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

/** Starts a run whose call is held within its body. */
async function held(tool: Tool): Promise<HeldCall> {
  const mark = rig.ledger.holdNext({ stage: 'entered', what: tool })
  const run = await rig.start(call(tool))
  return { tool, run, mark: await mark }
}

/** The body was entered once and had its effect once; neither verify nor a person was asked. */
async function expectOneEntry({ tool, run }: HeldCall): Promise<void> {
  expect((await run.result()).text).toBe(finalAnswer(call(tool)))
  const marks = rig.ledger.marks({ session: run.sessionId, what: tool })
  expect(marks.filter(({ stage }) => stage === 'entered')).toHaveLength(1)
  expect(marks.filter(({ stage }) => stage === 'applied')).toHaveLength(1)
  expect(marks.filter(({ stage }) => stage === 'verify')).toEqual([])
  const events = await eventsOf(rig.pawl.session(run.sessionId))
  expect(ofType(events, 'tool_unknown')).toEqual([])
  expect(ofType(events, 'tool_completed')).toHaveLength(1)
  // What the body reported arrives with its result.
  expect(ofType(events, 'emitted').map(({ name }) => name)).toEqual(tool === 'dawdle' ? ['dawdled'] : [])
}

it('when the server is unreachable for 3 s during external calls, neither a person nor verify is asked', async () => {
  const [during, after] = [await held('entrust'), await held('dawdle')]
  network.hold()
  await sleep(1_500)
  during.mark.release()
  await sleep(1_500)
  network.release()
  after.mark.release()
  for (const one of [during, after]) {
    await expectOneEntry(one)
    expect(await rig.errors(one.run.sessionId, 0)).toEqual([])
  }
})

it('a server that has timed attempts out still accepts their results, whether the bodies ended before or after', async () => {
  const during = await Promise.all([held('entrust'), held('dawdle')])
  const after: Awaited<ReturnType<typeof held>>[] = []
  for (const tool of TOOLS) after.push(await held(tool))
  network.hold()
  for (const { mark } of during) mark.release()
  await until(
    'the attempts have timed out',
    async () => {
      const pending = await Promise.all([...during, ...after].map(({ run }) => rig.pendingActivities(run.sessionId)))
      return !pending.flat().includes('executeTool')
    },
    120_000,
  )
  network.release()
  for (const { mark } of after) mark.release()
  for (const one of [...during, ...after]) {
    await expectOneEntry(one)
    const events = await eventsOf(rig.pawl.session(one.run.sessionId))
    expect(ofType(events, 'tool_resolved')).toMatchObject([{ by: 'worker', happened: true }])
    expect(await rig.errors(one.run.sessionId, 1)).toMatchObject([{ context: `tool:${one.tool}`, attempt: 1, class: 'HeartbeatTimeout' }])
  }
  expect(workers.events.filter(({ event }) => event === 'worker_died' || event === 'orchestrator_died')).toEqual([])
})
