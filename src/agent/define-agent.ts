// `defineAgent`: checks and completes the declaration of an agent.
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { checkOptions, duration, integer, options, warnOfBareLimits, where } from '../options/check.ts'
import { defined } from '../session/defined.ts'
import type { Json, JsonObject } from '../session/json.ts'
import { isAgentName } from '../session/protocol/protocol.ts'
import type { Agent, AgentOptions, OutputIn } from './agent.ts'
import { BUDGET, refuseUnpriced } from './budget.ts'
import { isReserved } from '../session/built-in-tools/reserved.ts'
import { builtInNames } from './built-in-tools.ts'
import { CHECKPOINT, checkpointPolicy } from './checkpoint-policy.ts'
import { type AgentCompaction, COMPACTION, compactionPolicy, windowProblem } from './compaction.ts'
import { hooksOf } from './define-hook.ts'
import { DeclarationError } from './errors.ts'
import type { Hook } from './hook.ts'
import { isMemoryOption, MEMORY_EXPECTED } from './memory-tools.ts'
import { isModelChoice, type ModelChoice } from './model-choice.ts'
import { type OutputPolicy, outputPolicy } from './output-tool.ts'
import { planPolicy } from './plan-tools.ts'
import { type Section, sections, type ToolSelection } from './prompt.ts'
import { foreignModel, refusedProperty } from './provider-rules.ts'
import { isProviderTool, isRunBy, type ProviderTool } from './provider-tool.ts'
import { RECOVERY, recoveryPolicy } from './recovery.ts'
import { RETRY, retryPolicy } from './retry.ts'
import { A_SCHEMA, isSchema } from './schema.ts'
import type { Slice } from './slice.ts'
import type { AnyServices, ContextTypes, NeedsOf, ServicesIn, ServicesOf, Tool, ToolSource } from './tool.ts'

const DEFAULT_MAX_TURNS = 50
const YEAR_MS = 365 * 24 * 3_600_000

/** Declares an agent; see `AgentOptions` for its options. */
export interface DefineAgent<S, Needed = unknown> {
  /**
   * Declares an agent.
   * @throws DeclarationError `invalid_agent` for an option that is unknown, missing or not allowed; `duplicate_tool`,
   * `duplicate_slice`, `duplicate_block` and `duplicate_hook` for two tools, slices, blocks or hooks with the same name; `reserved_tool`
   * for a tool with the name of one of pawl's own; `no_json_schema` for an `output` that has no JSON form or is not an object; `no_price`
   * for a budget in US dollars with a model whose price is unknown.
   */
  <
    const N extends string,
    C extends StandardSchemaV1 = StandardSchemaV1<Json, Json>,
    const L extends readonly Slice[] = readonly [],
    O extends StandardSchemaV1 | undefined = undefined,
    const Tools extends readonly (Tool | ToolSource | ProviderTool)[] = readonly [],
    const Hooks extends readonly Hook[] = readonly [],
  >(
    options: AgentOptions<C, N, S, L, O> & { tools?: Tools; hooks?: Hooks },
  ): Agent<StandardSchemaV1.InferInput<C>, N, OutputIn<O>, Needed & ServicesOf<Exclude<Tools[number], ProviderTool> | Hooks[number]>>
  /**
   * The same function, for agents whose functions have `ctx.services` of this type:
   * `defineAgent.withTypes<{ services: { shop: Shop } }>()`. A worker that serves such an agent must have these services.
   */
  withTypes<T extends Pick<ContextTypes, 'services'>>(): DefineAgent<ServicesIn<T>, NeedsOf<T>['services']>
}

const A_MODEL = "a Claude model's name, an object with generate()"

