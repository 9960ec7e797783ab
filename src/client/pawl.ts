// The client: a backend's entry point.
import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import type { Client } from '@temporalio/client'
import type { Agent, OutputOf } from '../agent/agent.ts'
import { findDevDeployment } from '../connect/dev-stack.ts'
import { startIndexed, startPlain } from '../connect/search-attributes.ts'
import type { Json } from '../session/json.ts'
import { DEFAULT_TASK_QUEUE } from '../session/protocol/protocol.ts'
import { openStore, StoreError, type StoreOptions } from '../store/index.ts'
import { type ApiKeys, apiKeysOf } from './admin/api-keys.ts'
import { type Approvals, approvalsOf } from './admin/approvals.ts'
import { type SharedBudgets, sharedBudgetsOf } from './admin/shared-budgets.ts'
import { type Schedules, schedulesOf } from './admin/schedules.ts'
import { type Webhooks, webhooksOf } from './admin/webhooks.ts'
import { type Workers, workersOf } from './admin/workers.ts'
import { type Queries, queriesOf } from './queries/queries.ts'
import { checkSession } from './session/options.ts'
import { sessionHandle, type SessionParts } from './session/session.ts'
import { checkConnect, type ConnectOptions } from './connect-options.ts'
import { namespaceOf, namesTemporal, temporalClient } from './connecting.ts'
import type { SessionHandle, SessionOptions } from './types.ts'
import { type Upkeep, upkeepOf } from './admin/upkeep.ts'
import { reachOf } from './reach.ts'
import { defined } from '../session/defined.ts'

/** A connection to a pawl deployment: its Temporal and its side store. `Queries` documents the queries to the side store. */
export class Pawl implements Queries, Upkeep {
  /** Sessions as rows of the side store. */
  readonly sessions: Queries['sessions']
  readonly overview: Queries['overview']
  readonly messages: Queries['messages']
  readonly checkpoints: Queries['checkpoints']
  readonly errors: Queries['errors']
  readonly failures: Queries['failures']
  readonly toolCalls: Queries['toolCalls']
  /** Calls that wait for a person or a client. */
  readonly pending: Queries['pending']
  readonly usage: Queries['usage']
  readonly events: Queries['events']
  readonly recover: Upkeep['recover']
  readonly rebuild: Upkeep['rebuild']
  readonly prune: Upkeep['prune']
  readonly erase: Upkeep['erase']
  /** Keys for `pawl serve`, and for your own server if it uses `apiKeyAuthorize`. */
  readonly apiKeys: ApiKeys
  /** Standing approvals, which `session.approve(…, { remember })` gives. */
  readonly approvals: Approvals
  /** Budgets that sessions share. */
  readonly budgets: SharedBudgets
  /** Addresses that are notified of what happens in sessions. */
  readonly webhooks: Webhooks
  /** Messages to sessions at regular times. */
  readonly schedules: Schedules
  /** The processes that work, and the rate gates that they share. */
  readonly workers: Workers
  readonly #parts: SessionParts
  readonly #close: () => Promise<void>

  private constructor(parts: SessionParts, close: () => Promise<void>) {
    this.#parts = parts
    this.#close = close
    const queries = queriesOf(parts.store)
    this.sessions = queries.sessions
    this.overview = queries.overview
    this.messages = queries.messages
    this.checkpoints = queries.checkpoints
    this.errors = queries.errors
    this.failures = queries.failures
    this.toolCalls = queries.toolCalls
    this.pending = queries.pending
    this.usage = queries.usage
    this.events = queries.events
    this.apiKeys = apiKeysOf(parts.store)
    this.webhooks = webhooksOf(parts.store)
    this.approvals = approvalsOf(parts)
    this.budgets = sharedBudgetsOf(parts.store)
    this.schedules = schedulesOf(parts)
    this.workers = workersOf(parts)
    const upkeep = upkeepOf(parts)
    this.recover = upkeep.recover
    this.rebuild = upkeep.rebuild
    this.prune = upkeep.prune
    this.erase = upkeep.erase
  }

  /**
   * Connects to Temporal: the one in the options, else the one in `TEMPORAL_*`, else that of the `pawl dev` that runs in this folder or one
   * above it, else the profile file's. If none of them names a server, it rejects. The side store is opened on first use; `send` does not
   * need it.
   * @throws InvalidOptionError `invalid_option`; ConnectError `not_configured`, `no_temporal`; StoreError `invalid_postgres_url`,
   * `invalid_store_options`.
   */
  static async connect(given: ConnectOptions = {}): Promise<Pawl> {
    const options = checkConnect(given)
    const found = namesTemporal(options) ? {} : await findDevDeployment()
    const { taskQueue = found.taskQueue ?? DEFAULT_TASK_QUEUE, onWait: tell } = options
    const postgres = options.postgres ?? process.env.DATABASE_URL ?? found.postgres
    // Comes before the connection: an invalid address makes this throw, and that must not leave a connection open.
    const namespace = namespaceOf(options, found.temporal)
    const store = postgres ? openStore({ ...storeOptions(options), postgres, namespace }) : undefined
    const { client, close } = await temporalClient(options, found.temporal)
    const { searchAttributes = !hasCodecs(client) } = options
    const indexed = searchAttributes ? startIndexed() : startPlain
    const closing = new AbortController()
    // Every wait adds a listener.
    setMaxListeners(0, closing.signal)
    return new Pawl({ client, store, taskQueue, closed: closing.signal, tell, indexed, logger: options.logger }, async () => {
      closing.abort(new StoreError('store_closed', 'The client is closed. Connect a new one.'))
      await store?.close()
      await close()
    })
  }

  /**
   * Returns a handle for the session `id`, or for a new one. Nothing starts before its first `send`. Pass the agent's name, with its type
   * to check it (`pawl.session<typeof support>(id, { agent: 'support', context })`), or the agent itself:
   * `pawl.session(id, { agent: support, context })`.
   * @throws InvalidMessageError `invalid_session_id`; InvalidOptionError `invalid_option`.
   */
  session<A extends Agent>(id: string | undefined, options: SessionOptions<A> & { agent: A }): SessionHandle<OutputOf<A>>
  session<A extends Agent = Agent<Json>>(id?: string, options?: SessionOptions<A>): SessionHandle<OutputOf<A>>
  // oxlint-disable-next-line typescript/no-explicit-any -- the overloads say which
  session(id?: string, options?: object): SessionHandle<any> {
    return sessionHandle(this.#parts, id ?? randomUUID(), checkSession(options), { isNew: id === undefined })
  }

  /**
   * Whether Temporal and the side store answer, within two seconds; for probes. Never rejects. Without `temporal`, nothing works; without
   * `store`, sessions continue but lists fail. `store` is null if no side store is configured.
   */
  reach(): Promise<{ temporal: boolean; store: boolean | null }> {
    return reachOf(this.#parts)
  }

  /**
   * Closes what `connect` opened; your own connection, client or pool stays open. Reads that still wait, such as `run.result()` and
   * `session.watch()`, end with `store_closed`.
   */
  close(): Promise<void> {
    return this.#close()
  }
}

/** With codecs, nothing that a caller chose is stored in the clear unless the caller asks for it. */
function hasCodecs({ options: { loadedDataConverter } }: Client): boolean {
  return loadedDataConverter.payloadCodecs.length > 0
}

function storeOptions({ schema, logger, onWait }: ConnectOptions): Omit<StoreOptions, 'postgres'> {
  return { migrate: 'off', ...defined({ schema }), ...(logger && { logger }), ...(onWait && { onWait }) }
}
