// What worker processes and whoever beats for them (the supervisor, or a thread) say to one another.
import type { AttemptReport } from '../activities/contract.ts'
import type { HoldOptions, LogKey } from '../activities/needs.ts'
import type { LogEntry, Watermark } from '../session/events.ts'

/** From the process that runs activities. */
export type FromWorker =
  | { type: 'ready' }
  | { type: 'start_failed'; code: string; message: string }
  /** Its event loop turns. */
  | { type: 'alive' }
  | { type: 'hold'; id: number; options: HoldOptions }
  /** To be told to the server, and answered with `reported`. */
  | { type: 'report'; id: number; request: number; report: AttemptReport }
  | { type: 'release'; id: number }
  | { type: 'log'; key: LogKey; entries: LogEntry[]; workflowId: string; executionId: string }
  | { type: 'read'; request: number; key: LogKey; from: Watermark; to: Watermark }

/** To the process that runs activities. */
export type ToWorker =
  | { type: 'reported'; request: number; lost: boolean; error?: string }
  /** The server wants the attempt stopped, or does not know it any more. */
  | { type: 'stop'; id: number; why: 'cancelled' | 'lost' }
  | { type: 'entries'; request: number; entries: LogEntry[] | null }
  | { type: 'shutdown' }

/** Sends messages one way. */
export type Post<M> = (message: M) => void
