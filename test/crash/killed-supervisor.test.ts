// The supervisor is killed, alone or with all that it started: what is going on is finished or taken over, and no process is left.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Plan, peacefulAnswer } from './support/plan.ts'
import { isAlive, type Rig, type ServingProcess, startRig, until } from './support/rig.ts'

const call = (tool: string, ms?: number): Plan => [[{ tool, input: { name: 'a', ...(ms !== undefined && { ms }) } }]]
/** What heartbeats and the sticky timeout may take where no supervisor speaks for the dead. */
const NOTICED_MS = 8_000
/** The tool's timeout, and the grace after it: then no body can be alive. */
const SURELY_DEAD_MS = 4_000 + 5_000

/** A supervisor's process and the processes that it started. */
interface Group {
  supervisor: ServingProcess
  pids(): number[]
}

describe('a supervisor that is killed', () => {
  let rig: Rig
  let groups: Group[] = []

  beforeAll(async () => {
    rig = await startRig()
  })

  // Two, as on two machines: what the workers of one hold is not for the other to know.
  beforeEach(async () => {
    const missing = Array.from({ length: 2 - groups.length }, startGroup)
    groups.push(...(await Promise.all(missing)))
  })

  afterAll(() => rig.close())

  async function startGroup(): Promise<Group> {
    const supervisor = await rig.serve('supervise')
    const workers = (): number[] => supervisor.lines.flatMap((line) => /^worker (\d+)$/.exec(line)?.[1] ?? []).map(Number)
    await until(() => workers().length === 2)
    return { supervisor, pids: () => [supervisor.pid, ...workers()] }
  }

  /** Takes the group that the process belongs to out of service. */
  function doomed(pid: number): Group {
    const group = groups.find((one) => one.pids().includes(pid)) ?? expect.fail(`${pid} is of no group`)
    groups = groups.filter((one) => one !== group)
    return group
  }

  it('leaves processes that finish what they hold, beating for themselves, and then go', async () => {
    const plan: Plan = [...call('dawdle', 6_000), ...call('look')]
    const entered = rig.ledger.reached({ stage: 'entered', what: 'dawdle' })
    const run = await rig.start(plan)
    const { pid } = await entered
    const { supervisor, pids } = doomed(pid)
    process.kill(supervisor.pid, 'SIGKILL')
    // The one that holds nothing goes at once, the other one when it has finished: long past the heartbeat timeout of 2 s.
    await until(() => pids().filter(isAlive).join() === String(pid))
    expect((await run.result()).text).toBe(peacefulAnswer(plan))
    const { sessionId: session } = run
    expect(rig.ledger.marks({ session, stage: 'entered', what: 'dawdle' }).map((mark) => mark.pid)).toEqual([pid])
    expect(rig.ledger.marks({ session, stage: 'verify' })).toEqual([])
    expect(await rig.errors(session, 0)).toEqual([])
    await until(() => !pids().some(isAlive))
  })

  it('while its processes are still starting leaves none of them', async () => {
    const supervisor = await rig.serve('supervise', { until: 'started' })
    const pids = supervisor.lines.flatMap((line) => /^started (\d+)$/.exec(line)?.[1] ?? []).map(Number)
    expect(pids.length).toBeGreaterThan(0)
    process.kill(supervisor.pid, 'SIGKILL')
    await until(() => !pids.some(isAlive))
  })

  async function allKilledAt(plan: Plan, what: string) {
    const held = rig.ledger.holdNext({ stage: what === 'model' ? 'model' : 'entered', what })
    const run = await rig.start(plan)
    const { pid } = await held
    const pids = doomed(pid).pids()
    for (const one of pids) process.kill(one, 'SIGKILL')
    const at = Date.now()
    const { text } = await run.result()
    expect(text).toBe(peacefulAnswer(plan))
    await until(() => !pids.some(isAlive))
    return { session: run.sessionId, at }
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

  it('is not needed to end well: asked by SIGTERM, all finish and record what they hold', async () => {
    const held = rig.ledger.holdNext({ stage: 'entered', what: 'charge' })
    const run = await rig.start(call('charge'))
    const mark = await held
    const { supervisor, pids } = doomed(mark.pid)
    process.kill(supervisor.pid, 'SIGTERM')
    await until(() => pids().filter(isAlive).length === 2)
    mark.release()
    expect(await supervisor.ended).toEqual([0, null])
    expect(pids().filter(isAlive)).toEqual([])
    expect((await run.result()).text).toBe(peacefulAnswer(call('charge')))
    expect(rig.ledger.marks({ session: run.sessionId, what: 'charge' }).map(({ stage, pid }) => [stage, pid])).toEqual(
      ['entered', 'applied', 'left'].map((stage) => [stage, mark.pid]),
    )
    expect(await rig.errors(run.sessionId, 0)).toEqual([])
  })
})
