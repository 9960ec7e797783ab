// The types of a tool's declaration. `define-tool.ts` has the function.
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Duration } from '../session/duration.ts'
import type { Approvers, Effect, ResultContent } from '../session/call-facts.ts'
import type { Json, JsonObject } from '../session/json.ts'
import type { Budget } from '../session/spending/spend.ts'
import type { SpendNote } from '../session/spending/spend-notes.ts'
import type { RetryOptions, RetryPolicy } from './retry.ts'

/**
 * The type of `ctx.services` in declarations that do not set it. While it is empty, it allows any name. To type all declarations of a
 * project at once, augment it: `declare module 'pawl' { interface Services { payments: Payments } }`. To type only some, use
 * `defineTool.withTypes`.
 */
// oxlint-disable-next-line typescript/no-empty-interface -- for users to add to
export interface Services {}

/** What a worker process provides to its tools as `ctx.services`: clients, pools, secrets. Created once per process, never recorded. */
// oxlint-disable-next-line typescript/no-explicit-any -- the user's own objects, until `Services` or `withTypes` types them
export type AnyServices = [keyof Services] extends [never] ? { [name: string]: any } : Services

/** The type of `ctx.slices` in declarations that do not set it: the values by name. */
export interface AnySlices {
  readonly [name: string]: unknown
}

/** The type parameters of `withTypes`: the types of `ctx.context`, `ctx.services` and `ctx.slices`. */
export interface ContextTypes {
  /** The type of `ctx.context`. Default: any JSON. */
  context?: unknown
  /** The type of `ctx.services`. Default: `Services`. */
  services?: unknown
  /** The type of `ctx.slices`, such as `SlicesOf<[typeof order]>`. Default: any names, with unknown values. */
  slices?: unknown
}

/** The type of `ctx.context` in code declared with the types `T`. */
export type ContextIn<T extends ContextTypes> = T extends { context: infer C } ? C : Json

/** The type of `ctx.services` in code declared with the types `T`. */
export type ServicesIn<T extends ContextTypes> = T extends { services: infer S } ? S : AnyServices

/** The type of `ctx.slices` in code declared with the types `T`. */
export type SlicesIn<T extends ContextTypes> = T extends { slices: infer L } ? L : AnySlices

/** A pino-compatible logger. */
export interface Logger {
  /** Turns, calls and arguments. */
  debug(fields: object, message?: string): void
  /** Sessions and runs. */
  info(fields: object, message?: string): void
  /** Retries, and failures that pawl recovers from. */
  warn(fields: object, message?: string): void
  /** Problems that a person must look at. */
  error(fields: object, message?: string): void
}

/** The context that all functions of an agent receive. */
export interface AgentContext<C = Json, S = AnyServices, L = AnySlices> {
  /** The session's id. */
  readonly sessionId: string
  /** The agent's name. */
  readonly agent: string
  /** Number of the run within the session, from 1. */
  readonly run: number
  /** Number of the turn within the run, from 1. */
  readonly turn: number
  /** Whom the session serves, as its first caller stated. The agent's `context` schema has checked it, but does not transform it. */
  readonly context: C
  /** Metadata of the message that opened the run; `{}` if it had none. */
  readonly metadata: JsonObject
  /** The session's tags. */
  readonly tags: readonly string[]
  /** The services that the worker module created for its tools. */
  readonly services: S
  /** The values of the agent's slices, by name, at the event before this step; frozen. */
  readonly slices: L
  /** The worker's logger. */
  readonly log: Logger
}

/** For whom the tools of a source are read: the session, without what its events say. */
export type SourceContext<C = Json, S = AnyServices> = Omit<AgentContext<C, S>, 'slices'>

