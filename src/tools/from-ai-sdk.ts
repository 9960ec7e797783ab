// `fromAiSdk`: tools of the AI SDK as tools of pawl.
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { defineTool } from '../agent/define-tool.ts'
import { DeclarationError } from '../agent/errors.ts'
import type {
  ApprovalContext,
  BasicToolOptions,
  ContextIn,
  ContextTypes,
  NeedsOf,
  ServicesIn,
  SlicesIn,
  Tool,
  ToolContext,
  ToolOptions,
} from '../agent/tool.ts'
import { checkOptions, fn, options, where } from '../options/check.ts'
import type { Effect } from '../session/call-facts.ts'
import { defined } from '../session/defined.ts'
import { isObject } from '../session/json.ts'
import { approvalOption } from './ai-sdk-approval.ts'
import { bodyOf, callContext, toolCallIdOf } from './ai-sdk-call.ts'
import { contentOfOutput } from './ai-sdk-output.ts'
import { standardSchemaOf } from './ai-sdk-schema.ts'
import type {
  AiSdkApprovalOptions,
  AiSdkApprovalStatus,
  AiSdkCallToApprove,
  AiSdkInput,
  AiSdkResult,
  AiSdkTool,
  AiSdkToolMembers,
} from './ai-sdk-tool.ts'
import { descriptionOf, supportedMembers } from './ai-sdk-support.ts'

/** The options of `defineTool` that an AI SDK tool already has. */
type InAiSdkTool = 'name' | 'description' | 'input' | 'effect' | 'execute'

/** The options in `effects` for a tool with the effect `E`: the effect, and any other option of `defineTool`. */
export interface AiSdkToolOptions<I, R, E extends Effect, T extends ContextTypes>
  extends Omit<BasicToolOptions<StandardSchemaV1<unknown, I>, R, E, StandardSchemaV1, T>, InAiSdkTool> {
  /** How the tool affects the outside world. */
  effect: E
  /** What the tool does, for the model. Default: the tool's own `description`. */
  description?: string
}

/** The effect of a tool, alone or with other options. */
export type AiSdkEffect<S extends AiSdkTool, T extends ContextTypes> =
  | Effect
  | { [E in Effect]: AiSdkToolOptions<AiSdkInput<S>, AiSdkResult<S>, E, T> }[Effect]

type MaybePromise<V> = V | PromiseLike<V>

/** Options of `fromAiSdk`. */
export interface FromAiSdkOptions<S extends Readonly<Record<string, AiSdkTool>>, T extends ContextTypes> {
  /** How each tool affects the outside world. Name every tool: pawl never guesses what may be repeated. */
  effects: { readonly [N in keyof S]: AiSdkEffect<S[N], T> }
  /**
   * Which calls need approval, as for `streamText` of AI SDK 7: a status or a function for each tool, or one function for all. It takes
   * precedence over a tool's `needsApproval`, and the option `approval` of a tool over both. Default: `needsApproval` decides.
   */
  toolApproval?:
    | ((call: AiSdkCallToApprove) => MaybePromise<AiSdkApprovalStatus>)
    | {
        readonly [N in keyof S]?:
          | AiSdkApprovalStatus
          | ((input: AiSdkInput<S[N]>, options: AiSdkApprovalOptions) => MaybePromise<AiSdkApprovalStatus>)
      }
  /**
   * What the tools receive as `context` (AI SDK 7, checked by the tool's `contextSchema`) and `experimental_context` (AI SDK 6). Functions
   * that decide about approval receive it, too; `ctx` has no `idempotencyKey` there. Default: the session's `context`.
   */
  context?: (
    ctx: ApprovalContext<ContextIn<T>, ServicesIn<T>, SlicesIn<T>> & Partial<ToolContext<ContextIn<T>, ServicesIn<T>, SlicesIn<T>>>,
    tool: string,
  ) => unknown
}

/** Converts AI SDK tools to pawl tools; see `FromAiSdkOptions` for the options. */
export interface FromAiSdk<T extends ContextTypes> {
  /**
   * Converts tools of AI SDK 6 or 7 to pawl tools.
   * @throws DeclarationError `invalid_tool` for a tool without an effect, a tool that needs a feature pawl does not have, or an invalid
   * option; `no_json_schema` for an input schema that has no JSON form or is not an object.
   */
  <const S extends Readonly<Record<string, AiSdkTool>>>(tools: S, options: FromAiSdkOptions<S, T>): Tool<NeedsOf<T>>[]
  /** The same function, for tools whose `ctx.services`, `ctx.context` and `ctx.slices` have these types. */
  withTypes<U extends ContextTypes>(): FromAiSdk<U>
}

