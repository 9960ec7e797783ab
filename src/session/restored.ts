// What going back restores beside the transcript. An event that goes back carries it, so that the fold need not look back.
import type { Memory } from './memory.ts'
import type { Plan } from './plan.ts'

/** What going back restores. A member that is absent stays as it is. */
export interface Restored {
  /** The plan at that point; null: there was none. */
  plan?: Plan | null
  /** The memory at that point; null: there was none. */
  memory?: Memory | null
}