/** The context that `execute` and `verify` receive with the input. */
export interface ToolContext<C = Json, S = AnyServices, L = AnySlices> extends AgentContext<C, S, L> {
  /** The call's id: `t_<run>_<turn>_<index>`. */
  readonly callId: string
  /** The run that first accepted the message of this run. It differs from `run` only if the run was restarted, recovered or regenerated. */
  readonly intent: number
  /** Number of the attempt, from 1, over all attempts of the call, including those that died with their worker. */
  readonly attempt: number
  /** The same on every attempt, and unique to this tool. With a function as `idempotency`: `<tool>:<its key>`. Empty for a `read`. */
  readonly idempotencyKey: string
  /** Aborts on the tool's timeout and on an interrupt. */
  readonly signal: AbortSignal
  /** Asks the Temporal server whether this attempt is still the current one. This is a network call, which takes milliseconds. */
  stillMine(): Promise<boolean>
  /** Reports how far the call has come, in at most 16 KB of JSON. The ledger and the events show it, and the next attempt receives it. */
  progress(value: Json): void
  /** The last value that an earlier attempt reported with `progress`. */
  readonly lastProgress: Json | undefined
  /**
   * Marks a turn after which pawl may make a checkpoint (`checkpoint: { on: [{ type: 'milestone_reached', milestone }] }`). `name` has 1 to
   * 200 characters.
   */
  milestone(name: string): void
  /**
   * Reports a custom event: `name` has 1 to 200 characters, `data` at most 16 KB of JSON. One attempt may report at most 100 events, with
   * 128 KB in all. pawl records the event as `emitted` with the attempt's outcome; it records none if the attempt dies with its worker.
   * @throws ToolError `invalid_event`, `event_too_large` or `too_many_events`.
   */
  emit(name: string, data?: Json): void
  /**
   * Reports what this attempt has spent on its own models or services: US dollars or tokens, from 0 to 1e9, with a `note` of at most 200
   * characters. The amount counts towards the budgets of the run and the session. pawl records it as `spent`, at the same time as custom
   * events: it records none if the attempt dies with its worker. At most 20 reports.
   * @throws ToolError `invalid_spend` or `too_many_spends`.
   */
  spend(spent: SpendNote): void
}

/** The context of the function that decides whether a call needs approval. */
export interface ApprovalContext<C = Json, S = AnyServices, L = AnySlices> extends AgentContext<C, S, L> {
  /** The call's id: `t_<run>_<turn>_<index>`. */
  readonly callId: string
}

/** The context of the function that returns the key of a limit. */
export type LimitContext<C = Json> = Pick<AgentContext<C>, 'sessionId' | 'agent' | 'context' | 'metadata' | 'tags'>

/**
 * Whether a call needs a person's approval: no, yes, or yes with the reason. `{ deny }`: the call is not executed, and the model gets this
 * reason.
 */
export type ApprovalNeed = boolean | string | { deny: string } | RequiredApproval

/** That a call needs approval, why, and whose. */
export interface RequiredApproval {
  /** Why; shown to the person. Default: none. */
  reason?: string
  /** Who may approve or deny the call: a person with this role, 1 to 100 printable ASCII characters. Default: anyone. */
  approvers?: Approvers
}

/** What `verify` returns; `'unknown'` means that it cannot tell. */
export type Verdict<R> = { happened: true; result: R } | { happened: false } | { happened: 'unknown' }

/**
 * The scope within which an idempotency key is unique: `run` (default), `session`, `call`; or a function of the input that returns the
 * tool's own key.
 *
 * `run` and `call` identify the run by its *intent*: the run that first accepted the message. A restart, a recovery or a regeneration of a
 * run has the same intent, so it replays completed effects and does not repeat them. A new message is a new intent. The `run` and `callId`
 * that a function receives are also those of the intent.
 */
export type Idempotency<I> = 'run' | 'session' | 'call' | ((input: I, ctx: { sessionId: string; run: number; callId: string }) => string)

/** `V`, unless every effect in `E` is among `No`: then the option cannot be set. */
export type Unless<E extends Effect, No extends Effect, V> = [E] extends [No] ? never : V

