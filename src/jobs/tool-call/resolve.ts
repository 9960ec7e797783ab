// Resolves a tool call that the model requested, with this worker's code.
import type { ToolCallInput } from '../../calls/activities.ts'
import type { EarlierKeys } from '../../calls/reads.ts'
import type { Agent } from '../../agent/agent.ts'
import { builtInNames, builtInOf } from '../../agent/built-in-tools.ts'
import { idempotencyKeyOf, InvalidKey, inputDigestOf } from '../../agent/keys.ts'
import { DEFAULT_APPROVAL_MS } from '../../agent/define-tool.ts'
import { check } from '../../agent/schema.ts'
import type { AgentContext, ApprovalContext, CalledAgent, RequiredApproval, Tool, ToolApproval } from '../../agent/tool.ts'
import { type ApprovalTerms, type Resolution, SETTLE_AFTER_MS } from '../../session/call-facts.ts'
import { callIdOf } from '../../session/ids.ts'
import { APPROVERS_RULE, isApprovers } from '../../session/approvers.ts'
import { copyOf, isObject, type Json, jsonBytes } from '../../session/json.ts'
import { plainOf } from '../../session/protocol/requests.ts'
import { cutText, TEXT_BYTES } from '../../session/protocol/texts.ts'
import { defined } from '../../session/defined.ts'
import { numberText } from '../../session/number-text.ts'
import { ownContext } from '../agent-context.ts'
import { inTimeOrThrow } from '../../waiting/in-time.ts'
import { resolveOutput } from '../model-call/run-output.ts'
import { whyUnknown } from '../tools-now.ts'
import { beginningOf } from '../../session/beginning.ts'
import { approvalFailed } from '../../session/failed-checks.ts'
import { type CallIntent, sameIntentIn } from '../../session/transcript/unknown-calls.ts'
import type { FoldedSession } from '../session-views.ts'

/** Maximum bytes of JSON of each text in a resolution: the resolutions of all calls of an answer must fit into one activity's result. */
const MAX_TEXT_BYTES = 2_000

/** A call as the model requested it, or as a recovery or a person makes it. */
export interface RequestedCall
  extends Pick<ToolCallInput, 'run' | 'intent' | 'turn' | 'input' | 'keysOf'>,
    Pick<Resolution, 'index' | 'tool' | 'generation'> {
  sessionId: string
  /** The answer was cut off in this call. */
  isCut?: boolean
  /** The answer has no other calls. */
  isAlone?: boolean
}

/** What hooks answered about a call. */
export interface HookVerdict {
  /** The reason that the call is not executed. */
  denied?: string
  /** The model's own arguments, if a hook has changed them. */
  own?: Json
  /** Why a person must approve the call: a hook failed. */
  ask?: string
}

/** What a call's resolution needs besides the agent and the call. */
export interface ResolutionInputs {
  /** By key: the call that completed with this key. */
  completed?: ReadonlyMap<string, string>
  /** The unknown calls that the session's state has no room for; the workflow knows the others. */
  lost?: ReadonlyMap<string, CallIntent>
  /** Finds keys of a part of the session that was pruned; absent if nothing was pruned. */
  earlier?: ((key: string) => ReturnType<EarlierKeys>) | undefined
  /** The context for the tool's `approval`. */
  ctx: AgentContext
  verdict?: HookVerdict
}

/** What the session has done, as a call's resolution needs it. */
export function pastOfCall(
  { state, transcript }: Pick<FoldedSession, 'state' | 'transcript'>,
  sessionId: string,
  earlierKeys: EarlierKeys,
): Omit<ResolutionInputs, 'ctx' | 'verdict'> {
  return {
    completed: transcript.keys,
    lost: new Map([...transcript.lost.unknown].filter(([callId]) => !Object.hasOwn(state.unknown, callId))),
    earlier: state.origin && ((key) => earlierKeys(sessionId, key)),
  }
}

/** Whether the agent serves calls of a tool with that name: it is the agent's own, or one of pawl's that the agent uses. */
export function hasTool(agent: Agent, name: string): boolean {
  return agent.tools.has(name) || builtInOf(agent, name) !== undefined
}

