// The bodies of MCP tools: a call of the server's tool, and `verify` by another of its tools.
import type { CallToolResult } from '@modelcontextprotocol/client'
import { isAsking } from '../../agent/asking.ts'
import { ToolError } from '../../agent/errors.ts'
import type { ToolContext, Verdict } from '../../agent/tool.ts'
import { beginningOf } from '../../session/beginning.ts'
import { isObject, type JsonObject } from '../../session/json.ts'
import type { UserReplies } from '../../session/question-facts.ts'
import type { McpConnection, ToolRequest } from './connection.ts'
import type { ListedTool } from './effects.ts'
import { identityOf, pendingReplies, signInQuestion } from './auth.ts'
import type { McpPool } from './pool.ts'
import { completed } from './questions.ts'
import { isUnauthorized, toolErrorOf } from './errors.ts'
import type { McpResult, McpRules, McpVerify } from './options.ts'
import { entryFor } from './names.ts'
import { errorTextOf, resultOf } from './result.ts'

const MAX_PROGRESS_TEXT = 1_000
const MAX_ERROR_TEXT = 4_000

/** Calls a server's tool. `onRefused`: the server refused the call, so its list may have changed. */
export interface ToolCaller {
  pool: McpPool
  rules: McpRules
  onRefused(): void
}

/** How long a call may take. It must not end by waiting for a connection, because it would not be known that it has not begun. */
const WAITING_SHARE = 0.8

/** The body of a tool whose calls may take `timeoutMs`. */
export function bodyOf(caller: ToolCaller, tool: ListedTool, timeoutMs: number): (input: unknown, ctx: ToolContext) => Promise<McpResult> {
  const { rules } = caller
  const argument = entryFor(rules.key, tool.name)?.value
  const isHarmless = entryFor(rules.errors, tool.name)?.value === 'did_not_happen'
  return async (input, ctx) => {
    const { idempotencyKey: key } = ctx
    const args = { ...(input as JsonObject), ...(argument !== undefined && key !== '' && { [argument]: key }) }
    const { isError, ...result } = await request(caller, { tool, args, key, waitMs: timeoutMs * WAITING_SHARE }, ctx)
    if (!isError) return result
    // The tool says how it failed. Another attempt with the same arguments would fail like it.
    const message = beginningOf(errorTextOf(result), MAX_ERROR_TEXT)
    throw new ToolError(message, { code: 'mcp_tool_error', retryable: false, ...(isHarmless && { happened: false }) })
  }
}

/** A `verify` that asks another tool. Rejects if that tool reports an error, and pawl retries. */
export function verifyOf(
  caller: ToolCaller,
  { tool: name, input, verdict }: McpVerify<object>,
): (given: unknown, ctx: ToolContext) => Promise<Verdict<unknown>> {
  return async (given, ctx) => {
    const tool = { name, inputSchema: { type: 'object' } }
    const args = await input(given, ctx as never)
    // The key belongs to the call that is verified.
    const { isError, ...result } = await request(
      caller,
      { tool, args, key: '', waitMs: caller.rules.timeoutMs * WAITING_SHARE },
      ctx,
    ).catch(withoutQuestion)
    if (isError) throw new ToolError(`${name} reports an error: ${errorTextOf(result)}`, { code: 'mcp_tool_error' })
    return verdict(result, given, ctx as never)
  }
}

/** Nobody is asked while a call is verified. */
function withoutQuestion(error: unknown): never {
  if (!isAsking(error)) throw error
  throw new ToolError('The tool that verifies the call asks the user a question.', { code: 'mcp_input_required', retryable: false })
}

interface PlannedRequest extends Pick<ToolRequest, 'tool' | 'args' | 'key'> {
  /** Milliseconds for which it may wait for a connection. */
  waitMs: number
}

async function request(
  { pool, rules, onRefused }: ToolCaller,
  { waitMs, ...given }: PlannedRequest,
  ctx: ToolContext,
): Promise<McpResult & { isError: boolean }> {
  const { signal, log } = ctx
  const pending = pendingReplies(rules, ctx)
  const send = async (refused?: true): Promise<CallToolResult> => {
    const identity = await identityOf(rules, ctx, pending, refused)
    return pool.use(identity, { waitMs, signal }, async (connection) => {
      const ask = (replies: UserReplies | undefined): ReturnType<McpConnection['call']> =>
        connection.call({ ...given, replies, signal, log, onProgress: reportTo(ctx) })
      try {
        return await completed(rules.name, ask, pending, signal)
      } catch (error) {
        const url = isUnauthorized(error) ? connection.signInUrl() : undefined
        throw url === undefined ? error : signInQuestion(rules, url, pending)
      }
    })
  }
  try {
    // The credentials may have expired: `auth` may have others, or know that the user must sign in.
    const answer = await send().catch((error: unknown) => {
      if (!rules.auth || signal.aborted || isAsking(error) || !isUnauthorized(error)) throw error
      return send(true)
    })
    return { ...resultOf(isObject(answer) ? answer : {}), isError: answer.isError === true }
  } catch (error) {
    // The tool's timeout, or an interrupt.
    signal.throwIfAborted()
    if (isAsking(error)) throw error
    const told = toolErrorOf(rules.name, error, given.tool.outputSchema !== undefined)
    if (told.code === 'mcp_refused') onRefused()
    throw told
  }
}

function reportTo(ctx: ToolContext): ToolRequest['onProgress'] {
  return ({ progress, total, message }) => {
    ctx.progress({
      progress,
      ...(total !== undefined && { total }),
      ...(message !== undefined && { message: beginningOf(message, MAX_PROGRESS_TEXT) }),
    })
  }
}