/** What a tool expects of the agent that has it. */
export interface ToolNeeds {
  /** The type of `ctx.context` in the tool. */
  context: unknown
  /** The type of `ctx.services` in the tool. */
  services: unknown
  /** The type of `ctx.slices` in the tool. */
  slices: unknown
}

/**
 * What a tool declared with the types `T` needs: the types that it declares, otherwise `unknown`. A conditional type, so that declarations
 * emitted for an exported tool have its parts and need no name for it.
 */
export type NeedsOf<T extends ContextTypes> = T extends unknown
  ? {
      context: T extends { context: infer C } ? C : unknown
      services: T extends { services: infer S } ? S : unknown
      slices: T extends { slices: infer L } ? L : unknown
    }
  : never

/** The options of `defineTool`, individually; `FittingOptions` says which ones go together. */
export interface BasicToolOptions<
  S extends StandardSchemaV1 = StandardSchemaV1,
  R = unknown,
  E extends Effect = Effect,
  O extends StandardSchemaV1 = StandardSchemaV1,
  T extends ContextTypes = ContextTypes,
> {
  /** 1 to 64 of `[A-Za-z0-9_-]`, unique within an agent. */
  name: string
  /** What the tool does, for the model. Must not be blank. */
  description: string
  /**
   * Schema of the input, from zod or another library that supports Standard Schema and Standard JSON Schema. Its JSON form, which the model
   * receives, must be an object.
   */
  input: S
  /** How the tool affects the outside world. Required: pawl never guesses what may be repeated. */
  effect: E
  /**
   * The body. `'client'`: no worker runs it; the call waits for `session.answer(callId, result)`, for at most `timeout` (default: no
   * limit).
   */
  execute:
    | 'client'
    | ((input: StandardSchemaV1.InferOutput<S>, ctx: ToolContext<ContextIn<T>, ServicesIn<T>, SlicesIn<T>>) => R | Promise<R>)
  /**
   * Schema of the value that `execute` returns, or that a client answers with. A `read` whose result does not match fails. For any other
   * tool, the effect has already happened, so the model receives the result with a note on what is wrong. pawl records the value as is,
   * without the schema's transforms. Default: any JSON.
   */
  output?: O
  /**
   * Whether a person must approve the call before it is executed, and who: `{ reason, approvers: { role: 'finance' } }`. A function decides
   * based on the input, within 30 s, and may return the reason, the same object, or `{ deny: reason }` to refuse the call; if it throws, the
   * call needs approval. The person decides with `session.approve` or `session.deny`. Default `false`.
   */
  approval?:
    | boolean
    | RequiredApproval
    | ((
        input: StandardSchemaV1.InferOutput<S>,
        ctx: ApprovalContext<ContextIn<T>, ServicesIn<T>, SlicesIn<T>>,
      ) => ApprovalNeed | Promise<ApprovalNeed>)
  /** How long a request for approval waits. At most 24 days. Default `'24h'`. Needs `approval`. */
  approvalTimeout?: Duration
  /**
   * What happens to a call whose approval request expires: the model is told that it was denied (`deny`, the default), or the run fails.
   * Needs `approval`.
   */
  onExpiry?: 'deny' | 'error'
  /**
   * For `external`, except client tools: what happens if pawl cannot determine whether the call happened. `'ask'` (default): the session
   * waits for `session.resolve`. `'tell_model'`: pawl tells the model, which decides what to do.
   */
  onUnknown?: Unless<E, 'read' | 'idempotent', 'ask' | 'tell_model'>
  /**
   * For `external`, except client tools: says whether a call happened, once its attempt is known to be dead. Must only read. Default: none.
   */
  verify?: Unless<
    E,
    'read' | 'idempotent',
    (input: StandardSchemaV1.InferOutput<S>, ctx: ToolContext<ContextIn<T>, ServicesIn<T>, SlicesIn<T>>) => Verdict<R> | Promise<Verdict<R>>
  >
  /**
   * How long pawl waits, after an outcome becomes unknown, before it accepts "it did not happen" from `verify`: a request may still be in
   * flight. It accepts "it happened" at once. At most 24 days. Default `'5s'`; 0 for a downstream that `verify` cannot overtake. Needs
   * `verify`.
   */
  settleAfter?: Unless<E, 'read' | 'idempotent', Duration>
  /** How long one call of `verify` may take. At most 24 days. Default: `timeout`. Needs `verify`. */
  verifyTimeout?: Unless<E, 'read' | 'idempotent', Duration>
  /** How many times pawl retries a `verify` that threw: an integer from 0. Default 3. Needs `verify`. */
  verifyRetries?: Unless<E, 'read' | 'idempotent', number>
  /**
   * Names the effect in the outside world (a refund's id); stored with the call. Its argument is what `execute` returned: a copy of plain
   * objects and arrays, and the same instances of classes. If it throws, or takes longer than 3 s, the call is recorded without it, and a
   * warning is logged. Default: none.
   */
  effectId?: (result: R) => string | Promise<string>
  /**
   * What the model receives instead of the result. Its argument is what `execute` returned: a copy of plain objects and arrays, and the same
   * instances of classes. If it throws, or takes longer than 3 s, the model receives the result, and a warning is logged. Default: a string or
   * content blocks unchanged, anything else as JSON.
   */
  toModel?: (
    result: R,
    ctx: ToolContext<ContextIn<T>, ServicesIn<T>, SlicesIn<T>>,
    input: StandardSchemaV1.InferOutput<S>,
  ) => ResultContent | Promise<ResultContent>
  /**
   * How long `execute` may take; then `ctx.signal` aborts: a string with its unit, or milliseconds. At most 24 days. Default `'60s'`;
   * no limit for a client tool.
   */
  timeout?: Duration
  /**
   * Except for client tools: how pawl retries attempts that threw. For an `external` tool, it retries only an attempt that did not happen,
   * according to `verify` or a person.
   */
  retry?: RetryOptions
  /**
   * Except for client tools: at most `max` (an integer from 1) of the tool's calls run at a time, over all workers. `key`: the limit applies
   * to calls for which it returns the same string, such as a tenant's id. Calls that wait are admitted in the order in which they asked,
   * and use up no retries. Tools of the same name share the limit. Default: none.
   */
  concurrency?: { max: number; key?: (input: StandardSchemaV1.InferOutput<S>, ctx: LimitContext<ContextIn<T>>) => string }
  /** The same, but at most `max` attempts begin within any span of `per` (at most a day). Default: none. */
  rate?: { max: number; per: Duration; key?: (input: StandardSchemaV1.InferOutput<S>, ctx: LimitContext<ContextIn<T>>) => string }
  /** For `idempotent` and `external`: the scope within which the key is unique. Default `run`. */
  idempotency?: Unless<E, 'read', Idempotency<StandardSchemaV1.InferOutput<S>>>
  /**
   * Except for client tools: whether calls may run as part of the model call that requests them, once the tool has proved to be quick.
   * Default `true`. With `false`, each call is an activity of its own.
   */
  quick?: boolean
}

