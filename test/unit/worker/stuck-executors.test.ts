// The watch over executors: which ones are ended and why, and that none is ended because the watch itself was paused.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { startWatch } from '../../../src/worker/orchestrator/executors/stuck-executors.ts'
import { type Crew, order, type Played, settled, startCrew } from './support/crew.ts'
import { pause } from './support/pause.ts'

const STUCK_MS = 60_000
const TIMEOUT_MS = 10_000

let endWatch: (() => void) | undefined
beforeEach(() => void vi.useFakeTimers())
afterEach(() => {
  endWatch?.()
  vi.useRealTimers()
})

/** A watched executor that has entered the body of one call. */
async function entered({
  once,
}: {
  once?: true
} = {}): Promise<{ crew: Crew; one: Played; job: string; passes(ms: number): Promise<void> }> {
  const crew = startCrew()
  const one = await crew.executor(1)
  endWatch = startWatch(crew.pool, STUCK_MS)
  crew.pool.dispatch(order('a', { ...(once && { once }) })).catch(() => undefined)
  await settled()
  const [job = ''] = one.jobs()
  await one.accept(job)
  await one.say({ type: 'entered', job, timeoutMs: TIMEOUT_MS })
  return {
    crew,
    one,
    job,
    /** Time passes while its event loop runs. */
    async passes(ms) {
      for (let passed = 0; passed < ms; passed += 1_000) {
        await vi.advanceTimersByTimeAsync(1_000)
        await one.say({ type: 'alive' })
      }
    },
  }
}

const kills = ({ story }: Crew): string[] => story.filter((line) => line.startsWith('kill'))

describe('an executor', () => {
  it('an executor whose event loop is stuck for longer than it may be is killed', async () => {
    const { crew } = await entered()
    await vi.advanceTimersByTimeAsync(STUCK_MS)
    expect(kills(crew)).toEqual([])
    await vi.advanceTimersByTimeAsync(1_000)
    expect(kills(crew)).toEqual(['kill 1 stuck_loop'])
  })

  it('an executor with an external body that exceeds its timeout is ended after a grace period', async () => {
    const { crew, passes } = await entered({ once: true })
    await passes(TIMEOUT_MS + 4_000)
    expect(kills(crew)).toEqual([])
    await passes(2_000)
    expect(kills(crew)).toEqual(['kill 1 overdue'])
  })

  it('an executor with an external body that was told to stop is ended after a grace period, long before its timeout', async () => {
    const { crew, passes } = await entered({ once: true })
    crew.leases.get('a')?.stop('cancelled')
    await passes(7_000)
    expect(kills(crew)).toEqual(['kill 1 overdue'])
  })

  it('an executor with any other body that exceeds its timeout is left alone: that body is abandoned', async () => {
    const { crew, passes } = await entered()
    await passes(TIMEOUT_MS * 3)
    expect(kills(crew)).toEqual([])
  })

  it('an executor gets the grace period once its event loop runs again, because the response to its body may have arrived', async () => {
    const { crew, passes } = await entered({ once: true })
    await vi.advanceTimersByTimeAsync(TIMEOUT_MS + 20_000)
    expect(kills(crew)).toEqual([])
    await passes(4_000)
    expect(kills(crew)).toEqual([])
    await passes(3_000)
    expect(kills(crew)).toEqual(['kill 1 overdue'])
  })
})

describe('after a pause of the orchestrator itself, or of the machine', () => {
  it('no executor counts as stuck after a pause of the orchestrator or the machine that held up its messages', async () => {
    const { crew, passes } = await entered()
    pause(600_000)
    await passes(5_000)
    expect(kills(crew)).toEqual([])
  })

  it('a body that ended while the orchestrator was paused is not overdue, because its answer is read first', async () => {
    const { crew, one, job } = await entered({ once: true })
    pause(600_000)
    // The timers that are due fire before pending messages are read.
    await vi.advanceTimersByTimeAsync(500)
    await one.answer(job, 'in time')
    await vi.advanceTimersByTimeAsync(5_000)
    expect(kills(crew)).toEqual([])
  })

  it('an executor that really is stuck is killed even after a pause', async () => {
    const { crew } = await entered()
    pause(600_000)
    await vi.advanceTimersByTimeAsync(STUCK_MS + 2_000)
    expect(kills(crew)).toEqual(['kill 1 stuck_loop'])
  })
})

it.each([3_600_000, -3_600_000])('an executor that works is not killed because the time of day was set by %d ms', async (ms) => {
  const { crew, passes } = await entered({ once: true })
  vi.setSystemTime(Date.now() + ms)
  await passes(2_000)
  expect(kills(crew)).toEqual([])
})
