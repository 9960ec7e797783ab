// The activity `verifyTool`: asks a tool whether a call of unknown outcome happened.
import { Context } from '@temporalio/activity'
import { sessionIdOf } from '../session/protocol.ts'
import { runBody } from './body.ts'
import type { VerifyToolInput, VerifyToolResult } from './contract.ts'
import type { BlobShelf } from './blobs.ts'
import { callIdOfInput, shelvingFor, toolContext } from './execute-tool.ts'
import type { ActivityNeeds } from './needs.ts'
import { outputProblem, tellingOf } from './output.ts'
import { recordResult } from './record.ts'
import { parseInput } from './resolve.ts'

/** A question has no progress of its own. */
const NO_NOTES = { progress: () => undefined, lastProgress: undefined, milestone: () => undefined }

/** Makes the activity. What `verify` throws is retried by Temporal. */
export function verifyToolActivity(needs: ActivityNeeds, shelf: BlobShelf) {
  return async function verifyTool(input: VerifyToolInput): Promise<VerifyToolResult> {
    // Any build that has the tool may be asked, also with another schema: it is a read, and its arguments are parsed below.
    const tool = needs.agents.get(input.agent)?.tools.get(input.resolution.tool)
    if (!tool) return { kind: 'not_begun' }
    const { verify } = tool
    if (!verify) return { kind: 'cannot_tell', message: 'The tool has no verify.' }
    const parsed = await parseInput(tool, input.input)
    if ('problem' in parsed) return { kind: 'cannot_tell', message: parsed.problem }
    const { info } = Context.current()
    const { workflowId = '', runId: executionId = '' } = info.workflowExecution ?? {}
    const sessionId = sessionIdOf(workflowId)
    const hold = needs.beats.hold({
      taskToken: info.taskToken,
      sessionId,
      workflowId,
      executionId,
      call: `verify:${callIdOfInput(input)}`,
      tool: tool.name,
      heartbeatTimeoutMs: info.heartbeatTimeoutMs ?? 5_000,
      timeoutMs: tool.verifyTimeoutMs,
      report: { attempt: info.attempt, begun: false, failed: [], worker: needs.worker },
    })
    try {
      const startedAt = Date.now()
      const { verdict, ctx } = await runBody(tool.verifyTimeoutMs, hold, async (signal) => {
        const ctx = toolContext(needs, input, { number: input.attempt, sessionId, hold }, signal, NO_NOTES)
        return { verdict: await verify(parsed.input, ctx), ctx }
      })
      if (verdict?.happened === true) {
        const shelving = shelvingFor(shelf, hold, startedAt, tool.verifyTimeoutMs)
        const problem = await outputProblem(tool, verdict.result)
        const telling = problem === undefined ? tool : tellingOf(tool, problem)
        return { kind: 'happened', ...(await recordResult(telling, verdict.result, ctx, shelving)) }
      }
      if (verdict?.happened === false) return { kind: 'not_happened' }
      return { kind: 'cannot_tell', message: 'verify cannot tell.' }
    } finally {
      hold.release()
    }
  }
}
