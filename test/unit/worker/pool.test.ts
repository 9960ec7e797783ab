// Which executor gets a job, and what happens to jobs that are answered, stopped or moved.
import { CancelledFailure } from '@temporalio/common'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { HeldJobReport } from '../../../src/worker/protocol.ts'
import { answered, order, settled, startCrew, watched } from './support/crew.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const UNACKNOWLEDGED_MS = 300

describe('a job', () => {
  it('a job goes to the least busy executor, and its answer is what the executor answers', async () => {
    const { pool, executor } = startCrew()
    const [one, two] = [await executor(1), await executor(2)]
    const first = watched(pool.dispatch(order('a')))
    const second = watched(pool.dispatch(order('b')))
    await settled()
    expect([one.jobs().length, two.jobs().length]).toEqual([1, 1])
    await two.accept(two.jobs()[0] ?? '')
    await two.answer(two.jobs()[0] ?? '', 'from two')
    expect([first, second]).toEqual([{}, { outcome: { result: 'from two' } }])
  })

  it('a job of a model call goes to the executor that has folded the session, even if another one is less busy', async () => {
    const { pool, executor } = startCrew({
      eventsFor({ views }, { ticket }) {
        views.set(`${ticket.sessionId}\ne`, { seq: 3, digest: 'd' })
        return undefined
      },
    })
    const [one, two] = [await executor(1), await executor(2)]
    void pool.dispatch(order('m', { kind: 'callModel', session: 'known' }))
    void pool.dispatch(order('m', { kind: 'callModel', session: 'other' }))
    void pool.dispatch(order('m', { kind: 'callModel', session: 'known' }))
    await settled()
    expect([one.jobs().length, two.jobs().length]).toEqual([2, 1])
  })

  it('a job waits a second for an executor, and is not begun if none comes', async () => {
    const { pool, executor, leases } = startCrew()
    const unplaced = watched(pool.dispatch(order('a')))
    await vi.advanceTimersByTimeAsync(1_000)
    expect(unplaced).toEqual({ outcome: 'no executor' })
    expect(leases.get('a')?.released).toBe(true)
    const soon = watched(pool.dispatch(order('b')))
    await vi.advanceTimersByTimeAsync(900)
    const late = await executor(1)
    await late.answer(late.jobs()[0] ?? '', 1)
    expect(soon).toEqual({ outcome: { result: 1 } })
  })

  it('a job is announced to the server before it is given to an executor, from the second attempt on', async () => {
    const { pool, executor, leases } = startCrew()
    await executor(1)
    void pool.dispatch(order('first'))
    void pool.dispatch(order('second', { attempt: 2 }))
    await settled()
    expect(['first', 'second'].map((call) => leases.get(call)?.announced)).toEqual([0, 1])
  })

  it('a job that has to be retried fails the activity with its delay, after its failed attempt was recorded', async () => {
    const { pool, executor, leases } = startCrew()
    const one = await executor(1)
    const seen = watched(pool.dispatch(order('a')))
    await settled()
    const failed = { attempt: 1, class: 'Error', message: 'm', retryable: true, worker: 'w' }
    await one.say({
      type: 'done',
      job: one.jobs()[0] ?? '',
      outcome: { kind: 'again', type: 'AttemptFailed', message: 'm', afterMs: 70, failed },
    })
    expect(seen.error).toMatchObject({ type: 'AttemptFailed', nonRetryable: false, nextRetryDelay: 70 })
    expect(leases.get('a')?.recorded).toEqual([{ failed: [failed] }])
  })

  it('the pool ignores an answer for a job that is unknown or already answered', async () => {
    const { pool, executor } = startCrew()
    const [one, two] = [await executor(1), await executor(2)]
    const seen = watched(pool.dispatch(order('a')))
    await settled()
    const [job = ''] = one.jobs()
    await two.answer(job, 'of an executor that does not have it')
    await two.say({ type: 'progress', job, value: 1 })
    await one.answer('no such job', 'nothing')
    await one.answer(job, 'first')
    await one.answer(job, 'second')
    expect(seen).toEqual({ outcome: { result: 'first' } })
    const next = watched(pool.dispatch(order('b')))
    await settled()
    await one.answer(one.jobs().at(-1) ?? '', 'next')
    expect(next).toEqual({ outcome: { result: 'next' } })
  })
})

