// Wraps a worker module's agents to observe, from within, the model's answers and each tool's execution.
import type { Agent } from '../../../agent/agent.ts'
import type { Model } from '../../../agent/model.ts'
import type { AgentContext, SourceContext, Tool, ToolContext, ToolSource } from '../../../agent/tool.ts'
import { defined } from '../../../session/defined.ts'
import type { MarkWriter } from '../marks.ts'
import type { ResponseReports } from './answers.ts'

/** The agent, observed. Its declarations stay the same, so the workflow and the resolution of calls see no difference. */
export function observedAgent(agent: Agent, marks: MarkWriter, answers: ResponseReports): Agent {
  const observe = (tool: Tool): Tool => observedTool(tool, marks, answers)
  const tools = allObserved(agent.tools, observe)
  const sources = agent.sources.map((source) => observedSource(source, observe))
  return { ...agent, tools, sources, model: (ctx) => observedModel(agent.model, ctx, marks) }
}

function allObserved(tools: ReadonlyMap<string, Tool>, observe: (tool: Tool) => Tool): Map<string, Tool> {
  return new Map([...tools].map(([name, tool]) => [name, observe(tool)]))
}

function observedSource(source: ToolSource, observe: (tool: Tool) => Tool): ToolSource {
  const { forSession } = source
  return {
    ...source,
    tools: async (log) => allObserved(await source.tools(log), observe),
    async find(name, log, how) {
      const tool = await source.find(name, log, how)
      return tool && observe(tool)
    },
    ...(forSession && { forSession: (ctx: SourceContext) => observedSource(forSession(ctx), observe) }),
  }
}

/** A member that budgets, compaction or the rate gate may need. */
type OptionalMember = Exclude<keyof Model, 'name' | 'generate' | 'runsTool'>

async function observedModel(declared: Agent['model'], ctx: AgentContext, marks: MarkWriter): Promise<Model> {
  const chosen = typeof declared === 'function' ? await declared(ctx) : declared
  // The SDK behind a model's name takes a while to load.
  const model = typeof chosen === 'string' ? (await import('../../../models/anthropic.ts')).modelOf(chosen) : chosen
  const { name, provider, account, contextWindow, price, maxTokens, thinkingTokens } = model
  const others = { provider, account, contextWindow, price, maxTokens, thinkingTokens } satisfies Record<OptionalMember, unknown>
  return {
    name,
    ...defined(others),
    runsTool: (tool) => model.runsTool?.(tool) === true,
    async generate(request, callContext) {
      const place = `${request.purpose ?? 'model'}:${request.run}:${request.turn}`
      marks.reach(request.sessionId, { id: `${place}/before` })
      const response = await model.generate(request, callContext)
      marks.reach(request.sessionId, { id: `${place}/during` })
      return response
    },
  }
}

function observedTool(tool: Tool, marks: MarkWriter, answers: ResponseReports): Tool {
  const { execute, verify } = tool
  // A client executes this tool, so it has no body here.
  if (!execute) return tool
  const about = (ctx: ToolContext) => ({
    tool: tool.name,
    ...(ctx.idempotencyKey !== '' && { key: ctx.idempotencyKey }),
    ...(verify && { verifies: true as const }),
  })
  /** Enters the body, and marks each response that the body receives, and its end. */
  const within = async <T>(place: string, ctx: ToolContext, problem: string | undefined, body: () => T): Promise<Awaited<T>> => {
    const reach = (step: string, more: { problem?: string } = {}): void =>
      marks.reach(ctx.sessionId, { id: `${place}/${step}`, ...about(ctx), ...more })
    reach('before', problem === undefined ? {} : { problem })
    let count = 0
    try {
      return await answers.during(() => reach(`answer:${++count}`), body)
    } finally {
      reach('end')
    }
  }
  return {
    ...tool,
    execute: (input, ctx) => within(`tool:${ctx.callId}`, ctx, keyProblem(tool, input, ctx), () => execute(input, ctx)),
    ...(verify && { verify: (input, ctx) => within(`verify:${ctx.callId}`, ctx, undefined, () => verify(input, ctx)) }),
  }
}

/** A key that differs each time it is computed protects nothing, because pawl computes it in more than one place. */
function keyProblem(tool: Tool, input: unknown, { sessionId, intent, callId, idempotencyKey }: ToolContext): string | undefined {
  if (typeof tool.idempotency !== 'function') return undefined
  const again = tool.idempotency(input, { sessionId, run: intent, callId: callId.replace(/^t_\d+_/, `t_${intent}_`) })
  if (again === idempotencyKey) return undefined
  return `the idempotency key of tool ${tool.name} differs each time it is computed. Derive it only from the input and ctx`
}