/** Options without those named `K`. */
export type Without<K extends string> = { [Option in K]?: never }

/** The options that a client tool cannot have, because they concern retries and verification of what a worker executes. */
export type BodyOption =
  | 'verify'
  | 'onUnknown'
  | 'settleAfter'
  | 'verifyTimeout'
  | 'verifyRetries'
  | 'retry'
  | 'quick'
  | 'concurrency'
  | 'rate'

/** What tools, hooks and agents tell the compiler about their `ctx.services`. */
export interface NeedsServices<N extends Pick<ToolNeeds, 'services'>> {
  /** For the compiler only. */
  readonly types?: { readonly needs: (given: N) => void }
}

/**
 * The services that the tools, hooks or agents `D` (a union) need: the intersection of the types that they declare. `unknown` if none of
 * them declares any.
 */
// oxlint-disable-next-line typescript/no-explicit-any -- of any needs
export type ServicesOf<D extends NeedsServices<any>> = (
  D extends NeedsServices<infer N>
    ? (given: 0 extends 1 & N['services'] ? unknown : N['services']) => void
    : never
) extends (given: infer S) => void
  ? S
  : unknown

/** Which options of a tool go together: `approvalTimeout` and `onExpiry` need `approval`, and a client tool has no `BodyOption`. */
export type FittingOptions = (Without<'approvalTimeout' | 'onExpiry'> | { approval: NonNullable<unknown> }) &
  (Without<BodyOption> | { execute: object })

