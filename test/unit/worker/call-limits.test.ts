// The keeper of tools' limits while the store is unavailable: they then apply to its worker alone.
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { CallLimit } from '../../../src/session/call-limits.ts'
import { StoreError } from '../../../src/connect/errors.ts'
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

it('a concurrency limit counts the calls that the store admitted before it went away, and warns once a minute', async () => {
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

it('a rate limit counts the calls that began within its period, whether they have ended or not', async () => {
  const { world, limits, ask } = keeper()
  world.isAway = true
  expect(await ask('a', rate)).toBe(0)
  await limits.leave('s', 'a')
  expect(await ask('b', rate)).toBe(0)
  expect(await ask('c', rate)).toBeGreaterThan(0)
  await vi.advanceTimersByTimeAsync(60_000)
  expect(await ask('c', rate)).toBe(0)
})

it('a rate limit counts each attempt of a call', async () => {
  const { world, ask } = keeper()
  world.isAway = true
  expect(await ask('a', rate)).toBe(0)
  expect(await ask('a', rate)).toBe(0)
  expect(await ask('a', rate)).toBeGreaterThan(0)
  await vi.advanceTimersByTimeAsync(60_000)
  expect(await ask('a', rate)).toBe(0)
})

/** A keeper whose store answers once it is told to, and 50 calls of one tool that ask it. */
function crowd(tool = 'search') {
  const answers: { resolve(waitMs: number): void; reject(error: Error): void }[] = []
  const logger = { debug() {}, info() {}, warn() {}, error() {} }
  const admitCall = (): Promise<number> => new Promise((resolve, reject) => void answers.push({ resolve, reject }))
  const limits = keepLimits({ store: { admitCall, leaveLimits: async () => undefined }, logger })
  const asked = Array.from({ length: 50 }, (_, n) =>
    limits.admit({ sessionId: 's', callId: `c${n}`, limits: [{ ...concurrency, tool }], forMs: 10_000, begins: true }),
  )
  return { answers, asked }
}

it('the calls of a tool ask the store one after another, so that they leave its connections to others', async () => {
  const { answers, asked } = crowd()
  for (let n = 0; n < 50; n++) {
    await vi.advanceTimersByTimeAsync(1)
    expect(answers).toHaveLength(n + 1)
    answers[n]?.resolve(n)
  }
  expect(await Promise.all(asked)).toEqual(Array.from({ length: 50 }, (_, n) => n))
})

it('a store that has not answered one call is not asked by those behind it for a second', async () => {
  const { answers, asked } = crowd()
  await vi.advanceTimersByTimeAsync(1)
  answers[0]?.reject(new StoreError('store_unavailable', 'Postgres does not answer.'))
  // The limit then applies to this worker alone.
  expect(await Promise.all(asked)).toEqual([0, ...Array(49).fill(1_000)])
  expect(answers).toHaveLength(1)
})

it('a store that hangs holds up a call for five seconds, and those behind it for no longer', async () => {
  const { answers, asked } = crowd()
  await vi.advanceTimersByTimeAsync(5_000)
  expect(await Promise.all(asked)).toEqual([0, ...Array(49).fill(1_000)])
  expect(answers).toHaveLength(1)
})
