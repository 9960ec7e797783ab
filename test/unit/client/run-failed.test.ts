// The advice of a failed run: only what `recover` accepts.
import { expect, it } from 'vitest'
import { RunFailedError } from '../../../src/client/errors.ts'

const messageWith = (strategy: RunFailedError['strategy']): string =>
  new RunFailedError({ run: 1, code: 'max_turns', reason: 'It took 50 turns.', strategy }).message

it('a failed run names the strategy that recovers it', () => {
  expect(messageWith('continue_run')).toBe(
    "It took 50 turns. Send a message to start a new run, or call session.recover({ strategy: 'continue_run' }).",
  )
})

it.each(['manual', 'automatic'] as const)('a failed run whose strategy is %s refers to the options, which recover accepts', (strategy) => {
  expect(messageWith(strategy)).toContain('one of the strategies in (await session.state()).error.options')
  expect(messageWith(strategy)).not.toContain(strategy)
})
