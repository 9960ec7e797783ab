// `defineTool`: checks and completes the declaration of a tool.
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { z } from 'zod'
import { checkOptions, duration, flag, fn, integer, oneOf, options, text, warnOfBareLimits, where } from '../options/check.ts'
import { defined } from '../session/defined.ts'
import { isObject } from '../session/json.ts'
import { DeclarationError } from './errors.ts'
import { isToolName } from './names.ts'
import { type RetryPolicy, RETRY, retryPolicy } from './retry.ts'
import { A_SCHEMA, inputSchemaOf, isSchema } from './schema.ts'
import type { Effect } from '../session/call-facts.ts'
import { APPROVERS_RULE, isApprovers } from '../session/approvers.ts'
import type {
  ApprovalContext,
  ApprovalNeed,
  BodyOption,
  ContextTypes,
  Idempotency,
  NeedsOf,
  RequiredApproval,
  Tool,
  ToolLimit,
  ToolOptions,
} from './tool.ts'

const DEFAULT_TIMEOUT_MS = 60_000
const DEFAULT_SETTLE_AFTER_MS = 5_000
/** How long a request for approval waits by default. */
export const DEFAULT_APPROVAL_MS = 86_400_000
const DEFAULT_VERIFY_RETRIES = 3

/** Declares a tool; see `ToolOptions` for its options. */
export interface DefineTool<T extends ContextTypes> {
  /**
   * Declares a tool.
   * @throws DeclarationError `invalid_tool` for an option that is unknown, missing or not allowed; `no_json_schema` for an input schema
   * that has no JSON form or is not an object.
   */
  <
    S extends StandardSchemaV1,
    R extends StandardSchemaV1.InferInput<O>,
    const E extends Effect,
    O extends StandardSchemaV1 = StandardSchemaV1,
  >(
    options: ToolOptions<S, R, E, O, T>,
  ): Tool<NeedsOf<T>, StandardSchemaV1.InferInput<O>>
  /**
   * The same function, for tools whose `ctx.services`, `ctx.context` and `ctx.slices` have these types:
   * `const tool = defineTool.withTypes<{ services: { payments: Payments }; context: { tenantId: string } }>()`.
   * An agent accepts such a tool only if its `context` schema and its slices have these types.
   */
  withTypes<U extends ContextTypes>(): DefineTool<U>
}

const LIMIT_KEY = fn<NonNullable<ToolLimit['key']>>('a function of the input that returns a string')
const LONGEST_RATE_MS = 86_400_000

const OPTIONS = options({
  name: where<string>(isToolName, '1 to 64 characters of [A-Za-z0-9_-]'),
  description: text('a non-empty string that says what the tool does'),
  input: z.unknown().optional(),
  effect: where<Effect>(
    (effect) => ['read', 'idempotent', 'external'].includes(effect as string),
    "'read' (safe to repeat), 'idempotent' (safe to repeat with the same key) or 'external' (never repeated)",
  ),
  execute: where<'client' | NonNullable<Tool['execute']>>(
    (execute) => execute === 'client' || typeof execute === 'function',
    "a function, or 'client'",
  ),
  output: where<StandardSchemaV1>(isSchema, A_SCHEMA).optional(),
  approval: where<boolean | RequiredApproval | NeedsApproval>(
    (value) => ['boolean', 'function'].includes(typeof value) || isRequiredApproval(value),
    `true, false, an object with reason and approvers, or a function of the input; approvers is ${APPROVERS_RULE}`,
  ).optional(),
  approvalTimeout: duration({ example: '8h' }).optional(),
  onExpiry: oneOf('deny', 'error').optional(),
  onUnknown: oneOf('ask', 'tell_model').optional(),
  verify: fn<NonNullable<Tool['verify']>>().optional(),
  settleAfter: duration({ min: 0 }).optional(),
  verifyTimeout: duration().optional(),
  verifyRetries: integer(0).optional(),
  effectId: fn<NonNullable<Tool['effectId']>>('a function of the result').optional(),
  toModel: fn<NonNullable<Tool['toModel']>>('a function of the result').optional(),
  timeout: duration().optional(),
  retry: RETRY.optional(),
  quick: flag().optional(),
  concurrency: options({ max: integer(1), key: LIMIT_KEY.optional() }, 'an object with max, and maybe key').optional(),
  rate: options(
    { max: integer(1), per: duration({ max: LONGEST_RATE_MS, limits: 'above 0 and at most a day' }), key: LIMIT_KEY.optional() },
    'an object with max and per, and maybe key',
  ).optional(),
  idempotency: where<Idempotency<unknown>>(
    (value) => ['run', 'session', 'call'].includes(value as string) || typeof value === 'function',
    "'run', 'session', 'call' or a function of the input",
  ).optional(),
})

const BODY_OPTIONS = [
  'verify',
  'onUnknown',
  'settleAfter',
  'verifyTimeout',
  'verifyRetries',
  'retry',
  'quick',
  'concurrency',
  'rate',
] as const satisfies BodyOption[]

const APPROVAL_MEMBERS: readonly string[] = ['reason', 'approvers']

