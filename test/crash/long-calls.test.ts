// Long calls, whether or not they block the event loop: no process dies, no call is repeated, and the neighbours continue undisturbed.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { seed, variants } from '../support/sizes.ts'
import { type Plan, type PlannedCall, finalAnswer } from './support/plan.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'

const BLOCKED_MS = 30_000
/** Longer than the SDK's core waits for an attempt that does not report: the heartbeat timeout plus 5 s. */
const LONG_MS = 12_000

const long = (tool: string, ms: number): Plan => [[{ tool, input: { name: 'a', ms } }], [call('look', 'b')]]
const call = (tool: string, name: string): PlannedCall => ({ tool, input: { name } })

const KINDS = ['supervised', 'unsupervised'] as const

describe.each(variants(KINDS, 1))(`in a worker that is %s, a long call (seed ${seed}, again with PAWL_SEED)`, (kind) => {
  let rig: Rig
  let workers: Supervised | undefined

  beforeAll(async () => {
    rig = await startRig()
    if (kind === 'supervised') workers = await rig.supervise({ processes: 1 })
    else await rig.serve('run-worker')
  })

  afterAll(() => rig.close())

  /** Runs the plan and expects no trouble: every body is entered once, nothing is verified, and nothing fails. */
  async function runWithoutTrouble(plan: Plan): Promise<string> {
    const run = await rig.start(plan)
    const { text } = await run.result()
    const { sessionId: session } = run
    expect(await rig.errors(session, 0)).toEqual([])
    expect(text).toBe(finalAnswer(plan))
    const marks = rig.ledger.marks({ session })
    expect(marks.filter(({ attempt }) => attempt !== 1)).toEqual([])
    expect(marks.filter(({ stage }) => stage === 'entered')).toHaveLength(plan.length)
    expect(marks.filter(({ stage }) => stage === 'verify')).toEqual([])
    return session
  }

  /** Runs the plan and expects its first call to be made twice, because its first attempt throws. */
  async function runWithRetry(plan: Plan): Promise<void> {
    const run = await rig.start(plan)
    const { text } = await run.result()
    expect(text).toBe(finalAnswer(plan))
    const entered = rig.ledger.marks({ session: run.sessionId, stage: 'entered' }).filter(({ callId }) => callId === 't_1_1_0')
    expect(entered.map(({ attempt }) => attempt)).toEqual([1, 2])
    expect(await rig.errors(run.sessionId, 1)).toMatchObject([{ call_id: 't_1_1_0', attempt: 1, class: 'Error' }])
  }

  it('a long call is executed once and its answer is used, even if it blocks the event loop beside healthy neighbours', async () => {
    // Neighbours: one that lasts for most of the block, and one whose timeout is far shorter than the block.
    const dawdling = rig.ledger.reached({ stage: 'entered', what: 'dawdle' })
    const neighbour = runWithoutTrouble(long('dawdle', BLOCKED_MS - 5_000))
    await dawdling
    const held = rig.ledger.holdNext({ stage: 'entered', what: 'charge' })
    const short = runWithoutTrouble([[call('look', 'a')], [call('charge', 'b')], [call('look', 'c')]])
    const mark = await held
    const blocking = rig.ledger.reached({ stage: 'entered', what: 'block' })
    const blocked = runWithoutTrouble(long('block', BLOCKED_MS))
    await blocking
    mark.release()
    await Promise.all([neighbour, short, blocked])
    expect(workers?.events.filter(({ event }) => event === 'worker_died') ?? []).toEqual([])
  })

  it('a long call to a tool or the model is executed once, its answer is used at once, and it is retried if it throws', async () => {
    const slowModel = rig.ledger.holdNext({ stage: 'model' })
    const asking = runWithoutTrouble([[call('look', 'a')]])
    const model = await slowModel
    const retried = runWithRetry(long('stumble', LONG_MS))
    const session = await runWithoutTrouble(long('dawdle', LONG_MS))
    model.release()
    await Promise.all([asking, retried])
    const [applied] = rig.ledger.marks({ session, stage: 'applied', what: 'dawdle' })
    const next = rig.ledger.marks({ session, what: 'model' }).find(({ callId }) => callId === 'model:1:2')
    console.log(`${kind}: ${(next?.at ?? 0) - (applied?.at ?? 0)} ms from the end of a call of ${LONG_MS} ms to the next model call`)
  })
})
