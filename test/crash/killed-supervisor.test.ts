// The parent is killed, alone or with all that it started: what was running is resumed elsewhere, and no process is left.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Plan, peacefulAnswer } from './support/plan.ts'
import { isAlive, type Rig, type ServingProcess, startRig, until } from './support/rig.ts'

const call = (tool: string, ms?: number): Plan => [[{ tool, input: { name: 'a', ...(ms !== undefined && { ms }) } }]]
/** What heartbeats and the sticky timeout may take where no parent speaks for the dead. */
const NOTICED_MS = 15_000
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

  afterAll(() => rig.close())

  /** Tops up to so many groups. Two are as two machines: what the workers of one hold is not for the other to know. */
  async function have(count: number): Promise<void> {
    groups.push(...(await Promise.all(Array.from({ length: count - groups.length }, startGroup))))
  }

  async function startGroup(): Promise<Group> {
    const supervisor = await rig.serve('supervise')
    const processes = (): number[] =>
      supervisor.lines.flatMap((line) => /^(?:worker|orchestrator) (\d+)$/.exec(line)?.[1] ?? []).map(Number)
    await until(() => processes().length === 3)
    return { supervisor, pids: () => [supervisor.pid, ...processes()] }
  }

  /** Takes the group that the process belongs to out of service. */
  function doomed(pid: number): Group {
    const group = groups.find((one) => one.pids().includes(pid)) ?? expect.fail(`${pid} is of no group`)
    groups = groups.filter((one) => one !== group)
    return group
  }

  it('together with its processes has what they held go on elsewhere within seconds', async () => {
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
      expect((await run.result()).text).toBe(peacefulAnswer(plan))
      const again = await rig.ledger.reached({ session: run.sessionId, what, stage, attempt: 2 })
      console.log(`all killed within ${what}: running again after ${again.at - at} ms`)
      expect(again.at - at).toBeLessThan(NOTICED_MS)
      expect(await rig.errors(run.sessionId, 1)).toMatchObject([{ attempt: 1, class: 'HeartbeatTimeout' }])
    }
    await until(() => !pids.some(isAlive))
  })

  it('takes its processes with it, and what they held is resumed elsewhere: nobody could confirm their deaths', async () => {
    await have(2)
    const held = rig.ledger.holdNext({ stage: 'entered', what: 'put' })
    const run = await rig.start(call('put'))
    const mark = await held
    const { supervisor, pids } = doomed(mark.pid)
    process.kill(supervisor.pid, 'SIGKILL')
    await until(() => !pids().some(isAlive))
    expect((await run.result()).text).toBe(peacefulAnswer(call('put')))
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'entered' }).map(({ attempt }) => attempt)).toEqual([1, 2])
    expect(await rig.errors(run.sessionId, 1)).toMatchObject([{ context: 'tool:put', attempt: 1, class: 'HeartbeatTimeout' }])
  })

  it('while its processes are still starting leaves none of them', async () => {
    const supervisor = await rig.serve('supervise', { until: 'started' })
    const pids = supervisor.lines.flatMap((line) => /^started (\d+)$/.exec(line)?.[1] ?? []).map(Number)
    expect(pids.length).toBeGreaterThan(0)
    process.kill(supervisor.pid, 'SIGKILL')
    await until(() => !pids.some(isAlive))
  })

  it('together with its processes has an external call verified once its time is over', async () => {
    await have(2)
    const held = rig.ledger.holdNext({ stage: 'entered', what: 'charge' })
    const run = await rig.start(call('charge'))
    const { sessionId: session } = run
    const { pid } = await held
    for (const one of doomed(pid).pids()) process.kill(one, 'SIGKILL')
    expect((await run.result()).text).toBe(peacefulAnswer(call('charge')))
    const entered = rig.ledger.marks({ session, stage: 'entered' })
    const [verified] = rig.ledger.marks({ session, stage: 'verify' })
    expect(entered.map(({ attempt }) => attempt)).toEqual([1, 2])
    expect(rig.ledger.marks({ session, stage: 'applied' })).toHaveLength(1)
    expect(rig.ledger.marks({ session, stage: 'verified_too_early' })).toEqual([])
    expect((verified?.at ?? 0) - (entered[0]?.at ?? 0)).toBeGreaterThan(SURELY_DEAD_MS - 500)
    const [error] = await rig.errors(session, 1)
    expect(error).toMatchObject({ context: 'tool:charge', attempt: 1, class: 'HeartbeatTimeout' })
  })

  it('is not needed to end well: asked by SIGTERM, all finish and record what they hold', async () => {
    await have(2)
    const held = rig.ledger.holdNext({ stage: 'entered', what: 'put' })
    const run = await rig.start(call('put'))
    const mark = await held
    const { supervisor, pids } = doomed(mark.pid)
    process.kill(supervisor.pid, 'SIGTERM')
    // The executor that holds it, its orchestrator, and their parent wait for it.
    await until(() => pids().filter(isAlive).length >= 3)
    mark.release()
    expect(await supervisor.ended).toEqual([0, null])
    expect(pids().filter(isAlive)).toEqual([])
    expect((await run.result()).text).toBe(peacefulAnswer(call('put')))
    expect(rig.ledger.marks({ session: run.sessionId, what: 'put' }).map(({ stage, pid }) => [stage, pid])).toEqual(
      ['entered', 'applied', 'left'].map((stage) => [stage, mark.pid]),
    )
    expect(await rig.errors(run.sessionId, 0)).toEqual([])
  })
})
