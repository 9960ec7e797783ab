// What going back restores besides the transcript. The event that goes back carries it, so that the fold need not read earlier events.
import type { Memory } from '../built-in-tools/memory.ts'
import type { Plan } from '../built-in-tools/plan.ts'

/** What going back restores. An absent member means that the current plan or memory stays as it is. */
export interface Restored {
  /** The plan at that point; null: there was none. */
  plan?: Plan | null
  /** The memory at that point; null: there was none. */
  memory?: Memory | null
}
