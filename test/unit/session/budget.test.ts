// Budgets: what is counted, what only grows, when pawl warns, and the arithmetic of reservations.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { budgetLines, lineAfter, spentBy, warningsDue } from '../../../src/session/spending/budget.ts'
import { addSpend, costOfUsage } from '../../../src/session/spending/spend.ts'
import { NO_USAGE } from '../../../src/session/content.ts'
import type { EventBody, SessionEvent } from '../../../src/session/events.ts'
import { apply, fold, initialState } from '../../../src/session/fold/fold.ts'
import { usdOf } from '../../../src/session/spending/model-price.ts'
import { chooseRecovery } from '../../../src/session/recovery/recovery.ts'
import { assumedCost, brokenCost, type CallSize, fits, maxCost, reserve, worstRates } from '../../../src/session/spending/reservation.ts'
import { isSpendNote } from '../../../src/session/spending/spend-notes.ts'
import type { SessionState } from '../../../src/session/state.ts'
import { eventfulSessions } from './sound-session.ts'
import { sessionStarted } from '../../support/session-started.ts'

const PRICE = { input: 3, output: 15 }
const LIMITS = { maxTurns: 50, maxUsd: 1, maxTotalTokens: 1_000_000 }

let seq = 0
const event = (body: EventBody): SessionEvent => ({ v: 1, seq: ++seq, at: seq, ...body }) as SessionEvent

/** A session in the first turn of its first run, with these limits. */
function running(limits: object = LIMITS, sessionLimits?: object): SessionState {
  seq = 0
  const state = initialState(event(sessionStarted()) as never)
  for (const body of [
    { type: 'message_received', messageId: 'm', content: 'go' },
    { type: 'run_started', run: 1, messageId: 'm' },
    { type: 'turn_started', run: 1, turn: 1, takes: ['m'] },
    {
      type: 'agent_declared',
      digest: 'd',
      limits,
      ...(sessionLimits && { sessionLimits }),
      checkpoint: 'turn',
      recovery: { automatic: [], maxAttempts: 1, baseDelayMs: 1, maxDelayMs: 1, perHour: 1 },
    },
  ] as EventBody[]) {
    apply(state, event(body))
  }
  return state
}

const answered = (input: number, output: number, more: object = {}): EventBody =>
  ({
    type: 'model_completed',
    run: 1,
    turn: 1,
    attempt: 1,
    model: 'm',
    content: [],
    stopReason: 'end_turn',
    usage: { ...NO_USAGE, input_tokens: input, output_tokens: output },
    price: PRICE,
    calls: [],
    ...more,
  }) as EventBody

const failed = (spent: object): EventBody =>
  ({
    type: 'model_attempt_failed',
    run: 1,
    turn: 1,
    error: { attempt: 1, class: 'E', message: 'no', retryable: true, spent },
  }) as EventBody

