// Effects that take place after the body that requested them has died or thrown: pawl does not believe "it did not happen" at once.
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { eventsOf, ofType } from '../support/events.ts'
import { type Plan, finalAnswer } from './support/plan.ts'
import { type Rig, startRig } from './support/rig.ts'

/** After the first verdict, and well before the default `settleAfter` is over. */
const LATE_MS = 2_000

let rig: Rig

beforeAll(async () => {
  rig = await startRig()
  await rig.supervise()
})

afterAll(() => rig.close())

it.each(['dies', 'throws'] as const)(
  'a payment that arrives 2 s after verify denied it, because its body %s, is made once',
  async (how) => {
    const plan: Plan = [[{ tool: 'wire', input: { name: 'a', how } }]]
    const run = await rig.start(plan)
    const { sessionId: session } = run
    const mark = await rig.ledger.reached({ session, stage: 'entered' })
    if (how === 'dies') process.kill(mark.pid, 'SIGKILL')
    await rig.ledger.reached({ session, stage: 'verify' })
    await sleep(LATE_MS)
    rig.ledger.apply(mark)
    expect((await run.result()).text).toBe(finalAnswer(plan))
    expect(rig.ledger.marks({ session, stage: 'entered' })).toHaveLength(1)
    expect(rig.ledger.marks({ session, stage: 'applied' })).toHaveLength(1)
    expect(rig.ledger.marks({ session, stage: 'verify' })).toHaveLength(2)
    expect(ofType(await eventsOf(rig.pawl.session(session)), 'tool_resolved')).toMatchObject([{ by: 'verify', happened: true }])
  },
)