describe('a job that its executor does not acknowledge', () => {
  it('a job that its executor does not acknowledge is moved to another one, and cannot begin where it was', async () => {
    const { pool, executor, leases } = startCrew()
    const [frozen, other] = [await executor(1), await executor(2)]
    const seen = watched(pool.dispatch(order('pay', { once: true })))
    await vi.advanceTimersByTimeAsync(UNACKNOWLEDGED_MS)
    const [job = ''] = frozen.jobs()
    expect(frozen.told(job)).toEqual(['job', 'stop: moved'])
    // It wakes up and finds the job before the notice that the job is no longer its own.
    await frozen.accept(job)
    expect(await frozen.ask({ ask: 'begin', job })).toMatchObject({ type: 'refusal', code: 'attempt_lost' })
    expect(await frozen.ask({ ask: 'still_mine', job })).toMatchObject({ type: 'answer', value: false })
    const [moved = ''] = other.jobs()
    await other.accept(moved)
    expect(await other.ask({ ask: 'begin', job: moved })).toMatchObject({ type: 'answer', value: true })
    await frozen.answer(job, 'of the frozen one')
    await other.answer(moved, 'of the other')
    expect(seen).toEqual({ outcome: { result: 'of the other' } })
    expect(leases.get('pay')?.begun).toBe(1)
  })

  it('a job that its executor does not acknowledge is moved as soon as another executor responds', async () => {
    const { pool, executor } = startCrew()
    const [frozen, other] = [await executor(1), await executor(2)]
    void pool.dispatch(order('a'))
    await vi.advanceTimersByTimeAsync(UNACKNOWLEDGED_MS * 2)
    // The other one does not acknowledge it either.
    expect([frozen.jobs().length, other.jobs().length]).toEqual([1, 1])
    await vi.advanceTimersByTimeAsync(10_000)
    await frozen.say({ type: 'alive' })
    await vi.advanceTimersByTimeAsync(UNACKNOWLEDGED_MS)
    expect([frozen.jobs().length, other.jobs().length]).toEqual([2, 1])
  })

  it('a job that executors with blocked event loops pass on stays with the fifth one, and is answered once that one responds', async () => {
    const { pool, executor } = startCrew()
    const [one, two] = [await executor(1), await executor(2)]
    const seen = watched(pool.dispatch(order('pay', { once: true })))
    for (let round = 0; round < 10; round++) {
      await vi.advanceTimersByTimeAsync(UNACKNOWLEDGED_MS)
      // Each responds for a moment between two blocks, but only after its job has been withdrawn.
      for (const each of [one, two]) await each.say({ type: 'alive' })
    }
    expect([one.jobs().length, two.jobs().length, seen]).toEqual([3, 2, {}])
    const job = one.jobs().at(-1) ?? ''
    await one.accept(job)
    await one.answer(job, 'paid')
    expect(seen).toEqual({ outcome: { result: 'paid' } })
  })

  it('while a job is not acknowledged, new jobs go to executors that respond', async () => {
    const { pool, executor } = startCrew()
    const [frozen, other] = [await executor(1), await executor(2)]
    for (const call of ['a', 'b', 'c']) {
      void pool.dispatch(order(call))
      await vi.advanceTimersByTimeAsync(UNACKNOWLEDGED_MS)
      for (const job of other.jobs()) await other.accept(job)
    }
    expect([frozen.jobs().length, other.jobs().length]).toEqual([1, 3])
  })
})

describe('a job that has to stop', () => {
  it('the executor of a job that must stop is notified, and decides how the job ends', async () => {
    const { pool, executor, leases } = startCrew()
    const one = await executor(1)
    const seen = watched(pool.dispatch(order('a')))
    await settled()
    const [job = ''] = one.jobs()
    await one.accept(job)
    leases.get('a')?.stop('cancelled')
    await vi.advanceTimersByTimeAsync(10_000)
    expect(one.told(job)).toEqual(['job', 'stop: cancelled'])
    expect(seen).toEqual({})
    await one.answer(job, 'interrupted')
    expect(seen).toEqual({ outcome: { result: 'interrupted' } })
  })

  it('a job that has to stop ends as cancelled if its executor has not accepted it after a moment', async () => {
    const { pool, executor, leases } = startCrew()
    const [one] = [await executor(1)]
    const frozen = watched(pool.dispatch(order('a')))
    const accepted = watched(pool.dispatch(order('b')))
    await settled()
    leases.get('a')?.stop('cancelled')
    leases.get('b')?.stop('cancelled')
    await one.accept(one.jobs()[1] ?? '')
    await vi.advanceTimersByTimeAsync(UNACKNOWLEDGED_MS)
    expect(frozen.error).toBeInstanceOf(CancelledFailure)
    expect(accepted).toEqual({})
  })

  it('a job that has to stop is not begun at all if no executor has it yet', async () => {
    const { pool, executor, leases } = startCrew()
    const seen = watched(pool.dispatch(order('a')))
    await settled()
    leases.get('a')?.stop('cancelled')
    const one = await executor(1)
    expect(one.jobs()).toEqual([])
    expect(seen.error).toBeInstanceOf(CancelledFailure)
  })
})

describe('an executor whose code is replaced', () => {
  it('an executor whose code is replaced gets no new jobs, finishes what it has, and is then reported as drained', async () => {
    const { pool, executor, story } = startCrew()
    const [old, young] = [await executor(1), await executor(2)]
    const seen = watched(pool.dispatch(order('a')))
    await settled()
    const [job = ''] = old.jobs()
    await old.accept(job)
    pool.retire(1)
    void pool.dispatch(order('b'))
    void pool.dispatch(order('c'))
    await settled()
    expect([old.jobs().length, young.jobs().length]).toEqual([1, 2])
    expect(story).not.toContain('drained 1')
    await old.answer(job, 1)
    expect(seen).toEqual({ outcome: { result: 1 } })
    expect(story.at(-1)).toBe('drained 1')
  })

  it('an executor whose code is replaced is drained at once if it holds nothing', async () => {
    const { pool, executor, story } = startCrew()
    await executor(1)
    pool.retire(1)
    expect(story).toEqual(['ready 1', 'drained 1'])
  })

  it('an executor that connects only after its code was replaced is drained once everything it holds has ended', async () => {
    const { pool, executor, story, adopted } = startCrew()
    pool.retire(1)
    expect(story).toEqual([])
    const held = (job: string): HeldJobReport => ({ job, order: order(job), begun: true })
    const old = await executor(1, { holding: [{ ...held('over'), outcome: answered('kept') }, held('running')] })
    expect(await adopted[0]?.running).toEqual({ result: 'kept' })
    expect(story).not.toContain('drained 1')
    const unplaced = watched(pool.dispatch(order('new')))
    await vi.advanceTimersByTimeAsync(1_000)
    expect(unplaced).toEqual({ outcome: 'no executor' })
    await old.answer('running', 'done')
    expect(await adopted[1]?.running).toEqual({ result: 'done' })
    expect(story.at(-1)).toBe('drained 1')
  })
})
