// What a user declares an agent with: the types. `define-agent.ts` has the function.
import type { z } from 'zod'
import type { Duration } from '../session/duration.ts'
import type { CheckpointPolicy, CheckpointTrigger } from '../session/events.ts'
import type { Json } from '../session/json.ts'
import type { SessionState } from '../session/state.ts'
import type { Model } from './model.ts'
import type { RetryOptions, RetryPolicy } from './retry.ts'
import type { AgentContext, AnyServices, Tool } from './tool.ts'

/** Bounds of a run. */
export interface AgentLimits {
  /** Model calls that a run may make, an integer from 1; the run then fails with `max_turns`. Default 50. */
  maxTurns?: number
  /** How long a run may take from its first message, at most 24 days; it then fails with `deadline_exceeded`. Default: none. */
  deadline?: Duration
}

/** When checkpoints are made; see `checkpoint` of `AgentOptions`. */
export type CheckpointOption =
  | 'turn'
  | 'tool_call'
  /** After every so many turns: an integer from 1. */
  | { everyTurns: number }
  /** After a turn, when the newest checkpoint is older than that. */
  | { every: Duration }
  /** After an event of one of these types. */
  | { on: readonly CheckpointTrigger[] }

/** Options of `defineAgent`. */
export interface AgentOptions<C extends z.ZodType = z.ZodType, N extends string = string, S = AnyServices> {
  /** 1 to 100 of `[A-Za-z0-9._-]`. */
  name: N
  /** The system prompt: text, or a function of the session's state, called at every model call. The prompt is never stored. */
  instructions: string | ((state: SessionState, ctx: AgentContext<z.input<C>, S>) => string | Promise<string>)
  /** A Claude model's name, a `Model`, or a function that chooses one at every model call. */
  model: string | Model | ((ctx: AgentContext<z.input<C>, S>) => string | Model | Promise<string | Model>)
  /** Tools that the model may call; names must differ. Default: none. */
  // oxlint-disable-next-line typescript/no-explicit-any -- services are the worker's to provide, whichever a tool needs
  tools?: readonly Tool<{ context: z.input<C>; services: any }>[]
  /** How failed model calls are repeated. */
  retry?: RetryOptions
  /** Bounds of a run. */
  limits?: AgentLimits
  /**
   * When checkpoints are made: after every turn (`'turn'`, the default), after every tool call, after every n turns, after a turn when
   * the newest checkpoint is older than `every`, or after an event of a type (of one tool, or one milestone).
   * `session.checkpoint(reason)` makes one at any time.
   */
  checkpoint?: CheckpointOption
  /** zod schema of a session's `context`, which is checked before each model call. Default: any JSON, or none. */
  context?: C
}

/** A declared agent: the options, checked and completed. Make it with `defineAgent`. */
// oxlint-disable-next-line typescript/no-explicit-any -- an `Agent` of any context fits where any agent is taken
export interface Agent<C = any, N extends string = string> {
  /** Its name. */
  readonly name: N
  /** The system prompt, or what renders it. */
  readonly instructions: string | ((state: SessionState, ctx: AgentContext) => string | Promise<string>)
  /** The model, or what chooses it. */
  readonly model: string | Model | ((ctx: AgentContext) => string | Model | Promise<string | Model>)
  /** Its tools, by name. */
  readonly tools: ReadonlyMap<string, Tool>
  /** How failed model calls are repeated. */
  readonly retry: RetryPolicy
  /** Bounds of a run. */
  readonly limits: { readonly maxTurns: number; readonly deadlineMs?: number }
  /** When checkpoints are made. */
  readonly checkpoint: CheckpointPolicy
  /** zod schema of a session's context. */
  readonly context?: z.ZodType<unknown, C>
  /** For the compiler alone: the context that a session must have. */
  readonly types?: { readonly takes: (context: C) => void }
}

/** The context that a session of the agent `A` takes. */
export type ContextOf<A extends Agent> = A extends Agent<infer C> ? C : Json