/** Options of `defineTool`. */
export type ToolOptions<
  S extends StandardSchemaV1 = StandardSchemaV1,
  R = unknown,
  E extends Effect = Effect,
  O extends StandardSchemaV1 = StandardSchemaV1,
  T extends ContextTypes = ContextTypes,
> = BasicToolOptions<S, R, E, O, T> & FittingOptions

/** A declared tool: the options, checked and completed. Declare it with `defineTool`. */
// oxlint-disable-next-line typescript/no-explicit-any -- a `Tool` of any needs fits where any tool is accepted
export interface Tool<N extends ToolNeeds = any, A = any> {
  /** Its name. */
  readonly name: string
  /** What it does, as described to the model. */
  readonly description: string
  /** How it affects the outside world. */
  readonly effect: Effect
  /** Schema of the input. */
  readonly input: StandardSchemaV1
  /** JSON Schema of the input, as the model receives it. */
  readonly inputSchema: JsonObject
  /** Digest of `inputSchema`. */
  readonly schemaDigest: string
  /** How many milliseconds `execute` may take. */
  readonly timeoutMs: number
  /** How pawl retries attempts that threw. */
  readonly retry: RetryPolicy
  /** The scope within which the idempotency key is unique. */
  readonly idempotency: Idempotency<unknown>
  /** Schema of the result. */
  readonly output?: StandardSchemaV1
  /** When a call needs a person's approval; absent if it never does. */
  readonly approval?: ToolApproval
  /** What happens to a call whose outcome stays unknown. */
  readonly onUnknown: 'ask' | 'tell_model'
  /** Milliseconds before `verify`'s "it did not happen" counts. */
  readonly settleAfterMs: number
  /** How many milliseconds one call of `verify` may take. */
  readonly verifyTimeoutMs: number
  /** How many times pawl retries a `verify` that threw. */
  readonly verifyRetries: number
  /**
   * Whether calls may run as part of the model call that requests them, if the tool is quick. If absent, they may.
   */
  readonly quick?: boolean
  /** Limits of its calls over all workers; absent if there are none. */
  readonly limits?: readonly ToolLimit[]
  /** The body; absent if a client answers the call. */
  execute?(input: unknown, ctx: ToolContext): unknown
  /** Present for a client tool: how many milliseconds a call waits for its answer. */
  readonly client?: { readonly timeoutMs?: number }
  /** Present if a session of another agent answers the calls: how they are made. */
  readonly agent?: CalledAgent
  /** For `sleepTool`: how many milliseconds a call sleeps, from its parsed arguments. */
  readonly sleeps?: (input: unknown) => number
  /** Says whether a call happened. */
  verify?(input: unknown, ctx: ToolContext): Verdict<unknown> | Promise<Verdict<unknown>>
  /** Names the effect in the outside world. */
  effectId?(result: unknown): string | Promise<string>
  /** What the model receives instead of the result. */
  toModel?(result: unknown, ctx: ToolContext, input: unknown): ResultContent | Promise<ResultContent>
  /** For the compiler only: what the tool needs from its agent, and what a client may answer. */
  readonly types?: { readonly needs: (given: N) => void; readonly answer: A }
}

