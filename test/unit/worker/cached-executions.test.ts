// What a parent remembers of its orchestrator's cache: enough to hand its sessions over, and no more than is worth handing over.
import { expect, it } from 'vitest'
import { type CachedExecutions, cachedExecutions } from '../../../src/worker/parent/cached-executions.ts'

/** The orchestrator reports an event of a session. */
function report(cached: CachedExecutions, workflowId: string, { executionId = `${workflowId}-1`, seq = 1 } = {}): void {
  cached.note({ workflowId, executionId, seq })
}

const executionsOf = (cached: CachedExecutions): string[] => cached.newest().map(({ executionId }) => executionId)

it('the newest execution of each session counts as cached, and the most recent one comes first', () => {
  const cached = cachedExecutions()
  report(cached, 'a')
  report(cached, 'b')
  report(cached, 'a', { executionId: 'a-2', seq: 2 })
  expect(cached.newest()).toEqual([
    { workflowId: 'a', executionId: 'a-2' },
    { workflowId: 'b', executionId: 'b-1' },
  ])
})

it('an ended execution that a query replays does not replace its successor', () => {
  const cached = cachedExecutions()
  report(cached, 'a', { executionId: 'a-2', seq: 9 })
  report(cached, 'a', { executionId: 'a-1', seq: 3 })
  // The newest one is itself replayed, from its first event on.
  report(cached, 'a', { executionId: 'a-2', seq: 6 })
  report(cached, 'a', { executionId: 'a-1', seq: 8 })
  expect(executionsOf(cached)).toEqual(['a-2'])
})

it('the 200 most recent sessions are remembered, including one that is active only now and then', () => {
  const cached = cachedExecutions()
  for (let n = 0; n < 700; n++) report(cached, `s${n}`)
  expect(executionsOf(cached)).toEqual(Array.from({ length: 200 }, (_, n) => `s${699 - n}-1`))
  report(cached, 's500')
  report(cached, 'another')
  const now = executionsOf(cached)
  expect(now.slice(0, 3)).toEqual(['another-1', 's500-1', 's699-1'])
  expect([now.length, now.at(-1)]).toEqual([200, 's502-1'])
})
