// The worker module of the retail agent: the workload's tools over HTTP, and a model that issues a task's ground-truth calls.
import { type Agent, type AgentOptions, type ModelRequest, ToolError, defineAgent, defineTool, defineWorker } from 'pawl'
import { scripted, type ScriptedAnswer } from 'pawl/testing'
import { z } from 'zod'
import type { JsonObject } from '../../src/session/json.ts'
import { type RetailClient, RetailError, connectRetail } from './client.ts'
import { effectOf } from './effects.ts'
import { nextStep } from './script.ts'
import { type ToolSpec, readTasks, readToolSpecs } from './workload.ts'

const context = z.object({ world: z.string() })
const worldOf = (ctx: { context: unknown }) => context.parse(ctx.context).world
const retailOf = (ctx: { services: { [name: string]: unknown } }) => ctx.services.retail as RetailClient

function toolFrom(spec: ToolSpec) {
  const effect = effectOf(spec.name)
  return defineTool({
    name: spec.name,
    description: spec.description,
    input: z.fromJSONSchema(spec.input_schema),
    effect,
    timeout: 10_000,
    retry: { maxRetries: 5, baseDelay: 100 },
    async execute(input, ctx) {
      try {
        return await retailOf(ctx).execute(worldOf(ctx), spec.name, input as JsonObject, { key: ctx.idempotencyKey, signal: ctx.signal })
      } catch (error) {
        // A 4xx refuses the request at the door: it did not happen and never will.
        if (!(error instanceof RetailError) || error.status >= 500) throw error
        throw new ToolError(error.message, { code: 'retail_refused', retryable: false, happened: false, cause: error })
      }
    },
    ...(effect === 'external' && {
      settleAfter: '500ms',
      async verify(_input, ctx) {
        const result = await retailOf(ctx).lookUp(worldOf(ctx), spec.name, ctx.idempotencyKey, { signal: ctx.signal })
        return result === null ? { happened: false as const } : { happened: true as const, result }
      },
    }),
  })
}

const tasks = new Map(readTasks().map((task) => [task.id, task]))

/** The model's next answer: it issues a task's ground-truth calls. */
export const answer = ({ messages }: ModelRequest): ScriptedAnswer => nextStep(tasks, messages)

/** The workload's tools. */
export const retailTools = () => readToolSpecs().map(toolFrom)

/** The agent that customers of the retail workload talk to, with `options` in place of its own. */
export const retailWith = (options: Partial<AgentOptions> & { answer?: typeof answer }): Agent => {
  const { answer: say = answer, ...rest } = options
  return defineAgent({
    name: 'retail',
    instructions: 'You serve the customers of a shop. Use the tools; never guess.',
    tools: retailTools(),
    context,
    model: scripted(say, { name: 'retail-script' }),
    ...rest,
  }) as Agent
}

/** The agent without changes. */
export const retail = retailWith({ answer })

/** The services that its tools use. */
export function services(): { retail: RetailClient } {
  const url = process.env.RETAIL_URL
  if (!url) throw new Error("RETAIL_URL is not set: start test/retail/server.ts and set it to that server's address.")
  return { retail: connectRetail(url) }
}

export default defineWorker({ agents: [retail], services })
