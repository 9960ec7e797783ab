// The options and reports of the upkeep operations, and the validation of the options.
import { z } from 'zod'
import type { Duration } from '../../session/duration.ts'
import type { RowCounts } from '../../store/index.ts'
import { checkOptions, duration, fn, integer, options, text, where, flag, signal } from '../../options/check.ts'
import { numberText } from '../../session/number-text.ts'
import type { RebuiltSession } from './rebuild.ts'

/** Options of `rebuild`. */
export interface RebuildOptions {
  /** Rebuilds only this session. Default: all sessions that Temporal has for the task queue. */
  session?: string
  /** Rebuilds the sessions of this task queue; `'*'`: of the whole namespace. Default: the client's task queue. */
  taskQueue?: string
  /** Who requests it, for the audit row: 1 to 200 characters. Default: none. */
  by?: string
  /**
   * Called with each session's outcome, and not awaited. If it throws, no further session is rebuilt, and the call rejects with its error.
   * Default: none.
   */
  onSession?(session: RebuiltSession): void
  /** Stops after the sessions in progress; the report then says `stopped`. Default: none. */
  signal?: AbortSignal
}

/** What a rebuild did. */
export interface RebuildReport {
  /** Sessions that were examined. */
  sessions: number
  /** Sessions without missing rows. */
  complete: number
  /** Sessions whose missing rows were all restored. */
  restored: number
  /** Sessions that could only be restored in part. */
  partial: number
  /** Sessions that failed; see `incomplete`. */
  failed: number
  /** Events that were restored. */
  events: number
  /** Every session that is still incomplete. */
  incomplete: RebuiltSession[]
  /** Whether `signal` stopped the rebuild before the last session. */
  stopped: boolean
}

/** Options of `prune`. */
export interface PruneOptions {
  /** Prunes closed sessions in which nothing has happened for at least this long. */
  olderThan: Duration
  /** Deletes messages that were archived longer ago than this. Default: the archive is kept. */
  archiveRetention?: Duration
  /** Sessions per transaction, 1 to 1,000. Default: 20. */
  batch?: number
  /** Only counts what would be pruned. Default: false. */
  dryRun?: boolean
  /** Who requests it, for the audit rows: 1 to 200 characters. Default: none. */
  by?: string
  /**
   * Called after each batch with the totals so far, and not awaited. If it throws, the pruning stops and rejects with its error.
   * Default: none.
   */
  onBatch?(soFar: PruneReport): void
  /** Stops after the batch in progress; the report then says `stopped`. Default: none. */
  signal?: AbortSignal
}

/** What was pruned; for a dry run, what would be pruned. */
export interface PruneReport {
  /** Sessions that closed before this time were pruned. */
  before: Date
  /** Sessions that were pruned. */
  sessions: number
  /**
   * Rows by table: moved to `archived_messages`, and deleted from the others. For `completed_keys`, how many keys of effects are kept; a dry
   * run does not count those.
   */
  rows: RowCounts
  /** What was deleted from the archive, and the time before which it was archived. Absent without `archiveRetention`. */
  archive?: { before: Date; messages: number; blobs: number }
  /** Whether `signal` stopped the pruning. */
  stopped: boolean
}

/** Options of `erase`. */
export interface EraseOptions {
  /** Who requests it: 1 to 200 characters; recorded in the audit row. */
  by: string
  /** The reason: at most 1,000 characters; recorded in the audit row. Default: none. */
  reason?: string
  /** Terminates the session's workflow if it is open. Default: an open session is refused. */
  force?: boolean
}

/** What was erased. */
export interface EraseReport {
  /** The session's id. */
  sessionId: string
  /** Whether its workflow was running and was terminated. */
  terminated: boolean
  /** Executions whose histories the server was asked to delete, which it does within moments. */
  executions: number
  /** Deleted rows, by table. */
  rows: RowCounts
  /** Sessions that have their own copy of part of it: its forks, and forks of those. Erase them as well if their copies must be deleted. */
  forks: string[]
  /** The session that it was forked from, which still has the part before the fork; null if the session is not a fork. */
  parent: string | null
  /** Sessions that answered its agent calls, at any depth. They were erased, too, whether they were open or not. */
  children: string[]
  /** Copies that pawl cannot reach, in words: backups, logs, exported traces. Delete them where they are kept, or let them expire. */
  leftovers: readonly string[]
}

const MAX_NAME = 200
const MAX_REASON = 1_000
/** A thousand years. */
const OLDEST_MS = 1_000 * 365 * 86_400_000

const name = where<string>(
  (value) => typeof value === 'string' && value.trim() !== '' && value.length <= MAX_NAME,
  `text of 1 to ${MAX_NAME} characters that says who requests it; it is recorded in the audit row`,
)
const age = duration({ max: OLDEST_MS, example: '90d', limits: 'above 0' })

const REBUILD = options({
  session: z.unknown().optional(),
  taskQueue: text("a task queue's name, or '*'").optional(),
  by: name.optional(),
  onSession: fn<NonNullable<RebuildOptions['onSession']>>().optional(),
  signal: signal().optional(),
})
const PRUNE = options({
  olderThan: age,
  archiveRetention: age.optional(),
  batch: integer(1, 1_000).optional(),
  dryRun: flag().optional(),
  by: name.optional(),
  onBatch: fn<NonNullable<PruneOptions['onBatch']>>().optional(),
  signal: signal().optional(),
})
const ERASE = options({
  by: name,
  reason: where<string>(
    (value) => typeof value === 'string' && value.length <= MAX_REASON,
    `text of at most ${numberText(MAX_REASON)} characters`,
  ).optional(),
  force: flag().optional(),
})

/** Validates the options of `rebuild`. @throws InvalidOptionError `invalid_option`; so do the next two. */
export function checkRebuild(given: unknown = {}): z.output<typeof REBUILD> {
  return checkOptions(REBUILD, given)
}

/** Validates the options of `prune`; returns ages in milliseconds. */
export function checkPrune(given: unknown = {}): z.output<typeof PRUNE> {
  return checkOptions(PRUNE, given)
}

/** Validates the options of `erase`; `by` is required. */
export function checkErase(given: unknown = {}): z.output<typeof ERASE> {
  return checkOptions(ERASE, given)
}
