// Limits of a tool's calls over all workers: asks for admission before the body, and reports when the call no longer runs.
import type { ExecuteToolInput, ExecuteToolResult } from '../../calls/activities.ts'
import { TryAgain } from '../../calls/errors.ts'
import { lostIn } from '../../session/attempts.ts'
import { returnedKey } from '../../agent/keys.ts'
import type { Tool, ToolLimit } from '../../agent/tool.ts'
import type { CallLimit } from '../../session/call-limits.ts'
import { defined } from '../../session/defined.ts'
import { numberText } from '../../session/number-text.ts'
import { OVERDUE_GRACE_MS } from '../../session/call-facts.ts'
import { BEGUN_BEFORE } from '../../session/recovery/redo.ts'
import { agentContext, NO_SLICES } from '../agent-context.ts'
import type { Job, JobNeeds } from '../needs.ts'
import { parseInput, whyNoKey } from './resolve.ts'

const MAX_KEY = 200
/** If nobody reports that a call has ended, it counts for this much longer than its timeout, which its body may ignore. */
const HOLD_GRACE_MS = OVERDUE_GRACE_MS + 30_000

/** The result of a call that is not executed now; or the tool to execute, and what to call once pawl no longer waits for the body. */
export type LimitedCall = { result: ExecuteToolResult } | { tool: Tool; left(): void }

/** Asks the limits of the tool. @throws TryAgain if the job only waits for them, and must wait longer. */
export async function askLimits(needs: JobNeeds, job: Job, tool: Tool, input: ExecuteToolInput, callId: string): Promise<LimitedCall> {
  const { number } = job.attempt
  const { untilAdmitted } = input
  const before = { attempt: number - 1, ...lostIn(job.attempt) }
  const asked = await limitsOf(needs, job, tool, input, callId)
  if ('problem' in asked) {
    const hasBegun = number > 1 && input.resolution.effect === 'idempotent'
    const message = `${asked.problem}${hasBegun ? ` ${BEGUN_BEFORE}` : ''}`
    return { result: { ...before, kind: 'failed', attempt: number, code: 'invalid_limit_key', message } }
  }
  const { limits } = asked
  const forMs = tool.timeoutMs + HOLD_GRACE_MS
  const waitMs = limits.length > 0 ? await job.link.admit({ callId, limits, forMs, begins: !untilAdmitted }) : 0
  if (waitMs > 0) {
    const reason = reasonOf(limits)
    if (untilAdmitted) throw new TryAgain('Limited', reason, { afterMs: waitMs })
    return { result: { kind: 'limited', ...before, reason } }
  }
  if (untilAdmitted) return { result: { kind: 'not_begun', ...before } }
  return limits.length > 0 ? watched(tool, () => job.link.leaveLimits(callId)) : { tool, left: () => undefined }
}

/** The same tool. If its body continues after pawl has stopped waiting for it, the call keeps its place for a while. */
function watched(tool: Tool, onLeft: () => void): LimitedCall {
  let isInside = false
  return {
    tool: {
      ...tool,
      async execute(input, ctx) {
        isInside = true
        try {
          return await tool.execute?.(input, ctx)
        } finally {
          isInside = false
        }
      },
    },
    left() {
      if (!isInside) onLeft()
    },
  }
}

/** The limits with this call's keys. None if the arguments are invalid, because the call then fails before its body. */
async function limitsOf(
  needs: JobNeeds,
  { sessionId }: Job,
  tool: Tool,
  input: ExecuteToolInput,
  callId: string,
): Promise<{ limits: CallLimit[] } | { problem: string }> {
  const { limits = [] } = tool
  const keyed = limits.some(({ key }) => key !== undefined) ? await parseInput(tool, input.input) : { input: undefined }
  if ('problem' in keyed) return { limits: [] }
  const ctx = agentContext(needs, sessionId, input, NO_SLICES)
  const { agent, context, metadata, tags } = ctx
  const keyOf = ({ of, key }: ToolLimit): string => {
    const returned = key?.(keyed.input, { sessionId, agent, context, metadata, tags })
    return key ? returnedKey(returned, `The key function of the tool's ${of}`, MAX_KEY) : ''
  }
  try {
    return {
      limits: limits.map((limit) => {
        const { of, max, perMs } = limit
        return { tool: tool.name, of, max, ...defined({ perMs }), key: keyOf(limit) }
      }),
    }
  } catch (error) {
    const reason = whyNoKey({ callId, log: ctx.log }, tool, 'key function of a limit', error)
    return { problem: `The call cannot be made: the key of a limit of its tool could not be computed. ${reason}` }
  }
}

function reasonOf(limits: readonly CallLimit[]): string {
  const texts = limits.map(({ of, max, perMs = 0, key }) => {
    const what =
      of === 'concurrency'
        ? `runs at most ${numberText(max)} times at once`
        : `begins at most ${numberText(max)} times per ${numberText(perMs)} ms`
    return key === '' ? what : `${what} for "${key}"`
  })
  return `the tool "${limits[0]?.tool}" ${texts.join(', and ')}`
}
