// What a backend gives the client and gets from it.
import type { Client, Connection } from '@temporalio/client'
import type { DataConverter } from '@temporalio/common'
import type { Pool } from 'pg'
import type { Logger } from '../agent/tool.ts'
import type { TemporalAddress } from '../connect/temporal.ts'
import type { StopReason, Usage, UserBlock } from '../session/content.ts'
import type { Duration } from '../session/duration.ts'
import type { RecoveryStrategy, SessionEvent } from '../session/events.ts'
import type { Json, JsonObject } from '../session/json.ts'
import type { SessionState } from '../session/state.ts'
import type { MessageRow } from '../store/store.ts'

/** What `Pawl.connect` takes; all of it has a default. */
export interface ConnectOptions {
  /** Where Temporal is, or a connection or client of yours. Default: `TEMPORAL_*` and the profile file. */
  temporal?: TemporalAddress | Connection | Client
  /** Namespace, where `temporal` does not say it. */
  namespace?: string
  /** URL of the side store or a `pg.Pool` of yours; opened on first use. Default: `DATABASE_URL`; `false`: none. */
  postgres?: string | Pool | false
  /** Postgres schema. Default `pawl`. */
  schema?: string
  /** Default `pawl`. */
  taskQueue?: string
  dataConverter?: DataConverter
  logger?: Logger
}

/** Of one session; used when the session is started. */
export interface SessionOptions<C = Json> {
  /** Which agent the session talks to. Required to start it. */
  agent?: string
  context?: C
  tags?: string[]
  taskQueue?: string
  /** How long the session stays open without a message. Default one day. */
  idleTimeout?: Duration
  /** How long a call may wait for a worker that serves it before the session is in `error: agent_not_served`. Default two minutes. */
  notServedAfter?: Duration
}

/** Of one message. */
export interface SendOptions {
  /** The same id is accepted once. Default: a new UUID. */
  messageId?: string
  metadata?: JsonObject
  /** Says that the session does not exist yet: spares the look-up in the store. Default true for an id that pawl made. */
  isNew?: boolean
}

/** How a run ended well. */
export interface RunResult {
  run: number
  /** The text of the model's last message. */
  text: string
  message: { role: 'assistant'; content: import('../session/content.ts').AssistantBlock[] }
  stopReason: StopReason
  usage: Usage
}

/** How a run stands when it has settled. */
export type RunSettled =
  | ({ status: 'completed' } & RunResult)
  | { status: 'interrupted'; run: number; reason?: string }
  | { status: 'failed'; run?: number; code: string; reason: string; strategy: RecoveryStrategy | 'automatic' }
  | { status: 'rejected'; code: string; reason: string }

/** One run, by the message that belongs to it. */
export interface RunHandle {
  readonly sessionId: string
  readonly messageId: string
  /**
   * The run's answer; waits through `waiting` and through errors that pawl leaves by itself.
   * @throws RunInterrupted, RunFailed, MessageRejected, ResultTimeout.
   */
  result(options?: { timeoutMs?: number; signal?: AbortSignal }): Promise<RunResult>
  /** The same without throwing for how the run ended. */
  settled(options?: { timeoutMs?: number; signal?: AbortSignal }): Promise<RunSettled>
  /** The session's events from this message on, until its run has ended. */
  events(options?: { signal?: AbortSignal }): AsyncIterable<SessionEvent>
}

/** One session. */
export interface SessionHandle {
  readonly id: string
  /**
   * Sends a user message: starts, resumes or continues the session. Durable when it resolves, also with no worker alive.
   * @throws InvalidMessage (`empty_message`, `message_too_large`, …) before anything is recorded.
   */
  send(content: string | UserBlock[], options?: SendOptions): Promise<RunHandle>
  /** The handle of a message that was sent before. */
  run(messageId: string): RunHandle
  /** The session's state, from the workflow, else from the store. @throws SessionNotFound, SessionUnavailable. */
  state(): Promise<SessionState>
  messages(): Promise<MessageRow[]>
  /** The session's events above `after`; with `follow` it goes on until the session closes or `signal` aborts. */
  events(options?: { after?: number; follow?: boolean; signal?: AbortSignal }): AsyncIterable<SessionEvent>
  /** Stops the run that is going on; its outcome is `interrupted`. Messages not yet seen open the next run. */
  interrupt(options?: { reason?: string; by?: string }): Promise<void>
  /** Takes a session out of `error`. @throws RecoveryRefused. */
  recover(options: { strategy: 'restart_run' | 'abandon'; by?: string }): Promise<void>
  /** Closes the session once its run has ended and everything is stored. The next `send` opens it again. */
  close(options?: { by?: string }): Promise<void>
}
