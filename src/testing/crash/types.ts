// Options and results of a crash test.
import type { Pawl } from '../../client/pawl.ts'
import type { RunHandle, SessionHandle } from '../../client/types.ts'
import type { Stack } from '../../local/index.ts'
import type { UserBlock } from '../../session/content.ts'
import type { Duration } from '../../session/duration.ts'
import type { Json, JsonObject } from '../../session/json.ts'
import type { Boundary } from './boundaries.ts'
import type { Difference, CrashVerdict } from './compare.ts'

/**
 * The outside world that the agent acts on: a payment provider, a shop, a database. It must live outside the worker processes, because
 * these are killed: in its own process, or in the test's process behind HTTP.
 */
export interface CrashWorld {
  /** Called once, before any worker starts. Returns environment variables for the worker processes, such as the world's URL. */
  start?(): Record<string, string> | void | Promise<Record<string, string> | void>
  /** Resets the world to its initial state; called before each run of the conversation. */
  reset(): void | Promise<void>
  /** The world's state as JSON, without times and random ids: the same effects must always produce the same JSON. */
  snapshot(): Json | Promise<Json>
  /**
   * Every effect since `reset`, in order: one entry for each time that it occurred, so that a repeated effect appears twice. Idempotency
   * keys and session ids are replaced before two runs are compared.
   */
  effects(): Json[] | Promise<Json[]>
  /** Called once, at the end. */
  stop?(): void | Promise<void>
}

/** The conversation, for a step that is a function. */
export interface CrashConversation {
  /** A client that is connected to the test's deployment. */
  pawl: Pawl
  /** The session of the conversation. */
  session: SessionHandle
  /** Sends a message, with retries while Temporal is unavailable, and does not wait for its run. */
  send(content: string | UserBlock[], options?: { metadata?: JsonObject }): Promise<RunHandle>
}

/**
 * One step of the conversation: a user message, whose run must end before the next step, or a function (which sends, approves, waits) that
 * resolves when the next step may begin. A function must only wait for conditions that occur no matter how often workers die.
 */
export type CrashStep =
  | string
  | { send: string | UserBlock[]; metadata?: JsonObject }
  | ((conversation: CrashConversation) => void | Promise<void>)

/**
 * The faults of a random round. `kill`, `pause`: a worker process is killed or frozen. `supervisor`, `pause_supervisor`: its supervisor is;
 * after a kill it is replaced, as by a process manager. `both`: supervisor and workers are killed together, as if the machine had died.
 * `postgres`, `temporal`: the server is killed, and restarted after a while.
 */
export type TroubleKind = 'kill' | 'pause' | 'supervisor' | 'pause_supervisor' | 'both' | 'postgres' | 'temporal'

/** Options of `crashTest`. */
export interface CrashTestOptions {
  /** Path or file URL of the worker module, as for `superviseWorkers`; worker processes load it. */
  module: string | URL
  /** The session's agent. Not needed if the module has only one. */
  agent?: string
  /** The session's context. Default: none. */
  context?: Json
  /** The session's tags. Default: none. */
  tags?: string[]
  /** The conversation, step by step: at least one. */
  script: readonly CrashStep[]
  /** The outside world that the agent acts on. */
  world: CrashWorld
  /** Which boundaries to kill at: a regular expression that their names or ids match, or a function. Default: all. */
  only?: RegExp | ((boundary: Boundary) => boolean)
  /**
   * Rounds with random faults after the boundaries: `rounds` (default 7, one for each kind) conversations with kills and pauses of
   * workers and supervisor, and restarts of Postgres and Temporal, drawn from `seed` (default: random, printed). `kinds`: which
   * kinds of faults (default: all). `false`: no rounds.
   */
  random?: { seed?: number; rounds?: number; kinds?: readonly TroubleKind[] } | false
  /** Executors: 1 to 64. Default 2. */
  processes?: number
  /**
   * How long a conversation may take before it counts as stuck, at most 24 days. Default `'60s'`. Each time the supervisor is killed
   * or frozen, the longest `timeout` of the agent's tools is added, because an `external` call counts as dead only then.
   */
  timeout?: Duration
  /** Your own stack, in which the test creates a database. Default: a stack of the test's own, whatever the environment names. */
  stack?: Stack
  /** Called with a line for each step, and the table at the end. Default: prints to stderr. */
  log?: (line: string) => void
}

/** The outcome of a kill at one boundary. `not_reached`: this run did not reach it, so nothing was killed. */
export interface BoundaryResult {
  /** Where a process was killed. */
  boundary: Boundary
  /** The verdict on the run with the kill. */
  verdict: CrashVerdict | 'not_reached'
  /** What differs from the run without kills. */
  differences: Difference[]
  /** How long the run took, in milliseconds. */
  ms: number
}

/** The outcome of one random round. `not_reached`: it ended before any fault occurred. */
export interface RoundResult {
  /** Number of the round, from 1. */
  round: number
  /** The faults, in order: `kill 4711, after boundary 7`. */
  troubles: string[]
  /** The verdict on the run with the faults. */
  verdict: CrashVerdict | 'not_reached'
  /** What differs from the run without kills. */
  differences: Difference[]
  /** How long the run took, in milliseconds. */
  ms: number
}

/** The findings of a crash test. */
export interface CrashTestResult {
  /** Whether nothing differs, the run without kills has no problems, and something was killed at every chosen boundary that was reached. */
  ok: boolean
  /** The run without kills. `notes`: calls that were not executed, such as those of a tool that the agent does not have. */
  baseline: { effects: Json[]; world: Json; transcript: Json[]; notes: string[]; ms: number }
  /** Problems even without kills: idempotency keys that differ each time they are computed. */
  problems: string[]
  /** The outcome of each boundary. */
  boundaries: BoundaryResult[]
  /** The outcome of each random round. */
  rounds: RoundResult[]
  /** The seed of the random rounds. */
  seed: number
  /** All of this as text. */
  table: string
}
