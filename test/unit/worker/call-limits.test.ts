// The keeper of tools' limits while the store is unavailable: they then apply to its worker alone.
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { CallLimit } from '../../../src/session/call-limits.ts'
import { keepLimits } from '../../../src/worker/orchestrator/call-limits.ts'

const concurrency: CallLimit = { tool: 'search', of: 'concurrency', max: 1, key: '' }
const rate: CallLimit = { tool: 'search', of: 'rate', max: 2, perMs: 60_000, key: '' }

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** A keeper whose store is away from a certain moment on. */
function keeper() {
  const world = { isAway: false, warnings: 0 }
  const logger = { debug() {}, info() {}, warn: () => void (world.warnings += 1), error() {} }
  const store = {
    async admitCall() {
      if (world.isAway) throw new Error('Postgres is away')
      return 0
    },
    async leaveLimits() {
      if (world.isAway) throw new Error('Postgres is away')
    },
  }
  const limits = keepLimits({ store, logger })
  const ask = (callId: string, ...asked: CallLimit[]) =>
    limits.admit({ sessionId: 's', callId, limits: asked, forMs: 10_000, begins: true })
  return { world, limits, ask }
}

it('a concurrency counts the calls that the store admitted before it went away, and says so once a minute', async () => {
  const { world, limits, ask } = keeper()
  expect(await ask('a', concurrency)).toBe(0)
  world.isAway = true
  expect(await ask('b', concurrency)).toBeGreaterThan(0)
  expect(await ask('a', concurrency)).toBe(0)
  await limits.leave('s', 'a')
  expect(await ask('b', concurrency)).toBe(0)
  expect(world.warnings).toBe(1)
  await vi.advanceTimersByTimeAsync(60_000)
  expect(await ask('c', concurrency)).toBe(0)
  expect(world.warnings).toBe(2)
})

it('a rate counts the calls that began within its time, whether they have ended or not', async () => {
  const { world, limits, ask } = keeper()
  world.isAway = true
  expect(await ask('a', rate)).toBe(0)
  await limits.leave('s', 'a')
  expect(await ask('b', rate)).toBe(0)
  expect(await ask('c', rate)).toBeGreaterThan(0)
  await vi.advanceTimersByTimeAsync(60_000)
  expect(await ask('c', rate)).toBe(0)
})

it('a rate counts each attempt of a call', async () => {
  const { world, ask } = keeper()
  world.isAway = true
  expect(await ask('a', rate)).toBe(0)
  expect(await ask('a', rate)).toBe(0)
  expect(await ask('a', rate)).toBeGreaterThan(0)
  await vi.advanceTimersByTimeAsync(60_000)
  expect(await ask('a', rate)).toBe(0)
})
