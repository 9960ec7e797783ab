// What a user's own workflow passes to the activity that asks an agent.
import type { Json, JsonObject } from '../session/json.ts'
import type { Duration } from '../session/duration.ts'
import type { UserBlock } from '../session/content.ts'

/** The name under which the activity is registered. */
export const ACTIVITY = 'pawlAskAgent'

/** Everything that the activity needs; the ids are chosen by the workflow, so that a repeated attempt asks nothing twice. */
export interface Question {
  agent: string
  session: string
  messageId: string
  message: string | UserBlock[]
  context?: Json
  tags?: string[]
  metadata?: JsonObject
  deadline?: Duration
  taskQueue?: string
  /** The workflow that asks. */
  by: string
}
