// The supervisor is killed, alone or with all that it started: what is going on is finished or taken over, and no process is left.
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Plan, peacefulAnswer } from './support/plan.ts'
import { isAlive, type Rig, type ServingProcess, startRig, until } from './support/rig.ts'

const call = (tool: string): Plan => [[{ tool, input: { name: 'a' } }]]
/** What heartbeats and the sticky timeout may take where no supervisor speaks for the dead. */
const NOTICED_MS = 8_000
/** The tool's timeout, and the grace after it: then no body can be alive. */
const SURELY_DEAD_MS = 4_000 + 5_000

describe('a supervisor that is killed', () => {
  let rig: Rig
  let first: ServingProcess

  beforeEach(async () => {
    rig = await startRig()
    first = await rig.serve('supervise.ts')
    await until(() => workers().length === 2)
  })

  afterEach(() => rig.close())

  const workers = (): number[] => first.lines.flatMap((line) => /^worker (\d+)$/.exec(line)?.[1] ?? []).map(Number)

  it('leaves processes that finish what they hold, beating for themselves, and then go', async () => {
    const plan: Plan = [...call('charge'), ...call('look')]
    const held = rig.ledger.holdNext({ stage: 'entered', what: 'charge' })
    const run = await rig.start(plan)
    const mark = await held
    process.kill(first.pid, 'SIGKILL')
    await first.ended
    // Long past the heartbeat timeout of an external call: somebody must beat for it.
    await until(() => workers().filter(isAlive).join() === String(mark.pid))
    await rig.serve('supervise.ts')
    await new Promise((resolve) => setTimeout(resolve, 3_000))
    mark.release()
    expect((await run.result()).text).toBe(peacefulAnswer(plan))
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'entered', what: 'charge' }).map(({ pid }) => pid)).toEqual([mark.pid])
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'verify' })).toEqual([])
    await until(() => !workers().some(isAlive))
  })

  async function allKilledAt(plan: Plan, what: string) {
    const held = rig.ledger.holdNext({ stage: what === 'model' ? 'model' : 'entered', what })
    const run = await rig.start(plan)
    await held
    const pids = [first.pid, ...workers()]
    // Another machine is there: what its workers hold is not for this one to know.
    const other = await rig.serve('supervise.ts')
    for (const pid of pids) process.kill(pid, 'SIGKILL')
    const at = Date.now()
    const { text } = await run.result()
    expect(text).toBe(peacefulAnswer(plan))
    await until(() => !pids.some(isAlive))
    return { session: run.sessionId, at, other }
  }

  it.each(['model', 'look', 'put'])('together with its processes has a call (%s) go on elsewhere within seconds', async (what) => {
    const { session, at } = await allKilledAt(call(what === 'model' ? 'look' : what), what)
    const [, again] = rig.ledger.marks({ session, what, stage: what === 'model' ? 'model' : 'entered' })
    const ms = (again?.at ?? Number.POSITIVE_INFINITY) - at
    console.log(`all killed within ${what}: running again after ${ms} ms`)
    expect(ms).toBeLessThan(NOTICED_MS)
    const [error] = await rig.errors(session, 1)
    expect(error).toMatchObject({ attempt: 1, class: 'HeartbeatTimeout' })
  })

  it('together with its processes has an external call verified once its time is over', async () => {
    const { session, at } = await allKilledAt(call('charge'), 'charge')
    const entered = rig.ledger.marks({ session, stage: 'entered' })
    const [verified] = rig.ledger.marks({ session, stage: 'verify' })
    expect(entered.map(({ attempt }) => attempt)).toEqual([1, 2])
    expect(rig.ledger.marks({ session, stage: 'applied' })).toHaveLength(1)
    expect(rig.ledger.marks({ session, stage: 'verified_too_early' })).toEqual([])
    expect((verified?.at ?? 0) - (entered[0]?.at ?? 0)).toBeGreaterThan(SURELY_DEAD_MS - 500)
    console.log(`all killed within charge: verified ${(verified?.at ?? 0) - at} ms after`)
    const [error] = await rig.errors(session, 1)
    expect(error).toMatchObject({ context: 'tool:charge', attempt: 1, class: 'HeartbeatTimeout' })
  })
})