describe('what is counted', () => {
  it('an answer counts towards a budget at its recorded price, in tokens of every kind', () => {
    const usage = { input_tokens: 1_000, output_tokens: 100, cache_creation_input_tokens: 10, cache_read_input_tokens: 5 }
    expect(spentBy(event(answered(0, 0, { usage })))).toEqual({ tokens: 1_115, usd: usdOf(PRICE, usage) })
  })

  it('an answer without a recorded price counts only its tokens', () => {
    expect(spentBy(event(answered(1_000, 100, { price: undefined })))).toEqual({ tokens: 1_100, usd: 0 })
  })

  it('an answer counts as the worker measured it if the provider reported no usage', () => {
    expect(spentBy(event(answered(0, 0, { spent: { tokens: 70, usd: 0.5 } })))).toEqual({ tokens: 70, usd: 0.5 })
  })

  it('spending includes the cost of failed attempts, tools and hooks, in the run and in the session', () => {
    const state = running()
    apply(state, event(failed({ tokens: 40, usd: 0.1 })))
    apply(state, event({ type: 'spent', run: 1, turn: 1, attempt: 1, usd: 0.2, note: 'search' }))
    apply(state, event(answered(1_000, 100)))
    expect(state.spend).toEqual({ tokens: 1_140, usd: 0.3045 })
    expect(state.current?.spend).toEqual(state.spend)
  })

  it('spending shows how much of it is assumed', () => {
    const state = running()
    apply(state, event(failed({ tokens: 40, usd: 0.1, assumed: true })))
    apply(state, event(failed({ tokens: 2, usd: 0.2 })))
    expect(state.spend).toEqual({ tokens: 42, usd: 0.3, assumed: { tokens: 40, usd: 0.1 } })
  })

  it('invalid amounts do not count towards a budget', () => {
    for (const usd of [Number.NaN, -1, Number.POSITIVE_INFINITY, '5', null]) {
      expect(spentBy(event({ type: 'spent', run: 1, turn: 1, attempt: 1, usd } as never))).toBeUndefined()
    }
  })

  it('budgets are exact in decimals', () => {
    const sum = Array.from({ length: 10 }).reduce<ReturnType<typeof addSpend> | undefined>(
      (to) => addSpend(to, { tokens: 1, usd: 0.1 }),
      undefined,
    )
    expect(sum).toEqual({ tokens: 10, usd: 1 })
  })

  it('spending never decreases, no matter what happens to a session', () => {
    fc.assert(
      fc.property(eventfulSessions, ({ events }) => {
        let state: SessionState | undefined
        let spent = { tokens: 0, usd: 0 }
        for (const one of events) {
          state = fold(state, [one])
          const now = one.type === 'session_started' ? { tokens: 0, usd: 0 } : (state?.spend ?? { tokens: 0, usd: 0 })
          if (one.type !== 'session_started') {
            expect(now.tokens).toBeGreaterThanOrEqual(spent.tokens)
            expect(now.usd).toBeGreaterThanOrEqual(spent.usd)
          }
          spent = { tokens: now.tokens, usd: now.usd }
        }
      }),
      { numRuns: 20 },
    )
  })
})

describe('a run that is restarted', () => {
  it.each([{ automatic: true as const }, { by: 'ann' }])(
    'a run that is restarted begins with what it had spent, and with its raised limit (%o)',
    (who) => {
      const state = running()
      apply(state, event(failed({ tokens: 40, usd: 0.9 })))
      apply(state, event({ type: 'budget_warning', scope: 'run', unit: 'usd', run: 1, limit: 1, spent: 0.9 }))
      apply(state, event({ type: 'budget_raised', scope: 'run', run: 1, maxUsd: 2 }))
      apply(state, event({ type: 'error_entered', run: 1, code: 'model_call_failed', reason: 'no', strategy: 'restart_run' }))
      apply(state, event({ type: 'recovery_started', run: 1, strategy: 'restart_run', ...who }))
      apply(state, event({ type: 'recovery_ended', run: 1, strategy: 'restart_run' }))
      expect(state.inbox).toHaveLength(1)
      apply(state, event({ type: 'run_started', run: 2, messageId: 'm', intent: 1 }))
      expect(state.current).toMatchObject({ run: 2, spend: { tokens: 40, usd: 0.9 }, raised: { maxUsd: 2 } })
      expect(budgetLines(state).find(({ unit }) => unit === 'usd')).toMatchObject({ limit: 2, left: 1.1 })
    },
  )

  it('unlike a restarted run, a run that a new message opens begins with nothing spent', () => {
    const state = running()
    apply(state, event(failed({ tokens: 40, usd: 0.9 })))
    apply(state, event({ type: 'run_interrupted', run: 1 }))
    apply(state, event({ type: 'message_received', messageId: 'n', content: 'go on' }))
    apply(state, event({ type: 'run_started', run: 2, messageId: 'n' }))
    expect(state.current?.spend).toBeUndefined()
    expect(state.spend).toEqual({ tokens: 40, usd: 0.9 })
  })
})

