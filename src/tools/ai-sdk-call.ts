// A call of an AI SDK tool: its id, its context, and its body.
import { ToolError } from '../agent/errors.ts'
import { check } from '../agent/schema.ts'
import type { AgentContext, ApprovalContext, ToolContext } from '../agent/tool.ts'
import type { Json } from '../session/json.ts'
import { standardSchemaOf } from './ai-sdk-schema.ts'
import type { AiSdkToolMembers } from './ai-sdk-tool.ts'

/** The id that the tool sees. Unlike pawl's, it is unique over all sessions, because tools may use it as an idempotency key. */
export function toolCallIdOf({ sessionId, callId }: Pick<ApprovalContext, 'sessionId' | 'callId'>): string {
  return `${sessionId}:${callId}`
}

/** Makes the context of a call. `checked`: as the tool's `contextSchema` returns it. */
export interface CallContext {
  plain(ctx: AgentContext): Promise<unknown>
  /** @throws ToolError `invalid_tool_context`. */
  checked(ctx: AgentContext): Promise<unknown>
}

/** The context of a tool's calls; `make`: the option `context`. */
export function callContext(
  name: string,
  { contextSchema }: AiSdkToolMembers,
  make: ((ctx: never, tool: string) => unknown) | undefined,
): CallContext {
  const schema = contextSchema === undefined ? undefined : standardSchemaOf(contextSchema, `The context of tool "${name}"`)
  const plain = async (ctx: AgentContext): Promise<unknown> => (make ? make(ctx as never, name) : ctx.context)
  return {
    plain,
    async checked(ctx) {
      const value = await plain(ctx)
      if (!schema) return value
      const result = await check(schema, value)
      if ('value' in result) return result.value
      throw new ToolError(`The context of tool "${name}" does not match its contextSchema. ${result.problem}`, {
        code: 'invalid_tool_context',
        retryable: false,
        happened: false,
      })
    },
  }
}

/** The tool's `execute` as pawl calls it; `'client'` without one. */
export function bodyOf(tool: AiSdkToolMembers, context: CallContext): 'client' | ((input: unknown, ctx: ToolContext) => Promise<unknown>) {
  const { execute } = tool
  if (!execute) return 'client'
  return async (input, ctx) => {
    const value = await beforeBody(context.checked(ctx))
    const options = {
      toolCallId: toolCallIdOf(ctx),
      messages: [],
      abortSignal: ctx.signal,
      context: value,
      experimental_context: value,
    }
    const result = await execute.call(tool, input, options)
    return isAsyncIterable(result) ? lastOf(result, ctx) : result
  }
}

/** If the context cannot be made, the body has not run, so the effect did not happen. */
async function beforeBody(context: Promise<unknown>): Promise<unknown> {
  try {
    return await context
  } catch (cause) {
    if (cause instanceof ToolError) throw cause
    const message = cause instanceof Error ? cause.message : String(cause)
    throw new ToolError(`The context of the call could not be made: ${message}`, { code: 'invalid_tool_context', happened: false, cause })
  }
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof (value as Partial<AsyncIterable<unknown>> | null | undefined)?.[Symbol.asyncIterator] === 'function'
}

/** Reports each value as the call's progress. The last one is the result. */
async function lastOf(values: AsyncIterable<unknown>, ctx: ToolContext): Promise<unknown> {
  let last: unknown
  let hasWarned = false
  for await (const value of values) {
    last = value
    try {
      ctx.progress(value as Json)
    } catch (err) {
      if (!hasWarned) ctx.log.warn({ err }, 'a preliminary result of the tool is not shown as progress')
      hasWarned = true
    }
  }
  return last
}