/**
 * Converts tools of AI SDK 6 or 7 to pawl tools: `tools: fromAiSdk({ findOrder, refund }, { effects: { findOrder: 'read', … } })`.
 * @throws DeclarationError `invalid_tool` for a tool without an effect, a tool that needs a feature pawl does not have, or an invalid
 * option; `no_json_schema` for an input schema that has no JSON form or is not an object.
 */
export const fromAiSdk: FromAiSdk<object> = Object.assign(convert as unknown as FromAiSdk<object>, {
  withTypes: <U extends ContextTypes>() => fromAiSdk as unknown as FromAiSdk<U>,
})

/** The options, unchecked: plain JavaScript may have set them to anything. */
interface GivenOptions {
  effects: Readonly<Record<string, unknown>>
  toolApproval?: unknown
  context?: (ctx: never, tool: string) => unknown
}

function convert(tools: unknown, given: unknown): Tool[] {
  if (!isObject(tools)) throw refused('The tools must be an object: { findOrder: tool({ … }) }.')
  const { effects, toolApproval, context: make } = checkedOptions(Object.keys(tools), given)
  return Object.entries(tools).map(([name, tool]) => {
    const members = supportedMembers(name, tool)
    const { effect, description, ...own } = ownOptions(name, effects[name])
    const context = callContext(name, members, make)
    const ofTool = {
      output: answerSchemaOf(name, members),
      approval: approvalOption({ name, members, tools, toolApproval, context }),
      toModel: toModelOf(members),
    }
    const declared = {
      ...defined(ofTool),
      ...own,
      name,
      description: descriptionOf(name, members, description),
      effect,
      input: standardSchemaOf(members.inputSchema, `The input of tool "${name}"`),
      execute: bodyOf(members, context),
    }
    return defineTool(declared as ToolOptions) as Tool
  })
}

/** The AI SDK does not check what `execute` returns. What a client answers comes from outside. */
function answerSchemaOf(name: string, { execute, outputSchema }: AiSdkToolMembers): StandardSchemaV1 | undefined {
  return execute || outputSchema === undefined ? undefined : standardSchemaOf(outputSchema, `The output of tool "${name}"`)
}

function toModelOf(tool: AiSdkToolMembers): Tool['toModel'] {
  const { toModelOutput } = tool
  if (!toModelOutput) return undefined
  return async (output, ctx, input) =>
    contentOfOutput(await toModelOutput.call(tool, { toolCallId: toolCallIdOf(ctx), input, output }), ctx.log)
}

const refused = (problem: string): DeclarationError => new DeclarationError('invalid_tool', `fromAiSdk: ${problem}`)

const OPTIONS = options({
  effects: where<GivenOptions['effects']>(isObject, "an object that names the effect of each tool: { findOrder: 'read' }"),
  toolApproval: where<unknown>(
    (value) => isObject(value) || typeof value === 'function',
    'a status or a function for each tool, or one function for all',
  ).optional(),
  context: fn<NonNullable<GivenOptions['context']>>('a function of ctx').optional(),
})

function checkedOptions(names: readonly string[], given: unknown): GivenOptions {
  const checked = checkOptions(OPTIONS, given, refused)
  const { effects, toolApproval } = checked
  const missing = names.filter((name) => !Object.hasOwn(effects, name) || effects[name] === undefined)
  if (missing.length > 0)
    throw refused(
      `\`effects\` does not say what ${listed(missing)} ${missing.length === 1 ? 'does' : 'do'} to the world. Add 'read' (safe to repeat), 'idempotent' (safe to repeat with the same key) or 'external' (never repeated) for each.`,
    )
  const others = Object.keys({ ...effects, ...(isObject(toolApproval) && toolApproval) }).filter((name) => !names.includes(name))
  if (others.length > 0) throw refused(`There is no tool ${listed(others)}. The tools are ${listed(names)}.`)
  return defined(checked) as GivenOptions
}

const listed = (names: readonly string[]): string => names.map((name) => `"${name}"`).join(', ')

/** The options that `effects` has for a tool. @throws DeclarationError `invalid_tool` for an option that the tool itself has. */
function ownOptions(name: string, given: unknown): Record<string, unknown> {
  if (!isObject(given)) return { effect: given }
  const inTool = (['name', 'input', 'execute'] as const).find((option) => given[option] !== undefined)
  if (inTool !== undefined)
    throw new DeclarationError('invalid_tool', `Tool "${name}": ${inTool} is the AI SDK tool's own. Omit it in effects.`)
  return given
}