const OPTIONS = options({
  name: where<string>(isAgentName, '1 to 100 characters of [A-Za-z0-9._-]'),
  instructions: where<Agent['instructions']>(
    (value) => typeof value === 'string' || typeof value === 'function',
    'a string, or a function that returns one',
  ),
  sections: where<readonly Section[]>(
    (value) => Array.isArray(value) && value.every((one) => typeof one === 'function'),
    'a list of functions that return strings, such as sections.plan',
  ).optional(),
  model: where<ModelChoice>(isModelChoice, `${A_MODEL}, or a function that returns one`),
  fallback: where<ModelChoice | readonly ModelChoice[]>(
    (value) => (Array.isArray(value) ? value.every(isModelChoice) : isModelChoice(value)),
    `${A_MODEL}, a function that returns one, or a list of these`,
  ).optional(),
  tools: where<readonly unknown[]>(Array.isArray, 'a list of tools').optional(),
  activeTools: where<ToolSelection>(
    (value) => typeof value === 'function',
    "a function that returns names, such as () => ['lookup']",
  ).optional(),
  slices: where<readonly unknown[]>(Array.isArray, 'a list of slices').optional(),
  hooks: where<readonly unknown[]>(Array.isArray, 'a list of hooks').optional(),
  retry: RETRY.optional(),
  limits: options(
    { maxTurns: integer(1).optional(), maxRepeats: integer(2).optional(), deadline: duration({ example: '10m' }).optional(), ...BUDGET },
    "an object such as { maxTurns: 20, deadline: '10m' }",
  ).optional(),
  sessionLimits: options(
    { deadline: duration({ max: YEAR_MS, limits: 'above 0 and at most a year', example: '30d' }).optional(), ...BUDGET },
    "an object such as { maxUsd: 5, deadline: '30d' }",
  ).optional(),
  recovery: RECOVERY.optional(),
  checkpoint: CHECKPOINT.optional(),
  plan: where<NonNullable<AgentOptions['plan']>>(
    (value) => planPolicy(value) !== undefined,
    'true, or { guidance } with true, false or a non-empty string',
  ).optional(),
  memory: where<NonNullable<AgentOptions['memory']>>(isMemoryOption, MEMORY_EXPECTED).optional(),
  compaction: COMPACTION.optional(),
  context: where<StandardSchemaV1>(isSchema, A_SCHEMA).optional(),
  output: where<StandardSchemaV1>(isSchema, A_SCHEMA).optional(),
})

/**
 * Declares an agent. `defineAgent.withTypes<{ services }>()` returns the same function for agents with typed `ctx.services`.
 * @throws DeclarationError `invalid_agent` for an option that is unknown, missing or not allowed; `duplicate_tool`,
 * `duplicate_slice`, `duplicate_block` and `duplicate_hook` for two tools, slices, blocks or hooks with the same name; `reserved_tool` for
 * a tool with the name of one of pawl's own; `no_json_schema` for an `output` that has no JSON form or is not an object;
 * `no_price` for a budget in US dollars with a model whose price is unknown.
 */
export const defineAgent: DefineAgent<AnyServices> = Object.assign(declare as unknown as DefineAgent<AnyServices>, {
  withTypes: <T extends Pick<ContextTypes, 'services'>>() => defineAgent as unknown as DefineAgent<ServicesIn<T>, NeedsOf<T>['services']>,
})