/** Resolves a call: decides its effect, key, timeouts and approval, or why it cannot run. */
export async function resolveCall(agent: Agent, call: RequestedCall, options: ResolutionInputs): Promise<Resolution> {
  const { ctx, verdict = {} } = options
  const { index, input: rawInput } = call
  const tool = agent.tools.get(call.tool)
  const inputDigest = inputDigestOf(call.tool, rawInput)
  const own = verdict.own === undefined ? {} : { ownDigest: inputDigestOf(call.tool, verdict.own) }
  const denied = verdict.denied === undefined ? {} : { invalid: { code: 'denied' as const, message: denialOf(verdict.denied) } }
  const builtIn = builtInOf(agent, call.tool)
  if (builtIn) {
    const ofOutput = builtIn === 'output' && !denied.invalid ? await outputOf(agent, call, verdict) : {}
    return { ...NOT_RUN, index, tool: call.tool, inputDigest, ...own, ...denied, ...ofOutput, builtIn }
  }
  if (!tool) return { ...NOT_RUN, index, inputDigest, ...unknownTool(agent, call.tool) }
  const known = { index, tool: tool.name, effect: tool.effect, inputDigest, ...own, ...termsOf(tool) }
  if (call.isCut) return { ...known, invalid: { code: 'cut_off', message: CUT } }
  const callCtx = { ...ctx, callId: callIdOf(call.run, call.turn, index, call.generation) }
  const parsed = await parseInput(tool, rawInput)
  if ('thrown' in parsed) logThrown(callCtx, tool, 'schema check', parsed.thrown)
  if ('problem' in parsed) return { ...known, invalid: { code: 'invalid_arguments', message: cutText(parsed.problem, MAX_TEXT_BYTES) } }
  if (denied.invalid) return { ...known, ...denied }
  const keyed = keyOf(tool, call, parsed.input, callCtx)
  if (keyed.invalid) return { ...known, invalid: keyed.invalid }
  const { key } = keyed
  const used = key === undefined ? {} : await usesOf({ key, inputDigest, ...own }, options)
  if (used.invalid) return { ...known, invalid: used.invalid }
  const called = tool.agent ? await calledOf(tool, tool.agent, await untouched(tool, rawInput, parsed.input), callCtx) : undefined
  if (called?.invalid) return { ...known, invalid: called.invalid }
  const approval = await approvalOf(tool, await untouched(tool, rawInput, parsed.input), callCtx, verdict.ask)
  if (approval && 'deny' in approval) return { ...known, invalid: { code: 'denied', message: denialOf(approval.deny) } }
  const sleeping = tool.sleeps && { client: { timeoutMs: tool.sleeps(parsed.input), sleeps: true as const } }
  return { ...known, ...called, ...sleeping, ...defined({ key, replayOf: used.replayOf }), ...(approval && { approval }) }
}

/** Maximum bytes of the context of a session that answers a call, because each answer of the model may have many calls. */
const MAX_CONTEXT_BYTES = 16_000

/** How another agent answers the call, or why it cannot be asked. */
async function calledOf(
  tool: Tool,
  called: CalledAgent,
  input: unknown,
  ctx: ApprovalContext,
): Promise<Pick<Resolution, 'client' | 'invalid'>> {
  const { name, budget, taskQueue, background } = called
  const terms = { name, ...defined({ budget: budget && { ...budget }, taskQueue, background }) }
  if (!called.context) return { client: { agent: terms } }
  try {
    const context = plainOf(await inTimeOrThrow(Promise.resolve(called.context(input, ownContext(ctx))), ANSWER_MS))
    if (context === undefined || jsonBytes(context) > MAX_CONTEXT_BYTES)
      throw new TypeError(`it must return JSON of at most ${numberText(MAX_CONTEXT_BYTES)} bytes`)
    return { client: { agent: { ...terms, context } } }
  } catch (error) {
    logThrown(ctx, tool, 'context function', error)
    const reason = error instanceof Error ? error.message : String(error)
    const message = `The agent "${name}" was not asked: the context for it could not be computed. ${reason}`
    return { invalid: { code: 'invalid_context', message: cutText(message, MAX_TEXT_BYTES) } }
  }
}

/** What a resolution records of a tool that the agent does not have. */
function unknownTool(agent: Agent, name: string): Pick<Resolution, 'tool' | 'invalid'> {
  const tool = cutText(name, TEXT_BYTES.name)
  const has = [...agent.tools.keys(), ...builtInNames(agent)].join(', ') || 'none'
  const message = whyUnknown(agent, name) ?? `There is no tool "${tool}". The tools are: ${has}.`
  return { tool, invalid: { code: 'unknown_tool', message: cutText(message, MAX_TEXT_BYTES) } }
}

