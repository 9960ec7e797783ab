// `providerTool`: declares a tool that the model's provider runs.
import type {
  CodeExecutionTool20250825,
  CodeExecutionTool20260120,
  CodeExecutionTool20260521,
  WebFetchTool20250910,
  WebFetchTool20260209,
  WebFetchTool20260309,
  WebFetchTool20260318,
  WebSearchTool20250305,
  WebSearchTool20260209,
  WebSearchTool20260318,
} from '@anthropic-ai/sdk/resources/messages'
import { DeclarationError } from '../agent/errors.ts'
import { aiSdkTool, messagesTool, type ProviderTool } from '../agent/provider-tool.ts'
import { isToolName } from '../agent/names.ts'
import { isObject, type JsonObject } from '../session/json.ts'

type WithoutName<T> = T extends unknown ? Omit<T, 'name' | 'cache_control' | 'defer_loading'> & { name?: string } : never

/** A tool of Anthropic's Messages API that Anthropic runs: web search, web fetch or code execution, with its options. */
export type MessagesProviderTool = WithoutName<
  | WebSearchTool20250305
  | WebSearchTool20260209
  | WebSearchTool20260318
  | WebFetchTool20250910
  | WebFetchTool20260209
  | WebFetchTool20260309
  | WebFetchTool20260318
  | CodeExecutionTool20250825
  | CodeExecutionTool20260120
  | CodeExecutionTool20260521
>

/**
 * A tool of an AI SDK provider package that the provider runs, such as `openai.tools.webSearch({})`: as the package makes it, or its id and
 * arguments.
 */
export type AiSdkProviderTool = { inputSchema: unknown } | { id: string; args: object }

/**
 * A tool that the model's provider runs, for `tools` of an agent. It has no effect, approval or hooks: the provider runs it within the model
 * call, and its calls and results are part of the answer. A model of another provider does not get it.
 * @param tool for models of `anthropic()`, a tool of the Messages API; for models of `aiSdk()`, a tool of the provider's package.
 * @param options `name`: the name of a tool of an AI SDK package, 1 to 64 characters of `[A-Za-z0-9_-]`. Default: its own, such as
 * `web_search`.
 * @throws DeclarationError `invalid_tool`.
 */
export function providerTool(tool: MessagesProviderTool | AiSdkProviderTool, options: { name?: string } = {}): ProviderTool {
  const given: unknown = tool
  if (!isObject(given)) throw invalid('the first argument must be a tool of the Messages API, or of an AI SDK package.')
  const { name } = options
  if (name !== undefined && !isToolName(name)) throw invalid('name must be 1 to 64 characters of [A-Za-z0-9_-].')
  const made = typeof given.type === 'string' && !('args' in given) ? messagesTool(plain(given)) : ofAiSdk(given, name)
  if ('problem' in made) throw invalid(made.problem)
  return Object.freeze(made)
}

function ofAiSdk(given: Record<string, unknown>, name: string | undefined): ProviderTool | { problem: string } {
  const { id, args = {}, type, execute } = given
  if (typeof id !== 'string' || !isObject(args)) {
    return { problem: 'it has neither a `type` of the Messages API nor an `id` and `args` of an AI SDK package.' }
  }
  const isProviders = type === 'provider' || type === 'provider-defined' || type === undefined
  if (!isProviders || typeof execute === 'function' || given.isProviderExecuted === false) {
    return { problem: `"${id}" does not run at the provider. Declare it with defineTool() or fromAiSdk().` }
  }
  return aiSdkTool({ id, args: plain(args) }, name)
}

function plain(given: object): JsonObject {
  try {
    return JSON.parse(JSON.stringify(given)) as JsonObject
  } catch (cause) {
    throw invalid(`its options are not JSON: ${cause instanceof Error ? cause.message : String(cause)}`)
  }
}

function invalid(problem: string): DeclarationError {
  return new DeclarationError('invalid_tool', `providerTool: ${problem}`)
}
