// Processes are killed during a call that its tool's concurrency admitted: the call keeps its place until it has ended, and then leaves it.
import type { RunHandle } from 'pawl/client'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { HeldMark } from './support/ledger.ts'
import type { Plan } from './support/plan.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'
import { untilFound } from '../support/until.ts'

let rig: Rig
let workers: Supervised

beforeAll(async () => {
  rig = await startRig()
  // Without a spare, a killed orchestrator has no successor for a second or more.
  workers = await rig.supervise({ processes: 2, spare: false })
})
afterAll(() => rig.close())

const PLAN: Plan = [[{ tool: 'queue_up', input: { name: 'a' } }]]

/** A call that is held in its body, and one of another session that waits for the limit. */
async function oneWaits(): Promise<{ mark: HeldMark; first: RunHandle; second: RunHandle }> {
  await workers.serving(2)
  const held = rig.ledger.holdNext({ stage: 'entered', what: 'queue_up' })
  const first = await rig.start(PLAN)
  const mark = await held
  const second = await rig.start(PLAN)
  const other = rig.pawl.session(second.sessionId)
  await untilFound(async () => (await other.state()).callWaits?.some((wait) => wait.for === 'limit') ?? false)
  return { mark, first, second }
}

/** Where the bodies of both sessions were, in order. */
function steps(...runs: RunHandle[]): string[] {
  const marks = runs.flatMap(({ sessionId: session }, n) =>
    rig.ledger.marks({ session, what: 'queue_up' }).map(({ stage, at }) => ({ stage, at, n })),
  )
  const order = marks.toSorted((a, b) => a.at - b.at).map(({ stage, n }) => `${stage} ${n}`)
  return order.filter((one) => /entered|applied/.test(one))
}

it('a call keeps its place at a limit when its process is killed, and the next call begins once it has ended', async () => {
  const { mark, first, second } = await oneWaits()
  process.kill(mark.pid, 'SIGKILL')
  for (const run of [first, second]) expect((await run.result()).text).toBe('Done: queue_up a')
  expect(steps(first, second)).toEqual(['entered 0', 'entered 0', 'applied 0', 'entered 1', 'applied 1'])
  expect((await rig.errors(first.sessionId, 1)).map(({ class: of }) => of)).toEqual(['WorkerDied'])
  expect(await rig.errors(second.sessionId, 0)).toEqual([])
})

it('a call that ends while there is no orchestrator leaves its place to the next call as soon as there is one', async () => {
  const { mark, first, second } = await oneWaits()
  const from = workers.events.length
  process.kill(workers.supervisor.orchestratorPid() ?? expect.fail('no orchestrator'), 'SIGKILL')
  await untilFound(() => workers.events.slice(from).some(({ event }) => event === 'orchestrator_died'))
  mark.release()
  // Otherwise, the place would be free only after the tool's timeout of a minute.
  for (const run of [first, second]) expect((await run.result({ timeout: 30_000 })).text).toBe('Done: queue_up a')
  expect(steps(first, second)).toEqual(['entered 0', 'applied 0', 'entered 1', 'applied 1'])
})