/** What the tool's declaration decides for all its calls. */
function termsOf(tool: Tool) {
  return {
    schemaDigest: tool.schemaDigest,
    timeoutMs: tool.timeoutMs,
    retry: { maxRetries: tool.retry.maxRetries, baseDelayMs: tool.retry.baseDelayMs },
    verify: tool.verify !== undefined,
    ...(tool.verify && tool.verifyTimeoutMs !== tool.timeoutMs && { verifyTimeoutMs: tool.verifyTimeoutMs }),
    ...(tool.verify && tool.settleAfterMs !== SETTLE_AFTER_MS && { settleAfterMs: tool.settleAfterMs }),
    ...(tool.verify && tool.verifyRetries !== 3 && { verifyRetries: tool.verifyRetries }),
    ...(tool.effect === 'external' && { onUnknown: tool.onUnknown }),
    ...(tool.client && { client: tool.client }),
  }
}

/** The call's idempotency key, if its tool uses one, or why it cannot be computed. */
function keyOf(tool: Tool, call: RequestedCall, input: unknown, ctx: ApprovalContext): Pick<Resolution, 'key' | 'invalid'> {
  try {
    const key = idempotencyKeyOf(tool, { ...call, rawInput: call.input, input })
    if (jsonBytes(key) > MAX_TEXT_BYTES)
      throw new InvalidKey(`The key has ${numberText(jsonBytes(key))} bytes of JSON, and the limit is ${numberText(MAX_TEXT_BYTES)}.`)
    return defined({ key })
  } catch (error) {
    const reason = whyNoKey(ctx, tool, 'idempotency function', error)
    const message = `The call cannot be made: its idempotency key could not be computed. ${reason}`
    return { invalid: { code: 'invalid_idempotency_key', message: cutText(message, MAX_TEXT_BYTES) } }
  }
}

/** The call that has already completed the effect, or why it is not known whether one has. */
async function usesOf(
  intent: CallIntent & { key: string },
  { completed, lost, earlier }: Omit<ResolutionInputs, 'ctx' | 'verdict'>,
): Promise<Pick<Resolution, 'replayOf' | 'invalid'>> {
  const replayOf = completed?.get(intent.key)
  if (replayOf !== undefined) return { replayOf }
  const before = lost && sameIntentIn(lost, intent)
  if (before !== undefined) return { invalid: { code: 'outcome_unknown', message: unknownBefore(before) } }
  const pruned = await earlier?.(intent.key)
  if (pruned?.outcome === 'unknown')
    return { invalid: { code: 'outcome_unknown', message: unknownBefore(pruned.callId, ', and its record was pruned') } }
  return defined({ replayOf: pruned?.callId })
}

/** Parses the tool's input again if its key function may have changed it, because what is approved must be what is executed. */
async function untouched(tool: Tool, raw: Json, seen: unknown): Promise<unknown> {
  if (!(tool.approval || tool.agent) || typeof tool.idempotency !== 'function') return seen
  const parsed = await parseInput(tool, raw)
  return 'problem' in parsed ? seen : parsed.input
}

/** What is recorded for a call that provides the run's output. */
async function outputOf(
  agent: Agent,
  { input, isAlone = false, isCut = false }: RequestedCall,
  { own }: HookVerdict,
): Promise<Pick<Resolution, 'output' | 'invalid'>> {
  const resolved = await resolveOutput(agent, { input, isChanged: own !== undefined, isAlone, isCut })
  const { invalid } = resolved
  return invalid ? { invalid: { ...invalid, message: cutText(invalid.message, MAX_TEXT_BYTES) } } : resolved
}

function unknownBefore(callId: string, more = ''): string {
  return `The same call was made before, as ${callId}. It may have taken effect: its outcome was never found out${more}. It was not executed again. Tell the user, and do not repeat it.`
}

function denialOf(reason: string): string {
  return cutText(`This call was not allowed and was not executed. Reason: ${reason}`, MAX_TEXT_BYTES)
}

