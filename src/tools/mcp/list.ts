// Turns what a server lists into tools of an agent.
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { defineTool } from '../../agent/define-tool.ts'
import { refusedProperty } from '../../agent/provider-rules.ts'
import type { SourceReport, Tool, ToolOptions } from '../../agent/tool.ts'
import { beginningOf } from '../../session/beginning.ts'
import { type Duration, milliseconds } from '../../session/duration.ts'
import { isObject, isTooDeep, type JsonObject, MAX_DEPTH } from '../../session/json.ts'
import { checkAgainst } from '../json-schema.ts'
import { bodyOf, type ToolCaller, verifyOf } from './call.ts'
import { effectOf, type ListedTool } from './effects.ts'
import { entryFor, matches, SIGN_IN_TOOL, toolNameOf } from './names.ts'
import type { McpRules } from './options.ts'
import { contentOf } from './result.ts'
import { inNewestDraft, schemaProblem } from './schema-form.ts'

/** More tools cost more tokens in each request than the conversation, and providers refuse them. */
const MAX_TOOLS = 1_000
/** Longer descriptions are cut, because each request to the model contains them all. */
const MAX_DESCRIPTION = 10_000

/** The tools that an agent gets of a server. */
export interface ServerTools {
  tools: ReadonlyMap<string, Tool>
  report: Pick<SourceReport, 'tools' | 'leftOut'>
}

/** A server may list other tools each time, or to each user: those that nobody has listed for the longest time are made again. */
const MAX_MADE = 20_000

/** Tools that were made from listed ones, by the names that the server gave them; those that were listed last come last. */
export type MadeTools = Map<string, { json: string; tool: Tool }>

/**
 * Makes the tools. `made` keeps those that were made before: a tool that the server lists unchanged stays the same.
 * @throws Error if there are too many.
 */
export function toolsFrom(listed: readonly ListedTool[], caller: ToolCaller, made: MadeTools): ServerTools {
  const { rules } = caller
  const wanted = listed.filter(({ name }) => isWanted(rules, name))
  if (wanted.length > MAX_TOOLS) {
    const count = wanted.length.toLocaleString('en-US')
    throw new Error(
      `it lists ${count} tools, and the limit is ${MAX_TOOLS.toLocaleString('en-US')}. Name those that the agent needs in tools.allow.`,
    )
  }
  const times = new Map<string, number>()
  for (const { name } of wanted) times.set(name, (times.get(name) ?? 0) + 1)
  const tools = new Map<string, Tool>()
  const report: ServerTools['report'] = { tools: [], leftOut: [] }
  for (const one of wanted) {
    const { name: original } = one
    const leaveOut = (why: string): void => void report.leftOut.push({ original, why })
    if ((times.get(original) ?? 0) > 1) {
      leaveOut('the server lists several tools of this name')
      continue
    }
    if (rules.list === 'user' && original === SIGN_IN_TOOL) {
      leaveOut('pawl itself has a tool of this name')
      continue
    }
    const ruled = effectOf(rules, one)
    try {
      const tool = reused(made, one, () => toolOf(one, ruled, caller))
      tools.set(tool.name, tool)
      const { name, effect, approval, verify } = tool
      report.tools.push({ name, original, effect, rule: ruled.rule, approval: approval !== undefined, verify: verify !== undefined })
    } catch (error) {
      leaveOut(error instanceof Error ? error.message : String(error))
    }
  }
  for (const [rule, original] of unmatchedRules(rules, wanted))
    report.leftOut.push({ original, why: `${rule} names it, but the server does not list it` })
  return { tools, report }
}

function isWanted({ allow, block }: McpRules, name: string): boolean {
  return allow.some((pattern) => matches(pattern, name)) && !block.some((pattern) => matches(pattern, name))
}

/** Full names in the rules that no tool has. They may be misspelt. */
function unmatchedRules({ effects, key, verify, errors }: McpRules, wanted: readonly ListedTool[]): [rule: string, name: string][] {
  const names = new Set(wanted.map(({ name }) => name))
  return Object.entries({ effects, key, verify, errors }).flatMap(([rule, entries]) =>
    Object.keys(entries).flatMap((name): [string, string][] => (name.includes('*') || names.has(name) ? [] : [[rule, name]])),
  )
}

function reused(made: MadeTools, listed: ListedTool, make: () => Tool): Tool {
  const { name, title, description, inputSchema, outputSchema, annotations } = listed
  const json = JSON.stringify([title, description, inputSchema, annotations, outputSchema !== undefined])
  const before = made.get(name)
  const tool = before?.json === json ? before.tool : make()
  made.delete(name)
  made.set(name, { json, tool })
  const [oldest] = made.keys()
  if (made.size > MAX_MADE && oldest !== undefined) made.delete(oldest)
  return tool
}

/** @throws DeclarationError, or Error: the agent cannot have the tool. */
function toolOf(listed: ListedTool, { effect, options }: ReturnType<typeof effectOf>, caller: ToolCaller): Tool {
  const { rules } = caller
  const { name: original, title, annotations, description } = listed
  const verify = entryFor(rules.verify, original)?.value
  const schema = accepted(withoutArgument(listed.inputSchema, effect === 'read' ? undefined : entryFor(rules.key, original)?.value))
  const badProperty = refusedProperty(['claude'], schema)
  if (badProperty !== undefined) throw new Error(`providers refuse the name of its argument ${JSON.stringify(badProperty)}`)
  const text = [description, title, annotations?.title, original].find((one) => one !== undefined && one.trim() !== '') ?? original
  const declared = {
    timeout: rules.timeoutMs,
    toModel: contentOf,
    ...(verify && effect === 'external' && { verify: verifyOf(caller, verify) }),
    ...options,
    name: toolNameOf(rules.name, original),
    description: beginningOf(text, MAX_DESCRIPTION),
    effect,
    input: standardSchemaOf(schema),
    execute: bodyOf(caller, listed, milliseconds(options.timeout as Duration | undefined) ?? rules.timeoutMs),
  }
  return defineTool(declared as unknown as ToolOptions) as Tool
}

/** The schema without the argument that pawl itself passes. @throws Error. */
function withoutArgument(schema: unknown, argument: string | undefined): JsonObject {
  if (!isObject(schema)) throw new Error('its input schema is not an object')
  if (argument === undefined) return schema as JsonObject
  const { properties, required, ...others } = schema as JsonObject
  if (!isObject(properties) || !Object.hasOwn(properties, argument))
    throw new Error(`it has no argument ${JSON.stringify(argument)}, which \`key\` names`)
  const { [argument]: _, ...rest } = properties as JsonObject
  return { ...others, properties: rest, ...(Array.isArray(required) && { required: required.filter((name) => name !== argument) }) }
}

/** The schema as providers accept it. @throws Error if they would refuse every request with it. */
function accepted(schema: JsonObject): JsonObject {
  if (isTooDeep(schema)) throw new Error(`its input schema is nested deeper than ${MAX_DEPTH} levels`)
  const converted = inNewestDraft(schema)
  const problem = schemaProblem(converted)
  if (problem !== undefined) throw new Error(`its input schema is not a valid JSON Schema: ${problem}`)
  return converted
}

function standardSchemaOf(schema: JsonObject): StandardSchemaV1 {
  const form = (): JsonObject => schema
  const props = { version: 1, vendor: 'mcp', validate: checkAgainst(schema), jsonSchema: { input: form, output: form } } as const
  return { '~standard': props } as StandardSchemaV1
}
