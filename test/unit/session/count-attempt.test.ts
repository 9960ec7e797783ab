// The number of an attempt and its remaining budget, derived from what earlier attempts of the call reported.
import { describe, expect, it } from 'vitest'
import { countAttempt, type AttemptReport } from '../../../src/session/attempts.ts'
import type { FailedAttempt } from '../../../src/session/call-facts.ts'

const died = (attempt: number): FailedAttempt => ({ attempt, class: 'WorkerDied', message: 'm', retryable: true })
const said = (attempt: number, failed: FailedAttempt[] = []): AttemptReport => ({ attempt, begun: false, failed, worker: 'w' })
const numbersOf = (failed: readonly FailedAttempt[]) => failed.map(({ attempt }) => attempt)

describe('an attempt', () => {
  it('an attempt is the first if the call has no earlier attempts', () => {
    expect(countAttempt({ attempt: 1, heartbeatDetails: undefined }, {})).toEqual({
      attempt: { number: 1, failed: [], failures: 0 },
      isGivenUp: false,
    })
  })

  it('an attempt continues the numbering and the budget of the workflow, and asks the next model', () => {
    const prior = { attempts: 4, failures: 1, deaths: 2, fallback: { at: 1 } }
    const { attempt } = countAttempt({ attempt: 1, heartbeatDetails: undefined }, { prior })
    expect(attempt).toEqual({ number: 5, failed: [], failures: 1, fallback: { at: 1 } })
  })

  it('an attempt counts an earlier attempt whose worker was lost', () => {
    const { attempt } = countAttempt({ attempt: 2, heartbeatDetails: said(1) }, {})
    expect([attempt.number, numbersOf(attempt.failed)]).toEqual([2, [1]])
  })

  it('an attempt counts a lost attempt and the deaths before it within the same activity', () => {
    const { attempt } = countAttempt({ attempt: 2, heartbeatDetails: said(3, [died(1), died(2)]) }, {})
    expect([attempt.number, numbersOf(attempt.failed)]).toEqual([4, [1, 2, 3]])
  })

  it('an attempt counts attempts that were lost within the same activity against the limit on deaths', () => {
    const { attempt, isGivenUp } = countAttempt(
      { attempt: 2, heartbeatDetails: said(3, [died(1), died(2)]) },
      { prior: { attempts: 0, failures: 0, deaths: 2 } },
    )
    expect(isGivenUp).toBe(true)
    // None follows the last one.
    expect(attempt.failed.map(({ retryable }) => retryable)).toEqual([true, true, false])
  })
})

describe('an attempt that waits for a worker that serves it', () => {
  const uncounted = { uncounted: true } as const

  it('an attempt that waits for a worker that serves it does not count the times at which none did', () => {
    const { attempt } = countAttempt({ attempt: 7, heartbeatDetails: said(1) }, uncounted)
    expect([attempt.number, attempt.failed]).toEqual([1, []])
  })

  it('an attempt that waits for a worker that serves it counts one whose worker was lost after it had asked the model', () => {
    const { attempt } = countAttempt({ attempt: 7, heartbeatDetails: { ...said(1), begun: true } }, uncounted)
    expect([attempt.number, attempt.failed]).toMatchObject([2, [{ attempt: 1, class: 'HeartbeatTimeout', worker: 'w' }]])
    const next = countAttempt({ attempt: 8, heartbeatDetails: { ...said(2, [...attempt.failed]), begun: false } }, uncounted)
    expect([next.attempt.number, numbersOf(next.attempt.failed)]).toEqual([2, [1]])
  })

  it('an attempt that waits for a worker that serves it is given up after too many lost ones', () => {
    const failed = [1, 2, 3, 4].map(died)
    expect(countAttempt({ attempt: 9, heartbeatDetails: { ...said(5, failed), begun: true } }, uncounted).isGivenUp).toBe(true)
  })
})

describe('a lost attempt of a model call under a budget', () => {
  const reserved = { inputTokens: 10, outputTokens: 90, inputUsd: 0.1, outputUsd: 0.9 }
  const spentBy = (details: AttemptReport, earlier: object = {}) =>
    countAttempt({ attempt: 2, heartbeatDetails: details }, earlier).attempt.failed.map(({ attempt, spent }) => [attempt, spent])

  it('a lost attempt of a model call under a budget is assumed to have cost all that was set aside for it', () => {
    expect(spentBy({ ...said(1), reserved })).toEqual([[1, { tokens: 100, usd: 1, assumed: true }]])
  })

  it('a lost attempt of a model call under a budget costs nothing if nothing was set aside', () => {
    expect(spentBy(said(1))).toEqual([[1, undefined]])
  })

  it('a lost attempt of a model call under a budget keeps what attempts before it have cost', () => {
    const before = { ...died(1), spent: { tokens: 5, usd: 0.5 } }
    expect(spentBy({ ...said(2, [before]), reserved })).toEqual([
      [1, { tokens: 5, usd: 0.5 }],
      [2, { tokens: 100, usd: 1, assumed: true }],
    ])
  })

  it('a lost model call under a budget costs what was set aside even if no worker served the attempt', () => {
    expect(spentBy({ ...said(1), reserved }, { uncounted: true })).toEqual([[1, { tokens: 100, usd: 1, assumed: true }]])
    expect(spentBy(said(1), { uncounted: true })).toEqual([])
  })
})
