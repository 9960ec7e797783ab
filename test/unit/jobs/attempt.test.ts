// What is recorded of what a body threw.
import { describe, expect, it } from 'vitest'
import { failedAttempt } from '../../../src/jobs/attempt.ts'

describe('what is recorded of a failed attempt', () => {
  it('is bounded, whatever was thrown', () => {
    const error = Object.assign(new Error('m'.repeat(1_000_000)), { name: 'n'.repeat(1_000_000), code: 'c'.repeat(1_000_000) })
    const { class: name, code, message } = failedAttempt(1, error, { retryable: true, worker: 'w' })
    expect([name.length, code?.length, message.length]).toEqual([200, 200, 4_000])
  })

  it('never is an empty message', () => {
    expect(failedAttempt(1, new TypeError(' '), { retryable: true, worker: 'w' }).message).toBe('TypeError was thrown without a message.')
  })
})
