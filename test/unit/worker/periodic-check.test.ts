// Checks of other processes: a late one means that this process was frozen.
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { startPeriodicCheck } from '../../../src/worker/periodic-check.ts'
import { pause } from './support/pause.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** Checks every second, and what each was. */
function checks() {
  const seen: string[] = []
  const end = startPeriodicCheck({
    everyMs: 1_000,
    check: () => void seen.push('check'),
    afterFreeze: (ms) => void seen.push(`frozen for ${ms} ms`),
  })
  return { seen, end }
}

it('checks come at their interval until they are ended', () => {
  const { seen, end } = checks()
  vi.advanceTimersByTime(2_000)
  end()
  vi.advanceTimersByTime(2_000)
  expect(seen).toEqual(['check', 'check'])
})

it('checks do not judge other processes after this one was paused or the machine slept, and say for how long', () => {
  const { seen, end } = checks()
  vi.advanceTimersByTime(1_000)
  pause(60_000)
  vi.advanceTimersByTime(2_000)
  end()
  expect(seen).toEqual(['check', 'frozen for 60000 ms', 'check'])
})

it('checks that are somewhat late still count', () => {
  const { seen, end } = checks()
  pause(2_000)
  vi.advanceTimersByTime(1_000)
  end()
  expect(seen).toEqual(['check'])
})

it.each([3_600_000, -3_600_000])('checks are not late because the time of day was set by %d ms', (ms) => {
  const { seen, end } = checks()
  vi.setSystemTime(Date.now() + ms)
  vi.advanceTimersByTime(1_000)
  end()
  expect(seen).toEqual(['check'])
})
