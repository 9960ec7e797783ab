// What the failure of an activity says: above all whether a body may have been entered.
import { ActivityFailure, ApplicationFailure, TimeoutFailure, type TimeoutType } from '@temporalio/common'
import { describe, expect, it } from 'vitest'
import { Undecodable } from '../../../src/session/protocol/undecodable.ts'
import { answerIn, whyLost } from '../../../src/workflows/lost-activity.ts'

const report = (begun: unknown) => ({ attempt: 2, begun, failed: [], worker: 'host:1' })

function failureOf(cause: Error): ActivityFailure {
  return new ActivityFailure('lost', 'executeTool', '1', 'TIMEOUT', 'host:1', cause)
}

function beginning(details: unknown, how: 'silent' | 'dead'): unknown {
  const cause =
    how === 'silent'
      ? new TimeoutFailure('silent', details, 'HEARTBEAT' as TimeoutType)
      : ApplicationFailure.nonRetryable('died', 'WorkerDied', details)
  return whyLost(failureOf(cause))
}

describe.each(['silent', 'dead'] as const)('a worker that is %s', (how) => {
  it.each<[string, unknown, boolean]>([
    ['nothing', undefined, false],
    ['that the body was not entered', report(false), false],
    ['that it was', report(true), true],
    ['what cannot be decoded', new Undecodable('encrypted'), true],
    ['something other than a report', { begun: false }, true],
    ['a text', 'begun', true],
    ['something else in place of whether it was', report('no'), true],
  ])(`a worker that is ${how} and has reported %s`, (_, details, begun) => {
    expect(beginning(details, how)).toMatchObject({ how: 'died', confirmed: how === 'dead', begun })
  })
})

it('what an attempt threw is in the details of its failure, with its class', () => {
  const failure = (details: unknown[]) => ApplicationFailure.create({ type: 'AttemptThrew', message: 'see the details', details })
  const thrown = { class: 'TypeError', message: 'a bug', stack: 'TypeError: a bug' }
  expect(whyLost(failureOf(failure([thrown])))).toEqual({ how: 'failed', message: 'a bug', failureClass: 'TypeError' })
  const unreadable = { how: 'failed', message: 'see the details', failureClass: 'AttemptThrew' }
  for (const details of [[], [new Undecodable('encrypted')], [{ class: 1, message: 2 }]])
    expect(whyLost(failureOf(failure(details)))).toEqual(unreadable)
})

it('an answer that cannot be decoded is a failure, and not an answer', () => {
  let thrown: unknown
  try {
    answerIn(new Undecodable('encrypted'))
  } catch (error) {
    thrown = error
  }
  expect(whyLost(thrown)).toEqual({
    how: 'failed',
    message: "The activity's result cannot be decoded: encrypted.",
    failureClass: 'UndecodableAnswer',
  })
  expect(answerIn('an answer')).toBe('an answer')
})
