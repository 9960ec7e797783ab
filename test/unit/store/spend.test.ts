// The rows of `spend`, which shared budgets add up.
import { expect, it } from 'vitest'
import type { EventBody } from '../../../src/session/events.ts'
import { projectedTables } from '../../support/projected.ts'
import { answered, logOf, received, started } from '../../integration/store/sessions.ts'

it('what a child spends has rows in the child only: what its parent counts for its own budget is no second cost', () => {
  const about = { type: 'spent', run: 1, turn: 1, callId: 't_1_1_0', tool: 'helper', attempt: 1, tokens: 10 } as const
  const log = logOf([
    started(),
    received('m1', 'hello'),
    { type: 'run_started', run: 1, messageId: 'm1' },
    { type: 'turn_started', run: 1, turn: 1, takes: ['m1'] },
    answered(1, 1, []),
    { ...about, usd: 0.25, note: 'a search of its own' } as EventBody,
    { ...about, usd: 0.5, child: { session: 's/0123456789ab', total: { tokens: 10, usd: 0.5 } } } as EventBody,
  ])
  const { spend } = projectedTables(log.map(({ json }) => ({ epoch: 'e', digest: '', json })))
  expect(spend.map(({ usd }) => usd)).toEqual([0.25])
})
