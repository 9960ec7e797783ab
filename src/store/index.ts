// The side store: connects to Postgres on first use, migrates once, and delegates reading and writing to their modules.
import type { Pool } from 'pg'
import type { Logger } from '../agent/tool.ts'
import type { TellWait } from '../connect/waits.ts'
import { storedKeysOf } from './api-keys.ts'
import { storedRulesOf } from './approval-rules.ts'
import { type StoredBudgets, storedBudgetsOf } from './shared-budgets.ts'
import { blobsOf } from './blobs.ts'
import { keptStates } from './write/checkpoints.ts'
import { boundedReads, type Database, databaseAt } from './postgres/database.ts'
import { StoreError } from './errors.ts'
import { listenerOn, notifierOn } from './postgres/notifications.ts'
import { admitCall, leaveLimits } from './write/call-limits.ts'
import { openGate, probeGate, shutGate, shutGates } from './write/gates.ts'
import { markProgress, markRunning } from './write/running-calls.ts'
import { listsOf } from './read/lists/index.ts'
import { claimNamespace, namespaceCheck } from './postgres/namespace.ts'
import { migrate, migrationNames, pendingMigrations } from './postgres/migrate.ts'
import type { WatchMode } from './postgres/outages.ts'
import { lastCallEnd, liveReader, saveDeltas, sweepDeltas, tidyDeltas } from './deltas.ts'
import { findKey } from './maintenance/completed-keys.ts'
import { locateMessage, readEntries, readEvents, readHead, readMessages, readSentMessage } from './read/reader.ts'
import { readCensus } from './read/census.ts'
import { readCheckpointSeq, readNewestRun, readStateAt } from './read/past.ts'
import { conversationsOf } from './read/conversation.ts'
import { readSnapshot, saveSnapshots } from './slice-snapshots.ts'
import { lastExecution, readStoredState, resume } from './read/resume.ts'
import { type PostgresSchema, schemaOf } from './postgres/schema.ts'
import type { Store } from './store.ts'
import { safeKey } from './postgres/sanitise.ts'
import { storedWebhooksOf } from './webhooks.ts'
import { upkeepOf } from './maintenance/upkeep.ts'
import { leaseFeed, releaseFeed, passFeed } from './write/consumers.ts'
import type { WriteNeeds } from './write/apply.ts'
import { flush } from './write/writer.ts'
import { SUGGESTIONS } from '../session/suggestions.ts'

export { StoreError } from './errors.ts'
export type * from './read/lists/index.ts'
export type { StoredKey, StoredKeys } from './api-keys.ts'
export type { StoredDelivery, StoredWebhook } from './webhooks.ts'
export type * from './store.ts'
export type * from './maintenance/upkeep.ts'

/** The key under which workers listen for gates. It differs from every session's id, because no id contains a line break. */
const GATES = 'gates\n'
const BUDGETS = 'budgets\n'

/** Options of `openStore`. */
export interface StoreOptions {
  /** A URL, or your own pool, which you close yourself. */
  postgres: string | Pool
  /** The Postgres schema of pawl's tables: 1 to 50 of `[A-Za-z0-9_]`, not beginning with a digit or `pg_`. Default `pawl`. */
  schema?: string
  /**
   * `auto` (default) applies missing migrations on the first successful connection, `check` refuses to write if any are missing,
   * `off` checks nothing.
   */
  migrate?: 'auto' | 'check' | 'off'
  /** The Temporal namespace whose sessions these must be. Default: not checked. */
  namespace?: string
  /** Logs when Postgres becomes unavailable, and when it answers again. */
  logger?: Logger
  /** `always` checks Postgres from the start and at intervals, so that an idle process notices an outage, too. Default `in_use`. */
  watch?: WatchMode
  /** Called when Postgres is slow to answer. */
  onWait?: TellWait
}

/**
 * Opens the side store, which connects on the first call. A call that cannot reach Postgres rejects with `store_unavailable`, and the
 * next one retries. The time limit of a statement is 10 s.
 * @throws StoreError `invalid_store_options`, `invalid_postgres_url`.
 */
