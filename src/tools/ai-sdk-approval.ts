// When calls of AI SDK tools need approval: `needsApproval` of the tool, and `toolApproval`, which replaced it in AI SDK 7.
import { DeclarationError } from '../agent/errors.ts'
import type { ApprovalContext, ApprovalNeed } from '../agent/tool.ts'
import { isObject } from '../session/json.ts'
import { type CallContext, toolCallIdOf } from './ai-sdk-call.ts'
import type { AiSdkApprovalOptions, AiSdkCallToApprove, AiSdkToolMembers } from './ai-sdk-tool.ts'

const STATUSES = ['not-applicable', 'approved', 'denied', 'user-approval']

/** The option `approval` of a converted tool. */
export type ApprovalOption = boolean | ((input: unknown, ctx: ApprovalContext) => Promise<ApprovalNeed>)

/** A tool whose calls may need approval. */
export interface ToolToApprove {
  name: string
  members: AiSdkToolMembers
  /** All tools, by name. */
  tools: Readonly<Record<string, unknown>>
  toolApproval: unknown
  context: CallContext
}

/** The option `approval` of the tool; undefined if nothing says when it is needed. @throws DeclarationError `invalid_tool`. */
export function approvalOption(tool: ToolToApprove): ApprovalOption | undefined {
  const { name, members, toolApproval } = tool
  if (typeof toolApproval === 'function') return byAllTools(tool, toolApproval as (call: AiSdkCallToApprove) => unknown)
  const ofTool = isObject(toolApproval) && Object.hasOwn(toolApproval, name) ? toolApproval[name] : undefined
  if (typeof ofTool === 'function') return byTool(tool, ofTool as (input: unknown, options: AiSdkApprovalOptions) => unknown)
  if (ofTool !== undefined && ofTool !== null) return byStatus(name, ofTool)
  const { needsApproval } = members
  return typeof needsApproval === 'function' ? byNeedsApproval(tool, needsApproval) : needsApproval
}

function byAllTools({ name, members, tools, context }: ToolToApprove, decide: (call: AiSdkCallToApprove) => unknown): ApprovalOption {
  return async (input, ctx) => {
    const toolCall = { type: 'tool-call', toolCallId: toolCallIdOf(ctx), toolName: name, input } as const
    const call = members.type === 'dynamic' ? { ...toolCall, dynamic: true } : toolCall
    const toolsContext = { [name]: await context.checked(ctx) }
    return needOf(await decide({ toolCall: call, tools, toolsContext, messages: [], runtimeContext: await context.plain(ctx) }))
  }
}

function byTool({ context }: ToolToApprove, decide: (input: unknown, options: AiSdkApprovalOptions) => unknown): ApprovalOption {
  return async (input, ctx) => {
    const [toolContext, runtimeContext]: unknown[] = [await context.checked(ctx), await context.plain(ctx)]
    return needOf(await decide(input, { toolCallId: toolCallIdOf(ctx), messages: [], toolContext, runtimeContext }))
  }
}

function byStatus(name: string, status: unknown): ApprovalOption {
  let need: ApprovalNeed
  try {
    need = needOf(status)
  } catch (error) {
    throw new DeclarationError('invalid_tool', `Tool "${name}": ${(error as Error).message}`)
  }
  return typeof need === 'boolean' ? need : async () => need
}

function byNeedsApproval(
  { members, context }: ToolToApprove,
  needsApproval: Extract<AiSdkToolMembers['needsApproval'], (...all: never[]) => unknown>,
): ApprovalOption {
  return async (input, ctx) => {
    const value = await context.checked(ctx)
    const options = { toolCallId: toolCallIdOf(ctx), messages: [], context: value, experimental_context: value }
    return Boolean(await needsApproval.call(members, input, options))
  }
}

/** A status as pawl's answer. @throws TypeError for one that the AI SDK does not have: the call then needs approval. */
function needOf(status: unknown): ApprovalNeed {
  const { type, reason } = isObject(status) ? status : { type: status ?? 'not-applicable' }
  if (!STATUSES.includes(type as string))
    throw new TypeError(`toolApproval must be one of ${STATUSES.map((one) => `'${one}'`).join(', ')}, not ${JSON.stringify(status)}.`)
  const why = typeof reason === 'string' ? reason : ''
  if (type === 'denied') return { deny: why || 'toolApproval denies it.' }
  return type === 'user-approval' && (why || true)
}
