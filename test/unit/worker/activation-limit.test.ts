// The time limit of an activation: a blocked thread ends the process, and a process that was paused itself does not end.
import type { WorkflowCreator } from '@temporalio/worker/lib/workflow/interface.js'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { limitedTo } from '../../../src/worker/orchestrator/activation-limit.ts'

const LIMIT_MS = 10_000

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

type Created = Awaited<ReturnType<WorkflowCreator['createWorkflow']>>
type CreateOptions = Parameters<WorkflowCreator['createWorkflow']>[0]

/** A limited workflow whose activations end when the test says so. */
async function limited(limitMs = LIMIT_MS): Promise<{ workflow: Created; answer(): void }> {
  let answer: () => void = () => expect.fail('not activated')
  const creator: WorkflowCreator = {
    createWorkflow: async () => ({
      activate: () =>
        new Promise((resolve) => {
          answer = () => resolve({ runId: 'run' })
        }),
      getAndResetSinkCalls: async () => [],
      dispose: async () => undefined,
    }),
    destroy: async () => undefined,
  }
  const workflow = await limitedTo(limitMs, creator).createWorkflow({ info: { runId: 'run' } } as CreateOptions)
  return { workflow, answer: () => answer() }
}

it('ends the process with an error that names the execution if an activation does not end', async () => {
  const { workflow } = await limited()
  void workflow.activate({})
  vi.advanceTimersByTime(LIMIT_MS - 1)
  expect(() => vi.advanceTimersByTime(1)).toThrow(/execution run .* 10000 ms/)
})

it('leaves an activation that ends in time alone, and each has the whole time', async () => {
  const { workflow, answer } = await limited()
  for (let n = 0; n < 3; n++) {
    const activated = workflow.activate({})
    vi.advanceTimersByTime(0.9 * LIMIT_MS)
    answer()
    expect(await activated).toEqual({ runId: 'run' })
  }
  expect(vi.getTimerCount()).toBe(0)
})

it('does not end a process that was paused: the answer may be waiting behind the timer', async () => {
  vi.useRealTimers()
  const { workflow, answer } = await limited(100)
  const activated = workflow.activate({})
  setTimeout(answer, 110)
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300)
  expect(await activated).toEqual({ runId: 'run' })
})
