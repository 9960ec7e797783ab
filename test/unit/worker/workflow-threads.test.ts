// Workflow threads between workers: which the next worker of a process takes over, and which end with their worker.
import { once } from 'node:events'
import { Worker as Thread } from 'node:worker_threads'
import type { WorkflowCreator } from '@temporalio/worker/lib/workflow/interface.js'
import { afterEach, expect, it } from 'vitest'
import { prepareThreads, type ThreadCode, workflowThreads } from '../../../src/worker/orchestrator/temporal/workflow-threads.ts'

type CreateOptions = Parameters<WorkflowCreator['createWorkflow']>[0]

const OPTIONS = {} as CreateOptions
let codes = 0
/** Code that no other test runs. */
const someCode = (): ThreadCode => ({ code: `code ${++codes}`, filename: 'bundle.js', options: '[]' })

const threads: Thread[] = []
afterEach(() => Promise.all(threads.splice(0).map((thread) => thread.terminate())))

/** Starts what the SDK starts: a creator with one thread, which ends with it. */
async function start(failing?: 'create' | 'dispose'): Promise<WorkflowCreator> {
  const workerThread = new Thread('require("node:worker_threads").parentPort.on("message", () => {})', { eval: true })
  threads.push(workerThread)
  await once(workerThread, 'online')
  const failIf = async (step: typeof failing): Promise<void> => {
    if (failing === step) throw new Error(`could not ${step}`)
  }
  const creator = {
    workerThreadClients: [{ workerThread }],
    async createWorkflow() {
      await failIf('create')
      return { activate: async () => ({}), getAndResetSinkCalls: async () => [], dispose: () => failIf('dispose') }
    },
    destroy: async () => void (await workerThread.terminate()),
  }
  return creator
}

/** Starts a worker's threads and tells whether they had to be started. */
async function startWorker(code: ThreadCode, failing?: 'create' | 'dispose') {
  const before = threads.length
  const creator = await workflowThreads(code, () => start(failing))
  return { creator, isNew: threads.length > before }
}

const isAlive = (thread: Thread | undefined): boolean => thread !== undefined && thread.threadId !== -1

it('workflow threads are taken over by the next worker of the same code, and by no other', async () => {
  const code = someCode()
  const first = await startWorker(code)
  await (await first.creator.createWorkflow(OPTIONS)).dispose()
  await first.creator.destroy()
  const [second, third] = [await startWorker({ ...code }), await startWorker({ ...code })]
  expect([first.isNew, second.isNew, third.isNew]).toEqual([true, false, true])
})

it('workflow threads that were prepared are taken over by the first worker of their code, and by no other', async () => {
  const code = someCode()
  await prepareThreads(code, () => start())
  const [first, second] = [await startWorker({ ...code }), await startWorker({ ...code })]
  expect([first.isNew, second.isNew]).toEqual([false, true])
})

it.each(['code', 'filename', 'options'] as const)('workflow threads are not taken over by a worker with another %s', async (part) => {
  const code = someCode()
  await (await startWorker(code)).creator.destroy()
  expect((await startWorker({ ...code, [part]: 'another' })).isNew).toBe(true)
  expect(isAlive(threads[0])).toBe(true)
})

it.each(['create', 'dispose'] as const)('workflow threads end with their worker if they could not %s a workflow', async (failing) => {
  const code = someCode()
  const { creator } = await startWorker(code, failing)
  await expect(creator.createWorkflow(OPTIONS).then((workflow) => workflow.dispose())).rejects.toThrow(`could not ${failing}`)
  await creator.destroy()
  expect(isAlive(threads[0])).toBe(false)
  expect((await startWorker(code)).isNew).toBe(true)
})

it('workflow threads end with a worker that has not disposed of a workflow', async () => {
  const { creator } = await startWorker(someCode())
  await creator.createWorkflow(OPTIONS)
  await creator.destroy()
  expect(isAlive(threads[0])).toBe(false)
})

it('workflow threads are not taken over once they have ended', async () => {
  const code = someCode()
  await (await startWorker(code)).creator.destroy()
  await threads[0]?.terminate()
  expect((await startWorker(code)).isNew).toBe(true)
})

it('workflow threads of an SDK that names them differently end with their worker', async () => {
  let isDestroyed = false
  const unknown = { createWorkflow: () => Promise.reject(new Error('not used')), destroy: async () => void (isDestroyed = true) }
  const creator = await workflowThreads(someCode(), async () => unknown)
  await creator.destroy()
  expect(isDestroyed).toBe(true)
})
