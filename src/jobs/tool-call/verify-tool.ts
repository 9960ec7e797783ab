// The job `verifyTool`: calls a tool's `verify` for a call whose outcome is unknown.
import type { VerifyToolInput, VerifyToolResult } from '../../calls/activities.ts'
import { ABANDON_AFTER_MS, runBody } from './body.ts'
import { NO_REPORTS, storageFor, toolContext } from './execute-tool.ts'
import type { Job, JobNeeds } from '../needs.ts'
import { outputProblem, inputForModel, recordResult } from './record.ts'
import { parseInput } from './resolve.ts'
import { agentContext, NO_SLICES, slicesIfReadable } from '../agent-context.ts'
import { toolNow } from '../tools-now.ts'

/** Rethrows what `verify` throws, so that Temporal retries. */
export async function verifyTool(needs: JobNeeds, job: Job, input: VerifyToolInput): Promise<VerifyToolResult> {
  // Any build that has the tool can verify, even with another schema, because `verify` is a read and its arguments are parsed below.
  const agent = needs.agents.get(input.agent)
  const tool = agent && (await toolNow(agent, input.resolution.tool, agentContext(needs, job.sessionId, input, NO_SLICES)))
  if (!tool) return { kind: 'not_begun' }
  const { verify } = tool
  if (!verify) return { kind: 'cannot_tell', message: 'The tool has no verify.' }
  const parsed = await parseInput(tool, input.input)
  if ('problem' in parsed) return { kind: 'cannot_tell', message: parsed.problem }
  const slices = await slicesIfReadable(needs, job, input)
  if (!slices) return { kind: 'not_begun' }
  const startedAt = Date.now()
  const ownInput = inputForModel(tool, parsed.input)
  // `ctx.attempt` is the attempt being verified.
  const about = { ...job, slices, attempt: { ...job.attempt, number: input.attempt } }
  const bounds = { timeoutMs: tool.verifyTimeoutMs, stop: job.link.signal, abandonAfterMs: ABANDON_AFTER_MS }
  const { verdict, ctx } = await runBody(bounds, async (signal) => {
    job.link.entered(tool.verifyTimeoutMs)
    const ctx = toolContext(needs, input, about, signal, NO_REPORTS)
    return { verdict: await verify(parsed.input, ctx), ctx }
  })
  if (verdict?.happened === true) {
    const problem = await outputProblem(tool, verdict.result)
    const call = { tool, input: ownInput, result: verdict.result, problem }
    return { kind: 'happened', ...(await recordResult(call, ctx, storageFor(needs, job, startedAt, tool.verifyTimeoutMs))) }
  }
  if (verdict?.happened === false) return { kind: 'not_happened' }
  return { kind: 'cannot_tell', message: 'verify cannot tell.' }
}