function isRequiredApproval(value: unknown): boolean {
  if (!isObject(value) || Object.keys(value).some((name) => !APPROVAL_MEMBERS.includes(name))) return false
  const { reason, approvers } = value
  return (reason === undefined || typeof reason === 'string') && (approvers === undefined || isApprovers(approvers))
}

type NeedsApproval = (input: unknown, ctx: ApprovalContext) => ApprovalNeed | Promise<ApprovalNeed>

/**
 * Declares a tool. `defineTool.withTypes<{ services; context; slices }>()` returns the same function for tools with typed `ctx`.
 * @throws DeclarationError `invalid_tool` for an option that is unknown, missing or not allowed; `no_json_schema` for an input schema
 * that has no JSON form or is not an object.
 */
export const defineTool: DefineTool<object> = Object.assign(declare as unknown as DefineTool<object>, {
  withTypes: <U extends ContextTypes>() => defineTool as unknown as DefineTool<U>,
})

function declare(given: unknown): Tool {
  const name = (given as { name?: unknown } | undefined)?.name
  const bad = (problem: string): DeclarationError =>
    new DeclarationError('invalid_tool', typeof name === 'string' ? `Tool "${name}": ${problem}` : `A tool: ${problem}`)
  const tool = checkOptions(OPTIONS, given, bad)
  const conflict = conflictIn(tool)
  if (conflict !== undefined) throw bad(conflict)
  const { timeout: bareTimeout, verifyTimeout, approvalTimeout } = given as Record<string, unknown>
  warnOfBareLimits(`Tool "${tool.name}"`, { timeout: bareTimeout, verifyTimeout, approvalTimeout })
  const { execute, approval, timeout: timeoutMs = DEFAULT_TIMEOUT_MS } = tool
  const { output, verify, effectId, toModel, quick } = tool
  const retry: RetryPolicy = retryPolicy(tool.retry)
  const limits = limitsIn(tool)
  return {
    name: tool.name,
    description: tool.description,
    effect: tool.effect,
    input: tool.input as StandardSchemaV1,
    ...inputSchemaOf(tool.input, `The input of tool "${tool.name}"`),
    timeoutMs,
    retry,
    idempotency: tool.idempotency ?? 'run',
    onUnknown: tool.onUnknown ?? 'ask',
    settleAfterMs: tool.settleAfter ?? DEFAULT_SETTLE_AFTER_MS,
    verifyTimeoutMs: tool.verifyTimeout ?? timeoutMs,
    verifyRetries: tool.verifyRetries ?? DEFAULT_VERIFY_RETRIES,
    ...(approval !== undefined &&
      approval !== false && {
        approval: {
          needed: typeof approval === 'function' ? approval : () => approval,
          expiresMs: tool.approvalTimeout ?? DEFAULT_APPROVAL_MS,
          onExpiry: tool.onExpiry ?? 'deny',
        },
      }),
    ...(execute === 'client' ? { client: tool.timeout === undefined ? {} : { timeoutMs } } : { execute }),
    ...defined({ output, verify, effectId, toModel, quick }),
    ...(limits.length > 0 && { limits }),
  }
}

/** `concurrency` comes first: all calls lock their limits in the same order. */
function limitsIn({ concurrency, rate }: Pick<z.output<typeof OPTIONS>, 'concurrency' | 'rate'>): ToolLimit[] {
  return [
    ...(concurrency ? [{ of: 'concurrency' as const, max: concurrency.max, ...defined({ key: concurrency.key }) }] : []),
    ...(rate ? [{ of: 'rate' as const, max: rate.max, perMs: rate.per, ...defined({ key: rate.key }) }] : []),
  ]
}

/** The problem with options that are each valid, but not together; undefined if there is none. */
function conflictIn(tool: z.output<typeof OPTIONS>): string | undefined {
  const { effect, execute, approval, verify, onUnknown, idempotency, quick } = tool
  const ofBody = BODY_OPTIONS.find((name) => tool[name] !== undefined)
  if (execute === 'client' && ofBody)
    return `${ofBody} is for calls that a worker executes, but a client answers calls of this tool. Omit ${ofBody}.`
  if (verify && effect !== 'external') return `verify is for 'external' tools, but this one is '${effect}'. Omit verify.`
  if (onUnknown !== undefined && effect !== 'external') return `onUnknown is for 'external' tools, but this one is '${effect}'. Omit it.`
  const ofVerify = (['settleAfter', 'verifyTimeout', 'verifyRetries'] as const).find((name) => tool[name] !== undefined)
  if (ofVerify && effect !== 'external') return `${ofVerify} is for 'external' tools, but this one is '${effect}'. Omit it.`
  if (ofVerify && !verify) return `${ofVerify} is for tools with a verify. Add verify, or omit ${ofVerify}.`
  const ofApproval = (['approvalTimeout', 'onExpiry'] as const).find((name) => tool[name] !== undefined)
  if (ofApproval && approval === undefined) return `${ofApproval} is for tools with an approval. Add approval, or omit ${ofApproval}.`
  if (quick && (tool.concurrency || tool.rate))
    return 'quick is for calls that may run as part of a model call, and calls with a limit do not. Omit it.'
  if (idempotency !== undefined && effect === 'read') return "idempotency is for tools with an effect, but a 'read' has no key. Omit it."
  return undefined
}
