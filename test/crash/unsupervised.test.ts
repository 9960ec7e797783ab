// Bare worker processes, as on a machine that dies: no supervisor notices their death; missed heartbeats and timeouts do.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { until } from '../support/until.ts'
import { type Plan, finalAnswer } from './support/plan.ts'
import { isAlive, type Rig, type ServingProcess, startRig } from './support/rig.ts'

const call = (tool: string): Plan => [[{ tool, input: { name: 'a' } }]]
const NOTICED_MS = 15_000

describe('a worker without a supervisor', () => {
  let rig: Rig

  let workers: ServingProcess[] = []

  beforeAll(async () => {
    rig = await startRig()
  })

  // Two, so that another one is left: nothing replaces one that died.
  beforeEach(async () => {
    workers = workers.filter(({ pid }) => isAlive(pid))
    workers.push(...(await Promise.all(Array.from({ length: 2 - workers.length }, () => rig.serve('run-worker')))))
  })

  afterAll(() => rig.close())

  it('an unsupervised worker that is killed during a read leaves it to another one, which repeats it within seconds', async () => {
    const plan = call('look')
    const held = rig.ledger.holdNext({ stage: 'entered', what: 'look' })
    const run = await rig.start(plan)
    const { pid } = await held
    process.kill(pid, 'SIGKILL')
    const at = Date.now()
    expect((await run.result()).text).toBe(finalAnswer(plan))
    const [, again] = rig.ledger.marks({ session: run.sessionId, stage: 'entered' })
    const ms = (again?.at ?? Number.POSITIVE_INFINITY) - at
    console.log(`bare worker killed within look: running again after ${ms} ms`)
    expect(ms).toBeLessThan(NOTICED_MS)
    expect(await rig.errors(run.sessionId, 1)).toMatchObject([{ context: 'tool:look', attempt: 1, class: 'HeartbeatTimeout' }])
  })

  it('an unsupervised worker that was paused past its heartbeat timeout does not cause a second external call', async () => {
    const plan = call('charge')
    const held = rig.ledger.holdNext({ stage: 'entered', what: 'charge' })
    const run = await rig.start(plan)
    const { sessionId: session } = run
    const mark = await held
    process.kill(mark.pid, 'SIGSTOP')
    mark.release()
    await until('the attempt has timed out', async () => (await rig.pendingActivities(session)).length === 0, 120_000)
    process.kill(mark.pid, 'SIGCONT')
    expect((await run.result()).text).toBe(finalAnswer(plan))
    // The effect came after the attempt had timed out. The worker reports it before the call's time is over, so verify is not asked.
    expect(rig.ledger.marks({ session }).filter(({ what }) => what === 'charge')).toMatchObject([
      { stage: 'entered', pid: mark.pid },
      { stage: 'applied', pid: mark.pid },
      { stage: 'left', pid: mark.pid, note: { stillMine: false } },
    ])
    expect(await rig.errors(session, 1)).toMatchObject([{ context: 'tool:charge', attempt: 1, class: 'HeartbeatTimeout' }])
  })

  it('a worker without a supervisor finishes and records what it holds when it is asked to stop, and exits cleanly', async () => {
    const plan = call('put')
    const held = rig.ledger.holdNext({ stage: 'entered', what: 'put' })
    const run = await rig.start(plan)
    const mark = await held
    process.kill(mark.pid, 'SIGTERM')
    mark.release()
    expect(await workers.find(({ pid }) => pid === mark.pid)?.ended).toEqual([0, null])
    expect((await run.result()).text).toBe(finalAnswer(plan))
    expect(rig.ledger.marks({ session: run.sessionId, stage: 'entered' }).map(({ pid }) => pid)).toEqual([mark.pid])
    expect(await rig.errors(run.sessionId, 0)).toEqual([])
  })
})
