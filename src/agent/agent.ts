// What a user declares an agent with: the types. `define-agent.ts` has the function.
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Budget } from '../session/spend.ts'
import type { Duration } from '../session/duration.ts'
import type { AutomaticStrategy, CheckpointPolicy, CheckpointTrigger, RecoveryPolicy } from '../session/events.ts'
import type { Json, JsonOf } from '../session/json.ts'
import type { MemoryLimit } from '../session/memory.ts'
import type { AgentCompaction, CompactionOptions } from './compaction.ts'
import type { Hook, NamedHook } from './hook.ts'
import type { ModelChoice } from './model-choice.ts'
import type { OutputPolicy } from './output-tool.ts'
import type { PlanOption, PlanPolicy } from './plan-tools.ts'
import type { Section } from './prompt.ts'
import type { RetryOptions, RetryPolicy } from './retry.ts'
import type { Slice, SlicesOf } from './slice.ts'
import type { AnyServices, Tool } from './tool.ts'

/** Bounds of a run. */
export interface AgentLimits {
  /** Model calls that a run may make, an integer from 1; the run then fails with `max_turns`. Default 50. */
  maxTurns?: number
  /** How long a run may take from its first message, at most 24 days; it then fails with `deadline_exceeded`. Default: none. */
  deadline?: Duration
  /**
   * Tokens that a run may use: input and output of all its model calls, cached or not, failed attempts included. An integer from 1. The run
   * fails with `budget_exhausted` before a call that could exceed it. Default: none.
   */
  maxTotalTokens?: number
  /**
   * US dollars that a run may cost: its model calls, failed attempts included, and what tools and hooks report by `ctx.spend`. Above 0, at
   * most 1,000,000. Every model must have a price. The run fails with `budget_exhausted` before a call that could exceed it. Default: none.
   */
  maxUsd?: number
}

/** Bounds of a session. */
export interface AgentSessionLimits {
  /** How long a session may take from its creation, at most a year; every run fails with `deadline_exceeded` from then on. Default: none. */
  deadline?: Duration
  /** Tokens that all runs of a session may use together, counted as those of a run. An integer from 1. Default: none. */
  maxTotalTokens?: number
  /** US dollars that all runs of a session may cost together, counted as those of a run. Above 0, at most 1,000,000. Default: none. */
  maxUsd?: number
}

