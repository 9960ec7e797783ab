// Activities for calls that somebody outside decides on or answers: `resolveTool`, `checkAnswer`.
import { Context } from '@temporalio/activity'
import type { ToolContext } from '../agent/tool.ts'
import { sessionIdOf } from '../session/protocol.ts'
import { agentContext } from './agent-context.ts'
import { beating } from './beating.ts'
import type { BlobShelf } from './blobs.ts'
import type { CheckAnswerInput, CheckAnswerResult, ResolveToolInput, ResolveToolResult } from './contract.ts'
import { StaleWatermark } from './errors.ts'
import { callIdOfInput } from './execute-tool.ts'
import type { ActivityNeeds } from './needs.ts'
import { outputProblem } from './output.ts'
import { recordResult } from './record.ts'
import { resolveCall } from './resolve.ts'
import type { SessionReader } from './session-reader.ts'

/** How long a large answer is offered to the store, while somebody waits. */
const SHELVE_MS = 5_000

/** Makes `resolveTool`: how this build would execute a call with other arguments than the model's. */
export function resolveToolActivity(needs: ActivityNeeds, reader: SessionReader) {
  return function resolveTool(input: ResolveToolInput): Promise<ResolveToolResult> {
    return beating(() => resolveAnew(needs, reader, input))
  }
}

async function resolveAnew(needs: ActivityNeeds, reader: SessionReader, input: ResolveToolInput): Promise<ResolveToolResult> {
  const agent = needs.agents.get(input.agent)
  if (!agent?.tools.has(input.tool)) return { kind: 'not_served' }
  const { client, info } = Context.current()
  const { workflowId = '', runId: executionId = '' } = info.workflowExecution ?? {}
  const sessionId = sessionIdOf(workflowId)
  const { epoch, watermark, origin, run, turn, index, tool } = input
  try {
    const { state, transcript } = await reader.view({ sessionId, epoch, executionId, watermark, ...(origin && { origin }) }, client)
    const { keysOf } = state
    const call = { sessionId, run, turn, index, tool, input: input.input, ...(keysOf !== undefined && { keysOf }) }
    const ctx = agentContext(needs, sessionId, input)
    return { kind: 'resolved', resolution: await resolveCall(agent, call, { completed: transcript.keys, ctx }) }
  } catch (error) {
    if (error instanceof StaleWatermark) return { kind: 'stale_watermark' }
    throw error
  }
}

/** Makes `checkAnswer`: whether an answer from outside fits the tool's output schema, and what is recorded of it. */
export function checkAnswerActivity(needs: ActivityNeeds, shelf: BlobShelf) {
  return function checkAnswer(input: CheckAnswerInput): Promise<CheckAnswerResult> {
    return beating(async () => {
      const tool = needs.agents.get(input.agent)?.tools.get(input.resolution.tool)
      if (!tool) return { kind: 'not_served' }
      const message = await outputProblem(tool, input.result)
      if (message !== undefined) return { kind: 'does_not_fit', message }
      const signal = Context.current().cancellationSignal
      const shelving = { shelf, until: Date.now() + SHELVE_MS, signal }
      return { kind: 'fits', ...(await recordResult(tool, input.result, contextOf(needs, input, signal), shelving)) }
    })
  }
}

/** For the tool's `toModel`: nothing is executed here, so there is nothing to stop and nothing to tell of. */
function contextOf(needs: ActivityNeeds, input: CheckAnswerInput, signal: AbortSignal): ToolContext {
  const sessionId = sessionIdOf(Context.current().info.workflowExecution?.workflowId ?? '')
  return {
    ...agentContext(needs, sessionId, input),
    callId: callIdOfInput(input),
    attempt: 1,
    idempotencyKey: input.resolution.key ?? '',
    signal,
    stillMine: () => Promise.resolve(true),
    progress: () => undefined,
    lastProgress: undefined,
    milestone: () => undefined,
  }
}
