// How an orchestrator reports cached executions to its parent.
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { cachedReporter } from '../../../src/worker/orchestrator/cached-reports.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

it('an execution is reported at once, and those of the next 50 ms together, each once', () => {
  const reported: string[][] = []
  const heard = cachedReporter((executions) => reported.push(executions.map(({ executionId, seq }) => `${executionId}/${seq}`)))
  heard({ workflowId: 'w', executionId: 'a', seq: 1 })
  expect(reported).toEqual([['a/1']])
  heard({ workflowId: 'w', executionId: 'b', seq: 1 })
  heard({ workflowId: 'w', executionId: 'a', seq: 2 })
  heard({ workflowId: 'w', executionId: 'b', seq: 3 })
  expect(reported).toHaveLength(1)
  vi.advanceTimersByTime(50)
  expect(reported.slice(1)).toEqual([['a/2', 'b/3']])
  vi.advanceTimersByTime(50)
  heard({ workflowId: 'w', executionId: 'c', seq: 1 })
  expect(reported.slice(2)).toEqual([['c/1']])
})