/** When pawl recovers a run that failed by itself. A limit that was reached always needs a person. */
export interface RecoveryOptions {
  /**
   * The strategies that need no person, where they are the best ones for the failure. Default `['continue_run']`: a failure that may be
   * over by itself is tried again, and nothing is undone. `[]`: none.
   */
  automatic?: readonly AutomaticStrategy[]
  /** Automatic recoveries in a row, from 1 to 1,000; then the session waits for a person. Default 10. */
  maxAttempts?: number
  /** The wait before the first one, at most 24 days; doubled each time, with jitter. Default `'5s'`. */
  baseDelay?: Duration
  /** The longest wait, at most 24 days. Default `'10m'`. */
  maxDelay?: Duration
  /** Automatic recoveries of one session within any hour, from 1 to 100; further ones wait. Default 20. */
  perHour?: number
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
export interface AgentOptions<
  C extends StandardSchemaV1 = StandardSchemaV1,
  N extends string = string,
  S = AnyServices,
  L extends readonly Slice[] = readonly Slice[],
  O extends StandardSchemaV1 | undefined = StandardSchemaV1 | undefined,
> {
  /** 1 to 100 of `[A-Za-z0-9._-]`. */
  name: N
  /**
   * The system prompt: text, or a function of what is known of the session (`{ state, plan, slices, memory, progress }`), called at every
   * model call. The prompt is never stored. It should change rarely, because the provider caches what it stays the same before.
   */
  instructions: string | Section<StandardSchemaV1.InferInput<C>, S, SlicesOf<NoInfer<L>>>
  /**
   * Parts of the prompt that may change with every call, in this order: ready-made ones (`sections.plan`, `.memory`, `.progress`) and
   * functions of yours, called as `instructions` are. Their texts come last in the last message of the user, behind the provider's cache
   * breakpoint, and are in that one request only. Default: `[sections.memory]` for an agent with memory, otherwise none.
   */
  sections?: readonly Section<StandardSchemaV1.InferInput<C>, S, SlicesOf<NoInfer<L>>>[]
  /** A Claude model's name, a `Model`, or a function that chooses one at every model call. */
  model: ModelChoice<StandardSchemaV1.InferInput<C>, S, SlicesOf<NoInfer<L>>>
  /**
   * What to call if the model fails and its retries are used up, or if its provider does not let the worker in: one, or a list of them
   * tried in order. Each has retries of its own. The next model call begins with `model` again. Default: none.
   */
  fallback?:
    | ModelChoice<StandardSchemaV1.InferInput<C>, S, SlicesOf<NoInfer<L>>>
    | readonly ModelChoice<StandardSchemaV1.InferInput<C>, S, SlicesOf<NoInfer<L>>>[]
  /** Tools that the model may call; names must differ. Default: none. */
  // oxlint-disable-next-line typescript/no-explicit-any -- services are the worker's to provide, whichever a tool needs
  tools?: readonly Tool<{ context: StandardSchemaV1.InferInput<C>; services: any; slices: SlicesOf<NoInfer<L>> }>[]
  /** Values that are folded from the session's events: `ctx.slices`; names must differ. Default: none. */
  slices?: L
  /** Functions that are called at points of a run and whose answers count: make them with `defineHook`. Names must differ. Default: none. */
  // oxlint-disable-next-line typescript/no-explicit-any -- services are the worker's to provide, whichever a hook needs
  hooks?: readonly Hook<{ context: StandardSchemaV1.InferInput<C>; services: any; slices: SlicesOf<NoInfer<L>> }>[]
  /** How failed model calls are repeated. */
  retry?: RetryOptions
  /** Bounds of a run. */
  limits?: AgentLimits
  /** Bounds of a session. */
  sessionLimits?: AgentSessionLimits
  /** When a run that failed is recovered without a person. */
  recovery?: RecoveryOptions
  /**
   * When checkpoints are made: after every turn (`'turn'`, the default), after every tool call, after every n turns, after a turn when
   * the newest checkpoint is older than `every`, or after an event of a type (of one tool, one milestone or one custom event).
   * `session.checkpoint(reason)` makes one at any time.
   */
  checkpoint?: CheckpointOption
  /**
   * Whether the model keeps a plan, with the tools `plan_setup`, `plan_add_step` and `plan_update_step`. pawl records every version, makes a
   * checkpoint after a turn in which a step became done, and restores the plan when the session goes back. `{ guidance: true }` also tells
   * the model how to work by a plan; a text of yours replaces pawl's. Default: no plan.
   */
  plan?: PlanOption
  /**
   * Blocks of text that the model keeps, with the tools `memory_append` and `memory_replace`. pawl records every version and restores the
   * memory when the session goes back. At most 20 blocks with at most 30,000 characters together; names must differ. Default: none.
   */
  memory?: readonly MemoryLimit[]
  /** Schema of a session's `context`, of zod or another library with Standard Schema; the context is checked before each model call. Default: any JSON, or none. */
  context?: C
  /**
   * Whether a conversation that fills the model's window is summarised: from the share `at` of the window on, and once if the provider
   * refuses a request as too large. The session's and the run's opening messages, the list of completed effects and the newest turns stay
   * word for word; all messages stay in the session. Needs models whose `contextWindow` is known. Default: no; a run whose conversation is
   * too long fails with `context_overflow`.
   */
  compaction?: true | CompactionOptions<StandardSchemaV1.InferInput<C>, S, SlicesOf<NoInfer<L>>>
  /**
   * Schema of what a run gives, of zod or of another library with Standard Schema and Standard JSON Schema; its JSON form must be an object.
   * The model finishes a run by calling pawl's tool `submit_output`, and `run.result()` has the value as `output`: what the schema made of
   * it, as JSON of at most 250,000 bytes. An answer that does not match is returned to the model up to three times; then the run fails with
   * `invalid_output`. Default: a run ends with any answer.
   */
  output?: O
}

/** A declared agent: the options, checked and completed. Make it with `defineAgent`. */
// oxlint-disable-next-line typescript/no-explicit-any -- an `Agent` of any context fits where any agent is taken
export interface Agent<C = any, N extends string = string, O = unknown> {
  /** Its name. */
  readonly name: N
  /** The system prompt, or what renders it. */
  readonly instructions: string | Section
  /** The parts of the prompt that may change with every call. */
  readonly sections: readonly Section[]
  /** The model, or what chooses it. */
  readonly model: ModelChoice
  /** What is called if the model fails, in order. */
  readonly fallback: readonly ModelChoice[]
  /** Its tools, by name. */
  readonly tools: ReadonlyMap<string, Tool>
  /** Its slices, in the order of their declaration. */
  readonly slices: readonly Slice[]
  /** Its hooks, in the order of their declaration. */
  readonly hooks: readonly NamedHook[]
  /** How failed model calls are repeated. */
  readonly retry: RetryPolicy
  /** Bounds of a run. */
  readonly limits: { readonly maxTurns: number; readonly deadlineMs?: number } & Readonly<Budget>
  /** Bounds of a session. */
  readonly sessionLimits: { readonly deadlineMs?: number } & Readonly<Budget>
  /** When checkpoints are made. */
  readonly checkpoint: CheckpointPolicy
  /** When a failed run is recovered without a person. */
  readonly recovery: RecoveryPolicy
  /** How the model keeps a plan; absent: it has none. */
  readonly plan?: PlanPolicy
  /** The blocks of its memory, in the order of their declaration. */
  readonly memory: readonly MemoryLimit[]
  /** When its conversations are summarised; absent: never. */
  readonly compaction?: AgentCompaction
  /** Schema of a session's context. */
  readonly context?: StandardSchemaV1<C>
  /** What a run must give; absent: any answer ends it. */
  readonly output?: OutputPolicy
  /** For the compiler alone: the context that a session must have, and what its runs give. */
  readonly types?: { readonly takes: (context: C) => void; readonly output: O }
}

/** What a run gives, by the agent's `output` schema: the value as JSON. */
export type OutputIn<O> = O extends StandardSchemaV1 ? JsonOf<StandardSchemaV1.InferOutput<O>> : undefined

/** What `run.result()` has as `output` for the agent `A`: `undefined` if the agent declares none. */
// oxlint-disable-next-line typescript/no-explicit-any -- of any context
export type OutputOf<A extends Agent> = A extends Agent<any, string, infer O> ? O : unknown

/** The context that a session of the agent `A` takes. */
export type ContextOf<A extends Agent> = A extends Agent<infer C> ? C : Json
