// The bodies of MCP tools: a call of the server's tool, and `verify` by another of its tools.
import { ToolError } from '../../agent/errors.ts'
import type { ToolContext, Verdict } from '../../agent/tool.ts'
import { beginningOf } from '../../session/beginning.ts'
import { isObject, type JsonObject } from '../../session/json.ts'
import type { McpConnection, ToolRequest } from './connection.ts'
import type { ListedTool } from './effects.ts'
import { toolErrorOf } from './errors.ts'
import type { McpResult, McpRules, McpVerify } from './options.ts'
import { entryFor } from './names.ts'
import { errorTextOf, resultOf } from './result.ts'

const MAX_PROGRESS_TEXT = 1_000
const MAX_ERROR_TEXT = 4_000

/** Calls a server's tool. `onRefused`: the server refused the call, so its list may have changed. */
export interface ToolCaller {
  connection: McpConnection
  rules: McpRules
  onRefused(): void
}

/** The body of a tool. */
export function bodyOf(caller: ToolCaller, tool: ListedTool): (input: unknown, ctx: ToolContext) => Promise<McpResult> {
  const { rules } = caller
  const argument = entryFor(rules.key, tool.name)?.value
  const isHarmless = entryFor(rules.errors, tool.name)?.value === 'did_not_happen'
  return async (input, ctx) => {
    const { idempotencyKey: key } = ctx
    const args = { ...(input as JsonObject), ...(argument !== undefined && key !== '' && { [argument]: key }) }
    const { isError, ...result } = await request(caller, { tool, args, key }, ctx)
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
    const { isError, ...result } = await request(caller, { tool, args, key: '' }, ctx)
    if (isError) throw new ToolError(`${name} reports an error: ${errorTextOf(result)}`, { code: 'mcp_tool_error' })
    return verdict(result, given, ctx as never)
  }
}

async function request(
  { connection, rules, onRefused }: ToolCaller,
  { tool, args, key }: Pick<ToolRequest, 'tool' | 'args' | 'key'>,
  ctx: ToolContext,
): Promise<McpResult & { isError: boolean }> {
  const { signal, log } = ctx
  try {
    const answer = await connection.call({ tool, args, key, signal, log, onProgress: reportTo(ctx) })
    return { ...resultOf(isObject(answer) ? answer : {}), isError: answer.isError === true }
  } catch (error) {
    // The tool's timeout, or an interrupt.
    signal.throwIfAborted()
    const told = toolErrorOf(rules.name, error, tool.outputSchema !== undefined)
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
