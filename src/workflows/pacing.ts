// Limits how much one workflow task schedules. A task's completion is one message of at most 4 MB, and a codec may expand it.
import { CancellationScope, sleep, workflowInfo } from '@temporalio/workflow'
import { jsonBytes } from '../session/json.ts'

/** Maximum bytes of JSON that one task schedules. A larger input gets its own task. */
const TASK_BYTES = 2_000_000

export interface Pacing {
  /** Waits until a workflow task has room for the input, then schedules the activity. */
  schedule<I, R>(input: I, activity: (input: I) => Promise<R>): Promise<R>
}

export function startPacing(): Pacing {
  let task = 0
  let bytes = 0
  let waiting = 0
  let last: Promise<void> = Promise.resolve()

  /** The length of the history distinguishes tasks, even on a replay. */
  function fits(more: number): boolean {
    const { historyLength } = workflowInfo()
    if (historyLength !== task) {
      task = historyLength
      bytes = 0
    }
    if (bytes > 0 && bytes + more > TASK_BYTES) return false
    bytes += more
    return true
  }

  /** Waits one at a time, because each wait for the next task is a timer. */
  function room(more: number): Promise<void> {
    const before = last
    waiting += 1
    last = CancellationScope.nonCancellable(async () => {
      await before
      while (!fits(more)) await sleep(1)
      waiting -= 1
    })
    return last
  }

  return {
    schedule(input, activity) {
      const bytes = jsonBytes(input)
      if (waiting === 0 && fits(bytes)) return activity(input)
      return room(bytes).then(() => activity(input))
    },
  }
}