/** Why a tool's own function provides no key. Logs what it threw, or that the key cannot be used. */
export function whyNoKey(ctx: Pick<ApprovalContext, 'callId' | 'log'>, tool: Tool, what: string, error: unknown): string {
  const reason = error instanceof Error ? error.message : String(error)
  if (error instanceof InvalidKey)
    ctx.log.warn({ call: ctx.callId, tool: tool.name, reason }, `the tool's ${what} returned a key that cannot be used`)
  else logThrown(ctx, tool, what, error)
  return reason
}

/** What a tool's own functions throw decides about the call; where they threw is only in the log. */
function logThrown({ callId, log }: Pick<ApprovalContext, 'callId' | 'log'>, tool: Tool, what: string, err: unknown): void {
  log.warn({ call: callId, tool: tool.name, err }, `the tool's ${what} threw`)
}

/**
 * The terms of the approval, if the call needs one, or why the tool denies the call. It also needs one if the tool's function or a hook
 * (`ask`: how) fails.
 */
async function approvalOf(
  tool: Tool,
  input: unknown,
  ctx: ApprovalContext,
  ask: string | undefined,
): Promise<ApprovalTerms | { deny: string } | undefined> {
  const { expiresMs = DEFAULT_APPROVAL_MS, onExpiry = 'deny' } = tool.approval ?? {}
  const need = tool.approval ? await approvalNeed(tool, tool.approval, input, ctx) : false
  if (typeof need === 'object' && 'deny' in need) return need
  if (ask === undefined && need === false) return undefined
  const asked: RequiredApproval & { failed?: true } = typeof need === 'object' ? need : typeof need === 'string' ? { reason: need } : {}
  const { reason: own, approvers, failed } = asked
  const reason = ask ?? own
  const why = typeof reason === 'string' && reason !== '' ? { reason: cutText(reason, MAX_TEXT_BYTES) } : {}
  return {
    expiresMs,
    onExpiry,
    ...why,
    ...(approvers && { approvers: { role: approvers.role } }),
    ...((ask !== undefined || failed) && { failed: true as const }),
  }
}

/** `failed`: nobody knows what the function would have said. */
type KnownNeed = boolean | string | { deny: string } | (RequiredApproval & { failed?: true })

/** The answer of the tool's function; that it failed is a reason to ask a person. */
async function approvalNeed(tool: Tool, { needed }: ToolApproval, input: unknown, ctx: ApprovalContext): Promise<KnownNeed> {
  try {
    const need: unknown = await inTimeOrThrow(needed(input, ownContext(ctx)), ANSWER_MS)
    // Anything else that is not `false` asks a person.
    if (!isObject(need)) return typeof need === 'string' ? need : need !== false
    const { deny, reason, approvers } = need
    if (typeof deny === 'string') return { deny }
    // Whoever reads this as "anyone may" would let people decide whom the tool does not trust.
    if (approvers !== undefined && !isApprovers(approvers))
      throw new TypeError(`approval returned approvers that are not ${APPROVERS_RULE}.`)
    return { ...(typeof reason === 'string' && { reason }), ...(approvers !== undefined && { approvers }) }
  } catch (error) {
    logThrown(ctx, tool, 'approval function', error)
    return { reason: approvalFailed(error instanceof Error ? error.message : String(error)), failed: true }
  }
}

/** How long a tool's approval function, or the checks of its schema, may delay the turn. */
const ANSWER_MS = 30_000

const CUT =
  'This call was not run: the answer was cut off at the limit of its length, so the arguments may be incomplete. ' +
  'Request the call again with shorter arguments, or split it into several calls.'

const NOT_RUN = { effect: 'read', schemaDigest: '', timeoutMs: 0, retry: { maxRetries: 0, baseDelayMs: 0 }, verify: false } as const

/** The tool's input from raw arguments, or what is wrong with them, for the model. */
export async function parseInput(tool: Tool, raw: Json): Promise<{ input: unknown } | { problem: string; thrown?: unknown }> {
  if (typeof raw === 'string') return { problem: `The arguments are not a JSON object: ${beginningOf(raw, 500)}` }
  try {
    // Copied, because a schema may pass parts of its argument on to the tool's functions.
    const checked = await inTimeOrThrow(check(tool.input, copyOf(raw)), ANSWER_MS)
    if ('value' in checked) return { input: checked.value }
    return { problem: beginningOf(`The arguments do not match the tool's schema.\n${checked.problem}`, 4_000) }
  } catch (error) {
    return { problem: `The arguments could not be checked: ${error instanceof Error ? error.message : String(error)}`, thrown: error }
  }
}
