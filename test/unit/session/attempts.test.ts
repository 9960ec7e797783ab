// Lost attempts: which of them count against the call, and when the call is given up.
import { describe, expect, it } from 'vitest'
import { fateOf, leftModelCall, lostAttempt, MAX_UNREPORTED, noAttempts } from '../../../src/session/attempts.ts'
import type { FailedAttempt } from '../../../src/session/call-facts.ts'
import { type Attempts, countAttempts } from '../../../src/workflows/calls/attempts.ts'

const heard = (attempt: number) => ({ attempt, worker: 'host:1' })
const silent = {
  how: 'died',
  confirmed: false,
  begun: false,
  report: undefined,
  message: 'silent',
  failureClass: 'HeartbeatTimeout',
} as const

const crashed: Parameters<Attempts['lost']>[0] = {
  how: 'died',
  confirmed: true,
  begun: true,
  report: { ...heard(1), begun: true, failed: [], cause: 'crash' },
  message: 'died',
  failureClass: 'WorkerDied',
}
const RETRIED = { maxFailures: 2 }

const counting = (recorded: FailedAttempt[], saysLast = true): Attempts =>
  countAttempts(
    (attempt) => recorded.push(attempt),
    noAttempts(),
    () => saysLast,
  )

describe('a lost attempt', () => {
  it('a lost attempt that had sent a heartbeat counts as the death of its worker', () => {
    const lost = lostAttempt(3, heard(3))
    expect(lost).toMatchObject({ attempt: 3, class: 'HeartbeatTimeout', worker: 'host:1' })
    expect(fateOf(lost)).toBe('death')
  })

  it('a lost attempt that sent no heartbeat never began, unless it is the first one, which begins without a heartbeat', () => {
    expect(fateOf(lostAttempt(1, undefined))).toBe('death')
    expect(lostAttempt(3, heard(2))).toMatchObject({ attempt: 3, code: 'not_begun' })
    expect(fateOf(lostAttempt(3, heard(2)))).toBe('unreported')
  })

  it('a lost attempt that died because of another call counts as neither a death nor a failure', () => {
    const recorded: FailedAttempt[] = []
    const attempts = countAttempts((attempt) => recorded.push(attempt))
    attempts.failed([{ attempt: 1, class: 'WorkerDied', code: 'neighbour', message: 'm', retryable: true }])
    expect(attempts.used).toEqual({ attempts: 1, deaths: 0, failures: 0 })
    expect(recorded).toHaveLength(1)
  })

  it('an attempt of a read that left its model call counts as neither a failure nor a death', () => {
    const recorded: FailedAttempt[] = []
    const attempts = counting(recorded)
    attempts.failed([leftModelCall('It was slow.', 'host:1')])
    expect(attempts.used).toEqual({ attempts: 1, deaths: 0, failures: 0 })
    expect(recorded).toMatchObject([{ attempt: 1, class: 'LeftModelCall', retryable: true, worker: 'host:1' }])
  })

  it('a lost attempt that threw is a failure, even with the code of an attempt that never began', () => {
    expect(fateOf({ attempt: 2, class: 'ToolError', code: 'not_begun', message: 'no', retryable: true })).toBe('failure')
  })
})

describe('the record of a lost attempt', () => {
  it('a lost attempt is recorded as the last one once too many workers have died during the call', () => {
    const recorded: FailedAttempt[] = []
    const attempts = counting(recorded)
    while (attempts.givenUp() === undefined) attempts.lost(crashed, RETRIED)
    expect(recorded.map(({ retryable }) => retryable)).toEqual([true, true, true, true, false])
  })

  it('a lost attempt is recorded as the last one if it may have had an effect', () => {
    const recorded: FailedAttempt[] = []
    counting(recorded).lost(crashed, { ...RETRIED, isOnce: true })
    expect(recorded).toMatchObject([{ class: 'WorkerDied', retryable: false }])
  })

  it('a lost attempt is recorded as the last one if the call has failed too often', () => {
    const recorded: FailedAttempt[] = []
    const attempts = counting(recorded)
    for (let times = 0; times < 3; times++) attempts.lost({ how: 'failed', message: 'no', failureClass: 'Error' }, RETRIED)
    expect(recorded.map(({ retryable }) => retryable)).toEqual([true, true, false])
  })

  it('a lost attempt in a history of an earlier build is recorded as that build did', () => {
    const recorded: FailedAttempt[] = []
    counting(recorded, false).lost(crashed, { ...RETRIED, isOnce: true })
    expect(recorded).toMatchObject([{ retryable: true }])
  })
})

describe('a call whose attempts are assigned to workers that never report', () => {
  it('a call whose attempts are assigned to workers that never report is given up after many of them, not after a few', () => {
    const recorded: FailedAttempt[] = []
    const attempts = counting(recorded)
    attempts.lost(silent, RETRIED)
    for (let lost = 1; lost < MAX_UNREPORTED; lost++) attempts.lost(silent, RETRIED)
    expect(attempts.used).toMatchObject({ attempts: MAX_UNREPORTED, deaths: 1, failures: 0 })
    expect(attempts.givenUp()).toBeUndefined()
    attempts.lost(silent, RETRIED)
    expect(attempts.givenUp()).toBe(`was assigned ${MAX_UNREPORTED} times to workers that never reported in`)
    expect(recorded.map(({ code }) => code)).toEqual([undefined, ...Array<string>(MAX_UNREPORTED).fill('not_begun')])
    expect(recorded.map(({ retryable }) => retryable)).toEqual([...Array<boolean>(MAX_UNREPORTED).fill(true), false])
  })

  it('a call assigned to workers that never report counts attempts that an activity reports in the same way', () => {
    const attempts = countAttempts(() => undefined)
    attempts.failed([lostAttempt(1, undefined), lostAttempt(2, heard(1)), lostAttempt(3, heard(3))])
    expect(attempts.used).toEqual({ attempts: 3, deaths: 2, failures: 0, unreported: 1 })
  })
})
