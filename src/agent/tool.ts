// What a user declares a tool with.
import type { z } from 'zod'
import { type Duration, milliseconds } from '../session/duration.ts'
import type { Effect, ResultContent } from '../session/events.ts'
import type { Json, JsonObject } from '../session/json.ts'
import { DeclarationError } from './errors.ts'
import { type RetryOptions, type RetryPolicy, retryPolicy } from './retry.ts'
import { inputSchemaOf } from './schema.ts'

/**
 * What a worker process gives its tools as `ctx.services`: clients, pools, secrets. Made once per process, never recorded.
 * Untyped until you say what it is: `declare module 'pawl' { interface Services { payments: Payments } }`.
 */
export interface Services {
  // oxlint-disable-next-line typescript/no-explicit-any -- the user's own objects; augmenting the interface types them
  [name: string]: any
}

/** A pino-compatible logger. */
export interface Logger {
  debug(fields: object, message?: string): void
  info(fields: object, message?: string): void
  warn(fields: object, message?: string): void
  error(fields: object, message?: string): void
}

/** What is known wherever code of an agent runs. */
export interface AgentContext {
  readonly sessionId: string
  readonly agent: string
  readonly run: number
  readonly turn: number
  /** Whom the session is for, as its first caller said; validated by the agent's `context` schema. */
  readonly context: Json
  /** Of the message that opened the run. */
  readonly metadata: JsonObject
  readonly tags: readonly string[]
  readonly services: Services
  readonly log: Logger
}

/** What `execute` and `verify` are given besides the input. */
export interface ToolContext extends AgentContext {
  readonly callId: string
  /** Counted from 1 over all attempts of the call, also those that died with their worker. */
  readonly attempt: number
  /** The same on every attempt, and no other tool's; with a function as `idempotency`, `<tool>:<its key>`. Empty for a `read`. */
  readonly idempotencyKey: string
  /** Aborts on the tool's timeout and on an interrupt. */
  readonly signal: AbortSignal
  /** Asks the Temporal server whether this attempt is still the live one. Milliseconds: a network call. */
  stillMine(): Promise<boolean>
  /** Says how far the call is, in at most 16 KB of JSON: seen in the ledger and in the events, and given to the next attempt. */
  progress(value: Json): void
  /** What an earlier attempt said last by `progress`. */
  readonly lastProgress: Json | undefined
  /** Marks a point that a checkpoint may be made at (`checkpoint: { on: [{ type: 'milestone_reached', milestone }] }`); 1 to 200 characters. */
  milestone(name: string): void
}

/** Where a call stands whose approval is in question. */
export interface ApprovalContext extends AgentContext {
  readonly callId: string
}

/** Whether a call needs a person's approval: no, yes, or yes and why. */
export type ApprovalNeed = boolean | string

/** What `verify` answers; `'unknown'`: it cannot tell. */
export type Verdict<R> = { happened: true; result: R } | { happened: false } | { happened: 'unknown' }

/** What an idempotency key is unique over: `run` (default), `session`, `call`; or a function of the input that returns the tool's own key. */
export type Idempotency<I> = 'run' | 'session' | 'call' | ((input: I, ctx: { sessionId: string; run: number; callId: string }) => string)

