// The lease on an attempt: when the body of an external call may be entered.
import { describe, expect, it } from 'vitest'
import { AttemptLost } from '../../../src/jobs/errors.ts'
import { confirmedJustNow } from '../../../src/worker/orchestrator/leases.ts'

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
    const server = answersTaking(4_000)
    await expect(confirmedJustNow(server.ask, server.now)).rejects.toMatchObject({ code: 'attempt_lost' })
    expect(server.asked()).toBe(5)
  })
})
