// `pawl/client`: what a backend uses. Imports nothing from the worker and no native file.
export { ConnectError } from '../connect/errors.ts'
export type { EventOf, SessionEvent, SessionStatus } from '../session/events.ts'
export type { MemoryBlock } from '../session/built-in-tools/memory.ts'
export type { Plan } from '../session/built-in-tools/plan.ts'
export type { SessionBudget } from './session/budget.ts'
export type { ApproveAnswer, RollbackReport, PauseAnswer } from '../session/protocol/protocol.ts'
export type { SessionError } from '../session/state.ts'
export type { ModelDelta } from '../session/watching/deltas.ts'
export type { SessionView } from '../session/watching/view.ts'
export type { WatchItem } from '../session/watching/watching.ts'
export { InvalidOptionError } from '../options/errors.ts'
export { StoreError } from '../store/index.ts'
export {
  InvalidMessageError,
  MessageRejectedError,
  RequestRefusedError,
  ResultTimeoutError,
  RunFailedError,
  RunInterruptedError,
  SessionNotFoundError,
  SessionUnavailableError,
} from './errors.ts'
export type { FeedEvent } from './queries/feed.ts'
export type { List, Page } from './queries/list.ts'
export type { RunReport } from './session/run-report.ts'
export type { SessionReport } from './session/status.ts'
export { type DeploymentStatus, deploymentStatus } from './doctor/deployment-status.ts'
export type { ShutGate } from './doctor/shut-gates.ts'
export { doctor } from './doctor/doctor.ts'
export type { HealthReport } from './doctor/report.ts'
export type { ApiKey, ApiKeys, NewApiKey } from './admin/api-keys.ts'
export type { Approvals } from './admin/approvals.ts'
export type { ApprovalRule } from '../store/approval-rules.ts'
export type { SharedBudgets } from './admin/shared-budgets.ts'
export type { SharedBudget } from '../store/shared-budgets.ts'
export type { NewSchedule, Schedule, Schedules } from './admin/schedules.ts'
export type { NewWebhook, Webhook, WebhookDelivery, WebhookOptions, Webhooks } from './admin/webhooks.ts'
export type { Workers, WorkersReport } from './admin/workers.ts'
export { migrateStore } from './admin/migrating.ts'
export type { MigrateReport } from './admin/migrating.ts'
export type { ConnectOptions } from './connect-options.ts'
export { Pawl } from './pawl.ts'
export type {
  Remember,
  RunHandle,
  RunResult,
  ScheduledMessage,
  SettledRun,
  SendOptions,
  SessionHandle,
  SessionOptions,
  SliceMoment,
  TreeItem,
} from './types.ts'
export type { BulkRecoveryReport } from './admin/recovery-options.ts'
export type { EraseReport, PruneReport, RebuildReport } from './admin/upkeep-options.ts'
export type { Agent, OutputOf } from '../agent/agent.ts'
export type { AnswerOf, Logger } from '../agent/tool.ts'
export type { AssistantBlock, Message, StopReason, Usage, UserBlock } from '../session/content.ts'
export type { Duration } from '../session/duration.ts'
export { PawlError } from '../session/errors.ts'
export type { Json, JsonObject } from '../session/json.ts'
export type { MemoryVersion, PlanVersion } from '../session/built-in-tools/kept.ts'
export type {
  ArchivedMessage,
  ListedCheckpoint,
  ListedCompaction,
  ListedError,
  ListedMessage,
  ListedPendingCall,
  ListedSession,
  ListedToolCall,
} from '../store/listed.ts'
export type { FailureReport, StatusOverview, UsageSum } from '../store/sums.ts'
export type { MessageRow } from '../store/rows.ts'
