// Maintenance of the store: pruning, erasing, and support for rebuilds.
import type { Database } from '../postgres/database.ts'
import { childrenOf, type ErasureCounts, type EraseRequest, eraseSession } from './erase.ts'
import { type ArchiveBatch, countPrunable, type Prunable, pruneArchiveBatch, pruneBatch, type PrunedBatch } from './prune.ts'
import { type AdoptedState, adoptSession, missingValues, type MissingValue, noteRebuild, originOf } from './rebuild.ts'
import type { PostgresSchema } from '../postgres/schema.ts'
import type { StoredHead } from '../rows.ts'

export type { AdoptedState, MissingValue } from './rebuild.ts'
export type { ArchiveBatch, Prunable, PrunedBatch, RowCounts } from './prune.ts'
export type { ErasureCounts, EraseRequest } from './erase.ts'

export interface StoreUpkeep {
  /** Counts what would be pruned now: sessions not changed since `before`, and archived messages from before `archiveBefore`. */
  prunable(before: Date, archiveBefore?: Date): Promise<Prunable>
  /** Prunes at most `limit` closed sessions, in one transaction that neither waits for others nor blocks them. */
  prune(batch: { before: Date; limit: number; by?: string }): Promise<PrunedBatch>
  /** Deletes at most `limit` messages that were archived before `before`. */
  pruneArchive(batch: { before: Date; limit: number }): Promise<ArchiveBatch>
  /** Deletes all stored content of a session; null if the session does not exist. */
  erase(request: EraseRequest): Promise<ErasureCounts | null>
  /** The sessions that answer the session's agent calls, at any depth. */
  children(sessionId: string): Promise<string[]>
  /** Starts the rows of an unknown session at a later event; returns the head. */
  adopt(sessionId: string, adopted: AdoptedState): Promise<StoredHead>
  /** The event after which the session's rows begin; 0 if nothing is missing. */
  origin(sessionId: string): Promise<number>
  /** The large values that the session's stored events refer to and the store lacks. */
  missingValues(sessionId: string): Promise<MissingValue[]>
  /** Writes an audit row about restored rows. */
  noteRebuild(by: string | undefined, details: object): Promise<void>
}

/** The maintenance operations of a store; `prepared` prepares the store for each. */
export function upkeepOf(database: Database, schema: PostgresSchema, prepared: <T>(work: () => Promise<T>) => Promise<T>): StoreUpkeep {
  return {
    prunable: (before, archiveBefore) => prepared(() => countPrunable(database, schema, before, archiveBefore)),
    prune: (batch) => prepared(() => pruneBatch(database, schema, batch)),
    pruneArchive: (batch) => prepared(() => pruneArchiveBatch(database, schema, batch)),
    erase: (request) => prepared(() => eraseSession(database, schema, request)),
    children: (sessionId) => prepared(() => childrenOf(database, schema, sessionId)),
    adopt: (sessionId, adopted) => prepared(() => adoptSession(database, schema, sessionId, adopted)),
    origin: (sessionId) => prepared(() => originOf(database, schema, sessionId)),
    missingValues: (sessionId) => prepared(() => missingValues(database, schema, sessionId)),
    noteRebuild: (by, details) => prepared(() => noteRebuild(database, schema, by, details)),
  }
}
