// `pawl/client`: what a backend uses. Imports nothing of the worker and no native file.
export { ConnectError } from '../connect/errors.ts'
export type { TemporalAddress } from '../connect/temporal.ts'
export type { SessionEvent } from '../session/events.ts'
export type { SessionSummary } from '../session/protocol.ts'
export type { SessionState } from '../session/state.ts'
export { InvalidOption } from '../options/errors.ts'
export { StoreError } from '../store/index.ts'
export type {
  ArchivedMessage,
  BlobPlace,
  ListedCheckpoint,
  ListedError,
  ListedMessage,
  ListedPending,
  ListedSession,
  ListedToolCall,
  MessageRow,
  PendingKind,
  UsageBy,
  UsageSum,
} from '../store/index.ts'
export type { Asking, SessionAsking } from './queries/asking.ts'
export {
  InvalidMessage,
  MessageRejected,
  RecoveryRefused,
  RequestRefused,
  ResultTimeout,
  RunFailed,
  RunInterrupted,
  SessionNotFound,
  SessionUnavailable,
} from './errors.ts'
export type { FeedEvent } from './queries/feed.ts'
export type { List, Page } from './queries/list.ts'
export type {
  ErrorListOptions,
  FeedOptions,
  Moment,
  PageOptions,
  PendingListOptions,
  SessionListOptions,
  SessionRowsOptions,
  SpanOptions,
  ToolCallListOptions,
  UsageOptions,
} from './queries/list-options.ts'
export { migrateStore } from './admin/migrating.ts'
export type { MigrateOptions, MigrateReport } from './admin/migrating.ts'
export type { ConnectOptions } from './connect-options.ts'
export { Pawl } from './pawl.ts'
export type {
  Decision,
  RunHandle,
  RunResult,
  RunSettled,
  SendOptions,
  SessionHandle,
  SessionOptions,
  WaitingCall,
} from './types.ts'
export type { MissingEvents, RebuiltSession } from './admin/rebuild.ts'
export type { EraseOptions, EraseReport, PruneOptions, PruneReport, RebuildOptions, RebuildReport } from './admin/upkeep-options.ts'
