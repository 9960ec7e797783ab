// The keeper of shared budgets: how many statements it needs, and what it does while the store is unavailable.
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { BatchRequest, BudgetTerms } from '../../../src/store/shared-budgets.ts'
import { keepSharedBudgets } from '../../../src/worker/orchestrator/shared-budgets.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const terms = (more: Partial<BudgetTerms> = {}): BudgetTerms => ({
  id: 'day tag a',
  tag: 'a',
  agent: null,
  maxUsd: 10,
  per: 'day',
  timeZone: 'UTC',
  onOutage: 'continue',
  ...more,
})

const JOB = { job: 'j', sessionId: 's' }
const OF_A = { agent: 'x', tags: ['a'] }

/** A keeper over a store that grants a fiftieth of the limit at a time, while anything is left. */
async function keeper(budget = terms()) {
  const world = { isAway: false, isSilent: false, spentUsd: 0, taken: [] as BatchRequest[], warnings: [] as string[] }
  const logger = { debug() {}, info() {}, warn: (_: object, message = '') => void world.warnings.push(message), error() {} }
  const take = async (request: BatchRequest) => {
    if (world.isAway) throw new Error('Postgres is away')
    world.taken.push(request)
    if (world.isSilent) return new Promise<never>(() => undefined)
    const left = budget.maxUsd - world.spentUsd - request.heldUsd
    const grantedUsd = left < request.needUsd ? 0 : Math.min(left, Math.max(request.needUsd, budget.maxUsd / 50))
    return { grantedUsd, maxUsd: budget.maxUsd, spentUsd: world.spentUsd, until: new Date(0), warns: world.spentUsd >= 8 }
  }
  const store = { budgets: { terms: async () => [budget], take } as never, watchBudgets: () => () => undefined }
  const kept = keepSharedBudgets({ store, executors: () => [], logger })
  await kept.learned()
  const call = async (usd: number, costs = usd): Promise<string | undefined> => {
    const answer = await kept.take(JOB, { agent: 'x', tags: ['a'], usd })
    if (answer.refused !== undefined) return answer.refused
    kept.settle(answer.token, costs)
    world.spentUsd += costs
    return undefined
  }
  return { world, kept, call }
}

it('a batch pays for many calls, so that a call needs no statement of its own', async () => {
  const { world, call } = await keeper()
  for (let n = 0; n < 100; n++) expect(await call(0.01, 0.001)).toBeUndefined()
  expect(world.taken).toHaveLength(1)
})

it('what calls did not cost goes back to the batch, and an expired batch is not spent', async () => {
  const { world, call } = await keeper()
  await call(0.2, 0)
  await call(0.2, 0)
  expect(world.taken).toHaveLength(1)
  await vi.advanceTimersByTimeAsync(61_000)
  await call(0.2, 0)
  expect(world.taken).toHaveLength(2)
})

it('a call of which too little is left is refused, says why, and asks the store only every five seconds', async () => {
  const { world, call } = await keeper()
  world.spentUsd = 9.9
  expect(await call(0.2)).toMatch(/^The shared budget of the tag a for the day is exhausted: 9.9000 of 10 USD are spent/)
  const asked = world.taken.length
  expect(await call(0.3)).toBeDefined()
  expect(world.taken).toHaveLength(asked)
  await vi.advanceTimersByTimeAsync(5_001)
  world.spentUsd = 0
  expect(await call(0.3)).toBeUndefined()
  expect(world.warnings).toEqual(['four fifths of a shared budget are spent'])
})

it('a call of a session that shares no budget asks nothing', async () => {
  const { world, kept } = await keeper()
  expect(await kept.take(JOB, { agent: 'x', tags: ['b'], usd: 100 })).toMatchObject({ token: expect.any(String) })
  expect(world.taken).toEqual([])
})

it('while the store is away, calls continue, or stop if the budget says so', async () => {
  const lenient = await keeper()
  lenient.world.isAway = true
  expect(await lenient.call(1)).toBeUndefined()
  const strict = await keeper(terms({ onOutage: 'stop' }))
  await strict.call(0.05)
  strict.world.isAway = true
  // The batch is spent first.
  expect(await strict.call(0.05)).toBeUndefined()
  expect(await strict.call(1)).toContain('the side store is unavailable')
})

it('while the store does not answer, calls do not wait for it one after another', async () => {
  const { world, call } = await keeper()
  world.isSilent = true
  const made: number[] = []
  const calls = Array.from({ length: 20 }, (_, n) => call(1).then(() => made.push(n)))
  await vi.advanceTimersByTimeAsync(2_001)
  expect(made).toHaveLength(20)
  await Promise.all(calls)
  expect(world.taken).toHaveLength(1)
  world.isSilent = false
  await vi.advanceTimersByTimeAsync(5_001)
  await call(0.1)
  expect(world.taken).toHaveLength(2)
  expect(world.taken[1]?.heldUsd).toBe(20)
})

it('the share of a call whose job ends without it having settled goes back, except for what the call may have cost', async () => {
  const { kept, call } = await keeper(terms({ maxUsd: 50 }))
  await kept.take(JOB, { ...OF_A, usd: 0.9 })
  expect(kept.prepay({ job: 'k', sessionId: 's' })).toBeUndefined()
  kept.ended('j', 0.2)
  // 0.8 of the batch of 1 are left, so that 0.5 more need no other batch.
  await kept.take(JOB, { ...OF_A, usd: 0.6 })
  kept.ended('j', 0)
  expect(await call(0.8)).toBeUndefined()
})

it("a session's next call is paid for with its job, and a quarter more than its last one", async () => {
  const { world, kept } = await keeper()
  expect(kept.prepay(JOB)).toBeUndefined()
  await kept.take(JOB, { ...OF_A, usd: 0.1 })
  kept.ended('j', 0.01)
  expect(kept.prepay(JOB)).toEqual({ token: expect.any(String), usd: 0.125 })
  // Less than that is left of the batch of 0.2.
  expect(kept.prepay({ job: 'k', sessionId: 's' })).toBeUndefined()
  kept.ended('j', 0)
  expect(kept.prepay({ job: 'k', sessionId: 's' })).toMatchObject({ usd: 0.125 })
  expect(kept.prepay({ job: 'l', sessionId: 'another' })).toBeUndefined()
  expect(world.taken).toHaveLength(1)
})

it('calls that ask at the same time get no more than the budget has, also while it is asked for another batch', async () => {
  const { kept } = await keeper(terms({ maxUsd: 5 }))
  const ask = (n: number) => kept.take({ job: `j${n}`, sessionId: `s${n}` }, { ...OF_A, usd: 0.09 })
  await ask(0)
  // Most find room in the same moment; some come while the store is asked.
  const asked = Array.from({ length: 100 }, (_, n) => ask(n + 1))
  await Promise.resolve()
  const answers = await Promise.all([...asked, ...Array.from({ length: 100 }, (_, n) => ask(n + 101))])
  // 55 of 0.09 make 4.95.
  expect(answers.filter(({ refused }) => refused === undefined)).toHaveLength(54)
})