export function openStore(options: StoreOptions): Store {
  const { postgres, migrate: mode = 'auto', namespace, logger, watch, onWait } = options
  if (!postgres) throw new StoreError('invalid_store_options', 'No Postgres is configured. Set DATABASE_URL or pass the option `postgres`.')
  const schema = schemaOf(options.schema ?? 'pawl')
  const database = databaseAt(postgres, { logger, watch, onWait })
  const newClient = () => database.newClient()
  const listener = listenerOn(schema.channel, newClient, logger)
  const notifier = notifierOn(database, schema.channel, logger)
  // A worker listens for as long as it runs, because connecting for each call would cost more than an open connection.
  const stops = {
    listener: listenerOn(schema.stops, newClient, logger, Number.POSITIVE_INFINITY),
    notifier: notifierOn(database, schema.stops, logger),
  }
  const ready = onceItSucceeds(() => prepare(database, schema, mode, logger))

  let names: readonly string[] | undefined
  /** With `off`, the migration files may not exist. */
  const known = async (): Promise<readonly string[] | undefined> => (mode === 'off' ? undefined : (names ??= await migrationNames()))
  const writing: WriteNeeds = { database, schema, kept: keptStates(), notifier, known, namespace, logger }
  const admitted = namespaceCheck(database, schema, namespace)

  async function prepared<T>(work: () => Promise<T>): Promise<T> {
    await ready.reached()
    await admitted()
    try {
      return await work()
    } catch (error) {
      // The Postgres schema was dropped in the meantime; the next call prepares it again.
      if (error instanceof StoreError && error.code === 'schema_behind') ready.forget()
      throw error
    }
  }

  const live = liveReader(database, schema)
  const reads = boundedReads(database)

  /** With `check`, a store with missing migrations may still be read. */
  const reading = <T>(work: () => Promise<T>): Promise<T> => (mode === 'check' ? admitted().then(work) : prepared(work))

  return {
    claim: () => prepared(async () => (namespace === undefined ? undefined : claimNamespace(database, schema, namespace))),
    head: (sessionId) => reading(() => readHead(database, schema, sessionId)),
    flush: (sessionId, epoch, entries, options) => prepared(() => flush(writing, sessionId, epoch, entries, options)),
    resume: (sessionId, executionId) => reading(() => resume(database, schema, sessionId, executionId)),
    state: (sessionId) => reading(() => readStoredState(database, schema, sessionId)),
    lastExecution: (sessionId) => reading(() => lastExecution(database, schema, sessionId)),
    markRunning: (sessionId, callId, attempt, worker) => prepared(() => markRunning(writing, { sessionId, callId, attempt, worker })),
    markProgress: (sessionId, callId, attempt, value) => prepared(() => markProgress(writing, { sessionId, callId, attempt, value })),
    saveSnapshots: (sessionId, snapshots) => prepared(() => saveSnapshots(writing, sessionId, snapshots)),
    snapshot: (sessionId, which) => reading(() => readSnapshot(database, schema, sessionId, which)),
    events: (sessionId, page) => reading(() => readEvents(database, schema, sessionId, page)),
    entries: (sessionId, page) => reading(() => readEntries(database, schema, sessionId, page)),
    messages: (sessionId) => reading(() => readMessages(reads, schema, sessionId)),
    sentMessage: (sessionId, messageId) => reading(() => readSentMessage(reads, schema, sessionId, messageId)),
    locateMessage: (sessionId, messageId) => reading(() => locateMessage(database, schema, sessionId, messageId)),
    completedKey: (sessionId, key) => reading(() => findKey(database, schema, sessionId, key)),
    saveDeltas: (parts) => prepared(() => saveDeltas(database, schema, parts)),
    tidyDeltas: (streams) => prepared(() => tidyDeltas(database, schema, streams)),
    sweepDeltas: () => prepared(() => database.transaction((tx) => sweepDeltas(tx, schema))),
    live: (sessionId, cursor) => reading(() => live(sessionId, cursor)),
    lastCallEnd: (sessionId, upTo) => reading(() => lastCallEnd(database, schema, sessionId, upTo)),
    conversation: conversationsOf(reads, schema, reading),
    lists: listsOf({ database, schema, reading, logger }),
    blobs: blobsOf(database, schema, prepared, reading),
    apiKeys: storedKeysOf(database, schema, prepared, reading),
    webhooks: storedWebhooksOf(database, schema, prepared, reading),
    budgets: notifying(storedBudgetsOf(database, schema, prepared, reading), () => stops.notifier.notify(BUDGETS, false)),
    rules: storedRulesOf(database, schema, prepared, reading),
    upkeep: upkeepOf(database, schema, prepared),
    watch: (sessionId, wake, which) => listener.watch(safeKey(sessionId), wake, which),
    notifyStop: (sessionId) => stops.notifier.notify(safeKey(sessionId), false),
    watchStops: (sessionId, wake) => stops.listener.watch(safeKey(sessionId), wake),
    admitCall: (request) => prepared(() => admitCall(database, schema, request)),
    leaveLimits: (entry) => prepared(() => leaveLimits(database, schema, entry)),
    async shutGate(key, forMs, by) {
      await prepared(() => shutGate(database, schema, { key, forMs, by }))
      stops.notifier.notify(GATES, false)
    },
    async openGate(key, by) {
      const wasShut = await prepared(() => openGate(database, schema, { key, by }))
      stops.notifier.notify(GATES, false)
      return wasShut
    },
    probeGate: (key, everyMs) => prepared(() => probeGate(database, schema, { key, everyMs })),
    shutGates: () => reading(() => shutGates(database, schema)),
    watchGates: (wake) => stops.listener.watch(GATES, wake),
    watchBudgets: (wake) => stops.listener.watch(BUDGETS, wake),
    watchStored(onStored) {
      writing.onStored = onStored
    },
    census: () => reading(() => readCensus(reads, schema)),
    stateAt: (sessionId, seq) => reading(() => readStateAt(database, schema, sessionId, seq)),
    checkpointSeq: (sessionId, version) => reading(() => readCheckpointSeq(database, schema, sessionId, version)),
    newestRun: (sessionId, upTo) => reading(() => readNewestRun(database, schema, sessionId, upTo)),
    leaseFeed: (consumer, forMs) => prepared(() => leaseFeed(database, schema, consumer, forMs)),
    passFeed: (consumer, passed, forMs) => prepared(() => passFeed(database, schema, consumer, passed, forMs)),
    releaseFeed: (consumer) => prepared(() => releaseFeed(database, schema, consumer)),
    hasHeardWithin: (ms) => performance.now() - listener.heardAt() <= ms,
    async close() {
      await Promise.all([listener.close(), notifier.close(), stops.listener.close(), stops.notifier.close()])
      await database.close()
    },
  }
}

