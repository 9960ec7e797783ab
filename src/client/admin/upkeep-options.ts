// What the operations of upkeep take and give, and the checks of what they are given.
import { z } from 'zod'
import type { Duration } from '../../session/duration.ts'
import { isSessionId } from '../../session/protocol.ts'
import type { RowCounts } from '../../store/index.ts'
import { checkOptions, duration, fn, integer, options, text, where } from '../../options/check.ts'
import { InvalidMessage } from '../errors.ts'
import type { RebuiltSession } from './rebuild.ts'

/** What `rebuild` takes. */
export interface RebuildOptions {
  /** This session only. Default: all that Temporal has of the task queue. */
  session?: string
  /** Sessions of this task queue; `'*'`: of the whole namespace. Default: the client's. */
  taskQueue?: string
  /** Who had it done: for the audit row. */
  by?: string
  /** Called with each session's outcome. */
  onSession?(session: RebuiltSession): void
  /** Stops after the sessions that are under way. */
  signal?: AbortSignal
}

/** What a rebuild did. */
export interface RebuildReport {
  /** Sessions that were looked at. */
  sessions: number
  /** By outcome. */
  complete: number
  /** Sessions whose missing rows were all restored. */
  restored: number
  /** Sessions of which something could not be restored. */
  partial: number
  /** Sessions that failed; see `incomplete`. */
  failed: number
  /** Events that were restored. */
  events: number
  /** Every session that is not whole now. */
  incomplete: RebuiltSession[]
  /** It was stopped before the last session. */
  stopped: boolean
}

/** What `prune` takes. */
export interface PruneOptions {
  /** Closed sessions in which nothing has happened for so long. */
  olderThan: Duration
  /** Deletes from the archive what was archived longer ago. Default: the archive is kept. */
  archiveRetention?: Duration
  /** Sessions a transaction, 1 to 1,000. Default 20. */
  batch?: number
  /** Only counts. */
  dryRun?: boolean
  /** Who had it done, for the audit rows: 1 to 200 characters. Default: none. */
  by?: string
  /** Called after each batch with what was done so far. */
  onBatch?(soFar: PruneReport): void
  /** Stops after the batch that is under way. */
  signal?: AbortSignal
}

/** What was pruned; of a dry run, what would be. */
export interface PruneReport {
  /** Sessions that closed before then were pruned. */
  before: Date
  /** Sessions that were pruned. */
  sessions: number
  /** Rows by table: moved to `archived_messages`, deleted from the others. A dry run counts messages and events only. */
  rows: RowCounts
  /** Taken out of the archive. */
  archive?: { before: Date; messages: number; blobs: number }
  /** Whether `signal` stopped it. */
  stopped: boolean
}

/** What `erase` takes. */
export interface EraseOptions {
  /** Who wants it: stands in the audit row. */
  by: string
  /** Why: at most 1,000 characters; kept in the audit row. Default: none. */
  reason?: string
  /** Terminates the session's workflow if it is open. Default: an open session is refused. */
  force?: boolean
}

/** What was erased. */
export interface EraseReport {
  /** The session's id. */
  sessionId: string
  /** Its workflow was running. */
  terminated: boolean
  /** Executions whose histories the server was told to delete; it does so within moments. */
  executions: number
  /** Deleted rows by table. */
  rows: RowCounts
  /** Sessions that have their own copy of a part of it: forks of it, and forks of those. Erase them, too, if that is what is wanted. */
  forks: string[]
  /** The session that it was forked from, which has the part before the fork. */
  parent: string | null
}

const MAX_NAME = 200
const MAX_REASON = 1_000
/** A thousand years. */
const OLDEST_MS = 1_000 * 365 * 86_400_000

const name = where<string>(
  (value) => typeof value === 'string' && value.trim() !== '' && value.length <= MAX_NAME,
  `text of 1 to ${MAX_NAME} characters that says who wants it; it is kept in the audit row`,
)
/** Stops an operation. */
export const signal = where<AbortSignal>((value) => value instanceof AbortSignal, 'an AbortSignal')
/** Whether. */
export const flag = where<boolean>((value) => typeof value === 'boolean', 'true or false')
const age = duration({ most: OLDEST_MS, example: '90d', limits: 'above 0' })

const REBUILD = options({
  session: z.unknown().optional(),
  taskQueue: text("a task queue's name, or '*'").optional(),
  by: name.optional(),
  onSession: fn<NonNullable<RebuildOptions['onSession']>>().optional(),
  signal: signal.optional(),
})
const PRUNE = options({
  olderThan: age,
  archiveRetention: age.optional(),
  batch: integer(1, 1_000).optional(),
  dryRun: flag.optional(),
  by: name.optional(),
  onBatch: fn<NonNullable<PruneOptions['onBatch']>>().optional(),
  signal: signal.optional(),
})
const ERASE = options({
  by: name,
  reason: where<string>(
    (value) => typeof value === 'string' && value.length <= MAX_REASON,
    `text of at most ${MAX_REASON} characters`,
  ).optional(),
  force: flag.optional(),
})

/** @throws InvalidOption; so do the next two. */
export function checkRebuild(given: unknown = {}): z.output<typeof REBUILD> {
  return checkOptions(REBUILD, given)
}

/** Ages in milliseconds. */
export function checkPrune(given: unknown = {}): z.output<typeof PRUNE> {
  return checkOptions(PRUNE, given)
}

/** Nothing is erased without a name. */
export function checkErase(given: unknown = {}): z.output<typeof ERASE> {
  return checkOptions(ERASE, given)
}

/** @throws InvalidMessage `invalid_session_id`. */
export function checkedId(id: unknown): string {
  if (isSessionId(id)) return id
  throw new InvalidMessage('invalid_session_id', `${JSON.stringify(id)} is not a session id: use 1 to 200 of [A-Za-z0-9._:/@-].`)
}
