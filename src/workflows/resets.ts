// Notices that an operator has reset the workflow: its history then ends before what the execution that was reset has done, and stored.
import { CancellationScope, condition, patched, workflowInfo, type WorkflowInterceptorsFactory } from '@temporalio/workflow'

/** The resets of one workflow. */
export interface Resets {
  /** The execution that made the newest of what this history holds, whatever execution it is replayed for. */
  maker(): string
  /** All that comes now is made by this execution, as one of its activities has said. */
  madeBy(executionId: string): void
  /** Carries out `work`, and cancels it when the workflow turns out to be reset: `leave` is called first, before anything of it resumes. */
  unlessReset(work: () => Promise<void>, leave: () => void): Promise<'done' | 'reset'>
}

const nothingToLeave = (): void => undefined

// Each workflow has an instance of this module of its own.
let look = (): void => undefined

/** Watches for resets from the very beginning of a workflow on. */
export function watchResets(): Resets {
  let maker = workflowInfo().originalExecutionRunId
  let noticed = 0
  let isCutOff = false
  let leaving = nothingToLeave

  // History records where it was cut off: a patch is unknown while what came before is replayed, and known from the first task after
  // the reset on. An execution that a reset has made, and that is reset in turn, has another patch.
  look = () => {
    if (isCutOff || maker === workflowInfo().runId || !patched(`reset-${noticed + 1}`)) return
    noticed += 1
    isCutOff = true
    leaving()
  }
  look()

  return {
    maker: () => maker,
    madeBy(executionId) {
      maker = executionId
      isCutOff = false
      leaving = nothingToLeave
      // That execution may have been reset in turn, just here: what comes with this very task is not its own.
      look()
    },
    async unlessReset(work, leave) {
      if (isCutOff) return 'reset'
      const scope = new CancellationScope()
      leaving = () => {
        leave()
        scope.cancel()
      }
      const done = scope.run(work).then(
        () => 'done' as const,
        (error: unknown) => {
          if (isCutOff) return 'reset' as const
          throw error
        },
      )
      return Promise.race([done, condition(() => isCutOff).then(() => 'reset' as const)])
    },
  }
}

/** Looks before each task that is not a query: before its signals, and before anything that waits is resumed. */
export const interceptors: WorkflowInterceptorsFactory = () => ({
  internals: [
    {
      activate(input, next) {
        const { jobs } = input.activation
        if (!jobs?.length || !jobs.every((job) => job.queryWorkflow)) look()
        next(input)
      },
    },
  ],
})
