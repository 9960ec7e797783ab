// The orchestrator is killed or paused: executors keep their jobs and answers, and the next orchestrator takes both over.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Plan, finalAnswer } from './support/plan.ts'
import { defined } from '../../src/session/defined.ts'
import { type Rig, startRig, type Supervised, until } from './support/rig.ts'

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
    await until(() => workers.events.slice(from).some(({ event }) => event === 'orchestrator_ready'))
  }

  /** Whether the server has received a heartbeat of the session's call since then, or the call has ended. */
  async function hasReported(sessionId: string, since: number): Promise<boolean> {
    return (await rig.lastHeartbeat(sessionId)) > since || (await rig.pendingActivities(sessionId)).length === 0
  }

  it('that is killed does not disturb the bodies that its executors run: each finishes once and is answered for once', async () => {
    const tools = ['look', 'put', 'charge', 'post'] as const
    const held = []
    for (const what of tools) {
      const mark = rig.ledger.holdNext({ stage: 'entered', what })
      held.push({ what, run: await rig.start(call(what)), mark: await mark })
    }
    await replaced()
    for (const { mark } of held) mark.release()
    for (const { what, run } of held) {
      expect((await run.result()).text).toBe(finalAnswer(call(what)))
      const { sessionId: session } = run
      expect(rig.ledger.marks({ session, stage: 'entered' })).toHaveLength(1)
      expect(rig.ledger.marks({ session, stage: 'verify' })).toEqual([])
      expect(rig.ledger.marks({ session, stage: 'left' })).toMatchObject([{ note: { stillMine: true } }])
      expect(await rig.errors(session, 0)).toEqual([])
    }
    expect(workers.events.filter(({ event }) => event === 'worker_died')).toEqual([])
  })

  it('that is killed loses no answer that comes before another one serves', async () => {
    const mark = rig.ledger.holdNext({ stage: 'entered', what: 'charge' })
    const run = await rig.start(call('charge'))
    const held = await mark
    const from = workers.events.length
    process.kill(orchestrator(), 'SIGKILL')
    await until(() => workers.events.slice(from).some(({ event }) => event === 'orchestrator_died'))
    held.release()
    expect((await run.result()).text).toBe(finalAnswer(call('charge')))
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'applied' })).toHaveLength(1)
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'verify' })).toEqual([])
    expect(await rig.errors(run.sessionId, 0)).toEqual([])
  })

  it('that is killed together with an executor does not delay verify: the death is known before a heartbeat is missed', async () => {
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

  it('that is killed does not disturb a model call that is under way', async () => {
    const mark = rig.ledger.holdNext({ stage: 'model' })
    const run = await rig.start(call('look'))
    const held = await mark
    await replaced()
    held.release()
    expect((await run.result()).text).toBe(finalAnswer(call('look')))
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'model' }).map(({ attempt }) => attempt)).toEqual([1, 1])
    expect(await rig.errors(run.sessionId, 0)).toEqual([])
  })

  it('that is killed goes unnoticed by running attempts: the next one continues their heartbeats', async () => {
    // Longer than the heartbeat timeout.
    const plan = call('dawdle', 14_000)
    const entered = rig.ledger.reached({ stage: 'entered', what: 'dawdle' })
    const run = await rig.start(plan)
    await entered
    await replaced()
    expect((await run.result()).text).toBe(finalAnswer(plan))
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'entered' })).toHaveLength(1)
    expect(await rig.errors(run.sessionId, 0)).toEqual([])
  })

  it('that is killed half a second after each takeover, for longer than any heartbeat timeout, costs no attempt', async () => {
    const plans = [call('dawdle', 20_000), call('dawdle', 20_000)]
    const runs = []
    for (const plan of plans) {
      const run = await rig.start(plan)
      runs.push(run)
      await rig.ledger.reached({ session: run.sessionId, stage: 'entered' })
    }
    for (const end = Date.now() + 15_000; Date.now() < end; ) {
      const killedAt = Date.now()
      await replaced()
      await Promise.all([
        new Promise((resolve) => setTimeout(resolve, 500)),
        ...runs.map(({ sessionId }) => until(() => hasReported(sessionId, killedAt))),
      ])
    }
    for (const [index, run] of runs.entries()) {
      expect((await run.result()).text).toBe(finalAnswer(plans[index] ?? []))
      expect(rig.ledger.marks({ session: run.sessionId, stage: 'entered' })).toHaveLength(1)
      expect(await rig.errors(run.sessionId, 0)).toEqual([])
    }
  })

  it('that is killed before an executor does not hide the later death: the call resumes as its effect allows', async () => {
    await workers.serving()
    const mark = rig.ledger.holdNext({ stage: 'entered', what: 'put' })
    const run = await rig.start(call('put'))
    const { pid } = await mark
    const killedAt = Date.now()
    await replaced()
    // The next orchestrator is ready before executors have listed their jobs to it. Its first heartbeat shows that it has adopted this one.
    await until(() => hasReported(run.sessionId, killedAt))
    process.kill(pid, 'SIGKILL')
    expect((await run.result()).text).toBe(finalAnswer(call('put')))
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'entered' }).map(({ attempt }) => attempt)).toEqual([1, 2])
    expect(await rig.errors(run.sessionId, 1)).toMatchObject([{ context: 'tool:put', attempt: 1, class: 'WorkerDied' }])
  })

  it('that is killed does not prevent an interrupt: the stop reaches a body that an earlier orchestrator had started', async () => {
    await workers.serving()
    const mark = rig.ledger.holdNext({ stage: 'entered', what: 'overlook' })
    const run = await rig.start(call('overlook', 60_000))
    ;(await mark).release()
    await replaced()
    await rig.pawl.session(run.sessionId).interrupt()
    expect(await run.settled()).toMatchObject({ status: 'interrupted' })
  })

  it('that is killed does not lose an interrupt: the next one stops the body that is running', async () => {
    await workers.serving()
    const mark = rig.ledger.holdNext({ stage: 'entered', what: 'look' })
    const run = await rig.start(call('look'))
    const held = await mark
    const from = workers.events.length
    process.kill(orchestrator(), 'SIGKILL')
    await until(() => workers.events.slice(from).some(({ event }) => event === 'orchestrator_died'))
    await rig.pawl.session(run.sessionId).interrupt({ by: 'ann' })
    expect(await run.settled()).toMatchObject({ status: 'interrupted' })
    held.release()
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'entered' })).toHaveLength(1)
    expect(await rig.errors(run.sessionId, 0)).toEqual([])
  })

  it('that is paused accepts what its executors finished meanwhile once it is resumed, and nothing is done twice', async () => {
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
