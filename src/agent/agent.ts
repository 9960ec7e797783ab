// The types of an agent's declaration. `define-agent.ts` has the function.
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Budget } from '../session/spending/spend.ts'
import type { Duration } from '../session/duration.ts'
import type { AutomaticStrategy, CheckpointPolicy, CheckpointTrigger, RecoveryPolicy } from '../session/agent-facts.ts'
import type { Json, JsonOf } from '../session/json.ts'
import type { MemoryLimit } from '../session/built-in-tools/memory.ts'
import type { AgentCompaction, CompactionOptions } from './compaction.ts'
import type { Hook, NamedHook } from './hook.ts'
import type { ModelChoice } from './model-choice.ts'
import type { OutputPolicy } from './output-tool.ts'
import type { PlanOption, PlanPolicy } from './plan-tools.ts'
import type { Section, ToolSelection } from './prompt.ts'
import type { ProviderTool } from './provider-tool.ts'
import type { RetryOptions, RetryPolicy } from './retry.ts'
import type { Slice, SlicesOf } from './slice.ts'
import type { AnyServices, Tool, ToolSource } from './tool.ts'

/** Limits of a run. */
export interface AgentLimits {
  /** Maximum model calls of a run: an integer from 1. A run that needs more fails with `max_turns`. Default 50. */
  maxTurns?: number
  /**
   * Maximum equal calls of a run in a row, each with an equal result: an integer from 2. After them, the run fails with `no_progress` instead
   * of calling the model again. Default: none; from 20 such calls on, each result tells the model.
   */
  maxRepeats?: number
  /** How long a run may take from its first message, at most 24 days. After that, the run fails with `deadline_exceeded`. Default: none. */
  deadline?: Duration
  /**
   * Maximum tokens of a run: input (cached or not) and output of all model calls, including failed attempts. An integer from 1. The run
   * fails with `budget_exhausted` before a call that could exceed it. Default: none.
   */
  maxTotalTokens?: number
  /**
   * Maximum cost of a run in US dollars: its model calls, including failed attempts, and what tools and hooks report with `ctx.spend`.
   * Above 0, at most 1,000,000. Every model must have a price. The run fails with `budget_exhausted` before a call that could exceed it. Default:
   * none.
   */
  maxUsd?: number
}

/** Limits of a session. */
export interface AgentSessionLimits {
  /**
   * How long a session may last from its creation, at most a year. After that, every run fails with `deadline_exceeded`. Default: none.
   */
  deadline?: Duration
  /** Maximum tokens of all runs of a session together, counted as those of a run. An integer from 1. Default: none. */
  maxTotalTokens?: number
  /** Maximum cost of all runs of a session together in US dollars, counted as that of a run. Above 0, at most 1,000,000. Default: none. */
  maxUsd?: number
}

/** When pawl recovers a failed run automatically. A run that reached a limit always needs a person. */
export interface RecoveryOptions {
  /**
   * The strategies that pawl may apply without a person, if the failure calls for one of them. Default `['continue_run']`: pawl retries
   * after a failure that may resolve itself, and undoes nothing. `[]`: none.
   */
  automatic?: readonly AutomaticStrategy[]
  /** Maximum automatic recoveries in a row, from 1 to 1,000. After that the session waits for a person. Default 10. */
  maxAttempts?: number
  /** The wait before the first recovery in a row, at most 24 days. It doubles each time, with jitter. Default `'5s'`. */
  baseDelay?: Duration
  /** The longest wait, at most 24 days. Default `'10m'`. */
  maxDelay?: Duration
  /** Maximum automatic recoveries of one session within any hour, from 1 to 100. Further ones wait. Default 20. */
  perHour?: number
}

