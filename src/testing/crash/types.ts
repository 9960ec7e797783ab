// What a crash test takes and gives.
import type { Pawl } from '../../client/pawl.ts'
import type { RunHandle, SessionHandle } from '../../client/types.ts'
import type { Stack } from '../../local/index.ts'
import type { UserBlock } from '../../session/content.ts'
import type { Duration } from '../../session/duration.ts'
import type { Json, JsonObject } from '../../session/json.ts'
import type { Boundary } from './boundaries.ts'
import type { Difference, Verdict } from './compare.ts'

/**
 * What the agent acts upon: a payment provider, a shop, a database. It must live outside the worker processes, which are killed: in a
 * process of its own, or in the test's, behind HTTP.
 */
export interface CrashWorld {
  /** Called once, before any worker starts. Gives what the worker processes are to find in their environment (the world's URL). */
  start?(): Record<string, string> | void | Promise<Record<string, string> | void>
  /** Brings the world to its beginning; called before each run of the conversation. */
  reset(): void | Promise<void>
  /** The world as it stands, as JSON that is the same whenever the same was done: no times, no random ids. */
  snapshot(): Json | Promise<Json>
  /**
   * Every effect as the outside counted it, since `reset`, in order: one entry a time that something was done, so that a thing done
   * twice is there twice. Idempotency keys and session ids in it are replaced before two runs are compared.
   */
  effects(): Json[] | Promise<Json[]>
  /** Called once, at the end. */
  stop?(): void | Promise<void>
}

/** The conversation, for a step that is a function. */
export interface CrashConversation {
  /** A client of the deployment. */
  pawl: Pawl
  /** The session of the conversation. */
  session: SessionHandle
  /** Sends a message, again if Temporal is away just now, and does not wait for its run. */
  send(content: string | UserBlock[], options?: { metadata?: JsonObject }): Promise<RunHandle>
}

/**
 * One step of the conversation: a user's message whose run is waited for, or a function that does what it likes and resolves when the
 * next step may begin (sends, approves, waits). What a function waits for must come about however often workers die.
 */
export type CrashStep =
  | string
  | { send: string | UserBlock[]; metadata?: JsonObject }
  | ((conversation: CrashConversation) => void | Promise<void>)

/**
 * What may happen in a random round: a worker process is killed or stands still (`pause`); so does its supervisor, which when it is
 * killed is started anew, as a process manager does; supervisor and workers are killed together (`both`: the machine has died); a
 * server is killed and comes back after a while.
 */
export type TroubleKind = 'kill' | 'pause' | 'supervisor' | 'pause_supervisor' | 'both' | 'postgres' | 'temporal'

/** Options of `crashTest`. */
export interface CrashTestOptions {
  /** Path or file URL of the worker module, as for `superviseWorkers`; worker processes load it. */
  module: string | URL
  /** Which agent the session talks to. Not needed where the module serves just one. */
  agent?: string
  /** The session's context and tags. */
  context?: Json
  /** The session's tags. Default: none. */
  tags?: string[]
  /** The conversation, step by step: at least one. */
  script: readonly CrashStep[]
  /** What the agent acts upon. */
  world: CrashWorld
  /** Which boundaries to kill at: an expression over their names and ids, or a function. Default: all. */
  only?: RegExp | ((boundary: Boundary) => boolean)
  /**
   * Rounds with random troubles after the boundaries: `rounds` (default 7, one for each kind) conversations with kills and pauses of
   * workers and supervisor, and restarts of Postgres and Temporal, drawn from `seed` (default: random, printed). `kinds`: which of
   * them. `false`: none.
   */
  random?: { seed?: number; rounds?: number; kinds?: readonly TroubleKind[] } | false
  /** Executors: 1 to 64. Default 2. */
  processes?: number
  /**
   * How long a conversation may take before it counts as stuck, at most 24 days. Default `'60s'`. Each time that the supervisor is killed
   * or stands still, the longest `timeout` of the agent's tools is added: as long may it take until an `external` call is surely dead.
   */
  timeout?: Duration
  /** A stack of yours, in which a database is made for the test. Default: one of the test's own, whatever the environment names. */
  stack?: Stack
  /** Told a line at each step, and the table at the end. Default: stderr. */
  log?: (line: string) => void
}

/** What came of a kill at one boundary. `not_reached`: this run did not come by it, so nothing was killed and nothing was learnt. */
export interface BoundaryResult {
  /** Where a process was killed. */
  boundary: Boundary
  /** What the disturbed run is worth. */
  verdict: Verdict | 'not_reached'
  /** What differs from the peaceful run. */
  differences: Difference[]
  /** Milliseconds that it took. */
  ms: number
}

/** What came of one random round. `not_reached`: it was over before any trouble came about. */
export interface RoundResult {
  /** Number of the round, from 1. */
  round: number
  /** What was done, in order: `kill 4711, after boundary 7`. */
  troubles: string[]
  /** What the disturbed run is worth. */
  verdict: Verdict | 'not_reached'
  /** What differs from the peaceful run. */
  differences: Difference[]
  /** Milliseconds that it took. */
  ms: number
}

/** What a crash test found. */
export interface CrashTestResult {
  /** Whether nothing differs, nothing is wrong in peace, and something was killed at every chosen boundary that its run came by. */
  ok: boolean
  /** What the peaceful run came to. `notes`: calls that were not executed in it, such as those of a tool that the agent does not have. */
  peace: { effects: Json[]; world: Json; transcript: Json[]; notes: string[]; ms: number }
  /** What is wrong even when nothing is killed: idempotency keys that differ each time they are asked for. */
  problems: string[]
  /** What came of each boundary. */
  boundaries: BoundaryResult[]
  /** What came of each random round. */
  rounds: RoundResult[]
  /** Of the random rounds. */
  seed: number
  /** All of this for people. */
  table: string
}
