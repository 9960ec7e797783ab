// What the activities need of the process they run in; `worker/` provides it.
import type { Agent } from '../agent/agent.ts'
import type { Logger, Services } from '../agent/tool.ts'
import type { LogEntry, Watermark } from '../session/events.ts'
import type { Store } from '../store/store.ts'
import type { AttemptReport } from './contract.ts'

/** Whose events: a session, and the first execution of the chain that wrote them. */
export interface LogKey {
  sessionId: string
  epoch: string
}

/** A cache of events, believed only up to a watermark. */
export interface EventLog {
  /** Adds entries. One that differs from what is held replaces it and all after it. */
  append(key: LogKey, entries: readonly LogEntry[]): void
  /** The entries above `from` up to `to`, if the log has them and they connect the two. Waits a moment for entries on their way. */
  read(key: LogKey, from: Watermark, to: Watermark): Promise<LogEntry[] | undefined>
}

/** The hold of this process on one attempt of an activity: beats for it from outside this event loop. */
export interface Hold {
  /** Aborts when the server wants the attempt stopped, or no longer knows it. */
  readonly signal: AbortSignal
  /** Whether whoever beats will kill this process if the attempt outlives its time: then nothing else may end it. */
  readonly killsOverdue: boolean
  /** Tells the server of the attempt. Resolves when it has confirmed. @throws AttemptLost if it is not the live one any more. */
  report(report: AttemptReport): Promise<void>
  /** Whether the server still counts on this attempt. */
  stillMine(): Promise<boolean>
  release(): void
}

/** What to hold an attempt by. */
export interface HoldOptions {
  taskToken: Uint8Array
  sessionId: string
  /** The execution that waits for it. */
  workflowId: string
  executionId: string
  /** `model:<run>:<turn>`, or a tool's call id, or `verify:<call id>`. */
  call: string
  tool?: string
  heartbeatTimeoutMs: number
  /** Milliseconds after which the body must have ended; the holder may kill the process a grace later. */
  timeoutMs?: number
  report: AttemptReport
}

/** Who beats. */
export interface Beats {
  hold(options: HoldOptions): Hold
}

/** What the activities of one process share. */
export interface ActivityNeeds {
  agents: ReadonlyMap<string, Agent>
  services: Services
  /** Absent while there is none configured. */
  store: Store
  log: EventLog
  beats: Beats
  logger: Logger
  /** This process, for people: `host:pid`. */
  worker: string
}