function declare(given: unknown): Agent {
  const name = (given as { name?: unknown } | undefined)?.name
  const bad = (problem: string): DeclarationError =>
    new DeclarationError('invalid_agent', typeof name === 'string' ? `Agent "${name}": ${problem}` : `An agent: ${problem}`)
  const agent = checkOptions(OPTIONS, given, bad)
  const { limits, sessionLimits } = given as AgentOptions
  warnOfBareLimits(`Agent "${agent.name}"`, { 'limits.deadline': limits?.deadline, 'sessionLimits.deadline': sessionLimits?.deadline })
  const { tools, sources, providerTools } = toolsIn(agent.name, agent.tools ?? [], bad)
  const slices = slicesIn(agent.name, agent.slices ?? [], bad)
  const memory = (agent.memory ?? []).map(({ block, maxChars }) => ({ block, maxChars }))
  refuseRepeatedBlock(agent.name, memory)
  const plan = planPolicy(agent.plan)
  const unmet = unmetSection(agent.sections ?? [], { plan: plan !== undefined, memory: memory.length > 0 })
  if (unmet) throw bad(unmet)
  const compaction = compactionPolicy(agent.compaction, bad)
  const fallback = agent.fallback === undefined ? [] : [agent.fallback].flat()
  const models = modelsOf(agent.model, fallback, compaction)
  const badModel = modelProblem(models, compaction !== undefined)
  if (badModel !== undefined) throw bad(badModel)
  const unrun = unrunProblem(providerTools, [agent.model, ...fallback])
  if (unrun !== undefined) throw bad(unrun)
  const output = agent.output && outputPolicy(agent.name, agent.output)
  const badProperty = propertyProblem([agent.model, ...fallback], [...tools.values()], output)
  if (badProperty !== undefined) throw bad(badProperty)
  const builtIn = builtInNames({ ...defined({ plan, output }), memory })
  const hasTool = (tool: string): boolean => tools.has(tool) || builtIn.includes(tool) || sources.some((source) => source.owns(tool))
  const hooks = hooksOf(agent.name, agent.hooks ?? [], hasTool, bad)
  const { maxTurns = DEFAULT_MAX_TURNS, maxRepeats, deadline: deadlineMs, ...budget } = agent.limits ?? {}
  const { deadline: sessionDeadlineMs, ...sessionBudget } = agent.sessionLimits ?? {}
  refuseUnpriced(
    agent.name,
    models.map(([, choice]) => choice),
    { limits: defined(budget), sessionLimits: defined(sessionBudget) },
    providerTools,
  )
  return {
    name: agent.name,
    instructions: agent.instructions,
    sections: agent.sections ?? (memory.length > 0 ? [sections.memory] : []),
    model: agent.model,
    fallback,
    tools,
    sources,
    providerTools,
    slices,
    hooks,
    retry: retryPolicy(agent.retry),
    limits: { maxTurns, ...defined({ maxRepeats, deadlineMs, ...budget }) },
    sessionLimits: defined({ deadlineMs: sessionDeadlineMs, ...sessionBudget }),
    checkpoint: checkpointPolicy(agent.checkpoint, hasTool, bad),
    recovery: recoveryPolicy(agent.recovery),
    memory,
    ...defined({ activeTools: agent.activeTools, plan, compaction, context: agent.context, output }),
  }
}

/** @throws DeclarationError `duplicate_slice`, or from `bad`. */
function slicesIn(agent: string, given: readonly unknown[], bad: (problem: string) => DeclarationError): Slice[] {
  const slices = new Map<string, Slice>()
  for (const [index, slice] of given.entries()) {
    if (!isSlice(slice)) throw bad(`slices[${index}] is not a slice. Create it with defineSlice.`)
    if (slices.has(slice.name)) {
      throw new DeclarationError('duplicate_slice', `Agent "${agent}" has two slices named "${slice.name}". Rename one.`)
    }
    slices.set(slice.name, slice)
  }
  return [...slices.values()]
}

/** @throws DeclarationError `duplicate_block`. */
function refuseRepeatedBlock(agent: string, memory: Agent['memory']): void {
  const twice = memory.find(({ block }, index) => memory.findIndex((one) => one.block === block) < index)
  if (twice) throw new DeclarationError('duplicate_block', `Agent "${agent}" has two blocks of memory named "${twice.block}". Rename one.`)
}

/** What is wrong with the names of the agent's models, or else with their windows. */
function modelProblem(models: ReturnType<typeof modelsOf>, isCompacted: boolean): string | undefined {
  const foreign = models.flatMap(([option, choice]) => {
    const problem = typeof choice === 'string' ? foreignModel(choice) : undefined
    return problem === undefined ? [] : `\`${option}\`: ${problem}`
  })
  return foreign[0] ?? models.flatMap(([option, choice]) => windowProblem(option, choice, isCompacted) ?? [])[0]
}

