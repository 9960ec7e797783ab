// The interface of the side store: flushing events and reading rows.
import type { AdmissionRequest, LimitedEntry } from '../session/call-limits.ts'
import type { StoredGate } from './write/gates.ts'
import type { DeltaCursor, DeltaPart, DeltaStream } from '../session/watching/deltas.ts'
import type { LogEntry, SessionEvent } from '../session/events.ts'
import type { Json } from '../session/json.ts'
import type { StoredKeys } from './api-keys.ts'
import type { StoredRules } from './approval-rules.ts'
import type { Blobs } from './blobs.ts'
import type { SliceSnapshot } from '../session/slices/slices.ts'
import type { SessionState } from '../session/state.ts'
import type { LiveSession, TidiedDeltas } from './deltas.ts'
import type { StoredConversation } from './read/conversation.ts'
import type { EventRange } from './read/reader.ts'
import type { Lists } from './read/lists/index.ts'
import type { NotificationKind } from './postgres/notifications.ts'
import type { KeptKey } from './maintenance/completed-keys.ts'
import type { StoreUpkeep } from './maintenance/upkeep.ts'
import type { Key } from './filters.ts'
import type { MessagePlace, MessageRow, WrittenEvents, StoredHead } from './rows.ts'
import type { Census } from './read/census.ts'
import type { StoredBudgets } from './shared-budgets.ts'
import type { StoredWebhooks } from './webhooks.ts'
import type { Consumer, FeedStretch } from './write/consumers.ts'

export type { LiveSession, TidiedDeltas, NotificationKind }

export interface FlushOptions {
  /** The session that the events were copied from, as the inherited past of a fork. They do not count in sums. */
  inherited?: string
  /** Earlier flushes of these events failed. Recorded in `errors` for the newest checkpoint among them. */
  late?: LateFlush
  /** The execution that the events were read from. */
  executionId?: string
}

/** When flushes began to fail, how often they failed, and why. */
export interface LateFlush {
  since: Date
  code: string
  message: string
  attempts: number
}

/** What a session resumes from after its workflow closed: its state at the head or, if neither a checkpoint nor the events can be
 * read (`lost`), the data of its row. */
export type ResumePoint = { seq: number; digest: string; warnings: string[] } & (
  | { lost?: undefined; state: SessionState }
  /** `erased`: the content was erased on request, so any client may start the session again. */
  | { lost: true; erased?: true; agent: string; context: Json; tags: string[]; run: number; checkpoint: number; keysOf?: string }
)

/** The side store. Every method rejects with `StoreError` (`store_unavailable`, …) if Postgres is unavailable. */
export interface Store {
  /**
   * Records that the sessions belong to the store's namespace, if none is recorded. Rejects with `foreign_namespace` if they belong to
   * another one, as every other method does.
   */
  claim(): Promise<void>
  /** How far the session is stored; null for an unknown session. */
  head(sessionId: string): Promise<StoredHead | null>
  /**
   * Applies `entries` to all projections, in one transaction under the session's row lock; returns the new head. It applies only
   * entries that are above the stored head and continue its digest, so late and repeated flushes change nothing.
   * Values that columns cannot hold are adjusted, and noted in `events.adjusted`. If Postgres refuses the events themselves, or there
   * are too many for one statement's time limit, they are applied in several transactions.
   * A batch of another epoch is accepted only if it begins with `session_resumed` (or a second `session_started`) on the stored digest.
   * Otherwise it is set aside in `stray_events`, and `StoreError` `foreign_epoch` is thrown.
   */
  flush(sessionId: string, epoch: string, entries: readonly LogEntry[], options?: FlushOptions): Promise<StoredHead>
  /**
   * The session's state at the stored head, from its newest readable checkpoint and the events above it, else from its events;
   * null for an unknown session. `warnings` lists unreadable parts. `executionId` identifies the execution that loads the session;
   * `lastExecution` returns it from then on.
   */
  resume(sessionId: string, executionId?: string): Promise<ResumePoint | null>
  /** The state at the stored head, without the accepted message ids; null if it cannot be read. Changes nothing. */
  state(sessionId: string): Promise<SessionState | null>
  /**
   * The execution that loaded the session or wrote events last, or the first of its chain; null for an unknown session. `erasedAt`: when
   * its content was erased, in milliseconds since 1970; null if it was not, or if it has begun again since.
   */
  lastExecution(sessionId: string): Promise<{ executionId: string | null; erasedAt: number | null }>
  /** Best effort: writes `running`, the attempt and the worker to the call's row; nothing depends on it. */
  markRunning(sessionId: string, callId: string, attempt: number, worker: string): Promise<void>
  /** Best effort: writes the reported progress to the row of a running call; nothing depends on it. */
  markProgress(sessionId: string, callId: string, attempt: number, value: Json): Promise<void>

  /**
   * Stores slice values at stored checkpoints; returns the `seq` of the session's stored head. Drops snapshots that belong to events
   * other than the stored ones.
   */
  saveSnapshots(sessionId: string, snapshots: readonly SliceSnapshot[]): Promise<number>
  /**
   * A slice's value at a checkpoint: of this version of the slice if stored, otherwise of the highest stored version; null if the
   * slice had not changed, or is not stored.
   */
  snapshot(
    sessionId: string,
    which: { slice: string; version: number; checkpoint: number },
  ): Promise<{ version: number; value: Json } | null>