/** What `defineTool` takes. */
export interface ToolOptions<S extends z.ZodType, R> {
  /** 1 to 64 of `[A-Za-z0-9_-]`, unique within an agent. */
  name: string
  description: string
  /** Must have a JSON form that is an object. */
  input: S
  /** What it does to the world. Required: pawl never guesses what may be repeated. */
  effect: Effect
  /** `'client'`: no worker executes it; the call waits for `session.answer(callId, result)`, at most for `timeout` (default: no limit). */
  execute: 'client' | ((input: z.output<S>, ctx: ToolContext) => R | Promise<R>)
  /** What `execute` or a client's answer must give. A read that gives something else fails; an effect has happened and says so. */
  output?: z.ZodType
  /**
   * Whether a person must approve the call before it is executed; a function decides by the input, and may give the reason.
   * What it throws counts as yes. Decided by `session.approve` and `session.deny`.
   */
  approval?: boolean | ((input: z.output<S>, ctx: ApprovalContext) => ApprovalNeed | Promise<ApprovalNeed>)
  /** How long a request for approval stands. Default 24 hours. */
  approvalTimeout?: Duration
  /** What becomes of a call that nobody decided on in time: the model is told that it was denied (default), or the run fails. */
  onExpiry?: 'deny' | 'error'
  /**
   * For `external`: what happens when nobody can tell whether the call happened. `'ask'` (default): the session waits for
   * `session.resolve`; `'tell_model'`: the model is told, and reasons about it.
   */
  onUnknown?: 'ask' | 'tell_model'
  /** Asked when nobody knows whether an `external` call happened, once its attempt is known to be dead. Must be a read. */
  verify?(input: z.output<S>, ctx: ToolContext): Verdict<R> | Promise<Verdict<R>>
  /**
   * How long after an outcome became unknown `verify`'s "it did not happen" counts: a request that was sent may still be under way.
   * "It happened" counts at once. Default 5 s; 0 for a downstream that `verify` cannot overtake.
   */
  settleAfter?: Duration
  /** How long one asking of `verify` may take. Default: `timeout`. */
  verifyTimeout?: Duration
  /** How often a `verify` that threw is asked again. Default 3. */
  verifyRetries?: number
  /** Names the effect in the outside world; stored with the call. */
  effectId?(result: R): string
  /** What the model is given instead of the result. */
  toModel?(result: R, ctx: ToolContext): ResultContent
  /** How long `execute` may take; `ctx.signal` aborts then. Default 60 s. */
  timeout?: Duration
  /** For `read` and `idempotent`; an `external` body is entered once. */
  retry?: RetryOptions
  /** For `idempotent` and `external`. Default `run`. */
  idempotency?: Idempotency<z.output<S>>
}

/** A declared tool: the options, checked and completed. Make it with `defineTool`. */
export interface Tool {
  readonly name: string
  readonly description: string
  readonly effect: Effect
  readonly input: z.ZodType
  /** JSON Schema of the input, as the model is told. */
  readonly inputSchema: JsonObject
  /** Digest of `inputSchema`. */
  readonly schemaDigest: string
  readonly timeoutMs: number
  readonly retry: RetryPolicy
  readonly idempotency: Idempotency<unknown>
  readonly output?: z.ZodType
  /** Absent: never asked for. */
  readonly approval?: {
    needed(input: unknown, ctx: ApprovalContext): ApprovalNeed | Promise<ApprovalNeed>
    readonly expiresMs: number
    readonly onExpiry: 'deny' | 'error'
  }
  readonly onUnknown: 'ask' | 'tell_model'
  readonly settleAfterMs: number
  readonly verifyTimeoutMs: number
  readonly verifyRetries: number
  /** Absent: a client answers it. */
  execute?(input: unknown, ctx: ToolContext): unknown
  /** Whether a client's answer is waited for without end. */
  readonly client?: { readonly timeoutMs?: number }
  verify?(input: unknown, ctx: ToolContext): Verdict<unknown> | Promise<Verdict<unknown>>
  effectId?(result: unknown): string
  toModel?(result: unknown, ctx: ToolContext): ResultContent
}

const DEFAULT_TIMEOUT = '60s'
const DEFAULT_SETTLE_AFTER = '5s'
const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/
const EFFECTS: readonly string[] = ['read', 'idempotent', 'external']

/**
 * Declares a tool.
 * @throws DeclarationError `invalid_tool` for a bad name, effect, timeout or retry; `no_json_schema` for an input schema
 * that has no JSON form or is no object.
 */
