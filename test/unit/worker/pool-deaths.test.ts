// Executors that die, are killed or outlive their orchestrator, and what happens to the jobs that they had.
import { CancelledFailure } from '@temporalio/common'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { HeldJobReport } from '../../../src/worker/protocol.ts'
import { answered, order, settled, startCrew, watched } from './support/crew.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const ofDeath = (error: unknown): unknown => (error as { details?: unknown[] }).details?.[0]

describe('an executor that dies', () => {
  it('an executor that dies before it accepted a job loses it to another executor, and no death is reported', async () => {
    const { pool, executor, story } = startCrew()
    const [one, two] = [await executor(1), await executor(2)]
    const seen = watched(pool.dispatch(order('a', { once: true })))
    await settled()
    await one.die()
    await two.answer(two.jobs()[0] ?? '', 2)
    expect(seen).toEqual({ outcome: { result: 2 } })
    expect(story).toContain('died 1 with a')
  })

  it('an executor that dies during a call of a tool keeps the tool out of model calls until a call of it has ended', async () => {
    const { pool, executor } = startCrew()
    const one = await executor(1)
    watched(pool.dispatch(order('a', { tool: 'look' })))
    await settled()
    await one.accept(one.jobs()[0] ?? '')
    await one.die()
    const two = await executor(2)
    const heldBack = async (session: string): Promise<unknown> => {
      watched(pool.dispatch(order('m:1:1', { kind: 'callModel', session })))
      await settled()
      return two.received.at(-1)
    }
    expect(await heldBack('s')).toMatchObject({ type: 'job', heldBack: ['look'] })
    expect(await heldBack('other')).toMatchObject({ type: 'job', heldBack: ['look'] })
    watched(pool.dispatch(order('b', { tool: 'look' })))
    await settled()
    const job = two.jobs().at(-1) ?? ''
    await two.accept(job)
    await two.say({ type: 'entered', job, timeoutMs: 60_000 })
    await two.answer(job, 'done')
    expect(await heldBack('s')).not.toHaveProperty('heldBack')
  })

  it('an executor that dies with an accepted job ends the attempt at once as WorkerDied, with what was known of it', async () => {
    const { pool, executor, leases } = startCrew()
    const one = await executor(1)
    const seen = watched(pool.dispatch(order('a', { once: true })))
    await settled()
    const [job = ''] = one.jobs()
    await one.accept(job)
    await one.ask({ ask: 'begin', job })
    await one.say({ type: 'progress', job, value: { done: 3 } })
    await one.die()
    expect(seen.error).toMatchObject({ type: 'WorkerDied', nonRetryable: true, message: 'Executor host:1001 died (crash) during a.' })
    expect(ofDeath(seen.error)).toEqual({
      attempt: 1,
      begun: true,
      failed: [],
      worker: 'host:1001',
      executor: 'host:1001',
      progress: { done: 3 },
      cause: 'crash',
    })
    expect(leases.get('a')?.released).toBe(true)
  })

  it('the report of an executor that dies before it begins an external body says that it had not begun', async () => {
    const { pool, executor } = startCrew()
    const one = await executor(1)
    const seen = watched(pool.dispatch(order('a', { once: true })))
    await settled()
    await one.accept(one.jobs()[0] ?? '')
    await one.die()
    expect(ofDeath(seen.error)).toMatchObject({ begun: false })
  })

  it.each([
    ['executeTool', true],
    ['callModel', true],
    ['verifyTool', true],
    ['resolveTool', false],
    ['checkAnswer', false],
  ] as const)(
    'an executor that dies with a job %s leaves the decision to the workflow (%s), or else Temporal simply retries',
    async (kind, nonRetryable) => {
      const { pool, executor } = startCrew()
      const one = await executor(1)
      const seen = watched(pool.dispatch(order('a', { kind })))
      await settled()
      await one.accept(one.jobs()[0] ?? '')
      await one.die()
      expect(seen.error).toMatchObject({ type: 'WorkerDied', nonRetryable })
    },
  )

  it('an executor’s answer counts even if it dies right afterwards, whichever is noticed first', async () => {
    const { pool, executor } = startCrew()
    const one = await executor(1)
    const seen = watched(pool.dispatch(order('a')))
    await settled()
    const [job = ''] = one.jobs()
    await one.accept(job)
    pool.exited(1)
    await one.answer(job, 'last words')
    await one.hangUp()
    expect(seen).toEqual({ outcome: { result: 'last words' } })
    expect([...pool.executors()]).toEqual([])
  })

  it('an executor does not count as dead until its parent has seen its exit, even if its channel is closed', async () => {
    const { pool, executor } = startCrew()
    const one = await executor(1)
    const seen = watched(pool.dispatch(order('a')))
    await settled()
    await one.accept(one.jobs()[0] ?? '')
    await one.hangUp()
    await vi.advanceTimersByTimeAsync(1_000)
    expect(seen).toEqual({})
    pool.exited(1)
    await settled()
    expect(seen.error).toMatchObject({ type: 'WorkerDied' })
  })

  it('an executor that dies before its hello was read counts as dead, with all the jobs that it holds', async () => {
    const { pool, executor, adopted, story } = startCrew()
    expect(pool.exited(1)).toBe(false)
    const one = await executor(1, { holding: [holding('a', { begun: true })] })
    const seen = watched(adopted[0]?.running ?? Promise.resolve(undefined))
    await one.hangUp()
    expect(seen.error).toMatchObject({ type: 'WorkerDied' })
    expect([...pool.executors()]).toEqual([])
    expect(story.at(-1)).toBe('died 1 with a')
  })

  it('if five executors in a row die before they accept a job, its call has not begun, and no death counts against it', async () => {
    const { pool, executor } = startCrew()
    const seen = watched(pool.dispatch(order('a')))
    for (let id = 1; id <= 5; id++) await (await executor(id)).die()
    expect(seen).toEqual({ outcome: 'no executor' })
  })
})

