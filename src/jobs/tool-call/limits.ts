// Limits of a tool's calls over all workers: asks for admission before the body, and reports when the body has ended.
import type { ExecuteToolInput, ExecuteToolResult } from '../../calls/activities.ts'
import { TryAgain } from '../../calls/errors.ts'
import { lostIn } from '../../calls/jobs.ts'
import type { CallLimit } from '../../session/call-limits.ts'
import type { Tool, ToolLimit } from '../../agent/tool.ts'
import { defined } from '../../session/defined.ts'
import { numberText } from '../../session/number-text.ts'
import { OVERDUE_GRACE_MS } from '../../session/overdue.ts'
import { type AgentPlace, agentContext, NO_SLICES } from '../agent-context.ts'
import type { Job, JobNeeds } from '../needs.ts'
import { parseInput } from './resolve.ts'

const MAX_KEY = 200
/** How much longer than its timeout a call counts as running that nobody reports as ended: its body may ignore the timeout. */
const HOLD_GRACE_MS = OVERDUE_GRACE_MS + 30_000

/** The call is not executed now; or it is, as a call of `tool`, and `left` is to be called once pawl no longer waits for it. */
export type LimitedCall = { result: ExecuteToolResult } | { tool: Tool; left(): void }

/** Asks the limits of the tool. @throws TryAgain if the job only waits, and must go on waiting. */
export async function admitted(needs: JobNeeds, job: Job, tool: Tool, input: ExecuteToolInput, callId: string): Promise<LimitedCall> {
  const { limits } = tool
  const { untilAdmitted } = input
  const before = { attempt: job.attempt.number - 1, ...lostIn(job.attempt) }
  if (!limits) return untilAdmitted ? { result: { kind: 'not_begun', ...before } } : { tool, left: () => undefined }
  const asked = await requestOf(needs, job, tool, limits, input)
  if ('problem' in asked) {
    return { result: { ...before, kind: 'failed', attempt: job.attempt.number, code: 'invalid_limit_key', message: asked.problem } }
  }
  const forMs = tool.timeoutMs + HOLD_GRACE_MS
  const waitMs = await job.link.admit({ callId, limits: asked.limits, forMs, begins: !untilAdmitted })
  if (waitMs > 0) {
    const reason = reasonOf(asked.limits)
    if (untilAdmitted) throw new TryAgain('Limited', reason, { afterMs: waitMs })
    return { result: { kind: 'limited', ...before, reason } }
  }
  if (untilAdmitted) return { result: { kind: 'not_begun', ...before } }
  return watched(tool, () => job.link.left(callId))
}

/** The same tool. A call whose body goes on, although pawl no longer waits for it, keeps its place for a while. */
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

async function requestOf(
  needs: JobNeeds,
  { sessionId }: Job,
  tool: Tool,
  limits: readonly ToolLimit[],
  input: AgentPlace & Pick<ExecuteToolInput, 'input'>,
): Promise<{ limits: CallLimit[] } | { problem: string }> {
  const parsed = await parseInput(tool, input.input)
  // The call itself will fail for that reason.
  if ('problem' in parsed) return { limits: [] }
  const { agent, context, metadata, tags } = agentContext(needs, sessionId, input, NO_SLICES)
  try {
    const asked = limits.map((limit): CallLimit => {
      const { of, max, perMs } = limit
      return {
        tool: tool.name,
        of,
        max,
        ...defined({ perMs }),
        key: keyOf(limit, parsed.input, { sessionId, agent, context, metadata, tags }),
      }
    })
    return { limits: asked }
  } catch (error) {
    needs.logger.warn({ session: sessionId, tool: tool.name, err: error }, "the key function of a tool's limit threw")
    return { problem: `The call cannot be made: the key of the tool's limit could not be computed. ${messageOf(error)}` }
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

function keyOf(limit: ToolLimit, input: unknown, ctx: Parameters<NonNullable<ToolLimit['key']>>[1]): string {
  if (!limit.key) return ''
  const key: unknown = limit.key(input, ctx)
  if (typeof key === 'string' && key !== '' && key.length <= MAX_KEY) return key
  // The promise may reject, and no other code handles that.
  if (key instanceof Promise) key.catch(() => undefined)
  throw new RangeError(`The key function of ${limit.of} must return a string of 1 to ${MAX_KEY} characters.`)
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
