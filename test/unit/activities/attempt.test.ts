// Attempts: when a body may be entered, and what is recorded of what was thrown.
import { describe, expect, it } from 'vitest'
import { confirmedJustNow, failedAttempt } from '../../../src/activities/attempt.ts'
import { AttemptLost } from '../../../src/activities/errors.ts'

/** Answers that take so long each, on a clock of their own; the last one says so of all that follow. */
function answersTaking(...durations: number[]) {
  let now = 0
  let asks = 0
  return {
    now: () => now,
    asked: () => asks,
    ask() {
      now += durations[Math.min(asks, durations.length - 1)] ?? 0
      asks += 1
      return Promise.resolve()
    },
  }
}

describe('the body of an external call', () => {
  it('may be entered when the server has just confirmed the attempt', async () => {
    const server = answersTaking(5)
    await confirmedJustNow(server.ask, server.now)
    expect(server.asked()).toBe(1)
  })

  it('is confirmed anew when the answer was long under way, as after a pause of the process', async () => {
    const server = answersTaking(60_000, 5)
    await confirmedJustNow(server.ask, server.now)
    expect(server.asked()).toBe(2)
  })

  it('is not entered if the new answer says that another attempt is the live one', async () => {
    const server = answersTaking(60_000)
    const ask = () => (server.asked() === 0 ? server.ask() : Promise.reject(new AttemptLost()))
    await expect(confirmedJustNow(ask, server.now)).rejects.toMatchObject({ code: 'attempt_lost' })
  })

  it('is not entered while no answer comes in time', async () => {
    const server = answersTaking(2_000)
    await expect(confirmedJustNow(server.ask, server.now)).rejects.toMatchObject({ code: 'attempt_lost' })
    expect(server.asked()).toBe(5)
  })
})

describe('what is recorded of a failed attempt', () => {
  it('is bounded, whatever was thrown', () => {
    const error = Object.assign(new Error('m'.repeat(1_000_000)), { name: 'n'.repeat(1_000_000), code: 'c'.repeat(1_000_000) })
    const { class: name, code, message } = failedAttempt(1, error, { retryable: true, worker: 'w' })
    expect([name.length, code?.length, message.length]).toEqual([200, 200, 4_000])
  })

  it('never is an empty message', () => {
    expect(failedAttempt(1, new TypeError(' '), { retryable: true, worker: 'w' }).message).toBe('TypeError was thrown, without a message.')
  })
})
