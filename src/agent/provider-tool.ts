// Tools that a model's provider runs: which ones exist, and which models have them.
import type { Json, JsonObject } from '../session/json.ts'
import { defined } from '../session/defined.ts'
import type { Model, ProviderToolDefinition } from './model.ts'
import type { ModelChoice } from './model-choice.ts'

/** A tool that the model's provider runs. Declare it with `providerTool`. */
export interface ProviderTool extends Readonly<ProviderToolDefinition> {
  /** Where it runs; other tools run in a worker, or in a client. */
  readonly runsAt: 'provider'
}

/** Whether a value is a tool that a provider runs. */
export function isProviderTool(value: unknown): value is ProviderTool {
  return (value as ProviderTool | null | undefined)?.runsAt === 'provider'
}

/** Whether the tool searches the web. Providers bill that by the search. */
export function isWebSearch({ form, definition }: ProviderToolDefinition): boolean {
  const which: Json | undefined = form === 'messages' ? definition.type : definition.id
  return typeof which === 'string' && /(?:^|\.)(?:web_search|google_search)/.test(which)
}

/** The definitions of the tools that the model's provider runs. A Model is user code. */
export function toolsRunBy(model: Pick<Model, 'runsTool'>, tools: readonly ProviderToolDefinition[]): ProviderToolDefinition[] {
  return tools.filter((tool) => model.runsTool?.(tool) === true)
}

/** What a request says about a tool. */
export function definitionOf({ name, provider, form, definition }: ProviderTool): ProviderToolDefinition {
  return { name, provider, form, definition }
}

/** Whether the provider of a model runs the tool; undefined if the model is chosen later. */
export function isRunBy(model: ModelChoice, tool: ProviderTool): boolean | undefined {
  if (typeof model === 'function') return undefined
  return typeof model === 'string' ? tool.form === 'messages' : toolsRunBy(model, [definitionOf(tool)]).length > 0
}

/** The tools of Anthropic's Messages API that run at Anthropic, with any version after the last underscore. */
const OF_MESSAGES = /^(web_search|web_fetch|code_execution)_\d{8}$/

/** The tool that `definition` describes, a tool of the Messages API; otherwise what is wrong. */
export function messagesTool(given: JsonObject): ProviderTool | { problem: string } {
  const { type, name } = given
  const own = typeof type === 'string' ? OF_MESSAGES.exec(type)?.[1] : undefined
  if (own === undefined) {
    const shown = JSON.stringify(type)
    return {
      problem: `type is ${shown}, which is not a tool that Anthropic runs and pawl knows: web_search_<version>, web_fetch_<version>, code_execution_<version>. Declare a tool that runs elsewhere with defineTool().`,
    }
  }
  if (name !== undefined && name !== own) return { problem: `name must be "${own}", as Anthropic's API calls it. Omit it.` }
  if (given.cache_control !== undefined) return { problem: 'cache_control is not allowed, because pawl sets the breakpoints. Omit it.' }
  if (given.defer_loading === true) return { problem: 'defer_loading needs the tool search, which pawl does not support. Omit it.' }
  return { runsAt: 'provider', name: own, provider: 'anthropic', form: 'messages', definition: { ...given, name: own } }
}

/** The tool of an AI SDK provider package; otherwise what is wrong. */
export function aiSdkTool(given: { id: string; args: JsonObject }, name: string | undefined): ProviderTool | { problem: string } {
  const { id, args } = given
  const [provider = '', ...rest] = id.split('.')
  const own = rest.join('.')
  if (provider === '' || own === '') return { problem: `its id is ${JSON.stringify(id)}, and must be such as "openai.web_search".` }
  return { runsAt: 'provider', name: name ?? own, provider, form: 'ai-sdk', definition: defined({ id, args }) as JsonObject }
}
