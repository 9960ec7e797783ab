// All worker processes are killed while a session waits for a person, and then the one that carries out their answer.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Rig, startRig, type Supervised } from './support/rig.ts'

describe('a session that waits for a person', () => {
  let rig: Rig
  let workers: Supervised

  beforeAll(async () => {
    rig = await startRig()
    workers = await rig.supervise({ processes: 2 })
  })
  afterAll(() => rig.close())

  /** Kills every process at once, and waits until new ones serve. */
  async function killAll(): Promise<void> {
    for (const pid of workers.supervisor.pids()) process.kill(pid, 'SIGKILL')
    await workers.serving()
  }

  it('a session that waits for a person keeps waiting when every process is killed, and does everything once', async () => {
    await workers.serving()
    const run = await rig.start([
      [
        { tool: 'permit', input: { name: 'a' } },
        { tool: 'fill', input: { name: 'b' } },
        { tool: 'look', input: { name: 'c' } },
      ],
    ])
    const settled = await run.settled()
    const pending = settled.status === 'waiting' ? settled.pending : expect.fail('it does not wait')
    expect(pending.map(({ kind }) => kind)).toEqual(['approval', 'client'])
    await rig.ledger.reached({ stage: 'left', what: 'look', session: run.sessionId })
    await killAll()
    const session = rig.pawl.session(run.sessionId, { agent: 'planned' })
    expect(await run.settled()).toMatchObject({ status: 'waiting', pending })
    await session.answer('t_1_1_1', 'b it is', { by: 'ann' })
    await killAll()
    await session.approve('t_1_1_0', { digest: pending[0]?.digest ?? '', by: 'ann' })
    expect((await run.result()).text).toBe('Done: permit a; b it is; look c')
    const entered = rig.ledger.marks({ session: run.sessionId, stage: 'entered' })
    expect(entered.filter(({ what }) => what === 'permit')).toHaveLength(1)
  })

  it('a session asks about an approved call that died, and carries out the answer despite further deaths', async () => {
    await workers.serving()
    const run = await rig.start([
      [
        { tool: 'permit', input: { name: 'a' } },
        { tool: 'look', input: { name: 'b' } },
      ],
    ])
    const session = rig.pawl.session(run.sessionId, { agent: 'planned' })
    const settled = await run.settled()
    const [call] = settled.status === 'waiting' ? settled.pending : expect.fail('it does not wait')
    const held = rig.ledger.holdNext({ stage: 'entered', what: 'permit', session: run.sessionId })
    await session.approve('t_1_1_0', { digest: call?.digest ?? '' })
    process.kill((await held).pid, 'SIGKILL')
    expect(await run.settled()).toMatchObject({ status: 'waiting', pending: [{ kind: 'unknown', callId: 't_1_1_0' }] })
    await killAll()
    await session.resolve('t_1_1_0', 'retry', { by: 'ann' })
    expect((await run.result()).text).toBe('Done: permit a; look b')
    const permits = rig.ledger.marks({ session: run.sessionId, what: 'permit' })
    expect(permits.filter(({ stage }) => stage === 'entered').map(({ attempt }) => attempt)).toEqual([1, 2])
    expect(permits.filter(({ stage }) => stage === 'applied')).toHaveLength(1)
    expect(await rig.errors(run.sessionId, 1)).toMatchObject([{ context: 'tool:permit', attempt: 1, class: 'WorkerDied' }])
  })
})
