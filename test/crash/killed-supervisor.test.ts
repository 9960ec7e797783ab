// The supervisor is killed, alone or with all processes it started: what was running resumes elsewhere, and no process is left.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Plan, finalAnswer } from './support/plan.ts'
import { defined } from '../../src/session/defined.ts'
import { isAlive, type Rig, type ServingProcess, startRig, until } from './support/rig.ts'

const call = (tool: string, ms?: number): Plan => [[{ tool, input: { name: 'a', ...defined({ ms }) } }]]
/** What heartbeats and the sticky timeout may take when no supervisor reports a death. */
const NOTICED_MS = 15_000
/** The tool's timeout plus the grace after it; then no body can be alive. */
const DEAD_AFTER_MS = 4_000 + 5_000

/** The process of a supervisor and the processes that it started. */
interface Group {
  supervisor: ServingProcess
  pids(): number[]
}

describe('when a supervisor is killed', () => {
  let rig: Rig
  let groups: Group[] = []

  beforeAll(async () => {
    rig = await startRig()
  })

  afterAll(() => rig.close())

  /** Starts groups until there are `count`. Two groups are like two machines: neither knows what the other's workers hold. */
  async function have(count: number): Promise<void> {
    groups.push(...(await Promise.all(Array.from({ length: count - groups.length }, startGroup))))
  }

  async function startGroup(): Promise<Group> {
    const supervisor = await rig.serve('supervise')
    const served = (): number[] => supervisor.lines.flatMap((line) => /^(?:worker|orchestrator) (\d+)$/.exec(line)?.[1] ?? []).map(Number)
    // One that was replaced while it started is not among them.
    const processes = (): number[] => [...new Set(served())].filter(isAlive)
    await until(() => processes().length === 3)
    return { supervisor, pids: () => [supervisor.pid, ...processes()] }
  }

  /** Removes the group that the process belongs to from those in use, and returns it. */
  function doomed(pid: number): Group {
    const group = groups.find((one) => one.pids().includes(pid)) ?? expect.fail(`${pid} is of no group`)
    groups = groups.filter((one) => one !== group)
    return group
  }

  it('together with its processes, what they held resumes elsewhere within seconds', async () => {
    await have(1)
    const calls = []
    for (const [what, stage] of [
      ['model', 'model'],
      ['look', 'entered'],
      ['put', 'entered'],
    ] as const) {
      const plan = call(what === 'model' ? 'look' : what)
      const held = rig.ledger.holdNext({ stage, what })
      const run = await rig.start(plan)
      calls.push({ what, stage, plan, run, pid: (await held).pid })
    }
    await have(2)
    const pids = doomed(calls[0]?.pid ?? 0).pids()
    for (const pid of pids) process.kill(pid, 'SIGKILL')
    const at = Date.now()
    for (const { what, stage, plan, run } of calls) {
      expect((await run.result({ timeout: 60_000 })).text).toBe(finalAnswer(plan))
      const again = await rig.ledger.reached({ session: run.sessionId, what, stage, attempt: 2 })
      console.log(`all killed within ${what}: running again after ${again.at - at} ms`)
      expect(again.at - at).toBeLessThan(NOTICED_MS)
      expect(await rig.errors(run.sessionId, 1)).toMatchObject([{ attempt: 1, class: 'HeartbeatTimeout' }])
    }
    await until(() => !pids.some(isAlive))
  })

  it('its processes end with it; what they held resumes elsewhere after missed heartbeats, as nothing confirms their deaths', async () => {
    await have(2)
    const held = rig.ledger.holdNext({ stage: 'entered', what: 'put' })
    const run = await rig.start(call('put'))
    const mark = await held
    const { supervisor, pids } = doomed(mark.pid)
    process.kill(supervisor.pid, 'SIGKILL')
    await until(() => !pids().some(isAlive))
    expect((await run.result()).text).toBe(finalAnswer(call('put')))
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'entered' }).map(({ attempt }) => attempt)).toEqual([1, 2])
    expect(await rig.errors(run.sessionId, 1)).toMatchObject([{ context: 'tool:put', attempt: 1, class: 'HeartbeatTimeout' }])
  })

  it('while its processes are still starting, none of them is left', async () => {
    const supervisor = await rig.serve('supervise', { until: 'started' })
    const pids = supervisor.lines.flatMap((line) => /^started (\d+)$/.exec(line)?.[1] ?? []).map(Number)
    expect(pids.length).toBeGreaterThan(0)
    process.kill(supervisor.pid, 'SIGKILL')
    await until(() => !pids.some(isAlive))
  })

  it('together with its processes, an external call is verified once its time is over', async () => {
    await have(2)
    const held = rig.ledger.holdNext({ stage: 'entered', what: 'charge' })
    const run = await rig.start(call('charge'))
    const { sessionId: session } = run
    const { pid } = await held
    for (const one of doomed(pid).pids()) process.kill(one, 'SIGKILL')
    expect((await run.result()).text).toBe(finalAnswer(call('charge')))
    const entered = rig.ledger.marks({ session, stage: 'entered' })
    const [verified] = rig.ledger.marks({ session, stage: 'verify' })
    expect(entered.map(({ attempt }) => attempt)).toEqual([1, 2])
    expect(rig.ledger.marks({ session, stage: 'applied' })).toHaveLength(1)
    expect(rig.ledger.marks({ session, stage: 'verified_too_early' })).toEqual([])
    expect((verified?.at ?? 0) - (entered[0]?.at ?? 0)).toBeGreaterThan(DEAD_AFTER_MS - 500)
    const [error] = await rig.errors(session, 1)
    expect(error).toMatchObject({ context: 'tool:charge', attempt: 1, class: 'HeartbeatTimeout' })
  })

  it('by SIGTERM, all processes first finish and record what they hold', async () => {
    await have(2)
    const held = rig.ledger.holdNext({ stage: 'entered', what: 'put' })
    const run = await rig.start(call('put'))
    const mark = await held
    const { supervisor, pids } = doomed(mark.pid)
    process.kill(supervisor.pid, 'SIGTERM')
    // The executor that holds it, its orchestrator and their supervisor wait for it.
    await until(() => pids().filter(isAlive).length >= 3)
    mark.release()
    expect(await supervisor.ended).toEqual([0, null])
    expect(pids().filter(isAlive)).toEqual([])
    expect((await run.result()).text).toBe(finalAnswer(call('put')))
    expect(rig.ledger.marks({ session: run.sessionId, what: 'put' }).map(({ stage, pid }) => [stage, pid])).toEqual(
      ['entered', 'applied', 'left'].map((stage) => [stage, mark.pid]),
    )
    expect(await rig.errors(run.sessionId, 0)).toEqual([])
  })
})