/**
 * Tools that are known only while a worker runs, such as those of an MCP server. They are read in executors; what a call needs of its tool is
 * recorded when the call is resolved.
 */
// oxlint-disable-next-line typescript/no-explicit-any -- a source of any needs fits where any source is accepted
export interface ToolSource<N extends ToolNeeds = any> {
  /** Its name. The names of its tools begin with it and two underscores. */
  readonly name: string
  /** Whether a tool of this name would be the source's. */
  owns(tool: string): boolean
  /** The tools, by name, as last read. Waits if they have never been read, for a limited time. Never rejects: see `problem`. */
  tools(log: Logger): Promise<ReadonlyMap<string, Tool<N>>>
  /**
   * One of the tools; undefined if there is none of this name. `again`: reads the tools again first.
   * @throws ToolError `mcp_unavailable` if they have never been read and cannot be read now.
   */
  find(tool: string, log: Logger, how?: 'again'): Promise<Tool<N> | undefined>
  /** Why the tools are unknown in this process; undefined if they are known. */
  problem(): string | undefined
  /** The source for one session, if its tools differ between users. Absent: it is the same for all. */
  forSession?(ctx: SourceContext): ToolSource<N>
  /** A call asks its user for what reading the tools needs, such as a sign-in. Absent: reading them needs nothing of a user. */
  askUser?(ctx: ToolContext): Promise<void>
  /** The tool that does so. It is active whenever a tool of the source is selected. */
  readonly askTool?: string
  /** Reads the tools again and describes the source, for people. @throws ToolError `mcp_unavailable`. */
  describe(log: Logger): Promise<SourceReport>
  /** Ends connections and processes. */
  close(): Promise<void>
  /** For the compiler only: what the tools need from their agent. */
  readonly types?: { readonly needs: (given: N) => void; readonly answer: unknown }
}

/** A limit of a tool's calls. */
export interface ToolLimit {
  /** How many calls run at a time, or how many begin within `perMs`. */
  readonly of: 'concurrency' | 'rate'
  readonly max: number
  readonly perMs?: number
  /** The limit applies to calls with the same key. Default: to all. */
  key?(input: unknown, ctx: LimitContext): string
}

/** What a tool source has, for people. */
export interface SourceReport {
  /** Its name. */
  source: string
  /** What it is, such as the name, version and protocol of a server. */
  about: string
  /** Its tools, in the order of its list. */
  tools: {
    name: string
    /** The tool's name at the source. */
    original: string
    effect: Effect
    /** Which rule decided the effect. */
    rule: string
    approval: boolean
    verify: boolean
  }[]
  /** Tools of the source that the agent does not get, each with the reason. */
  leftOut: { original: string; why: string }[]
}

/** How calls of an agent are made. */
export interface CalledAgent {
  /** The agent's name. */
  readonly name: string
  /** The context of the session that answers. Default: the caller's. */
  context?(input: unknown, ctx: AgentContext): Json | Promise<Json>
  /** The most that one answer may cost. Default: a share of what the caller has left. */
  readonly budget?: Budget
  /** The task queue of the workers that serve it. Default: the caller's. */
  readonly taskQueue?: string
  /** Whether the call completes before the answer arrives. Default: it does not. */
  readonly background?: true
}

/** When calls of a tool need approval, and what happens if a request expires. */
export interface ToolApproval {
  /** Whether this call needs it. */
  needed(input: unknown, ctx: ApprovalContext): ApprovalNeed | Promise<ApprovalNeed>
  /** How many milliseconds a request waits. */
  readonly expiresMs: number
  /** What happens to a call whose request expires. */
  readonly onExpiry: 'deny' | 'error'
}

/** The type of a client's answer to a call of the tool `T`: that of its `output` schema. */
export type AnswerOf<T extends Tool> = T extends Tool<infer _, infer A> ? A : Json
