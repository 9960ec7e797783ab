// Processes that the supervisor kills: those that are frozen for too long, unless the orchestrator was, and those that hold a body past its
// timeout.
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { onceOnly } from './support/once-only.ts'
import { type Plan, finalAnswer } from './support/plan.ts'
import { defined } from '../../src/session/defined.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'
import { untilFound } from '../support/until.ts'

/** Longer than `stuckLoop`. Added to the time since the last heartbeat, it is still less than the timeout of heartbeats. */
const PAUSE_MS = 6_000

const plan = (tool: string, ms?: number): Plan => [[{ tool, input: { name: 'a', ...defined({ ms }) } }]]

describe('a supervised process', () => {
  let rig: Rig
  let workers: Supervised

  beforeAll(async () => {
    rig = await startRig()
    workers = await rig.supervise({ stuckLoop: 4_000 })
  })

  afterAll(() => rig.close())

  const deaths = (): unknown[] => workers.events.filter(({ event }) => event === 'worker_died')

  it('a supervised process whose event loop is blocked for too long is killed before anything is verified', async () => {
    const before = deaths().length
    const run = await rig.start(plan('block', 60_000))
    const { text } = await run.result()
    expect(text).toBe(finalAnswer(plan('block')))
    const { sessionId: session } = run
    const marks = rig.ledger.marks({ session }).filter(({ what }) => what === 'block')
    expect(marks.map(({ stage }) => stage)).toEqual(['entered', 'verify', 'entered', 'applied'])
    expect(await rig.errors(session, 1)).toMatchObject([{ context: 'tool:block', attempt: 1, class: 'WorkerDied', code: 'stuck_loop' }])
    expect(deaths().slice(before)).toEqual([expect.objectContaining({ pid: marks[0]?.pid, signal: 'SIGKILL', killedFor: 'stuck_loop' })])
  })

  it('an executor with an external body past timeout and grace is killed before verify; its other calls move at once', async () => {
    await workers.serving()
    const { neighbour, overrun } = await sameProcess()
    const { sessionId: session } = overrun
    // It is never released: it moves to the other executor when the overdue body's grace is over.
    const again = await rig.ledger.holdNext({ stage: 'entered', what: 'look' })
    await untilFound(async () => {
      const { items } = await rig.pawl.toolCalls({ session: neighbour.sessionId })
      return items[0]?.worker?.endsWith(`:${again.pid}`)
    })
    again.release()
    expect((await neighbour.result()).text).toBe(finalAnswer(plan('look')))
    const { text } = await overrun.result()
    expect(text).toBe(finalAnswer(plan('overrun', 60_000)))
    const marks = rig.ledger.marks({ session })
    expect(marks.filter(({ stage }) => stage === 'entered').map(({ attempt }) => attempt)).toEqual([1, 2])
    expect(marks.filter(({ stage }) => stage === 'applied')).toHaveLength(1)
    expect(marks.filter(({ stage }) => stage === 'verify')).toHaveLength(1)
    expect(marks.filter(({ stage }) => stage === 'verified_too_early')).toEqual([])
    expect(await rig.errors(session, 1)).toMatchObject([{ context: 'tool:overrun', attempt: 1, class: 'WorkerDied', code: 'overdue' }])
    const [first, second, ...more] = rig.ledger.marks({ session: neighbour.sessionId, stage: 'entered' })
    expect([first?.attempt, second?.attempt, more]).toEqual([1, 1, []])
    expect(second?.pid).not.toBe(first?.pid)
    expect(await rig.errors(neighbour.sessionId, 0)).toEqual([])
  })

  it('a supervised process that holds an overdue body lets an external neighbour finish before it is killed', async () => {
    await workers.serving()
    const [one, other] = [await rig.start(plan('dawdle', 9_000)), await rig.start(plan('dawdle', 9_000))]
    for (const { sessionId } of [one, other]) await rig.ledger.reached({ session: sessionId, stage: 'entered' })
    const before = deaths().length
    const overrun = await rig.start(plan('overrun', 60_000))
    for (const run of [one, other]) {
      expect((await run.result()).text).toBe(finalAnswer(plan('dawdle')))
      expect(rig.ledger.marks({ session: run.sessionId, stage: 'entered' })).toHaveLength(1)
      expect(await rig.errors(run.sessionId, 0)).toEqual([])
    }
    expect((await overrun.result()).text).toBe(finalAnswer(plan('overrun')))
    expect(deaths().slice(before)).toHaveLength(1)
  })

  it('a supervised process is not killed when a repeatable body ignores its timeout: only the attempt fails', async () => {
    await workers.serving()
    const before = deaths().length
    const runs = await Promise.all(['overlook', 'overput'].map((tool) => rig.start(plan(tool, 20_000))))
    for (const [index, tool] of ['overlook', 'overput'].entries()) {
      const run = runs[index] ?? expect.fail('no run')
      expect((await run.result()).text).toBe(finalAnswer(plan(tool)))
      expect(await rig.errors(run.sessionId, 1)).toMatchObject([{ context: `tool:${tool}`, attempt: 1, class: 'Timeout', code: 'timeout' }])
    }
    expect(deaths().slice(before)).toEqual([])
  })

  it('a supervised process that is paused for too long is killed while paused, and nothing is done twice', async () => {
    await workers.serving()
    const entered = rig.ledger.holdNext({ stage: 'entered', what: 'charge' })
    const run = await rig.start(plan('charge'))
    const mark = await entered
    process.kill(mark.pid, 'SIGSTOP')
    mark.release()
    expect((await run.result()).text).toBe(finalAnswer(plan('charge')))
    const { sessionId: session } = run
    expect(rig.ledger.marks({ session, stage: 'applied' })).toHaveLength(1)
    expect(rig.ledger.marks({ session, stage: 'verified_too_early' })).toEqual([])
    expect(await rig.errors(session, 1)).toMatchObject([{ attempt: 1, class: 'WorkerDied', code: 'stuck_loop' }])
  })

  it('an executor is not taken for stuck when it was the orchestrator that was frozen', async () => {
    await workers.serving()
    const before = deaths().length
    const held = []
    for (const tool of ['put', 'charge', 'post', 'entrust']) {
      const mark = rig.ledger.holdNext({ stage: 'entered', what: tool })
      held.push({ tool, run: await rig.start(plan(tool)), mark: await mark })
    }
    const [put, ...others] = held
    const pid = workers.supervisor.orchestratorPid() ?? expect.fail('no orchestrator')
    process.kill(pid, 'SIGSTOP')
    for (const { mark } of others) mark.release()
    await sleep(PAUSE_MS)
    process.kill(pid, 'SIGCONT')
    put?.mark.release()
    for (const one of held) {
      await onceOnly(rig, one)
      expect(await rig.errors(one.run.sessionId, 0)).toEqual([])
    }
    expect(deaths().slice(before)).toEqual([])
  })

  /** A held read and an overrunning call in one process. The other process gets a read as well, which then finishes. */
  async function sameProcess() {
    const held = []
    for (let i = 0; i < 2; i++) {
      const mark = rig.ledger.holdNext({ stage: 'entered', what: 'look' })
      held.push({ run: await rig.start(plan('look')), mark: await mark })
    }
    expect(new Set(held.map(({ mark }) => mark.pid)).size).toBe(2)
    const overrun = await rig.start(plan('overrun', 60_000))
    const { pid } = await rig.ledger.reached({ session: overrun.sessionId, stage: 'entered' })
    const other = held.find(({ mark }) => mark.pid !== pid)
    other?.mark.release()
    await other?.run.result()
    const { run: neighbour } = held.find(({ mark }) => mark.pid === pid) ?? expect.fail('no neighbour')
    return { neighbour, overrun }
  }
})