/** Tells workers of changes. */
function notifying(budgets: StoredBudgets, notify: () => void): StoredBudgets {
  const told = async <T>(change: Promise<T>): Promise<T> => {
    const done = await change
    notify()
    return done
  }
  return { ...budgets, set: (terms, by) => told(budgets.set(terms, by)), remove: (id) => told(budgets.remove(id)) }
}

async function prepare(
  database: Database,
  schema: PostgresSchema,
  mode: 'auto' | 'check' | 'off',
  logger: Logger | undefined,
): Promise<void> {
  if (mode === 'off') return
  if (mode === 'auto') return void (await migrate(database, schema, logger))
  const pending = await pendingMigrations(database, schema)
  if (pending.length === 0) return
  throw new StoreError(
    'schema_behind',
    `The Postgres schema "${schema.name}" lacks ${pending.join(', ')}. Run \`${SUGGESTIONS.migrate()}\`, then try again.`,
  )
}

/** Runs `work` until it has succeeded once; concurrent calls share one attempt. */
function onceItSucceeds(work: () => Promise<void>): { reached(): Promise<void>; forget(): void } {
  let tried: Promise<void> | undefined
  const forget = (): void => {
    tried = undefined
  }
  return {
    forget,
    reached() {
      tried ??= work().catch((error: unknown) => {
        forget()
        throw error
      })
      return tried
    },
  }
}