describe('an executor whose line closes', () => {
  it('an executor that keeps running after its channel has closed is killed, because another one takes its place', async () => {
    const { executor, story } = startCrew()
    const one = await executor(1)
    await one.hangUp()
    await vi.advanceTimersByTimeAsync(1_999)
    expect(story).toEqual(['ready 1'])
    await vi.advanceTimersByTimeAsync(1)
    expect(story.at(-1)).toBe('kill 1 broken_line')
  })
})

describe('an executor with an overdue body', () => {
  /** One with an overdue external call, an external neighbour and a call that may be repeated; another executor stands by. */
  async function overdue() {
    const crew = startCrew()
    const one = await crew.executor(1)
    const guilty = watched(crew.pool.dispatch(order('guilty', { once: true })))
    const neighbour = watched(crew.pool.dispatch(order('neighbour', { once: true })))
    const read = watched(crew.pool.dispatch(order('read')))
    await settled()
    const [guiltyJob = '', neighbourJob = '', readJob = ''] = one.jobs()
    for (const job of one.jobs()) await one.accept(job)
    const two = await crew.executor(2)
    const [known] = [...crew.pool.executors()]
    if (!known) throw new Error('no executor')
    crew.pool.endFor(known, new Set([guiltyJob]))
    await settled()
    return { ...crew, one, two, guilty, neighbour, read, neighbourJob, readJob }
  }

  it('an executor with an overdue body gets no new jobs; repeatable calls move at once, others may finish', async () => {
    const { pool, one, two, story, read, neighbour, neighbourJob, readJob } = await overdue()
    expect(one.told(readJob)).toEqual(['job', 'stop: moved'])
    void pool.dispatch(order('new'))
    await settled()
    expect([one.jobs().length, two.jobs().length]).toEqual([3, 2])
    await two.answer(two.jobs()[0] ?? '', 'moved')
    expect(read).toEqual({ outcome: { result: 'moved' } })
    expect(story).not.toContain('kill 1 overdue')
    await one.answer(neighbourJob, 'paid')
    expect(neighbour).toEqual({ outcome: { result: 'paid' } })
    expect(story.at(-1)).toBe('kill 1 overdue')
  })

  it('an executor with an overdue body dies of it: the overdue call is blamed only if no other call was in progress', async () => {
    const { one, guilty, neighbour } = await overdue()
    await one.die()
    expect([ofDeath(guilty.error), ofDeath(neighbour.error)]).toMatchObject([{ cause: 'crash' }, { cause: 'crash' }])
    const again = await overdue()
    await again.one.answer(again.neighbourJob, 'paid')
    await again.one.die()
    expect(ofDeath(again.guilty.error)).toMatchObject({ cause: 'overdue' })
  })

  it('a job of an executor with an overdue body that is told to stop is not placed again, and may have begun', async () => {
    const { leases, pool, executor } = startCrew()
    const one = await executor(1)
    const seen = watched(pool.dispatch(order('put')))
    await settled()
    const [job = ''] = one.jobs()
    await one.accept(job)
    leases.get('put')?.stop('cancelled')
    const [known] = [...pool.executors()]
    if (known) pool.endFor(known, new Set(['another']))
    const two = await executor(2)
    expect(two.jobs()).toEqual([])
    expect(seen.error).not.toBeInstanceOf(CancelledFailure)
    expect(ofDeath(seen.error)).toMatchObject({ cause: 'neighbour', worker: 'host:1001' })
  })

  it('a job that is taken back from an executor and that no other one gets names the executor, which has not died', async () => {
    const { pool, executor } = startCrew()
    const one = await executor(1)
    const seen = watched(pool.dispatch(order('put')))
    await settled()
    await one.accept(one.jobs()[0] ?? '')
    const [known] = [...pool.executors()]
    if (known) pool.endFor(known, new Set(['another']))
    await vi.advanceTimersByTimeAsync(1_100)
    expect(seen.error).toMatchObject({
      type: 'WorkerDied',
      message: 'Executor host:1001 had to end because of another call, during put.',
    })
    expect(ofDeath(seen.error)).toMatchObject({ attempt: 1, cause: 'neighbour', worker: 'host:1001' })
  })
})

