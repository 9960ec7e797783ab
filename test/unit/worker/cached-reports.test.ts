// How an orchestrator reports cached executions to its parent.
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { cachedReporter } from '../../../src/worker/orchestrator/cached-reports.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

it('an execution is reported at once, and its later events and those of others every 50 ms together, each execution once', () => {
  const reported: string[][] = []
  const heard = cachedReporter((executions) => reported.push(executions.map(({ executionId, seq }) => `${executionId}/${seq}`)))
  heard({ workflowId: 'w', executionId: 'a', seq: 1 })
  heard({ workflowId: 'w', executionId: 'b', seq: 1 })
  expect(reported.splice(0)).toEqual([['a/1'], ['b/1']])
  heard({ workflowId: 'w', executionId: 'a', seq: 2 })
  expect(reported.splice(0)).toEqual([['a/2']])
  heard({ workflowId: 'w', executionId: 'b', seq: 2 })
  heard({ workflowId: 'w', executionId: 'a', seq: 3 })
  heard({ workflowId: 'w', executionId: 'b', seq: 3 })
  expect(reported).toHaveLength(0)
  vi.advanceTimersByTime(50)
  expect(reported.splice(0)).toEqual([['a/3', 'b/3']])
  heard({ workflowId: 'w', executionId: 'c', seq: 1 })
  expect(reported).toEqual([['c/1']])
})
