// `pawl/client`: what a backend uses. Imports nothing of the worker and no native file.
export { ConnectError } from '../connect/errors.ts'
export type { TemporalAddress } from '../connect/temporal.ts'
export type { BlobRef, EventType, RecoveryStrategy, SessionEvent, SessionStatus, Target, ToolCallStatus } from '../session/events.ts'
export type { Moved, ResolveRequest, SessionSummary } from '../session/protocol.ts'
export type { ErrorProgress, RunEffect, SessionError, SessionState } from '../session/state.ts'
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
  AgentAndContext,
  By,
  Decision,
  ForkOptions,
  OpeningOptions,
  RecoverOptions,
  RollbackOptions,
  RunHandle,
  RunResult,
  RunSettled,
  SendOptions,
  SessionHandle,
  SessionOptions,
  WaitingCall,
  WaitOptions,
} from './types.ts'
export type { MissingEvents, RebuiltSession } from './admin/rebuild.ts'
export type { EraseOptions, EraseReport, PruneOptions, PruneReport, RebuildOptions, RebuildReport } from './admin/upkeep-options.ts'
export type { Agent, ContextOf } from '../agent/agent.ts'
export type { AnswerOf, Logger, Tool, ToolNeeds } from '../agent/tool.ts'
export type { Upkeep } from './admin/upkeep.ts'
export type { Unavailable } from './errors.ts'
export type { TellWait, Wait } from '../connect/waits.ts'
export type { AssistantBlock, Message, StopReason, Usage, UserBlock } from '../session/content.ts'
export type { Duration } from '../session/duration.ts'
export { PawlError } from '../session/errors.ts'
export type { Json, JsonObject } from '../session/json.ts'
export type { RowCounts } from '../store/maintenance/prune.ts'
export type { ErrorRow, FeedItem, SessionRow, ToolCallRow } from '../store/rows.ts'
