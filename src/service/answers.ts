// The types of the routes' answers, by operation. scripts/schemas.js makes their JSON schemas, answer-schemas.ts, for the OpenAPI document.
import type { Scope } from '../client/admin/api-keys.ts'
import type { Schedule } from '../client/admin/schedules.ts'
import type { NewWebhook, Webhook, WebhookDelivery } from '../client/admin/webhooks.ts'
import type { WorkersReport } from '../client/admin/workers.ts'
import type { FeedEvent } from '../client/queries/feed.ts'
import type { Page } from '../client/queries/list.ts'
import type { SessionBudget } from '../client/session/budget.ts'
import type { RunReport } from '../client/session/run-report.ts'
import type { SessionReport } from '../client/session/status.ts'
import type { ScheduledMessage, SettledRun, TreeItem } from '../client/types.ts'
import type { MemoryBlock } from '../session/built-in-tools/memory.ts'
import type { Plan } from '../session/built-in-tools/plan.ts'
import type { SessionEvent } from '../session/events.ts'
import type {
  ApproveAnswer,
  CheckpointAnswer,
  RollbackReport,
  PauseAnswer,
  RaiseAnswer,
  SessionSummary,
  UnpauseAnswer,
} from '../session/protocol/protocol.ts'
import type { SessionView } from '../session/watching/view.ts'
import type { WatchItem } from '../session/watching/watching.ts'
import type {
  FailureReport,
  ListedCheckpoint,
  ListedError,
  ListedMessage,
  ListedPendingCall,
  ListedSession,
  ListedToolCall,
  StatusOverview,
  UsageSum,
} from '../store/index.ts'
import type { SharedBudget } from '../store/shared-budgets.ts'
import type { ApprovalRule } from '../store/approval-rules.ts'
import type { UiMetadata } from '../ui/protocol.ts'

/** A message that was accepted. */
interface MessageAccepted {
  /** The session's id. */
  sessionId: string
  /** The message's id. */
  messageId: string
}

/** The run had not settled in time. It continues: ask again. */
interface RunPending {
  status: 'pending'
}

/** The outcome of a message's run, as far as it is known. */
type RunAnswer = SettledRun | RunPending

/** A message that is answered again. */
interface MessageRegenerated {
  /** The message's id. */
  messageId: string
}

/** A fork that was made. */
interface ForkMade {
  /** The id of the new session. */
  sessionId: string
}

interface SessionPlan {
  /** Null if the session has none. */
  plan: Plan | null
}

interface ChatChange {
  /** `seq` of the event that changed it. */
  seq: number
}

/** All items of a list. */
interface Items<T> {
  items: T[]
}

/** Notifications that are sent again. */
interface Redelivered {
  count: number
}

/** A rate gate that was opened. */
interface GateOpened {
  /** Whether it was shut. */
  opened: boolean
}

/** A message of a chat, as the AI SDK's `useChat` has it. */
interface ChatMessage {
  /** For a user's message, its `messageId`; for an assistant's, the id of its first answer. */
  id: string
  /** Who wrote it. */
  role: 'user' | 'assistant'
  /** For a user's message, what the page sent with it; for an assistant's, what pawl says about the answer. */
  metadata?: UiMetadata | Record<string, unknown>
  /** Text, reasoning, files, steps and tool calls. */
  parts: ({ type: string } & Record<string, unknown>)[]
}

/** A page of a chat. */
interface ChatMessages {
  /** Oldest first. */
  messages: ChatMessage[]
  /** The cursor of the page before this one; absent on the first one. */
  cursor?: string
  /** `seq` of the newest event of the session; only on the newest page. */
  seq?: number
}

/** Who sends the request. */
interface CallerAnswer {
  /** The name under which requests are recorded. */
  identity: string
  /** What the caller may do. */
  scopes: Scope[]
  /** The caller's roles, for calls that only some people may decide. */
  roles: string[]
  /** The tenant whose sessions the caller sees; null: all sessions. */
  tenant: string | null
}

/** What each operation answers; for a stream, the data of its events. */
export interface OperationAnswers {
  getCaller: CallerAnswer
  openSession: MessageAccepted
  sendMessage: MessageAccepted
  getSession: SessionReport
  getState: SessionView
  listMessages: Page<ListedMessage>
  awaitRun: RunAnswer
  getRun: RunReport
  listEvents: Items<SessionEvent>
  listCheckpoints: Page<ListedCheckpoint>
  listScheduled: Items<ScheduledMessage>
  createSchedule: Schedule
  listSchedules: Page<Schedule>
  getSchedule: Schedule
  listBudgets: Items<SessionBudget>
  getPlan: SessionPlan
  getMemory: Items<MemoryBlock>
  watchSession: WatchItem | TreeItem
  approveCall: ApproveAnswer
  listApprovalRules: Items<ApprovalRule>
  revokeApprovalRule: ApprovalRule
  listSharedBudgets: Items<SharedBudget>
  setSharedBudget: SharedBudget
  regenerate: MessageRegenerated
  resumeSession: SessionSummary
  rollBackSession: RollbackReport
  forkSession: ForkMade
  pauseSession: PauseAnswer
  unpauseSession: UnpauseAnswer
  raiseLimits: RaiseAnswer
  makeCheckpoint: CheckpointAnswer
  listSessions: Page<ListedSession>
  listPending: Page<ListedPendingCall>
  listToolCalls: Page<ListedToolCall>
  listErrors: Page<ListedError>
  sumUsage: Page<UsageSum>
  getOverview: StatusOverview
  getFailures: FailureReport
  createWebhook: NewWebhook
  listWebhooks: Items<Webhook>
  listWebhookDeliveries: Items<WebhookDelivery>
  pauseWebhook: Webhook
  resumeWebhook: Webhook
  redeliver: Redelivered
  getWorkers: WorkersReport
  openGate: GateOpened
  listFeed: Items<FeedEvent>
  watchFeed: FeedEvent
  listUiMessages: ChatMessages
  watchChat: ChatChange
}
