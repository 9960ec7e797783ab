// A small tree of agents for tests: a boss, who calls a helper, who calls a clerk. Each root session plays its scene.
import { randomUUID } from 'node:crypto'
import { agentTool, type Agent, type AgentOptions, defineAgent, defineTool, type ModelRequest } from 'pawl'
import type { Pawl, SessionHandle } from 'pawl/client'
import { calls, lastResult, scripted, type ScriptedAnswer } from 'pawl/testing'
import { z } from 'zod'
import { WORKFLOW_TASK_TIMEOUT_MS, workflowIdOf } from '../../src/session/protocol/protocol.ts'
import type { Deployment } from './deployment.ts'

export type AgentName = 'boss' | 'helper' | 'clerk'
type Script = (request: ModelRequest) => ScriptedAnswer | Promise<ScriptedAnswer>

/** What the models of one tree do. */
export type TreeScene = Partial<Record<AgentName, Script>>

export interface PlayedTree {
  readonly id: string
  readonly session: SessionHandle
  /** The sessions whose model was asked, in order, with the agent. */
  readonly asked: { agent: AgentName; session: string; request: ModelRequest }[]
  /** Payments that were made: the sessions that made them. */
  readonly paid: string[]
  /** How many model calls an agent has had. */
  count(agent: AgentName): number
  /** The ids of the sessions of an agent, in the order in which they were first asked. */
  sessionsOf(agent: AgentName): string[]
}

export interface TreeOptions {
  boss?: Partial<AgentOptions>
  helper?: Partial<AgentOptions>
  clerk?: Partial<AgentOptions>
  /** Options of the tool with which the boss calls the helper. */
  call?: Parameters<typeof agentTool>[1]
  /** Options of the tool with which the helper calls the clerk. */
  below?: Parameters<typeof agentTool>[1]
  model?: Parameters<typeof scripted>[1]
}

/** Asks once with this, and then says what came back. */
export const passOn =
  (...asks: { tool: string; input: Parameters<typeof calls>[1] }[]): Script =>
  ({ messages }) => {
    const result = lastResult(messages)
    return result ? `got: ${resultsIn(messages).join(' | ')}` : asks.flatMap(({ tool, input }) => calls(tool, input))
  }

export const ask = (tool: AgentName, message: string) => ({ tool, input: { message } })

/** The texts of all results that the model sees. */
export function resultsIn(messages: ModelRequest['messages']): string[] {
  return messages.flatMap(({ content }) =>
    typeof content === 'string'
      ? []
      : content.flatMap((block) =>
          block.type === 'tool_result' ? [typeof block.content === 'string' ? block.content : JSON.stringify(block.content)] : [],
        ),
  )
}

/** The newest text of a user. */
export function saidIn({ messages }: ModelRequest): string {
  for (const { role, content } of messages.toReversed()) {
    if (role !== 'user') continue
    if (typeof content === 'string') return content
    const text = content.find((block) => block.type === 'text')
    if (text?.type === 'text') return text.text
  }
  return ''
}

export function treeStage(options: TreeOptions = {}) {
  const scenes = new Map<string, { scene: TreeScene; asked: PlayedTree['asked']; paid: string[] }>()
  const sceneOf = (session: string) => {
    const found = scenes.get(session.split('/')[0] ?? '')
    if (!found) throw new Error(`no scene for ${session}`)
    return found
  }
  const model = (agent: AgentName) =>
    scripted((request) => {
      const { scene, asked } = sceneOf(request.sessionId)
      asked.push({ agent, session: request.sessionId, request: structuredClone(request) })
      return scene[agent]?.(request) ?? `${agent} says: ${saidIn(request)}`
    }, options.model)
  const agentOf = (name: AgentName, tools: AgentOptions['tools']) =>
    defineAgent({
      instructions: `You are the ${name}.`,
      retry: { maxRetries: 1, baseDelay: 10 },
      ...options[name],
      name,
      model: model(name),
      tools: tools ?? [],
    } as AgentOptions) as Agent
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({ what: z.string() }),
    effect: 'external',
    approval: ({ what }) => what !== 'small',
    execute: (_, ctx) => {
      sceneOf(ctx.sessionId).paid.push(ctx.sessionId)
      return 'paid'
    },
  })
  const clerk = agentOf('clerk', [pay])
  const helper = agentOf('helper', [agentTool(clerk, options.below as never), pay])
  const boss = agentOf('boss', [agentTool(helper, options.call as never), pay])
  return {
    agents: [boss, helper, clerk],
    play(
      pawl: Pawl,
      scene: TreeScene,
      { id = `t-${randomUUID()}`, ...more }: { id?: string; context?: never; tags?: string[] } = {},
    ): PlayedTree {
      const record = { scene, asked: [] as PlayedTree['asked'], paid: [] as string[] }
      scenes.set(id, record)
      return {
        id,
        session: pawl.session(id, { agent: 'boss', ...more }) as SessionHandle,
        asked: record.asked,
        paid: record.paid,
        count: (agent) => record.asked.filter((one) => one.agent === agent).length,
        sessionsOf: (agent) => [...new Set(record.asked.flatMap((one) => (one.agent === agent ? [one.session] : [])))],
      }
    },
  }
}

/** Sends message `m` to a new session of the boss, which asks its agents again after this time. */
export async function startImpatient(
  { temporal, taskQueue }: Pick<Deployment, 'temporal' | 'taskQueue'>,
  id: string,
  { askAgainMs = 1_500, text = 'go' } = {},
): Promise<void> {
  await temporal.workflow.signalWithStart('pawlSession', {
    workflowId: workflowIdOf(id),
    taskQueue,
    workflowTaskTimeout: WORKFLOW_TASK_TIMEOUT_MS,
    args: [{ sessionId: id, agent: 'boss', settings: { askAgainMs } }],
    signal: 'message',
    signalArgs: [{ messageId: 'm', content: text }],
  })
}