export function defineTool<S extends z.ZodType, R>(options: ToolOptions<S, R>): Tool {
  const { name, effect } = options
  if (typeof name !== 'string' || !TOOL_NAME.test(name)) {
    throw new DeclarationError('invalid_tool', `The tool name ${JSON.stringify(name)} does not match ${TOOL_NAME}: rename the tool.`)
  }
  const bad = (what: string): never => {
    throw new DeclarationError('invalid_tool', `Tool "${name}": ${what}`)
  }
  if (!EFFECTS.includes(effect)) {
    bad(
      `effect is ${JSON.stringify(effect)}; declare 'read' (safe to repeat), 'idempotent' (safe with the same key) or 'external' (never repeated).`,
    )
  }
  if (typeof options.description !== 'string' || options.description.trim() === '') bad('description is empty; say what the tool does.')
  const isClient = options.execute === 'client'
  if (typeof options.execute !== 'function' && !isClient) bad("execute is neither a function nor 'client'.")
  if (isClient && options.verify) bad('verify is for calls that a worker executes; this one is answered by a client.')
  if (options.onUnknown !== undefined && effect !== 'external') bad(`onUnknown is for 'external' tools; this one is '${effect}'.`)
  if (options.onUnknown !== undefined && !['ask', 'tell_model'].includes(options.onUnknown)) bad("onUnknown must be 'ask' or 'tell_model'.")
  if (options.onExpiry !== undefined && !['deny', 'error'].includes(options.onExpiry)) bad("onExpiry must be 'deny' or 'error'.")
  if (!['undefined', 'boolean', 'function'].includes(typeof options.approval)) bad('approval must be a boolean or a function of the input.')
  if (options.output !== undefined && typeof options.output?.safeParseAsync !== 'function') bad('output is no zod schema.')
  if (options.settleAfter !== undefined && !options.verify) bad('settleAfter is for tools with a verify.')
  if (options.verify !== undefined && effect !== 'external') bad(`verify is for 'external' tools; this one is '${effect}'.`)
  if (options.idempotency !== undefined && effect === 'read') bad("a 'read' has no idempotency key: leave out `idempotency`.")
  const timeoutMs =
    milliseconds(options.timeout ?? DEFAULT_TIMEOUT) ??
    bad("timeout must be a positive number of milliseconds, or text like '30s', up to 24 days.")
  const retry = retryPolicy(options.retry, bad)
  const duration = (value: Duration, of: string): number =>
    milliseconds(value) ?? bad(`${of} must be a positive number of milliseconds, or text like '30s', up to 24 days.`)
  const verifyTimeoutMs = options.verifyTimeout === undefined ? timeoutMs : duration(options.verifyTimeout, 'verifyTimeout')
  const settleAfterMs = options.settleAfter === 0 ? 0 : duration(options.settleAfter ?? DEFAULT_SETTLE_AFTER, 'settleAfter')
  const { verifyRetries = 3 } = options
  if (!(Number.isInteger(verifyRetries) && verifyRetries >= 0)) bad('verifyRetries must be an integer from 0.')
  const { inputSchema, schemaDigest } = inputSchemaOf(options.input, `the input of tool "${name}"`)
  return {
    name,
    description: options.description,
    effect,
    input: options.input,
    inputSchema,
    schemaDigest,
    timeoutMs,
    retry,
    idempotency: (options.idempotency ?? 'run') as Idempotency<unknown>,
    onUnknown: options.onUnknown ?? 'ask',
    settleAfterMs,
    verifyTimeoutMs,
    verifyRetries,
    ...(options.output && { output: options.output }),
    ...(options.approval !== undefined &&
      options.approval !== false && {
        approval: {
          needed: neededBy(options.approval as boolean | ((input: unknown, ctx: ApprovalContext) => ApprovalNeed | Promise<ApprovalNeed>)),
          expiresMs: duration(options.approvalTimeout ?? '24h', 'approvalTimeout'),
          onExpiry: options.onExpiry ?? 'deny',
        },
      }),
    ...(typeof options.execute === 'function'
      ? { execute: options.execute as NonNullable<Tool['execute']> }
      : { client: options.timeout === undefined ? {} : { timeoutMs } }),
    ...(options.verify && { verify: options.verify as NonNullable<Tool['verify']> }),
    ...(options.effectId && { effectId: options.effectId as NonNullable<Tool['effectId']> }),
    ...(options.toModel && { toModel: options.toModel as NonNullable<Tool['toModel']> }),
  }
}

function neededBy(approval: boolean | ((input: unknown, ctx: ApprovalContext) => ApprovalNeed | Promise<ApprovalNeed>)) {
  return typeof approval === 'function' ? approval : () => approval
}
