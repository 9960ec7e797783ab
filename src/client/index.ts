// `pawl/client`: what a backend uses. Imports nothing from the worker and no native file.
export { ConnectError } from '../connect/errors.ts'
export type { TemporalAddress } from '../connect/temporal.ts'
export type { AutomaticStrategy, RecoveryStrategy } from '../session/agent-facts.ts'
export type { BlobRef, RunEffect, ToolCallStatus } from '../session/call-facts.ts'
export type { ErrorProgress, EventOf, EventType, SessionEvent, SessionStatus, Target } from '../session/events.ts'
export type { Memory, MemoryBlock, MemoryChange, MemoryState, MemoryText } from '../session/built-in-tools/memory.ts'
export type { MemoryVersion, PlanVersion } from '../session/built-in-tools/kept.ts'
export type { NewPlanStep, Plan, PlanChange, PlanState, PlanStep, PlanStepStatus } from '../session/built-in-tools/plan.ts'
export type { Budget, BudgetScope, BudgetUnit, Cost, RunBudget, Spend } from '../session/spending/spend.ts'
export type { SessionBudget } from './session/budget.ts'
export type {
  CheckpointMade,
  Moved,
  PauseAnswer,
  RaiseAnswer,
  ResolveRequest,
  SessionSummary,
  UnpauseAnswer,
} from '../session/protocol/protocol.ts'
export type { CheckpointDue, LastCall, Paused, SessionError, SessionState } from '../session/state.ts'
export type { ModelDelta } from '../session/watching/deltas.ts'
export type { WatchItem } from '../session/watching/watching.ts'
export { InvalidOption } from '../options/errors.ts'
export { StoreError } from '../store/index.ts'
export type {
  AgentFailures,
  FailureCause,
  PlanProgress,
  ArchivedMessage,
  BlobPlace,
  FailureReport,
  ListedCheckpoint,
  ListedCompaction,
  ListedError,
  ListedMessage,
  ListedPending,
  ListedSession,
  ListedToolCall,
  MessageRow,
  OverviewSession,
  PendingKind,
  RecoveryOutcomes,
  RepeatedFailure,
  SessionNeed,
  StatusOverview,
  TimeInError,
  UsageBy,
  UsageSum,
} from '../store/index.ts'
export type { Queries, SessionQueries } from './queries/queries.ts'
export {
  InvalidMessage,
  MessageRejected,
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
  FailureOptions,
  FeedOptions,
  Moment,
  OverviewOptions,
  PageOptions,
  PendingListOptions,
  SessionListOptions,
  SessionRowsOptions,
  SpanOptions,
  SessionToolCallOptions,
  ToolCallListOptions,
  UsageOptions,
} from './queries/list-options.ts'
export type { ReportedAttempt, ReportedCall, ReportedTurn, RunReport } from './session/run-report.ts'
export type { NextStep, RecoveryPreview } from '../session/recovery/preview.ts'
export type { CallOptions } from '../session/recovery/selective.ts'
export type { SessionReport } from './session/status.ts'
export type { SessionWait } from '../session/watching/waits.ts'
export { type DeploymentStatus, deploymentStatus, type UnopenedSession } from './doctor/deployment-status.ts'
export { doctor } from './doctor/doctor.ts'
export type { HealthCheck, HealthLevel, HealthReport } from './doctor/report.ts'
export type { ApiKey, ApiKeyOptions, ApiKeys, NewApiKey, Scope } from './admin/api-keys.ts'
export { migrateStore } from './admin/migrating.ts'
export type { MigrateOptions, MigrateReport } from './admin/migrating.ts'
export type { ConnectOptions } from './connect-options.ts'
export { Pawl } from './pawl.ts'
export type { Reach } from './reach.ts'
export type {
  AgentAndContext,
  AtCheckpoint,
  By,
  Decision,
  ForkOptions,
  OpeningOptions,
  Priority,
  RaiseOptions,
  RecoverOptions,
  RollbackOptions,
  RunHandle,
  RunResult,
  RunSettled,
  SendOptions,
  SessionHandle,
  SessionOptions,
  SliceMoment,
  WaitingCall,
  WaitOptions,
} from './types.ts'
export type { MissingEvents, RebuiltSession } from './admin/rebuild.ts'
export type { BulkRecoveryOptions, BulkRecoveryReport, BulkRecoverySession } from './admin/recovery-options.ts'
export type { EraseOptions, EraseReport, PruneOptions, PruneReport, RebuildOptions, RebuildReport } from './admin/upkeep-options.ts'
export type { Agent, ContextOf, OutputOf } from '../agent/agent.ts'
export type { Reducers, Slice } from '../agent/slice.ts'
export type { AnswerOf, Logger, Tool, ToolNeeds } from '../agent/tool.ts'
export type { Upkeep } from './admin/upkeep.ts'
export type { Unavailable } from './errors.ts'
export type { TellWait, Wait } from '../connect/waits.ts'
export type { AssistantBlock, Message, StopReason, Usage, UserBlock } from '../session/content.ts'
export type { Duration } from '../session/duration.ts'
export { PawlError } from '../session/errors.ts'
export type { Json, JsonObject } from '../session/json.ts'
export type { RowCounts } from '../store/maintenance/prune.ts'
export type { ErrorRow, SessionRow, ToolCallRow } from '../store/rows.ts'
export type { FeedItem, SessionInError } from '../store/listed.ts'
