// What the operations of upkeep take and give, and the checks of what they are given.
import { isSessionId } from '../../session/protocol.ts'
import type { RowCounts } from '../../store/index.ts'
import { InvalidMessage, InvalidOption } from '../errors.ts'
import type { RebuiltSession } from './rebuild.ts'

/** A time span: milliseconds, or text like `'90d'`, `'36h'`. */
export type Age = number | string

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
  sessions: number
  /** By outcome. */
  complete: number
  restored: number
  partial: number
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
  olderThan: Age
  /** Deletes from the archive what was archived longer ago. Default: the archive is kept. */
  archiveRetention?: Age
  /** Sessions a transaction, 1 to 1,000. Default 20. */
  batch?: number
  /** Only counts. */
  dryRun?: boolean
  by?: string
  /** Called after each batch with what was done so far. */
  onBatch?(soFar: PruneReport): void
  /** Stops after the batch that is under way. */
  signal?: AbortSignal
}

/** What was pruned; of a dry run, what would be. */
export interface PruneReport {
  before: Date
  sessions: number
  /** Rows by table: moved to `archived_messages`, deleted from the others. A dry run counts messages and events only. */
  rows: RowCounts
  /** Taken out of the archive. */
  archive?: { before: Date; messages: number; blobs: number }
  stopped: boolean
}

/** What `erase` takes. */
export interface EraseOptions {
  /** Who wants it: stands in the audit row. */
  by: string
  reason?: string
  /** Terminates the session's workflow if it is open. Default: an open session is refused. */
  force?: boolean
}

/** What was erased. */
export interface EraseReport {
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

const UNIT_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 7 * 86_400_000, y: 365 * 86_400_000 }
const LONGEST_MS = 1_000 * (UNIT_MS.y ?? 0)
const MAX_BATCH = 1_000
const MAX_NAME = 200
const MAX_REASON = 1_000

/** @throws InvalidMessage `invalid_session_id`. */
export function checkedId(id: unknown): string {
  if (isSessionId(id)) return id
  throw new InvalidMessage('invalid_session_id', `${JSON.stringify(id)} is no session id: use 1 to 200 of [A-Za-z0-9._:/@-].`)
}

/** Who did something, if it is said. */
export function checkName(name: unknown, option: string): void {
  if (name === undefined || (typeof name === 'string' && name.trim() !== '' && name.length <= MAX_NAME)) return
  throw new InvalidOption('invalid_option', `${option} must be text of 1 to ${MAX_NAME} characters.`)
}

/** Sessions a batch. */
export function checkBatch(batch: unknown): void {
  if (Number.isInteger(batch) && Number(batch) >= 1 && Number(batch) <= MAX_BATCH) return
  throw new InvalidOption('invalid_option', `batch is ${JSON.stringify(batch)}: give a number from 1 to ${MAX_BATCH}.`)
}

/** Nothing is erased without a name. */
export function checkErase({ by, reason }: EraseOptions): void {
  if (by === undefined) throw new InvalidOption('invalid_option', '`by` is missing: say who wants it erased, it stands in the audit row.')
  checkName(by, 'by')
  if (reason === undefined || (typeof reason === 'string' && reason.length <= MAX_REASON)) return
  throw new InvalidOption('invalid_option', `reason must be text of at most ${MAX_REASON} characters.`)
}

/** The moment so long ago. */
export function momentBefore(age: unknown, option: string): Date {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d|w|y)$/.exec(typeof age === 'number' ? `${age}ms` : String(age))
  const ms = Number(match?.[1]) * (UNIT_MS[match?.[2] ?? ''] ?? Number.NaN)
  if (ms > 0 && ms <= LONGEST_MS) return new Date(Date.now() - ms)
  throw new InvalidOption('invalid_option', `${option} is ${JSON.stringify(age)}: give milliseconds, or text like '90d', '36h' or '1y'.`)
}
