// The orchestrator is killed or paused: executors keep their jobs and answers, and the next orchestrator takes both over.
import type { RunHandle } from 'pawl/client'
import type { SupervisorEvent } from 'pawl/worker'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { size } from '../support/sizes.ts'
import { until, untilFound } from '../support/until.ts'
import type { HeldMark, MarkFilter } from './support/ledger.ts'
import { type Plan, finalAnswer } from './support/plan.ts'
import { defined } from '../../src/session/defined.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'

/** Longer than any heartbeat timeout. */
const LONG_MS = size(11_000, 15_000)

const call = (tool: string, ms?: number): Plan => [[{ tool, input: { name: 'a', ...defined({ ms }) } }]]

describe('an orchestrator', () => {
  let rig: Rig
  let workers: Supervised

  beforeAll(async () => {
    rig = await startRig()
    workers = await rig.supervise({ processes: 2 })
  })

  afterAll(() => rig.close())

  const orchestrator = (): number => workers.supervisor.orchestratorPid() ?? expect.fail('no orchestrator')

  /** Kills it, and waits until another one serves. */
  async function replaced(): Promise<void> {
    const from = workers.events.length
    process.kill(orchestrator(), 'SIGKILL')
    await untilFound(() => workers.events.slice(from).some(({ event }) => event === 'orchestrator_ready'))
  }

  /** Resolves when the server has received a heartbeat of the session's call since then, or the call has ended. */
  async function reported(sessionId: string, since: number): Promise<void> {
    const look = async () => (await rig.lastHeartbeat(sessionId)) > since || (await rig.pendingActivities(sessionId)).length === 0
    await until('a heartbeat has come', look, 120_000)
  }

  /** A run of the plan, which is held at the first mark that fits `at`. */
  async function heldAt(plan: Plan, at: MarkFilter): Promise<[HeldMark, RunHandle]> {
    const mark = rig.ledger.holdNext(at)
    const run = await rig.start(plan)
    return [await mark, run]
  }

  describe('that is killed while its executors hold calls', () => {
    const tools = ['look', 'put', 'charge', 'post'] as const
    // Longer than the heartbeat timeout.
    const dawdle = call('dawdle', 14_000)
    let dawdling: RunHandle
    let asking: RunHandle
    let using: { what: string; run: RunHandle }[]
    let interrupted: RunHandle
    let deaths: () => SupervisorEvent[]

    // One orchestrator dies for all of them. Those whose timeouts are the shortest begin last.
    beforeAll(async () => {
      await workers.serving()
      const from = workers.events.length
      deaths = () => workers.events.slice(from).filter(({ event }) => event === 'worker_died')
      const dawdles = rig.ledger.reached({ stage: 'entered', what: 'dawdle' })
      dawdling = await rig.start(dawdle)
      await dawdles
      const [asked, ask] = await heldAt(call('look'), { stage: 'model' })
      asking = ask
      using = []
      const held = [asked]
      for (const what of tools) {
        const [mark, run] = await heldAt(call(what), { stage: 'entered', what })
        held.push(mark)
        using.push({ what, run })
      }
      const [overlooking, overlook] = await heldAt(call('overlook', 60_000), { stage: 'entered', what: 'overlook' })
      interrupted = overlook
      overlooking.release()
      await replaced()
      await rig.pawl.session(interrupted.sessionId).interrupt()
      for (const mark of held) mark.release()
    })

    it('a killed orchestrator does not disturb bodies: each finishes once and is answered for once', async () => {
      for (const { what, run } of using) {
        expect((await run.result()).text).toBe(finalAnswer(call(what)))
        const { sessionId: session } = run
        expect(rig.ledger.marks({ session, stage: 'entered' })).toHaveLength(1)
        expect(rig.ledger.marks({ session, stage: 'verify' })).toEqual([])
        expect(rig.ledger.marks({ session, stage: 'left' })).toMatchObject([{ note: { stillMine: true } }])
        expect(await rig.errors(session, 0)).toEqual([])
      }
      expect(deaths()).toEqual([])
    })

    it('a killed orchestrator does not disturb a model call that is under way', async () => {
      expect((await asking.result()).text).toBe(finalAnswer(call('look')))
      expect(rig.ledger.marks({ session: asking.sessionId, stage: 'model' }).map(({ attempt }) => attempt)).toEqual([1, 1])
      expect(await rig.errors(asking.sessionId, 0)).toEqual([])
    })

    it('running attempts do not notice a killed orchestrator: the next one continues their heartbeats', async () => {
      expect((await dawdling.result()).text).toBe(finalAnswer(dawdle))
      expect(rig.ledger.marks({ session: dawdling.sessionId, stage: 'entered' })).toHaveLength(1)
      expect(await rig.errors(dawdling.sessionId, 0)).toEqual([])
    })

    it('a killed orchestrator does not prevent an interrupt: the stop reaches a body that it had started', async () => {
      expect(await interrupted.settled()).toMatchObject({ status: 'interrupted' })
    })
  })

  describe('that is killed, while no other one serves', () => {
    let charging: RunHandle
    let interrupted: RunHandle

    beforeAll(async () => {
      await workers.serving()
      const [looking, look] = await heldAt(call('look'), { stage: 'entered', what: 'look' })
      const [charged, charge] = await heldAt(call('charge'), { stage: 'entered', what: 'charge' })
      ;[interrupted, charging] = [look, charge]
      const from = workers.events.length
      process.kill(orchestrator(), 'SIGKILL')
      await untilFound(() => workers.events.slice(from).some(({ event }) => event === 'orchestrator_died'))
      charged.release()
      await rig.pawl.session(interrupted.sessionId).interrupt({ by: 'ann' })
      await interrupted.settled()
      looking.release()
    })

    it('an orchestrator that is killed while no other one serves loses no answer', async () => {
      expect((await charging.result()).text).toBe(finalAnswer(call('charge')))
      expect(await rig.errors(charging.sessionId, 0)).toEqual([])
      expect(rig.ledger.marks({ session: charging.sessionId, stage: 'applied' })).toHaveLength(1)
      expect(rig.ledger.marks({ session: charging.sessionId, stage: 'verify' })).toEqual([])
    })

    it('an orchestrator that is killed while no other one serves loses no interrupt: the next one stops the body', async () => {
      expect(await interrupted.settled()).toMatchObject({ status: 'interrupted' })
      expect(await rig.errors(interrupted.sessionId, 0)).toEqual([])
      expect(rig.ledger.marks({ session: interrupted.sessionId, stage: 'entered' })).toHaveLength(1)
    })
  })

  it('verify is not delayed if orchestrator and executor die together: the death is known before a missed heartbeat', async () => {
    await workers.serving()
    const mark = rig.ledger.holdNext({ stage: 'entered', what: 'charge' })
    const run = await rig.start(call('charge'))
    const { pid } = await mark
    process.kill(pid, 'SIGKILL')
    process.kill(orchestrator(), 'SIGKILL')
    expect((await run.result()).text).toBe(finalAnswer(call('charge')))
    expect(await rig.errors(run.sessionId, 1)).toMatchObject([{ context: 'tool:charge', attempt: 1, class: 'WorkerDied' }])
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'verify' })).toHaveLength(1)
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'applied' })).toHaveLength(1)
  })

  it('an attempt that dies with orchestrator and executor before its first heartbeat has its row', async () => {
    await workers.serving()
    const mark = rig.ledger.holdNext({ stage: 'entered', what: 'put' })
    const run = await rig.start(call('put'))
    const { pid } = await mark
    process.kill(pid, 'SIGKILL')
    process.kill(orchestrator(), 'SIGKILL')
    expect((await run.result()).text).toBe(finalAnswer(call('put')))
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'entered' }).map(({ attempt }) => attempt)).toEqual([1, 2])
    expect(await rig.errors(run.sessionId, 1)).toMatchObject([{ context: 'tool:put', attempt: 1, class: 'WorkerDied' }])
  })

  it('an orchestrator that is killed half a second after each takeover, again and again, costs no attempt', async () => {
    const plans = [call('dawdle', 20_000), call('dawdle', 20_000)]
    const runs = []
    for (const plan of plans) {
      const run = await rig.start(plan)
      runs.push(run)
      await rig.ledger.reached({ session: run.sessionId, stage: 'entered' })
    }
    for (const end = Date.now() + LONG_MS; Date.now() < end; ) {
      const killedAt = Date.now()
      await replaced()
      await Promise.all([new Promise((resolve) => setTimeout(resolve, 500)), ...runs.map(({ sessionId }) => reported(sessionId, killedAt))])
    }
    for (const [index, run] of runs.entries()) {
      expect((await run.result()).text).toBe(finalAnswer(plans[index] ?? []))
      expect(await rig.errors(run.sessionId, 0)).toEqual([])
      expect(rig.ledger.marks({ session: run.sessionId, stage: 'entered' })).toHaveLength(1)
    }
  })

  it('an executor’s death after its orchestrator’s is still noticed: the call resumes as its effect allows', async () => {
    await workers.serving()
    const mark = rig.ledger.holdNext({ stage: 'entered', what: 'put' })
    const run = await rig.start(call('put'))
    const { pid } = await mark
    const killedAt = Date.now()
    await replaced()
    // The next orchestrator is ready before executors have listed their jobs to it. Its first heartbeat shows that it has adopted this one.
    await reported(run.sessionId, killedAt)
    process.kill(pid, 'SIGKILL')
    expect((await run.result()).text).toBe(finalAnswer(call('put')))
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'entered' }).map(({ attempt }) => attempt)).toEqual([1, 2])
    expect(await rig.errors(run.sessionId, 1)).toMatchObject([{ context: 'tool:put', attempt: 1, class: 'WorkerDied' }])
  })

  it('a resumed orchestrator accepts what its executors finished while it was paused, and nothing is done twice', async () => {
    await workers.serving()
    const mark = rig.ledger.holdNext({ stage: 'entered', what: 'charge' })
    const run = await rig.start(call('charge'))
    const held = await mark
    const pid = orchestrator()
    process.kill(pid, 'SIGSTOP')
    held.release()
    await rig.ledger.reached({ session: run.sessionId, stage: 'applied' })
    await new Promise((resolve) => setTimeout(resolve, 3_000))
    process.kill(pid, 'SIGCONT')
    expect((await run.result()).text).toBe(finalAnswer(call('charge')))
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'entered' })).toHaveLength(1)
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'applied' })).toHaveLength(1)
    expect(await rig.errors(run.sessionId, 0)).toEqual([])
  })
})