  /** A page of stored events, in `seq` order. */
  events(sessionId: string, options?: EventRange): Promise<SessionEvent[]>
  /** The same events as they were flushed, with text and digests. */
  entries(sessionId: string, options?: EventRange): Promise<LogEntry[]>
  messages(sessionId: string): Promise<MessageRow[]>
  /** The user's message with that id in the transcript, or that is delivered later; null: there is none, or its content is lost. */
  sentMessage(sessionId: string, messageId: string): Promise<Pick<MessageRow, 'content' | 'metadata'> | null>
  /** The call that used the key, if its events were pruned; null if none did. */
  completedKey(sessionId: string, key: string): Promise<KeptKey | null>
  /** Where the message's events can be followed, or why they are gone. */
  locateMessage(sessionId: string, messageId: string): Promise<MessagePlace>

  /** Stores parts of the answers that models are streaming, and wakes their watchers. Leaves parts unchanged that are already stored. */
  saveDeltas(parts: readonly DeltaPart[]): Promise<void>
  /** Deletes each of the `ended` streams whose end the events record; reports which of the `unfinished` ones have lost their beginning. */
  tidyDeltas(streams: { ended: readonly DeltaStream[]; unfinished: readonly DeltaStream[] }): Promise<TidiedDeltas>
  /** Deletes the parts of ended streams that dead processes left in the store; returns their number. */
  sweepDeltas(): Promise<number>
  /** How far the session's events are stored, and what its model has streamed after `cursor`, both at the same moment. */
  live(sessionId: string, cursor: DeltaCursor): Promise<LiveSession>
  /** `seq` of the newest event up to `upTo` that ended a model call; 0 if there is none. */
  lastCallEnd(sessionId: string, upTo: number): Promise<number>

  /** Parts of a session's past, by indexes. */
  readonly conversation: StoredConversation
  /** Lists over sessions. */
  readonly lists: Lists
  /** Values too large for history. */
  readonly blobs: Blobs
  /** Keys of `pawl serve`. */
  readonly apiKeys: StoredKeys
  /** Webhooks, and what their targets have not accepted yet. */
  readonly webhooks: StoredWebhooks
  /** Standing approvals. */
  readonly rules: StoredRules
  /** Budgets over many sessions. */
  readonly budgets: StoredBudgets
  /** Pruning, erasing, and support for rebuilds. */
  readonly upkeep: StoreUpkeep

  /** Calls back when events of the session (`'*'`: of any) were committed, or may have been. Read the events from a cursor. */
  watch(sessionId: string, wake: () => void, which?: NotificationKind): () => void
  /** Whether a notification for any session arrived in the last `ms` milliseconds: workers write to the store, and notifications work. */
  hasHeardWithin(ms: number): boolean
  /** Tells other workers that calls of the session may have been asked to stop. Best effort: their next heartbeats tell them, too. */
  notifyStop(sessionId: string): void
  /** Calls back when a worker has reported a stop, or may have. */
  watchStops(sessionId: string, wake: () => void): () => void
  /** Tells other workers that a provider wants no calls from this account for `forMs` milliseconds. */
  shutGate(key: string, forMs: number, by: string): Promise<void>
  /**
   * The accounts whose gates any worker has shut, or that were opened within the last day; `forMs` is the time until they open, or 0 if
   * they are open.
   */
  shutGates(): Promise<StoredGate[]>
  /** Opens the gate of an account on all workers. Returns whether it was shut. */
  openGate(key: string, by: string): Promise<boolean>
  /**
   * Whether the limits admit the call: 0 if they do, and the call is then recorded; otherwise the number of milliseconds after which to ask
   * again. Each limit admits calls in the order in which they asked, apart from those that wait for another limit. One that does not ask
   * again within 5 s of that time loses its place.
   */
  admitCall(request: AdmissionRequest): Promise<number>
  /** Records that the entry of the call's body has ended. If a later one has the call's place, it keeps it. */
  leaveLimits(entry: LimitedEntry): Promise<void>
  /** Whether this worker may let a call try the gate: in each `everyMs`, one worker may. */
  probeGate(key: string, everyMs: number): Promise<boolean>
  /** Calls back when a worker has shut a gate, or may have. */
  watchGates(wake: () => void): () => void

  /** Calls back when a shared budget was set or removed, or may have been. */
  watchBudgets(wake: () => void): () => void
  /** Calls back with the events that this store has written, each once over all writing processes. A second listener replaces the first. */
  watchStored(onStored: (stored: WrittenEvents) => void): void
  /** Counts open sessions, errors, and waiting calls and messages, over all sessions. */
  census(): Promise<Census>
  /** The state after an event, without the accepted message ids; null if it can no longer be read. */
  stateAt(sessionId: string, seq: number): Promise<SessionState | null>
  /** `seq` of the newest `run_started` up to an event. */
  newestRun(sessionId: string, upTo: number): Promise<number | null>
  /** `seq` of the event that recorded the checkpoint; null if the store has no such checkpoint. */
  checkpointSeq(sessionId: string, version: number): Promise<number | null>
  /** Acquires or extends a consumer's lease on the feed; returns its place, or null while another live process holds the lease. */
  leaseFeed(consumer: Consumer, forMs: number): Promise<Key | null>
  /**
   * Records how far the consumer has come, and extends its lease. Records nothing and returns false if another process has taken the
   * lease, or an operator has set the place.
   */
  passFeed(consumer: Consumer, passed: FeedStretch, forMs: number): Promise<boolean>
  /** Releases the lease. */
  releaseFeed(consumer: Consumer): Promise<void>
  close(): Promise<void>
}
