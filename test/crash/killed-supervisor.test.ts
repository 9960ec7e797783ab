// The supervisor is killed, alone or with all processes it started: what was running resumes elsewhere, and no process is left.
import type { RunHandle } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { MarkFilter } from './support/ledger.ts'
import { type Plan, finalAnswer } from './support/plan.ts'
import { defined } from '../../src/session/defined.ts'
import { isAlive, type Rig, type ServingProcess, startRig } from './support/rig.ts'
import { untilFound } from '../support/until.ts'

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
    // One executor for each supervisor.
    process.env.CRASH_PROCESSES = '1'
    rig = await startRig()
  })

  afterAll(() => rig?.close())

  /** Starts groups until there are `count`. Two groups are like two machines: neither knows what the other's workers hold. */
  async function have(count: number): Promise<void> {
    groups.push(...(await Promise.all(Array.from({ length: count - groups.length }, startGroup))))
  }

  async function startGroup(): Promise<Group> {
    const supervisor = await rig.serve('supervise')
    const served = (): number[] => supervisor.lines.flatMap((line) => /^(?:worker|orchestrator) (\d+)$/.exec(line)?.[1] ?? []).map(Number)
    // One that was replaced while it started is not among them.
    const processes = (): number[] => [...new Set(served())].filter(isAlive)
    await untilFound(() => processes().length === 2)
    return { supervisor, pids: () => [supervisor.pid, ...processes()] }
  }

  /** Removes the group that the process belongs to from those in use, and returns it. */
  function doomed(pid: number): Group {
    const group = groups.find((one) => one.pids().includes(pid)) ?? expect.fail(`${pid} is of no group`)
    groups = groups.filter((one) => one !== group)
    return group
  }

  /** Starts runs of the plan until one is held by a process of the group; the others continue. */
  async function heldBy(group: Group, plan: Plan, at: MarkFilter): Promise<RunHandle> {
    for (;;) {
      const held = rig.ledger.holdNext(at)
      const run = await rig.start(plan)
      const mark = await held
      if (group.pids().includes(mark.pid)) return run
      mark.release()
    }
  }

  describe('together with its processes', () => {
    let at: number
    let pids: number[]
    let asking: RunHandle
    let looking: RunHandle
    let putting: RunHandle
    let charging: RunHandle

    beforeAll(async () => {
      await have(2)
      const asked = rig.ledger.holdNext({ stage: 'model' })
      asking = await rig.start(call('look'))
      const group = doomed((await asked).pid)
      looking = await heldBy(group, call('look'), { stage: 'entered', what: 'look' })
      putting = await heldBy(group, call('put'), { stage: 'entered', what: 'put' })
      charging = await heldBy(group, call('charge'), { stage: 'entered', what: 'charge' })
      pids = group.pids()
      for (const pid of pids) process.kill(pid, 'SIGKILL')
      at = Date.now()
    })

    it('the calls of a killed supervisor and its processes resume elsewhere within seconds', async () => {
      for (const [what, stage, run] of [
        ['model', 'model', asking],
        ['look', 'entered', looking],
        ['put', 'entered', putting],
      ] as const) {
        expect((await run.result({ timeout: 60_000 })).text).toBe(finalAnswer(call(what === 'model' ? 'look' : what)))
        const again = await rig.ledger.reached({ session: run.sessionId, what, stage, attempt: 2 })
        console.log(`all killed within ${what}: running again after ${again.at - at} ms`)
        expect(again.at - at).toBeLessThan(NOTICED_MS)
        expect(await rig.errors(run.sessionId, 1)).toMatchObject([{ attempt: 1, class: 'HeartbeatTimeout' }])
      }
      await untilFound(() => !pids.some(isAlive))
    })

    it('the external call of a killed supervisor is verified once its time is over', async () => {
      const { sessionId: session } = charging
      expect((await charging.result()).text).toBe(finalAnswer(call('charge')))
      const entered = rig.ledger.marks({ session, stage: 'entered' })
      const [verified] = rig.ledger.marks({ session, stage: 'verify' })
      expect(entered.map(({ attempt }) => attempt)).toEqual([1, 2])
      expect(rig.ledger.marks({ session, stage: 'applied' })).toHaveLength(1)
      expect(rig.ledger.marks({ session, stage: 'verified_too_early' })).toEqual([])
      expect((verified?.at ?? 0) - (entered[0]?.at ?? 0)).toBeGreaterThan(DEAD_AFTER_MS - 500)
      const [error] = await rig.errors(session, 1)
      expect(error).toMatchObject({ context: 'tool:charge', attempt: 1, class: 'HeartbeatTimeout' })
    })
  })

  it('processes end with their killed supervisor; what they held resumes elsewhere after missed heartbeats', async () => {
    await have(2)
    const held = rig.ledger.holdNext({ stage: 'entered', what: 'put' })
    const run = await rig.start(call('put'))
    const mark = await held
    const { supervisor, pids } = doomed(mark.pid)
    process.kill(supervisor.pid, 'SIGKILL')
    await untilFound(() => !pids().some(isAlive))
    expect((await run.result()).text).toBe(finalAnswer(call('put')))
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'entered' }).map(({ attempt }) => attempt)).toEqual([1, 2])
    expect(await rig.errors(run.sessionId, 1)).toMatchObject([{ context: 'tool:put', attempt: 1, class: 'HeartbeatTimeout' }])
  })

  it('a supervisor that is killed while its processes start leaves none of them behind', async () => {
    const supervisor = await rig.serve('supervise', { until: 'started' })
    const pids = supervisor.lines.flatMap((line) => /^started (\d+)$/.exec(line)?.[1] ?? []).map(Number)
    expect(pids.length).toBeGreaterThan(0)
    process.kill(supervisor.pid, 'SIGKILL')
    await untilFound(() => !pids.some(isAlive))
  })

  it('a supervisor that gets SIGTERM lets all processes finish and record what they hold', async () => {
    await have(2)
    const held = rig.ledger.holdNext({ stage: 'entered', what: 'put' })
    const run = await rig.start(call('put'))
    const mark = await held
    const { supervisor, pids } = doomed(mark.pid)
    process.kill(supervisor.pid, 'SIGTERM')
    // The executor that holds it, its orchestrator and their supervisor wait for it.
    await untilFound(() => pids().filter(isAlive).length >= 3)
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