describe('an executor with a stuck event loop', () => {
  it('an executor with a stuck event loop is killed once, and each of its calls is reported as present', async () => {
    const { pool, executor, story } = startCrew()
    const one = await executor(1)
    const seen = watched(pool.dispatch(order('a')))
    await settled()
    await one.accept(one.jobs()[0] ?? '')
    const [known] = [...pool.executors()]
    if (known) pool.kill(known, 'stuck_loop')
    if (known) pool.kill(known, 'stuck_loop')
    await one.die()
    expect(story.filter((line) => line.startsWith('kill'))).toEqual(['kill 1 stuck_loop'])
    expect(ofDeath(seen.error)).toMatchObject({ cause: 'stuck_loop' })
  })
})

function holding(call: string, more: Partial<HeldJobReport> = {}): HeldJobReport {
  return { job: `job of ${call}`, order: order(call, { once: true }), begun: false, ...more }
}

describe('what an executor holds from an earlier orchestrator', () => {
  it('what an executor holds from an earlier orchestrator is adopted, and answered when it ends', async () => {
    const { executor, adopted, leases, story } = startCrew()
    const one = await executor(1, { holding: [holding('a', { begun: true, entered: { agoMs: 500, timeoutMs: 1_000 } })] })
    const seen = watched(adopted[0]?.running ?? Promise.resolve(undefined))
    await settled()
    expect(story).toEqual(['job a on 1', 'ready 1'])
    expect(seen).toEqual({})
    await one.answer('job of a', 'late')
    expect(seen).toEqual({ outcome: { result: 'late' } })
    expect(leases.get('a')?.released).toBe(true)
    expect(one.jobs()).toEqual([])
  })

  it('a job that an executor holds from an earlier orchestrator is answered at once if it has already ended', async () => {
    const { executor, adopted } = startCrew()
    await executor(1, { holding: [holding('a', { outcome: answered('kept') })] })
    const seen = watched(adopted[0]?.running ?? Promise.resolve(undefined))
    await settled()
    expect(seen).toEqual({ outcome: { result: 'kept' } })
  })

  it('what an executor holds from an earlier orchestrator is reported with its progress if the executor dies then', async () => {
    const { executor, adopted } = startCrew()
    const one = await executor(1, { holding: [holding('a', { begun: true, progress: 7 })] })
    const seen = watched(adopted[0]?.running ?? Promise.resolve(undefined))
    await one.die()
    expect(ofDeath(seen.error)).toEqual({
      attempt: 1,
      begun: true,
      failed: [],
      worker: 'host:1001',
      executor: 'host:1001',
      progress: 7,
      cause: 'crash',
    })
  })

  it('what an executor holds from an earlier orchestrator is reported to the server at once', async () => {
    const { executor, leases } = startCrew()
    await executor(1, { holding: [holding('a', { begun: true }), holding('b', { outcome: answered('kept') })] })
    expect([leases.get('a')?.announced, leases.get('b')?.announced]).toEqual([1, 0])
  })

  it('a job that an executor holds from an earlier orchestrator may begin later, because it still belongs to that executor', async () => {
    const { executor, leases } = startCrew()
    const one = await executor(1, { holding: [holding('a')] })
    expect(await one.ask({ ask: 'begin', job: 'job of a' })).toMatchObject({ type: 'answer', value: true })
    expect(leases.get('a')?.begun).toBe(1)
  })
})