/** When pawl makes checkpoints; see `checkpoint` of `AgentOptions`. */
export type CheckpointOption =
  | 'turn'
  | 'tool_call'
  /** After every n turns: an integer from 1. */
  | { everyTurns: number }
  /** After a turn, if the newest checkpoint is older than this. */
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
   * The system prompt: text, or a function of a view of the session (`{ state, plan, slices, memory, progress }`), called before every
   * model call. The prompt is never stored. It should change rarely: each change invalidates the provider's cache of the conversation.
   */
  instructions: string | Section<StandardSchemaV1.InferInput<C>, S, SlicesOf<NoInfer<L>>>
  /**
   * Parts of the prompt that may change with every call, in order: ready-made ones (`sections.plan`, `.memory`, `.progress`) and your own
   * functions, called like `instructions`. pawl puts their texts at the end of the last user message, after the provider's cache
   * breakpoint, in that one request only. Default: `[sections.memory]` for an agent with memory, otherwise none.
   */
  sections?: readonly Section<StandardSchemaV1.InferInput<C>, S, SlicesOf<NoInfer<L>>>[]
  /** A Claude model's name, a `Model`, or a function that chooses one at every model call. */
  model: ModelChoice<StandardSchemaV1.InferInput<C>, S, SlicesOf<NoInfer<L>>>
  /**
   * The models to call if `model` fails and its retries are exhausted, or if its provider denies the worker access: one model, or a list
   * that pawl tries in order. Each has its own retries. The next model call starts with `model` again. Default: none.
   */
  fallback?:
    | ModelChoice<StandardSchemaV1.InferInput<C>, S, SlicesOf<NoInfer<L>>>
    | readonly ModelChoice<StandardSchemaV1.InferInput<C>, S, SlicesOf<NoInfer<L>>>[]
  /** Tools that the model may call, MCP servers whose tools it may call, and tools that its provider runs; names must be unique. Default: none. */
  tools?: readonly (
    | // oxlint-disable-next-line typescript/no-explicit-any -- the worker provides the services that a tool needs
    Tool<{ context: StandardSchemaV1.InferInput<C>; services: any; slices: SlicesOf<NoInfer<L>> }>
    // oxlint-disable-next-line typescript/no-explicit-any -- the worker provides the services that a tool needs
    | ToolSource<{ context: StandardSchemaV1.InferInput<C>; services: any; slices: SlicesOf<NoInfer<L>> }>
    | ProviderTool
  )[]
  /**
   * Which of `tools` the model may call now: a function of the same view as `instructions`, called before every model call, that returns
   * their names. The model is not told about the others, and a call of one fails with `unknown_tool`. pawl's own tools are always offered.
   * Each change invalidates the provider's whole cache of the conversation. Default: all.
   */
  activeTools?: ToolSelection<StandardSchemaV1.InferInput<C>, S, SlicesOf<NoInfer<L>>>
  /** Values that pawl folds from the session's events, as `ctx.slices`; names must be unique. Default: none. */
  slices?: L
  /**
   * Functions that pawl calls at certain points of a run, and whose answers it acts on. Declare them with `defineHook`; names must be
   * unique. Default: none.
   */
  // oxlint-disable-next-line typescript/no-explicit-any -- the worker provides the services that a hook needs
  hooks?: readonly Hook<{ context: StandardSchemaV1.InferInput<C>; services: any; slices: SlicesOf<NoInfer<L>> }>[]
  /** How pawl retries failed model calls. */
  retry?: RetryOptions
  /** Limits of a run. */
  limits?: AgentLimits
  /** Limits of a session. */
  sessionLimits?: AgentSessionLimits
  /** When pawl recovers a failed run without a person. */
  recovery?: RecoveryOptions
  /**
   * When pawl makes checkpoints: after every turn (`'turn'`, the default), after every turn with tool calls, after every n turns, after a
   * turn if the newest checkpoint is older than `every`, or after a turn with an event of a type (of one tool, one milestone or one custom
   * event). `session.checkpoint(reason)` requests one at any time.
   */
  checkpoint?: CheckpointOption
  /**
   * Whether the model keeps a plan, with the tools `plan_setup`, `plan_add_step` and `plan_update_step`. pawl records every version, makes
   * a checkpoint after a turn that completes a step, and restores the plan when the session goes back to an earlier point.
   * `{ guidance: true }` also tells the model how to work with a plan; your own text replaces pawl's. Default: no plan.
   */
  plan?: PlanOption
  /**
   * Blocks of text that the model keeps, with the tools `memory_append` and `memory_replace`. pawl records every version, and restores the
   * memory when the session goes back to an earlier point. At most 20 blocks with 30,000 characters in total; names must be unique.
   * Default: none.
   */
  memory?: readonly MemoryLimit[]
  /**
   * Schema of a session's `context`, from zod or another library that supports Standard Schema. pawl checks the context before each model
   * call. Default: any JSON, or none.
   */
  context?: C
  /**
   * Whether pawl summarises a conversation that fills the model's window: from the share `at` of the window on, and once if the provider
   * refuses a request as too large. The session's and the run's opening messages, the list of completed effects and the newest turns stay
   * unchanged; all messages stay in the session. Needs models whose `contextWindow` is known. Default: no, and a run whose conversation is
   * too long fails with `context_overflow`.
   */
  compaction?: true | CompactionOptions<StandardSchemaV1.InferInput<C>, S, SlicesOf<NoInfer<L>>>
  /**
   * Schema of a run's output, from zod or another library that supports Standard Schema and Standard JSON Schema; its JSON form must be an
   * object. The model finishes a run by calling pawl's tool `submit_output`. The result of `run.result()` then has the value as `output`,
   * as the schema parsed it: JSON of at most 250,000 bytes. pawl returns an answer that does not match to the model up to three times; then
   * the run fails with `invalid_output`. Default: a run ends with any answer.
   */
  output?: O
}

