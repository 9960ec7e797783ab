// The rows of `checkpoints`: the writer folds the state while it writes the events, and keeps it for the next flush. A failed checkpoint is
// a warning and a row in `errors`, never a failed flush.
import { LRUCache } from 'lru-cache'
import type { EventOf, SessionEvent } from '../../session/events.ts'
import { fold } from '../../session/fold/fold.ts'
import type { Json } from '../../session/json.ts'
import { numberText } from '../../session/number-text.ts'
import type { SessionState } from '../../session/state.ts'
import { STATE_VERSION } from '../../session/fold/state-versions.ts'
import { newStatement, textOfStatement } from '../postgres/insert-rows.ts'
import type { Queryable } from '../postgres/database.ts'
import { asStoreError, StoreError } from '../errors.ts'
import type { CheckpointFailure } from '../project/errors.ts'
import type { PostgresSchema } from '../postgres/schema.ts'
import type { ParsedEntry } from './entries.ts'
import { type CheckpointRow, insertCheckpoints } from './segment.ts'
import { findState, type StateOf } from '../read/states.ts'
import { jsonText, sanitiser } from '../postgres/sanitise.ts'

/** Maximum size of a stored state. Continue-as-new could not carry a larger one either. */
const MAX_STATE_BYTES = 256_000
const STATES_KEPT = 200

type CheckpointEvent = EventOf<'checkpoint_made'>

/** The head states that a process keeps for the sessions that it flushes, identified by the digest. */
export type KeptStates = LRUCache<string, { digest: string; state: SessionState }>

/** An empty cache of states. */
export function keptStates(): KeptStates {
  return new LRUCache({ max: STATES_KEPT })
}

/** The state of one session, folded along with a flush. */
export interface FlushFold {
  /** Folds the next events; returns the rows of their checkpoints, and the checkpoints that failed. */
  fold(entries: readonly ParsedEntry[]): { rows: CheckpointRow[]; failures: CheckpointFailure[] }
  /** Reports that the flush was committed up to that digest. */
  keep(digest: string): void
  warnings: readonly string[]
}

/** Whether the events affect checkpoints. */
export function touchesCheckpoints({ type }: SessionEvent): boolean {
  return type === 'checkpoint_made' || type === 'rolled_back' || type === 'recovery_started' || type === 'session_started'
}

/**
 * Begins to fold at the head. The stored state is read only if the entries contain a checkpoint and this process did not write the earlier
 * events. `guarded`: a failed read fails the checkpoints, not the flush.
 */
export async function beginFolding(
  tx: Queryable,
  schema: PostgresSchema,
  kept: KeptStates,
  { of, entries, guarded }: { of: StateOf; entries: readonly ParsedEntry[]; guarded: boolean },
): Promise<FlushFold> {
  const had = kept.get(of.key)
  // Removed from the cache, because it is changed in place, and a failed flush would leave it wrong.
  kept.delete(of.key)
  if (had?.digest === of.head.digest) return foldingOf(kept, of.key, had.state, [])
  if (of.head.seq === 0) return foldingOf(kept, of.key, undefined, [])
  if (!entries.some(({ event }) => event.type === 'checkpoint_made')) return foldingOf(kept, of.key, 'unread', [])
  const read = () => findState(tx, schema, of)
  const found = guarded ? await underSavepoint(tx, read) : await read()
  if (found instanceof StoreError) return foldingOf(kept, of.key, found, [])
  const { state, warnings } = found
  return foldingOf(
    kept,
    of.key,
    state ?? new StoreError('checkpoint_unfounded', `There is no state to continue from: ${warnings.join('; ')}.`),
    warnings,
  )
}

