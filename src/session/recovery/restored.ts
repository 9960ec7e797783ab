// What a rollback or a recovery restores besides the transcript. The event carries these values, so that the fold need not read earlier
// events.
import type { Memory } from '../built-in-tools/memory.ts'
import type { Plan } from '../built-in-tools/plan.ts'

/** What a rollback or a recovery restores. An absent member means that the current plan or memory does not change. */
export interface RestoredValues {
  /** The plan at that point; null: there was none. */
  plan?: Plan | null
  /** The memory at that point; null: there was none. */
  memory?: Memory | null
}
