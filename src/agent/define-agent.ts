// `defineAgent`: checks and completes what a user declares an agent with.
import type { z } from 'zod'
import { checkOptions, duration, integer, options, where } from '../options/check.ts'
import { defined } from '../session/defined.ts'
import { milliseconds } from '../session/duration.ts'
import type { CheckpointPolicy } from '../session/events.ts'
import type { Json } from '../session/json.ts'
import { isAgentName } from '../session/protocol.ts'
import type { Agent, AgentOptions } from './agent.ts'
import { DeclarationError } from './errors.ts'
import { RETRY, retryPolicy } from './retry.ts'
import { isSchema } from './schema.ts'
import type { AnyServices, ContextTypes, ServicesIn, Tool } from './tool.ts'

const DEFAULT_MAX_TURNS = 50

/** Declares an agent; see `AgentOptions` for what it can be told. */
export interface DefineAgent<S> {
  /**
   * Declares an agent.
   * @throws DeclarationError `invalid_agent` for an option that is unknown, missing or not allowed; `duplicate_tool` for two tools of one name.
   */
  <const N extends string, C extends z.ZodType = z.ZodType<Json, Json>>(options: AgentOptions<C, N, S>): Agent<z.input<C>, N>
  /** The same function, for agents whose functions have `ctx.services` of this type: `defineAgent.withTypes<{ services: { shop: Shop } }>()`. */
  withTypes<T extends Pick<ContextTypes, 'services'>>(): DefineAgent<ServicesIn<T>>
}

const OPTIONS = options({
  name: where<string>(isAgentName, '1 to 100 of [A-Za-z0-9._-]'),
  instructions: where<Agent['instructions']>(
    (value) => typeof value === 'string' || typeof value === 'function',
    'a string, or a function of the state that returns one',
  ),
  model: where<Agent['model']>(isModel, "a Claude model's name, an object with generate(), or a function that returns one"),
  tools: where<readonly unknown[]>(Array.isArray, 'a list of tools').optional(),
  retry: RETRY.optional(),
  limits: options({ maxTurns: integer(1).optional(), deadline: duration({ example: '10m' }).optional() }).optional(),
  checkpoint: where<NonNullable<AgentOptions['checkpoint']>>(
    (value) => policyOf(value) !== undefined,
    "'turn', 'tool_call', { everyTurns: n }, { every: '60s' } or { on: [{ type, tool?, milestone? }] }",
  ).optional(),
  context: where<z.ZodType>(isSchema, 'a zod schema').optional(),
})

/**
 * Declares an agent. `defineAgent.withTypes<{ services }>()` returns the same function for agents with typed `ctx.services`.
 * @throws DeclarationError `invalid_agent` for an option that is unknown, missing or not allowed; `duplicate_tool` for two tools of one name.
 */
export const defineAgent: DefineAgent<AnyServices> = Object.assign(declare as unknown as DefineAgent<AnyServices>, {
  withTypes: <T extends Pick<ContextTypes, 'services'>>() => defineAgent as unknown as DefineAgent<ServicesIn<T>>,
})

function declare(given: unknown): Agent {
  const name = (given as { name?: unknown } | undefined)?.name
  const bad = (problem: string): DeclarationError =>
    new DeclarationError('invalid_agent', typeof name === 'string' ? `Agent "${name}": ${problem}` : `An agent: ${problem}`)
  const agent = checkOptions(OPTIONS, given, bad)
  const tools = new Map<string, Tool>()
  for (const [index, tool] of (agent.tools ?? []).entries()) {
    if (!isTool(tool)) throw bad(`tools[${index}] is not a tool: make it with defineTool.`)
    if (tools.has(tool.name)) {
      throw new DeclarationError('duplicate_tool', `Agent "${agent.name}" has two tools named "${tool.name}": rename one.`)
    }
    tools.set(tool.name, tool)
  }
  const { maxTurns = DEFAULT_MAX_TURNS, deadline: deadlineMs } = agent.limits ?? {}
  return {
    name: agent.name,
    instructions: agent.instructions,
    model: agent.model,
    tools,
    retry: retryPolicy(agent.retry),
    limits: { maxTurns, ...defined({ deadlineMs }) },
    checkpoint: policyOf(agent.checkpoint) ?? 'turn',
    ...defined({ context: agent.context }),
  }
}

function isModel(value: unknown): boolean {
  if (typeof value === 'string') return value !== ''
  return typeof value === 'function' || typeof (value as { generate?: unknown } | null | undefined)?.generate === 'function'
}

function isTool(value: unknown): value is Tool {
  return typeof (value as Tool | null | undefined)?.schemaDigest === 'string'
}

/** The policy as it is recorded; undefined for what is not one. */
function policyOf(value: unknown): CheckpointPolicy | undefined {
  if (value === 'turn' || value === 'tool_call') return value
  if (value === null || typeof value !== 'object' || Object.keys(value).length !== 1) return undefined
  const { everyTurns, every, on } = value as { everyTurns?: unknown; every?: unknown; on?: unknown }
  if (everyTurns !== undefined) return isCount(everyTurns) ? { everyTurns } : undefined
  const everyMs = milliseconds(every)
  if (everyMs !== undefined) return { everyMs }
  if (!Array.isArray(on) || on.length === 0) return undefined
  return on.every((one) => typeof one?.type === 'string' && one.type !== 'checkpoint_made') ? { on } : undefined
}

function isCount(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) > 0
}