/** The declared tools and the sources of further ones. @throws DeclarationError `duplicate_tool`, `reserved_tool`, or from `bad`. */
function toolsIn(
  agent: string,
  given: readonly unknown[],
  bad: (problem: string) => DeclarationError,
): Pick<Agent, 'tools' | 'sources' | 'providerTools'> {
  const tools = new Map<string, Tool>()
  const sources = given.filter(isToolSource)
  const providerTools = given.filter(isProviderTool)
  const names = new Set<string>()
  for (const [index, tool] of given.entries()) {
    if (isToolSource(tool)) continue
    if (!isTool(tool) && !isProviderTool(tool)) throw bad(`tools[${index}] is not a tool. Create it with defineTool.`)
    // Tools of several providers may have the same name: each model gets those of its own.
    const isTwice = isTool(tool) ? names.has(tool.name) : tools.has(tool.name) || isSameTool(providerTools, tool)
    names.add(tool.name)
    if (isTwice) throw new DeclarationError('duplicate_tool', `Agent "${agent}" has two tools named "${tool.name}". Rename one.`)
    if (isReserved(tool.name)) {
      throw new DeclarationError('reserved_tool', `Agent "${agent}" has a tool named "${tool.name}", a name that pawl reserves. Rename it.`)
    }
    const owner = sources.find((source) => source.owns(tool.name))
    if (owner) {
      throw new DeclarationError(
        'duplicate_tool',
        `Agent "${agent}" has a tool named "${tool.name}", a name for tools of the MCP server "${owner.name}". Rename one.`,
      )
    }
    if (isTool(tool)) tools.set(tool.name, tool)
  }
  const twice = sources.find(({ name }, index) => sources.findIndex((one) => one.name === name) < index)
  if (twice) throw new DeclarationError('duplicate_tool', `Agent "${agent}" has two MCP servers named "${twice.name}". Rename one.`)
  return { tools, sources, providerTools }
}

/** Whether another tool of the provider has the name. */
function isSameTool(all: readonly ProviderTool[], { name, provider, form }: ProviderTool): boolean {
  return all.filter((one) => one.name === name && one.provider === provider && one.form === form).length > 1
}

/** The problem with a provider's tool that no model of the agent has; undefined if there is none. */
function unrunProblem(tools: readonly ProviderTool[], models: readonly ModelChoice[]): string | undefined {
  const unrun = tools.find((tool) => models.every((model) => isRunBy(model, tool) === false))
  if (!unrun) return undefined
  const where = unrun.form === 'messages' ? 'models of anthropic()' : `models of aiSdk() whose provider is "${unrun.provider}"`
  return `the tool "${unrun.name}" is run by the provider of ${where}, but the agent has no such model. Use one, or remove the tool.`
}

/** The problem if a ready-made section shows something that the agent does not have; otherwise undefined. */
function unmetSection(given: readonly Section[], has: { plan: boolean; memory: boolean }): string | undefined {
  const needs = { plan: 'plan', progress: 'plan', memory: 'memory' } as const
  const names = Object.keys(needs) as (keyof typeof needs)[]
  const unmet = names.find((name) => given.includes(sections[name]) && !has[needs[name]])
  return unmet && `sections.${unmet} needs the option ${needs[unmet]}. Add it, or remove the section.`
}

/** The problem with a property whose name the models' provider refuses; undefined if there is none. */
function propertyProblem(models: readonly ModelChoice[], tools: readonly Tool[], output: OutputPolicy | undefined): string | undefined {
  const schemas = [
    ...tools.map(({ name, inputSchema }): [string, JsonObject] => [`the input of tool "${name}"`, inputSchema]),
    ...(output ? [['the output', output.definition.input_schema] as [string, JsonObject]] : []),
  ]
  for (const [what, schema] of schemas) {
    const property = refusedProperty(models, schema)
    if (property === undefined) continue
    return `${what} has a property named ${JSON.stringify(property)}, which Anthropic's API refuses in every request. Rename it to 1 to 64 characters of [A-Za-z0-9_.-].`
  }
  return undefined
}

/** The models of an agent, each with the name of its option. */
function modelsOf(
  model: ModelChoice,
  fallback: readonly ModelChoice[],
  compaction: AgentCompaction | undefined,
): [option: string, choice: ModelChoice][] {
  return [
    ['model', model],
    ...fallback.map((one, index): [string, ModelChoice] => [`fallback[${index}]`, one]),
    ...(compaction?.model === undefined ? [] : [['compaction.model', compaction.model] as [string, ModelChoice]]),
  ]
}

function isTool(value: unknown): value is Tool {
  return typeof (value as Tool | null | undefined)?.schemaDigest === 'string'
}

function isToolSource(value: unknown): value is ToolSource {
  const { name, owns, find } = (value ?? {}) as Partial<ToolSource>
  return typeof name === 'string' && typeof owns === 'function' && typeof find === 'function'
}

function isSlice(value: unknown): value is Slice {
  const { version, initial, on } = (value ?? {}) as Partial<Slice>
  return typeof version === 'number' && on !== undefined && Object.isFrozen(initial)
}
