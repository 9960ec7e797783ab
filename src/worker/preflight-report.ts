// What a preflight accepts and reports.
import type { DataConverter } from '@temporalio/common'
import type { WorkerInterceptors } from '@temporalio/worker/lib/interceptors.js'
import type { TemporalAddress } from '../connect/temporal.ts'
import type { Duration } from '../session/duration.ts'

/** Options of `preflight`. */
export interface PreflightOptions {
  /** Path of this build's worker module. Its agents and tools are compared with the open sessions. Default: only histories are replayed. */
  module?: string
  /** Where Temporal is. Default: as for `createWorker`. */
  temporal?: TemporalAddress
  /** The task queue whose sessions are checked. Default `pawl`. */
  taskQueue?: string
  /** URL of the side store, which is only read. Default: `DATABASE_URL`; without either, the store is not checked. */
  postgres?: string
  /** Postgres schema: 1 to 50 of `[A-Za-z0-9_]`, not beginning with a digit or `pg_`. Default `pawl`. */
  schema?: string
  /** The workers' data converter, or the path of a module that exports it. Default: none. */
  dataConverter?: DataConverter | string
  /** The workers' interceptors, or the path of a module that exports them. Default: none. */
  interceptors?: WorkerInterceptors | string
  /** The number of open sessions to check, chosen at random: an integer from 1. Default: all of them. */
  sample?: number
  /** How many histories are fetched and replayed at the same time: 1 to 32. Default: the number of cores, at most 4. */
  concurrency?: number
  /** How long the module may take to load, at most 24 days. Default `'60s'`. */
  loadTimeout?: Duration
  /** Called with the result of each session. */
  onSession?: (session: CheckedSession) => void
  /** Stops the preflight after the sessions that are being checked. */
  signal?: AbortSignal
}

/** Why this build would break a session, or why that is not known. */
export interface PreflightProblem {
  /**
   * For a session that would break: `other_commands` (this build's workflow code does not do what the history says), `other_events` (it
   * produces different events from the same history), `task_fails` (it throws), `core_too_new` (a newer release of pawl started the
   * execution). For an unread session: `history_unavailable`, `undecodable`, `replay_failed`.
   */
  code: 'other_commands' | 'other_events' | 'task_fails' | 'core_too_new' | 'history_unavailable' | 'undecodable' | 'replay_failed'
  /** Says what differs, and where. */
  message: string
  /** The event of Temporal's history at which it differs, if known. */
  historyEvent?: number
  /** For `other_events`: the first difference is in the session's events from `fromSeq` to `toSeq`, both included. */
  fromSeq?: number
  /** See `fromSeq`. */
  toSeq?: number
}

/** Something that will happen to a session if only this build serves it. No warning means that work is lost or repeated. */
export interface PreflightWarning {
  /**
   * `agent_not_served`, `invalid_context`; for an open call: `tool_not_served`, `schema_changed`, `arguments_do_not_match`,
   * `effect_stricter`, `answered_by_client`, `verify_removed`.
   */
  code:
    | 'agent_not_served'
    | 'invalid_context'
    | 'tool_not_served'
    | 'schema_changed'
    | 'arguments_do_not_match'
    | 'effect_stricter'
    | 'answered_by_client'
    | 'verify_removed'
  /** Says what will happen. */
  message: string
  /** The session's agent. */
  agent: string
  /** The call's tool. */
  tool?: string
  /** The call's id. */
  callId?: string
}

/** The result of one session. */
export interface CheckedSession {
  /** The session's id. */
  sessionId: string
  /** The execution whose history was replayed. */
  executionId: string
  /** `replays`: this build can continue it · `breaks`, `unread`: see `problem` · `closed`: the session closed after it was listed. */
  outcome: 'replays' | 'breaks' | 'unread' | 'closed'
  /** Events in its history. */
  historyLength: number
  /** Why it breaks, or could not be read. */
  problem?: PreflightProblem
  /** What will happen to it. Only for a session that replays, and only with a `module`. */
  warnings: PreflightWarning[]
}

/** Warnings of the same kind. */
export interface WarningSum {
  /** As in `PreflightWarning`. */
  code: PreflightWarning['code']
  /** As in the first one. */
  message: string
  /** The agent. */
  agent: string
  /** The tool. */
  tool?: string
  /** How many sessions have it. */
  sessions: number
  /** The ids of the first three. */
  examples: string[]
}

/** An `external` tool without `verify`. If a call of it is interrupted, only a person can say whether it happened. */
export interface UnverifiedTool {
  /** The agent. */
  agent: string
  /** The tool. */
  tool: string
  /** What happens to a call whose outcome is unknown: it waits for a person, or the model is told. */
  onUnknown: 'ask' | 'tell_model'
}

/** A tool whose calls another agent answers, and why calls would not be answered. */
export interface AgentCallWarning {
  /**
   * `agent_not_served`: the module does not have the agent, and the tool names no other task queue · `no_workers`: no worker polls the task
   * queue that the tool names · `agent_cycle`: the agents call one another in a circle.
   */
  code: 'agent_not_served' | 'no_workers' | 'agent_cycle'
  /** Says what will happen. */
  message: string
  /** The agent that calls. */
  agent: string
  /** The tool. */
  tool: string
  /** The agent that is called. */
  child: string
  /** The task queue that the tool names. */
  taskQueue?: string
}

/** The side store, compared with what this build expects. */
export interface StoreCheck {
  /** The Postgres schema. */
  schema: string
  /** Migrations of this build that are missing. */
  missing: string[]
  /** Breaking migrations of a newer release: workers of this build would refuse to write. */
  tooNew: string[]
  /** Why it could not be checked. */
  error?: { code: string; message: string }
}

/** What a preflight found. */
export interface PreflightReport {
  /** The task queue. */
  taskQueue: string
  /** Sessions that were checked. */
  sessions: number
  /** Sessions that this build can continue. */
  replays: number
  /** Sessions that it would break. */
  breaks: number
  /** Sessions that could not be read. */
  unread: number
  /** Sessions that closed in the meantime. */
  closed: number
  /** Every session that breaks or is unread. */
  problems: CheckedSession[]
  /** What will happen to sessions, one entry per kind. */
  warnings: WarningSum[]
  /** The module's `external` tools without `verify`, apart from those of MCP servers. Absent without a `module`. */
  unverified?: UnverifiedTool[]
  /** The module's calls of other agents that would not be answered. Absent without a `module`. */
  agentCalls?: AgentCallWarning[]
  /** The side store. Absent if none is configured. */
  store?: StoreCheck
  /** Whether `signal` stopped the preflight before the last session. */
  stopped: boolean
}
