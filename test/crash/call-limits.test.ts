// A process is killed during a call that its tool's concurrency admitted: the call keeps its place, and no other takes it.
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Plan } from './support/plan.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'
import { untilFound } from '../support/until.ts'

let rig: Rig
let workers: Supervised

beforeAll(async () => {
  rig = await startRig()
  workers = await rig.supervise({ processes: 2 })
})
afterAll(() => rig.close())

it('a call keeps its place at a limit when its process is killed, and the next call begins once it has ended', async () => {
  await workers.serving(2)
  const plan: Plan = [[{ tool: 'queue_up', input: { name: 'a' } }]]
  const held = rig.ledger.holdNext({ stage: 'entered', what: 'queue_up' })
  const first = await rig.start(plan)
  const mark = await held
  const second = await rig.start(plan)
  const other = rig.pawl.session(second.sessionId)
  await untilFound(async () => (await other.state()).callWaits?.some((wait) => wait.for === 'limit') ?? false)
  process.kill(mark.pid, 'SIGKILL')
  for (const run of [first, second]) expect((await run.result()).text).toBe('Done: queue_up a')
  const marks = [first, second].flatMap(({ sessionId: session }, n) =>
    rig.ledger.marks({ session, what: 'queue_up' }).map(({ stage, at }) => ({ stage, at, n })),
  )
  const order = marks.toSorted((a, b) => a.at - b.at).map(({ stage, n }) => `${stage} ${n}`)
  expect(order.filter((one) => /entered|applied/.test(one))).toEqual(['entered 0', 'entered 0', 'applied 0', 'entered 1', 'applied 1'])
  expect((await rig.errors(first.sessionId, 1)).map(({ class: of }) => of)).toEqual(['WorkerDied'])
  expect(await rig.errors(second.sessionId, 0)).toEqual([])
})
