// The protocol of schedules: a schedule of Temporal starts a small workflow for each occurrence, which sends a message to a session.
import type { UserBlock } from '../content.ts'
import type { Json, JsonObject } from '../json.ts'

/** Workflow type of an occurrence. */
export const OCCURRENCE_TYPE = 'pawlOccurrence'

const PREFIX = 'pawl-schedule:'

/** What an occurrence does if a run of its session is in progress, or messages wait for one. */
export type Overlap = 'queue' | 'skip' | 'interrupt'

/** The argument of an occurrence's workflow: what the schedule sends. */
export interface OccurrenceStart {
  schedule: string
  agent: string
  content: string | UserBlock[]
  /** The session's id; absent: each occurrence has a session of its own. */
  session?: string
  overlap: Overlap
  metadata?: JsonObject
  deadlineMs?: number
  context?: Json
  tags?: string[]
}

/** The id of the schedule in Temporal, and of the workflows that it starts, without their times. */
export function temporalIdOf(schedule: string): string {
  return `${PREFIX}${schedule}`
}

/** The schedule's id in Temporal's; undefined if the schedule is not one of pawl's. */
export function scheduleIn(temporalId: string): string | undefined {
  return temporalId.startsWith(PREFIX) ? temporalId.slice(PREFIX.length) : undefined
}

/** Characters of `-2026-11-29T04:00:00Z`, which the server appends to the id of a workflow that a schedule starts. */
const TIME_CHARACTERS = 21

/** The time for which a workflow was scheduled, as ISO text: `2026-11-29T04:00:00Z`; undefined if no schedule has started it. */
export function nominalTimeIn(workflowId: string): string | undefined {
  const [, time] = /-(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)$/.exec(workflowId.slice(-TIME_CHARACTERS)) ?? []
  return time
}

/** The id of the message, and of the session if each occurrence has its own. */
export function occurrenceIdOf(schedule: string, time: string): string {
  return `${schedule}:${time}`
}
