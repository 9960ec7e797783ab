// What a session knows of its agent: limits, checkpoints and recovery, as the worker of its newest model call declared them.
import type { Budget } from './spending/spend.ts'
import type { MemoryLimit } from './built-in-tools/memory.ts'

/** How a session in `error` can be recovered. */
export type RecoveryStrategy = 'continue_run' | 'selective' | 'restart_run' | 'restart_from_last_effect' | 'manual' | 'abandon'

/** An event after which pawl makes a checkpoint: its type, and optionally one tool, one milestone or one name. */
export interface CheckpointTrigger {
  /** Type of the event, such as `tool_completed`; not `checkpoint_made`. */
  type: string
  /** Name of the tool. Default: any. */
  tool?: string
  /** Name of the milestone, for `milestone_reached`. Default: any. */
  milestone?: string
  /** Name of the custom event, for `emitted`. Default: any. */
  name?: string
}

/** When pawl makes checkpoints. Plain data, so that it can be recorded. See `checkpoint` of `defineAgent`. */
export type CheckpointPolicy = 'turn' | 'tool_call' | { everyTurns: number } | { everyMs: number } | { on: readonly CheckpointTrigger[] }

/** The limits of a run, as declared by the agent of the worker that made the model call. */
export interface RunLimits extends Budget {
  /** Model calls that the run may make. */
  maxTurns: number
  /** Milliseconds from the run's start; absent: no deadline. */
  deadlineMs?: number
}

/** The limits of a session, as declared by the agent. */
export interface SessionLimits extends Budget {
  /** Milliseconds from the session's creation; absent: no deadline. */
  deadlineMs?: number
}

/** When pawl automatically recovers a session in `error`, as declared by the agent. */
export interface RecoveryPolicy {
  /** The strategies that pawl may carry out without a person. */
  automatic: AutomaticStrategy[]
  /** Maximum automatic recoveries in a row, with no completed run and no new model answer in between. */
  maxAttempts: number
  /** Milliseconds before the first recovery; the delay doubles each time. */
  baseDelayMs: number
  /** The longest delay before a recovery, in milliseconds. */
  maxDelayMs: number
  /** Maximum automatic recoveries of a session within any hour. */
  perHour: number
}

/** A strategy that pawl may carry out automatically. */
export type AutomaticStrategy = Extract<RecoveryStrategy, 'continue_run' | 'restart_run' | 'restart_from_last_effect' | 'abandon'>

/** What a session knows about its agent, as declared by the newest worker that reported it. */
export interface AgentFacts {
  /** Digest of all other members, which shows whether a worker's declaration differs. */
  digest: string
  /** The limits of a run. */
  limits: RunLimits
  /** The limits of a session; absent: none. */
  sessionLimits?: SessionLimits
  /** When checkpoints are made. */
  checkpoint: CheckpointPolicy
  /** When pawl recovers a failed run without a person. */
  recovery: RecoveryPolicy
  /** The agent has the plan tools. */
  plan?: true
  /** The blocks of its memory; absent: it has none. */
  memory?: readonly MemoryLimit[]
  /** The agent has hooks that are due when a run ends in the middle of a turn. */
  endHooks?: true
}
