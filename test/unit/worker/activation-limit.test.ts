// The time limit of an activation: a blocked thread ends the process, and a process that was paused itself does not end.
import type { WorkflowCreator } from '@temporalio/worker/lib/workflow/interface.js'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { limitedTo } from '../../../src/worker/orchestrator/temporal/activation-limit.ts'

const LIMIT_MS = 10_000

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

type CreateOptions = Parameters<WorkflowCreator['createWorkflow']>[0]

/** A thread of limited workflows that answers when the test says so, in the order of the requests. */
function thread(limitMs = LIMIT_MS) {
  const requests: (() => void)[] = []
  const creator: WorkflowCreator = {
    createWorkflow: async ({ info: { runId } }) => ({
      activate: () => new Promise((resolve) => requests.push(() => resolve({ runId }))),
      getAndResetSinkCalls: async () => [],
      dispose: async () => undefined,
    }),
    destroy: async () => undefined,
  }
  const { createWorkflow } = limitedTo(limitMs, creator)
  return {
    workflow: (runId: string) => createWorkflow({ info: { runId } } as CreateOptions),
    answer: () => requests.shift()?.(),
  }
}

it('the activation limit ends the process with an error that names the execution if an activation does not end', async () => {
  const { workflow, answer } = thread()
  const [before, blocked, after] = [await workflow('before'), await workflow('blocked'), await workflow('after')]
  const first = before.activate({})
  for (const one of [blocked, after]) void one.activate({})
  answer()
  await first
  vi.advanceTimersByTime(LIMIT_MS - 1)
  expect(() => vi.advanceTimersByTime(1)).toThrow(/execution blocked .* 10,000 ms/)
})

it('the activation limit leaves an activation that ends in time alone, and each has the whole time', async () => {
  const { workflow, answer } = thread()
  const one = await workflow('one')
  for (let n = 0; n < 3; n++) {
    const activated = one.activate({})
    vi.advanceTimersByTime(0.9 * LIMIT_MS)
    answer()
    expect(await activated).toEqual({ runId: 'one' })
  }
  expect(vi.getTimerCount()).toBe(0)
})

it('the activation limit does not count the time that an activation waits for those before it', async () => {
  const { workflow, answer } = thread()
  const activated = await Promise.all(['a', 'b', 'c', 'd'].map(async (runId) => ({ runId, done: (await workflow(runId)).activate({}) })))
  for (const { runId, done } of activated) {
    vi.advanceTimersByTime(0.9 * LIMIT_MS)
    answer()
    expect(await done).toEqual({ runId })
  }
})

it('the activation limit does not end a process that was paused: the answer may be waiting behind the timer', async () => {
  vi.useRealTimers()
  const { workflow, answer } = thread(100)
  const activated = (await workflow('one')).activate({})
  setTimeout(answer, 110)
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300)
  expect(await activated).toEqual({ runId: 'one' })
})