/** A declared agent: the options, checked and completed. Declare it with `defineAgent`. */
// oxlint-disable-next-line typescript/no-explicit-any -- an `Agent` of any context and services fits where any agent is accepted
export interface Agent<C = any, N extends string = string, O = unknown, S = any> {
  /** Its name. */
  readonly name: N
  /** The system prompt, or the function that renders it. */
  readonly instructions: string | Section
  /** The parts of the prompt that may change with every call. */
  readonly sections: readonly Section[]
  /** The model, or the function that chooses it. */
  readonly model: ModelChoice
  /** The models to call if the model fails, in order. */
  readonly fallback: readonly ModelChoice[]
  /** Its declared tools, by name. */
  readonly tools: ReadonlyMap<string, Tool>
  /** Where it has further tools from, such as MCP servers. */
  readonly sources: readonly ToolSource[]
  /** Its tools that the model's provider runs, in the order of their declaration. */
  readonly providerTools: readonly ProviderTool[]
  /** Selects the tools of a model call; absent if all of them are always active. */
  readonly activeTools?: ToolSelection
  /** Its slices, in the order of their declaration. */
  readonly slices: readonly Slice[]
  /** Its hooks, in the order of their declaration. */
  readonly hooks: readonly NamedHook[]
  /** How pawl retries failed model calls. */
  readonly retry: RetryPolicy
  /** Limits of a run. */
  readonly limits: { readonly maxTurns: number; readonly maxRepeats?: number; readonly deadlineMs?: number } & Readonly<Budget>
  /** Limits of a session. */
  readonly sessionLimits: { readonly deadlineMs?: number } & Readonly<Budget>
  /** When pawl makes checkpoints. */
  readonly checkpoint: CheckpointPolicy
  /** When pawl recovers a failed run without a person. */
  readonly recovery: RecoveryPolicy
  /** How the model keeps a plan; absent if it does not keep one. */
  readonly plan?: PlanPolicy
  /** The blocks of its memory, in the order of their declaration. */
  readonly memory: readonly MemoryLimit[]
  /** When pawl summarises its conversations; absent if it never does. */
  readonly compaction?: AgentCompaction
  /** Schema of a session's context. */
  readonly context?: StandardSchemaV1<C>
  /** What a run must output; absent if any final answer ends the run. */
  readonly output?: OutputPolicy
  /** For the compiler only: the context that a session must have, what its runs output, and the services that its worker must have. */
  readonly types?: { readonly takes: (context: C) => void; readonly output: O; readonly needs: (given: { services: S }) => void }
}

/** The type of a run's output by the agent's `output` schema: the value as JSON. */
export type OutputIn<O> = O extends StandardSchemaV1 ? JsonOf<StandardSchemaV1.InferOutput<O>> : undefined

/** The type of `output` in the result of a run of the agent `A`: `undefined` if the agent declares none. */
// oxlint-disable-next-line typescript/no-explicit-any -- of any context
export type OutputOf<A extends Agent> = A extends Agent<any, string, infer O> ? O : unknown

/** The type of context that a session of the agent `A` accepts. */
export type ContextOf<A extends Agent> = A extends Agent<infer C> ? C : Json