describe('a fork', () => {
  it('a fork begins with what had been spent up to the fork point, though its usage is its own', () => {
    const state = running()
    apply(state, event(answered(1_000, 100)))
    const before = state.spend
    apply(
      state,
      event({ type: 'forked', sessionId: 'f', executionId: 'x', coreVersion: 1, from: { sessionId: 's', seq }, keys: 'carried' }),
    )
    expect(state.spend).toEqual(before)
    expect(state.usage).toEqual(NO_USAGE)
  })
})

describe('limits', () => {
  it('limits apply to the run and to the session, and a raised limit is never lower than the declared one', () => {
    const state = running({ maxTurns: 1, maxUsd: 1 }, { maxTotalTokens: 100 })
    apply(state, event(failed({ tokens: 40, usd: 0.25 })))
    apply(state, event({ type: 'budget_raised', scope: 'run', run: 1, maxUsd: 0.5 }))
    apply(state, event({ type: 'budget_raised', scope: 'session', maxTotalTokens: 150 }))
    expect(budgetLines(state)).toEqual([
      { scope: 'run', unit: 'usd', limit: 1, spent: 0.25, assumed: 0, left: 0.75 },
      { scope: 'session', unit: 'tokens', limit: 150, spent: 40, assumed: 0, left: 110 },
    ])
  })

  it('limits are not created by raising them', () => {
    const state = running({ maxTurns: 1 })
    apply(state, event({ type: 'budget_raised', scope: 'run', run: 1, maxUsd: 5 }))
    expect(budgetLines(state)).toEqual([])
  })

  it('limits count what was spent since the last event', () => {
    const [line] = budgetLines(running({ maxTurns: 1, maxUsd: 1 }))
    expect(
      lineAfter(line!, [
        { tokens: 1, usd: 0.1 },
        { tokens: 1, usd: 0.2, assumed: true },
      ]),
    ).toMatchObject({ spent: 0.3, assumed: 0.2, left: 0.7 })
  })

  it('limits that are exhausted must be raised by a person: the run continues then, never by itself', () => {
    const exhausted = { code: 'budget_exhausted', raise: [{ scope: 'run' as const, maxUsd: 2 }] }
    expect(chooseRecovery(running(), exhausted)).toMatchObject({ strategy: 'manual' })
  })
})

describe('a warning', () => {
  it('a warning is due when four fifths of a limit are spent, once per limit', () => {
    const state = running({ maxTurns: 1, maxUsd: 1 })
    apply(state, event(failed({ tokens: 1, usd: 0.79 })))
    expect(warningsDue(state)).toEqual([])
    apply(state, event(failed({ tokens: 1, usd: 0.01 })))
    const [warning, ...others] = warningsDue(state)
    expect(others).toEqual([])
    expect(warning).toEqual({ type: 'budget_warning', scope: 'run', unit: 'usd', run: 1, limit: 1, spent: 0.8 })
    apply(state, event(warning!))
    apply(state, event(failed({ tokens: 1, usd: 0.1 })))
    expect(warningsDue(state)).toEqual([])
    apply(state, event({ type: 'budget_raised', scope: 'run', run: 1, maxUsd: 2 }))
    expect(warningsDue(state)).toEqual([])
    apply(state, event(failed({ tokens: 1, usd: 0.8 })))
    expect(warningsDue(state)).toMatchObject([{ limit: 2 }])
  })
})

