// Looks at other processes: a late one means that this process was frozen.
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { startLooking } from '../../../src/worker/looking.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** Looks every second, and what each was. */
function looks() {
  const seen: string[] = []
  const end = startLooking({
    everyMs: 1_000,
    look: () => void seen.push('look'),
    afterStandstill: (ms) => void seen.push(`stood still for ${ms} ms`),
  })
  return { seen, end }
}

it('come at their interval until they are ended', () => {
  const { seen, end } = looks()
  vi.advanceTimersByTime(2_000)
  end()
  vi.advanceTimersByTime(2_000)
  expect(seen).toEqual(['look', 'look'])
})

it('judge no process after this one was paused or the machine was asleep, and say for how long', () => {
  const { seen, end } = looks()
  vi.advanceTimersByTime(1_000)
  vi.setSystemTime(Date.now() + 60_000)
  vi.advanceTimersByTime(2_000)
  end()
  expect(seen).toEqual(['look', 'stood still for 60000 ms', 'look'])
})

it('that are somewhat late still count', () => {
  const { seen, end } = looks()
  vi.setSystemTime(Date.now() + 2_000)
  vi.advanceTimersByTime(1_000)
  end()
  expect(seen).toEqual(['look'])
})