function foldingOf(
  kept: KeptStates,
  key: string,
  begun: SessionState | StoreError | 'unread' | undefined,
  warnings: readonly string[],
): FlushFold {
  let state = begun
  const made = (event: CheckpointEvent): CheckpointRow | StoreError => {
    if (state instanceof StoreError) return state
    if (state === undefined || state === 'unread')
      return new StoreError('checkpoint_unfounded', 'The session does not begin with session_started.')
    try {
      return rowOf(event, state)
    } catch (cause) {
      return new StoreError('checkpoint_fold_failed', `The state could not be serialised: ${String(cause)}`, { cause })
    }
  }
  return {
    warnings,
    fold(entries) {
      const rows: CheckpointRow[] = []
      const failures: CheckpointFailure[] = []
      for (const { event, exact } of entries) {
        state = grown(state, exact)
        if (event.type !== 'checkpoint_made') continue
        const row = made(event)
        if (row instanceof StoreError) failures.push({ event, error: row })
        else rows.push(row)
      }
      return { rows, failures }
    },
    keep(digest) {
      if (typeof state === 'object' && !(state instanceof StoreError)) kept.set(key, { digest, state })
    },
  }
}

function grown(state: SessionState | StoreError | 'unread' | undefined, event: SessionEvent): typeof state {
  const isNew = event.type === 'session_started'
  if (!isNew && (state === 'unread' || state === undefined || state instanceof StoreError)) return state
  try {
    const next = fold(typeof state === 'object' && !(state instanceof StoreError) ? state : undefined, [event])
    if (next) next.accepted = []
    return next
  } catch (cause) {
    return new StoreError('checkpoint_fold_failed', `Event ${event.seq} could not be folded: ${String(cause)}`, { cause })
  }
}

function rowOf(event: CheckpointEvent, state: SessionState): CheckpointRow | StoreError {
  const { accepted: _, ...slim } = state
  const { plan, spend } = state
  const text = jsonText(slim as unknown as Json)
  const bytes = Buffer.byteLength(text)
  if (bytes > MAX_STATE_BYTES) {
    return new StoreError(
      'checkpoint_too_large',
      `The state at checkpoint ${event.version} has ${numberText(bytes)} bytes, and the limit is ${numberText(MAX_STATE_BYTES)}.`,
    )
  }
  const { version, run = null, turn = null, seq, reasons, by = null, lastMessageId = null } = event
  const safe = sanitiser()
  return {
    version,
    run,
    turn,
    seq,
    up_to_seq: seq,
    last_message_id: safe.key(lastMessageId),
    reasons: reasons.map((reason) => safe.text(reason)),
    by: safe.text(by),
    state: text,
    state_version: STATE_VERSION,
    created_at: new Date(event.at).toISOString(),
    raw: safe.raw({ lastMessageId, reasons, by }),
    plan: plan?.current ? sanitiser().json(plan.current as unknown as Json) : null,
    // The state is folded from the events as the history has them, and another build may have recorded fractions.
    spent_tokens: Math.round(spend?.tokens ?? 0),
    spent_usd: spend?.usd ?? 0,
  }
}

/** Inserts the rows separately; if that fails, writes and returns errors instead. */
export async function insertGuarded(
  tx: Queryable,
  schema: PostgresSchema,
  fixed: { session_id: string; agent: string },
  rows: readonly CheckpointRow[],
  entries: readonly ParsedEntry[],
): Promise<CheckpointFailure[]> {
  if (rows.length === 0) return []
  const statement = newStatement()
  insertCheckpoints(statement, schema, fixed, rows)
  const error = await underSavepoint(tx, () => tx.query(textOfStatement(statement, 'select 1'), [...statement.values]))
  if (!(error instanceof StoreError)) return []
  const seqs = new Set(rows.map((row) => row.seq))
  return entries.flatMap(({ event }) => (event.type === 'checkpoint_made' && seqs.has(event.seq) ? [{ event, error }] : []))
}

/** Runs `work` in a savepoint; rethrows errors that make the connection unusable. */
export async function underSavepoint<T>(tx: Queryable, work: () => Promise<T>): Promise<T | StoreError> {
  await tx.query('savepoint checkpoint')
  try {
    const done = await work()
    await tx.query('release savepoint checkpoint')
    return done
  } catch (cause) {
    const error = asStoreError(cause)
    if (error.code === 'store_unavailable') throw cause
    await tx.query('rollback to savepoint checkpoint')
    return error
  }
}
