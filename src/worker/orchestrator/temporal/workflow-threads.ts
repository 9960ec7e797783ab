// Keeps workflow threads that have no worker. A process that starts one worker after another, as tests do, loads the SDK and the workflow
// bundle into a thread only once. A process that waits to become an orchestrator loads them in advance.
import type { Worker as Thread } from 'node:worker_threads'
import type { CompiledWorkerOptions } from '@temporalio/worker/lib/worker-options.js'
import type { Workflow, WorkflowCreator } from '@temporalio/worker/lib/workflow/interface.js'
import type { WorkflowBundleWithSourceMapAndFilename } from '@temporalio/worker/lib/workflow/workflow-worker-thread/input.js'

/** How long a thread of an ended worker waits for the next one. A thread uses some 50 MB and does not keep the process alive. */
const SPARE_MS = 30_000

/** The parameters that the SDK passes to a new thread. A worker can take over only a thread with the same parameters. */
export interface ThreadCode {
  code: string
  filename: string
  /** The options that matter, as text. */
  options: string
}

/** The parameters that the SDK would pass to a thread of this worker. */
export function threadCode({ code, filename }: WorkflowBundleWithSourceMapAndFilename, options: CompiledWorkerOptions): ThreadCode {
  const { activities, workflowThreadPoolSize, reuseV8Context, debugMode } = options
  return { code, filename, options: JSON.stringify([[...activities.keys()].toSorted(), workflowThreadPoolSize, reuseV8Context, debugMode]) }
}

/** Threads without a worker. `timer`: ends those of an ended worker. */
interface Spare {
  told: ThreadCode
  creator: WorkflowCreator
  threads: readonly Thread[]
  timer?: NodeJS.Timeout
}

const spares = new Set<Spare>()

/** Starts threads for a worker that this process may have later. They wait without a time limit. */
export async function prepareThreads(wanted: ThreadCode, start: () => Promise<WorkflowCreator>): Promise<void> {
  const creator = await start()
  keep({ told: wanted, creator, threads: threadsOf(creator) })
}

/** Takes over threads that have no worker, or starts new ones. */
export async function workflowThreads(wanted: ThreadCode, start: () => Promise<WorkflowCreator>): Promise<WorkflowCreator> {
  const creator = takeSpare(wanted) ?? (await start())
  /** Workflows that the threads hold. One whose creation or disposal failed counts forever. */
  let held = 0
  return {
    async createWorkflow(options) {
      held += 1
      const workflow = await creator.createWorkflow(options)
      return {
        activate: (activation) => workflow.activate(activation),
        getAndResetSinkCalls: () => workflow.getAndResetSinkCalls(),
        async dispose() {
          await workflow.dispose()
          held -= 1
        },
      } satisfies Workflow
    },
    async destroy() {
      const threads = threadsOf(creator)
      if (held > 0 || threads.length === 0) await creator.destroy()
      else keepForNext({ told: wanted, creator, threads })
    },
  }
}

function takeSpare(wanted: ThreadCode): WorkflowCreator | undefined {
  for (const spare of spares) {
    const { told, creator, threads, timer } = spare
    if (told.options !== wanted.options || told.filename !== wanted.filename || told.code !== wanted.code) continue
    spares.delete(spare)
    clearTimeout(timer)
    if (!threads.every(isAlive)) continue
    for (const thread of threads) thread.ref()
    return creator
  }
  return undefined
}

function keepForNext(ended: Omit<Spare, 'timer'>): void {
  const timer = setTimeout(() => {
    spares.delete(spare)
    ended.creator.destroy().catch(() => undefined)
  }, SPARE_MS).unref()
  const spare = { ...ended, timer }
  keep(spare)
}

function keep(spare: Spare): void {
  spares.add(spare)
  for (const thread of spare.threads) thread.unref()
}

/** Node reports the id -1 for a thread that has ended. */
const isAlive = ({ threadId }: Thread): boolean => threadId !== -1

/** The SDK declares these members as protected. If a release renames them, no thread is kept. */
function threadsOf(creator: WorkflowCreator): Thread[] {
  const { workerThreadClients: clients = [] } = creator as { workerThreadClients?: readonly { workerThread?: Thread }[] }
  const threads = clients.flatMap(({ workerThread }) => (workerThread ? [workerThread] : []))
  return threads.length === clients.length && threads.every(isAlive) ? threads : []
}
