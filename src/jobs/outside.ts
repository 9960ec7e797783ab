// Jobs for calls that a person approves or a client answers: `resolveTool`, `checkAnswer`.
import type { CheckAnswerInput, CheckAnswerResult, ResolveToolInput, ResolveToolResult } from '../activities/contract.ts'
import { agentContext } from './agent-context.ts'
import { StaleWatermark } from './errors.ts'
import { toolContext } from './execute-tool.ts'
import type { Job, JobNeeds } from './needs.ts'
import { outputProblem } from './output.ts'
import { recordResult } from './record.ts'
import { resolveCall } from './resolve.ts'
import { defined } from '../session/defined.ts'

/** How long a large answer waits for the store, while its sender waits. */
const SHELVE_MS = 5_000
/** A context for checks: nothing is executed here. */
const NO_NOTES = { progress: () => undefined, lastProgress: undefined, milestone: () => undefined }

/** This build's resolution of a call with changed arguments. */
export async function resolveTool(needs: JobNeeds, job: Job, input: ResolveToolInput): Promise<ResolveToolResult> {
  const agent = needs.agents.get(input.agent)
  if (!agent?.tools.has(input.tool)) return { kind: 'not_served' }
  const { sessionId, executionId } = job
  const { epoch, watermark, origin, run, turn, index, tool } = input
  try {
    const target = { sessionId, epoch, executionId, watermark, ...(origin && { origin }) }
    const { state, transcript } = await needs.views.view(target, job.along)
    const { keysOf, current } = state
    const call = { sessionId, run, intent: current?.intent ?? run, turn, index, tool, input: input.input, ...defined({ keysOf }) }
    const ctx = agentContext(needs, sessionId, input)
    return { kind: 'resolved', resolution: await resolveCall(agent, call, { completed: transcript.keys, ctx }) }
  } catch (error) {
    if (error instanceof StaleWatermark) return { kind: 'stale_watermark' }
    throw error
  }
}

/** Checks a client's answer against the tool's output schema, and makes its record. */
export async function checkAnswer(needs: JobNeeds, job: Job, input: CheckAnswerInput): Promise<CheckAnswerResult> {
  const tool = needs.agents.get(input.agent)?.tools.get(input.resolution.tool)
  if (!tool) return { kind: 'not_served' }
  const message = await outputProblem(tool, input.result)
  if (message !== undefined) return { kind: 'does_not_fit', message }
  const { signal } = job.link
  const ctx = toolContext(needs, input, job, signal, NO_NOTES)
  const shelving = { values: needs.values, waitMs: SHELVE_MS, signal }
  return { kind: 'fits', ...(await recordResult(tool, input.result, ctx, shelving)) }
}
