// Processes that the supervisor kills: those that stand still for too long, and those that hold a body past its time.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Plan, peacefulAnswer } from './support/plan.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'

const plan = (tool: string, ms?: number): Plan => [[{ tool, input: { name: 'a', ...(ms !== undefined && { ms }) } }]]

describe('a supervised process', () => {
  let rig: Rig
  let workers: Supervised

  beforeAll(async () => {
    rig = await startRig()
    workers = await rig.supervise({ stuckLoopMs: 4_000 })
  })

  afterAll(() => rig.close())

  const deaths = (): unknown[] => workers.events.filter(({ event }) => event === 'worker_died')

  it('whose event loop stands still for too long is killed before anything is verified', async () => {
    const before = deaths().length
    const run = await rig.start(plan('block', 60_000))
    const { text } = await run.result()
    expect(text).toBe(peacefulAnswer(plan('block')))
    const { sessionId: session } = run
    const marks = rig.ledger.marks({ session }).filter(({ what }) => what === 'block')
    expect(marks.map(({ stage }) => stage)).toEqual(['entered', 'verify', 'entered', 'applied'])
    expect(await rig.errors(session, 1)).toMatchObject([{ context: 'tool:block', attempt: 1, class: 'WorkerDied', code: 'stuck_loop' }])
    expect(deaths().slice(before)).toEqual([expect.objectContaining({ pid: marks[0]?.pid, signal: 'SIGKILL' })])
  })

  it('that holds a body past its timeout and grace is killed; verify is asked after that, and neighbours are not to blame', async () => {
    await workers.serving()
    // On the same process: the neighbour is there first, and is held until that process is dead.
    const [neighbour, overrun] = await sameProcess()
    const { sessionId: session } = overrun
    const { text } = await overrun.result()
    expect(text).toBe(peacefulAnswer(plan('overrun', 60_000)))
    const marks = rig.ledger.marks({ session })
    expect(marks.filter(({ stage }) => stage === 'entered').map(({ attempt }) => attempt)).toEqual([1, 2])
    expect(marks.filter(({ stage }) => stage === 'applied')).toHaveLength(1)
    expect(marks.filter(({ stage }) => stage === 'verify')).toHaveLength(1)
    expect(marks.filter(({ stage }) => stage === 'verified_too_early')).toEqual([])
    expect(await rig.errors(session, 1)).toMatchObject([{ context: 'tool:overrun', attempt: 1, class: 'WorkerDied', code: 'overdue' }])
    expect((await neighbour.result()).text).toBe(peacefulAnswer(plan('look')))
    expect(await rig.errors(neighbour.sessionId, 1)).toMatchObject([
      { context: 'tool:look', attempt: 1, class: 'WorkerDied', code: 'neighbour' },
    ])
  })

  it('that is paused for too long is killed as it is, and nothing is done twice', async () => {
    await workers.serving()
    const entered = rig.ledger.holdNext({ stage: 'entered', what: 'charge' })
    const run = await rig.start(plan('charge'))
    const mark = await entered
    process.kill(mark.pid, 'SIGSTOP')
    mark.release()
    expect((await run.result()).text).toBe(peacefulAnswer(plan('charge')))
    const { sessionId: session } = run
    expect(rig.ledger.marks({ session, stage: 'applied' })).toHaveLength(1)
    expect(rig.ledger.marks({ session, stage: 'verified_too_early' })).toEqual([])
    expect(await rig.errors(session, 1)).toMatchObject([{ attempt: 1, class: 'WorkerDied', code: 'stuck_loop' }])
  })

  /** A read that is held, and an overrunning call, in one process. */
  async function sameProcess() {
    for (;;) {
      const held = rig.ledger.holdNext({ stage: 'entered', what: 'look', attempt: 1 })
      const neighbour = await rig.start(plan('look'))
      const mark = await held
      const entered = rig.ledger.reached({ stage: 'entered', what: 'overrun', pid: mark.pid })
      const overrun = await rig.start(plan('overrun', 60_000))
      const where = await Promise.race([entered, rig.ledger.reached({ session: overrun.sessionId, stage: 'entered', what: 'overrun' })])
      if (where.pid === mark.pid) return [neighbour, overrun] as const
      mark.release()
      await Promise.all([neighbour.result(), overrun.result()])
    }
  }
})
