// Activities for calls that somebody outside decides on or answers: `resolveTool`, `checkAnswer`.
import { Context } from '@temporalio/activity'
import { z } from 'zod'
import { sessionIdOf } from '../session/protocol.ts'
import { agentContext } from './agent-context.ts'
import type { CheckAnswerInput, CheckAnswerResult, ResolveToolInput, ResolveToolResult } from './contract.ts'
import type { ActivityNeeds } from './needs.ts'
import { resolveCall } from './resolve.ts'

/** Makes `resolveTool`: how this build would execute a call with other arguments than the model's. */
export function resolveToolActivity(needs: ActivityNeeds) {
  return async function resolveTool(input: ResolveToolInput): Promise<ResolveToolResult> {
    const agent = needs.agents.get(input.agent)
    if (!agent?.tools.has(input.tool)) return { kind: 'not_served' }
    const sessionId = sessionIdOf(Context.current().info.workflowExecution?.workflowId ?? '')
    return {
      kind: 'resolved',
      resolution: await resolveCall(agent, { sessionId, ...input }, { ctx: agentContext(needs, sessionId, input) }),
    }
  }
}

/** Makes `checkAnswer`: whether an answer from outside fits the tool's output schema, and what is recorded of it. */
export function checkAnswerActivity(needs: ActivityNeeds) {
  return async function checkAnswer(input: CheckAnswerInput): Promise<CheckAnswerResult> {
    const tool = needs.agents.get(input.agent)?.tools.get(input.resolution.tool)
    if (!tool) return { kind: 'not_served' }
    if (!tool.output) return { kind: 'fits', value: input.result }
    const parsed = await tool.output.safeParseAsync(input.result)
    if (!parsed.success) return { kind: 'does_not_fit', message: z.prettifyError(parsed.error).slice(0, 4_000) }
    return { kind: 'fits', value: input.result }
  }
}
