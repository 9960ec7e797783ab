// The filters of lists, and their pages.
import type { SessionStatus } from '../session/events.ts'
import type { ToolCallStatus } from '../session/call-facts.ts'
import type { PendingKind } from './listed.ts'
import type { UsageBy } from './sums.ts'

/** A position in a list's order: where the next page begins. */
export type Key = (string | number | null)[]

/** Rows of a list, and where the next page begins; `next` is absent on the last page. */
export interface Rows<T> {
  items: T[]
  next?: Key
}

export interface Paging {
  limit: number
  after?: Key
}

/** A time span: from `since`, before `until`. */
export interface TimeSpan {
  since?: Date
  until?: Date
}

export interface SessionFilter extends TimeSpan {
  status?: SessionStatus[]
  paused?: boolean
  agent?: string
  /** Sessions that have all of these tags. */
  tags?: string[]
  /** Only sessions whose id begins with this. */
  idPrefix?: string
  /** Also sessions that answer calls of others. */
  children?: boolean
  /** Only this session and those below it. */
  tree?: string
}

/** Selects sessions in error; the time span is for when they entered it. */
export interface InErrorFilter extends TimeSpan {
  session?: string
  /** Sessions whose error has one of these codes. */
  codes?: string[]
  agent?: string
  /** Sessions that have all of these tags. */
  tags?: string[]
}

export interface ErrorFilter extends TimeSpan {
  session?: string
  run?: number
  context?: string
  /** Only sessions whose id begins with this. */
  idPrefix?: string
}

export interface ToolCallFilter extends TimeSpan {
  session?: string
  status?: ToolCallStatus[]
  tool?: string
  key?: string
  effectId?: string
  /** Only sessions whose id begins with this. */
  idPrefix?: string
}

export interface SessionToolCallFilter {
  status?: ToolCallStatus[]
  tool?: string
  run?: number
}

export interface OverviewFilter {
  limit: number
  agent?: string
  /** Sessions that cannot take their next step, according to Temporal: those of `any`, and those of `running` if they are running. */
  heldUp?: { running: 'all' | string[]; any: string[] }
  /** Running sessions that continue by themselves at a known time, or in their turn, according to their workflows. */
  later?: string[]
  /** Sessions whose workflow, according to Temporal, has ended although they are not idle. */
  ended?: string[]
  /** Only sessions whose id begins with this. */
  idPrefix?: string
}

/** Selects sessions that Temporal should have open. */
export interface UnfinishedFilter extends Pick<OverviewFilter, 'limit' | 'agent' | 'idPrefix'> {
  /** Sessions that are known to be open. */
  besides?: readonly string[]
}

/** A session, and when its newest execution started. */
export interface StartedSession {
  sessionId: string
  startedAt: Date
}

export interface FailureFilter extends TimeSpan {
  since: Date
  agent?: string
  /** Only sessions whose id begins with this. */
  idPrefix?: string
}

export interface PendingFilter {
  kind?: PendingKind[]
  agent?: string
  /** Calls of sessions that have all of these tags. */
  tags?: string[]
  session?: string
  /** Whether the sessions below `session` are included. */
  tree?: boolean
  /** Calls that a person with this role must approve. */
  role?: string
  /** Calls that wait for an approval and have this `group`. */
  group?: string
  /** Only sessions whose id begins with this. */
  idPrefix?: string
}

/** Selects usage, and groups it. */
export interface UsageFilter extends TimeSpan {
  by: UsageBy
  session?: string
  /** Whether the sessions below `session` are included. */
  tree?: boolean
  /** Only sessions whose id begins with this. */
  idPrefix?: string
}