describe('a reservation', () => {
  const sizes: fc.Arbitrary<CallSize> = fc.record({
    inputTokens: fc.integer({ min: 0, max: 1_000_000 }),
    maxOutput: fc.integer({ min: 1, max: 128_000 }),
    minOutput: fc.integer({ min: 1, max: 40_000 }),
    inputRate: fc.constantFrom(0, 0.1, 0.25, 3, 18.75),
    outputRate: fc.constantFrom(0, 0.4, 15, 75),
  })
  const budgets = fc.record(
    { tokens: fc.integer({ min: -10, max: 2_000_000 }), usd: fc.double({ min: -1, max: 20, noNaN: true }) },
    { requiredKeys: [] },
  )

  it('a reservation is never more than what is left, never less than the call needs, and as large as possible', () => {
    let made = 0
    fc.assert(
      fc.property(sizes, budgets, (size, left) => {
        const minOutput = Math.min(size.minOutput, size.maxOutput)
        const reservation = reserve(size, left)
        if (!reservation) {
          // Not even the smallest reservation would have fitted.
          expect(reserve({ ...size, maxOutput: minOutput, minOutput }, left)).toBeUndefined()
          return
        }
        made += 1
        expect(fits(reservation, left)).toBe(true)
        expect(reservation.outputTokens).toBeGreaterThanOrEqual(minOutput)
        expect(reservation.outputTokens).toBeLessThanOrEqual(size.maxOutput)
        const more = reservation.outputTokens + 2
        if (more <= size.maxOutput) expect(reserve({ ...size, maxOutput: more, minOutput: more }, left)).toBeUndefined()
      }),
      { numRuns: 2_000, seed: 1 },
    )
    expect(made).toBeGreaterThan(200)
  })

  it('a reservation covers every answer within it, at any of the prices', () => {
    fc.assert(
      fc.property(sizes, fc.nat(), fc.nat(), fc.nat(), (size, a, b, c) => {
        const reservation = reserve(size, {})
        if (!reservation) return
        const input = reservation.inputTokens
        const cached = input === 0 ? 0 : a % (input + 1)
        const written = input - cached === 0 ? 0 : b % (input - cached + 1)
        const price = { input: size.inputRate / 2, output: size.outputRate, cacheRead: size.inputRate / 10, cacheWrite: size.inputRate }
        const usage = {
          input_tokens: input - cached - written,
          output_tokens: c % (reservation.outputTokens + 1),
          cache_creation_input_tokens: written,
          cache_read_input_tokens: cached,
        }
        expect(worstRates([price])).toEqual({ inputRate: size.inputRate, outputRate: size.outputRate })
        const cost = costOfUsage(usage, price)
        const whole = maxCost(reservation)
        expect(cost.tokens).toBeLessThanOrEqual(whole.tokens)
        expect(cost.usd).toBeLessThanOrEqual(whole.usd + 1e-9)
      }),
      { numRuns: 1_000 },
    )
  })

  it('a call that broke off is charged for what was seen and in flight, never for more than was set aside', () => {
    const reservation = { inputTokens: 100, outputTokens: 1_000, inputUsd: 0.1, outputUsd: 1 }
    expect(brokenCost(reservation, 0)).toEqual({ tokens: 356, usd: 0.356 })
    expect(brokenCost(reservation, 144)).toEqual({ tokens: 500, usd: 0.5 })
    expect(brokenCost(reservation, 5_000)).toEqual(maxCost(reservation))
    expect(assumedCost(reservation)).toEqual({ tokens: 1_100, usd: 1.1, assumed: true })
  })
})

describe('the cost that a tool reports', () => {
  it.each([{ usd: 0.1 }, { tokens: 5 }, { usd: 0, tokens: 0, note: 'free' }])('the cost that a tool reports can be %o', (spent) => {
    expect(isSpendNote(spent)).toBe(true)
  })

  it.each([
    {},
    { usd: -1 },
    { usd: Number.NaN },
    { tokens: 1.5 },
    { tokens: Number.POSITIVE_INFINITY },
    { usd: 1, note: 'x'.repeat(201) },
    null,
    5,
  ])('the cost that a tool reports cannot be %o', (spent) => {
    expect(isSpendNote(spent)).toBe(false)
  })
})
