// What an orchestrator tells its parent of executions that it has cached, and how often.
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { cachedTeller } from '../../../src/worker/orchestrator/cached-executions.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

it('tells of an execution at once, and of those that follow within 50 ms together, each once', () => {
  const told: string[][] = []
  const heard = cachedTeller((executions) => told.push(executions.map(({ executionId, seq }) => `${executionId}/${seq}`)))
  heard({ workflowId: 'w', executionId: 'a', seq: 1 })
  expect(told).toEqual([['a/1']])
  heard({ workflowId: 'w', executionId: 'b', seq: 1 })
  heard({ workflowId: 'w', executionId: 'a', seq: 2 })
  heard({ workflowId: 'w', executionId: 'b', seq: 3 })
  expect(told).toHaveLength(1)
  vi.advanceTimersByTime(50)
  expect(told.slice(1)).toEqual([['a/2', 'b/3']])
  vi.advanceTimersByTime(50)
  heard({ workflowId: 'w', executionId: 'c', seq: 1 })
  expect(told.slice(2)).toEqual([['c/1']])
})
