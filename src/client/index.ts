// `pawl/client`: what a backend uses. Imports nothing of the worker and no native file.
export { ConnectError } from '../connect/errors.ts'
export type { TemporalAddress } from '../connect/temporal.ts'
export type { SessionEvent } from '../session/events.ts'
export type { SessionSummary } from '../session/protocol.ts'
export type { SessionState } from '../session/state.ts'
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
export type { Asking, SessionAsking } from './asking.ts'
export {
  InvalidMessage,
  InvalidOption,
  MessageRejected,
  RecoveryRefused,
  RequestRefused,
  ResultTimeout,
  RunFailed,
  RunInterrupted,
  SessionNotFound,
  SessionUnavailable,
} from './errors.ts'
export type { FeedEvent } from './feed.ts'
export type { List, Page } from './list.ts'
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
} from './list-options.ts'
export { migrateStore } from './migrating.ts'
export type { MigrateOptions, MigrateReport } from './migrating.ts'
export { Pawl } from './pawl.ts'
export type {
  ConnectOptions,
  Decision,
  RunHandle,
  RunResult,
  RunSettled,
  SendOptions,
  SessionHandle,
  SessionOptions,
  WaitingCall,
} from './types.ts'
export type { MissingEvents, RebuiltSession } from './rebuild.ts'
export type { Age, EraseOptions, EraseReport, PruneOptions, PruneReport, RebuildOptions, RebuildReport } from './upkeep-options.ts'
