// Calls that take long, with and without the event loop: no death, no second time, and the neighbours go on undisturbed.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Plan, peacefulAnswer } from './support/plan.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'

const BLOCKED_MS = 30_000
const LONG_MS = 20_000

const long = (tool: 'block' | 'dawdle', ms: number): Plan => [[{ tool, input: { name: 'a', ms } }], [{ tool: 'look', input: { name: 'b' } }]]
const SHORT: Plan = [1, 2, 3].map((at) => [{ tool: at === 2 ? 'charge' : 'look', input: { name: `${at}` } }])

describe.each(['supervised', 'unsupervised'] as const)('%s, a call that takes long', (kind) => {
  let rig: Rig
  let workers: Supervised | undefined

  beforeAll(async () => {
    rig = await startRig()
    if (kind === 'supervised') workers = await rig.supervise({ processes: 1 })
    else await rig.serve('run-worker.ts')
  })

  afterAll(() => rig.close())

  /** Asserts that the run went as in peace: every body entered once, nothing verified, nothing failed. */
  async function wasPeaceful(session: string, text: string, plan: Plan) {
    expect(await rig.errors(session, 0)).toEqual([])
    expect(text).toBe(peacefulAnswer(plan))
    const marks = rig.ledger.marks({ session })
    expect(marks.filter(({ attempt }) => attempt !== 1)).toEqual([])
    expect(marks.filter(({ stage }) => stage === 'entered')).toHaveLength(plan.length)
    expect(marks.filter(({ stage }) => stage === 'verify')).toEqual([])
  }

  it('is executed once and its answer is taken, also when it blocks the event loop beside healthy neighbours', async () => {
    const blocking = rig.ledger.reached({ stage: 'entered', what: 'block' })
    // Neighbours: one that lasts over the whole block, and one whose reply comes in the middle of it.
    const dawdling = rig.ledger.reached({ stage: 'entered', what: 'dawdle' })
    const neighbour = await rig.start(long('dawdle', LONG_MS))
    await dawdling
    const held = rig.ledger.holdNext({ stage: 'entered', what: 'charge' })
    const short = await rig.start(SHORT)
    const mark = await held
    const blocked = await rig.start(long('block', BLOCKED_MS))
    await blocking
    mark.release()
    const runs = [
      { run: blocked, plan: long('block', BLOCKED_MS) },
      { run: neighbour, plan: long('dawdle', LONG_MS) },
      { run: short, plan: SHORT },
    ]
    const ended = await Promise.all(runs.map(async ({ run, plan }) => ({ plan, session: run.sessionId, text: (await run.result()).text })))
    for (const { session, text, plan } of ended) await wasPeaceful(session, text, plan)
    expect(workers?.events.filter(({ event }) => event === 'worker_died') ?? []).toEqual([])
  })

  it('is executed once and its answer is taken at once when it only waits', async () => {
    const plan = long('dawdle', LONG_MS)
    const run = await rig.start(plan)
    const { text } = await run.result()
    const { sessionId: session } = run
    await wasPeaceful(session, text, plan)
    const [applied] = rig.ledger.marks({ session, stage: 'applied', what: 'dawdle' })
    const [next] = rig.ledger.marks({ session, what: 'model' }).filter(({ callId }) => callId === 'model:1:2')
    console.log(`${kind}: ${(next?.at ?? 0) - (applied?.at ?? 0)} ms from the end of a call of ${LONG_MS} ms to the next model call`)
  })
})
