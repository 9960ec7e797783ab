// Detects that an operator has reset the workflow, whose history then ends before events that the reset execution made and stored.
import { CancellationScope, condition, patched, workflowInfo, type WorkflowInterceptorsFactory } from '@temporalio/workflow'

export interface Resets {
  /** The execution that made the newest events of this history, whichever execution replays it. */
  maker(): string
  /** Notes that this execution now makes the events, because one of its activities has confirmed it. */
  madeBy(executionId: string): void
  /**
   * Runs `work`, and cancels it if the workflow was reset, or once `isForeign`. Calls `abandon` first; if the workflow was reset, before any
   * part of `work` resumes.
   */
  unlessReset(work: () => Promise<void>, abandon: () => void, isForeign: () => boolean): Promise<'done' | 'reset' | 'foreign'>
}

const ignore = (): void => undefined

// Each workflow has its own instance of this module.
let look = (): void => undefined

/** Watches for resets from the beginning of a workflow. */
export function watchResets(): Resets {
  let maker = workflowInfo().originalExecutionRunId
  let noticed = 0
  let isCutOff = false
  let onCutOff = ignore

  // History shows where the reset cut it off: a patch is unknown while earlier events are replayed, and known from the first task after
  // the reset. If an execution that a reset created is reset itself, it has another patch.
  look = () => {
    if (isCutOff || maker === workflowInfo().runId || !patched(`reset-${noticed + 1}`)) return
    noticed += 1
    isCutOff = true
    onCutOff()
  }
  look()

  return {
    maker: () => maker,
    madeBy(executionId) {
      maker = executionId
      isCutOff = false
      onCutOff = ignore
      // The reset may have happened at this very task, so the signals and results of the task are not this execution's own.
      look()
    },
    async unlessReset(work, abandon, isForeign) {
      if (isCutOff) return 'reset'
      const scope = new CancellationScope()
      onCutOff = () => {
        abandon()
        scope.cancel()
      }
      const done = scope.run(work).then(
        () => 'done' as const,
        (error: unknown) => {
          if (isCutOff) return 'reset' as const
          if (isForeign()) return 'foreign' as const
          throw error
        },
      )
      const ended = condition(() => isCutOff || isForeign()).then(() => {
        if (isCutOff) return 'reset' as const
        abandon()
        scope.cancel()
        return 'foreign' as const
      })
      return Promise.race([done, ended])
    },
  }
}

/** Checks before each task that is not a query: before its signals arrive, and before any wait resumes. */
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
