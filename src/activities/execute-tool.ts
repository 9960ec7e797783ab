// The activity `executeTool`: enters a tool's body at most as often as its effect allows, and says what came of it.
import { Context } from '@temporalio/activity'
import type { Agent } from '../agent/agent.ts'
import { isToolError } from '../agent/errors.ts'
import { nextDelayMs } from '../agent/retry.ts'
import type { Tool, ToolContext } from '../agent/tool.ts'
import { callIdOf, type Effect } from '../session/events.ts'
import { sessionIdOf } from '../session/protocol.ts'
import { agentContext } from './agent-context.ts'
import { type Attempt, failedAttempt, startAttempt } from './attempt.ts'
import type { BlobShelf } from './blobs.ts'
import { runBody, TimedOut } from './body.ts'
import type { ExecuteToolInput, ExecuteToolResult, ToolCallInput } from './contract.ts'
import type { Flusher } from './flusher.ts'
import { InvalidResult, notServed } from './errors.ts'
import { type LiveRow, startLiveRow } from './live-row.ts'
import type { ActivityNeeds, Hold } from './needs.ts'
import { outputProblem, tellingOf } from './output.ts'
import { recordResult, type Shelving } from './record.ts'
import { parseInput, resolveCall } from './resolve.ts'

/** How long a result that history cannot hold is offered to the store; the grace is less than that of whoever kills overdue attempts. */
const SHELVE_MS = 30_000
const SHELVE_GRACE_MS = 3_000
const STRICTNESS = { read: 0, idempotent: 1, external: 2 } as const

/** The tool that may run the call, as it was resolved; undefined if this build has another one, or none. */
function servedTool(needs: ActivityNeeds, input: ToolCallInput): { agent: Agent; tool: Tool } | undefined {
  const agent = needs.agents.get(input.agent)
  const tool = agent?.tools.get(input.resolution.tool)
  if (!agent || !tool?.execute) return undefined
  const { effect, schemaDigest } = input.resolution
  if (tool.schemaDigest !== schemaDigest || STRICTNESS[tool.effect] > STRICTNESS[effect]) return undefined
  return { agent, tool }
}

/** Makes the activity. */
export function executeToolActivity(needs: ActivityNeeds, flusher: Flusher, shelf: BlobShelf) {
  return async function executeTool(input: ExecuteToolInput): Promise<ExecuteToolResult> {
    const { attempts: before } = input.prior ?? { attempts: 0 }
    // The workflow was reset within the call: the session resumes from what is stored, and settles the call by that.
    if (input.executionId !== Context.current().info.workflowExecution?.runId) return { kind: 'interrupted', attempt: before, begun: false }
    const served = servedTool(needs, input)
    if (!served) {
      const other = await otherResolution(needs, input)
      if (input.untilServed && !other.resolution) throw notServed(needs.worker, `the tool "${input.resolution.tool}"`)
      return { kind: 'not_begun', attempt: before, ...other }
    }
    if (input.untilServed) return { kind: 'not_begun', attempt: before }
    const { tool } = served
    const attempt = startAttempt(needs, {
      call: callIdOfInput(input),
      tool: tool.name,
      prior: input.prior,
      timeoutMs: tool.timeoutMs,
      progress: input.progress,
    })
    try {
      const result = await execute(needs, flusher, shelf, tool, input, attempt)
      return { ...result, ...(attempt.failed.length > 0 && { failed: attempt.failed }), ...attempt.said }
    } finally {
      attempt.hold.release()
    }
  }
}

/** The call's id, from the place of its request. */
export function callIdOfInput({ run, turn, resolution }: ToolCallInput): string {
  return callIdOf(run, turn, resolution.index)
}

/** How this build would resolve the call, if it knows the tool. */
async function otherResolution(
  needs: ActivityNeeds,
  input: ExecuteToolInput,
): Promise<Partial<Pick<ExecuteToolResult & { kind: 'not_begun' }, 'resolution'>>> {
  const agent = needs.agents.get(input.agent)
  const { tool, index } = input.resolution
  if (!agent?.tools.has(tool)) return {}
  const sessionId = sessionIdOf(Context.current().info.workflowExecution?.workflowId ?? '')
  const { run, turn, keysOf } = input
  const call = { sessionId, run, turn, index, tool, input: input.input, ...(keysOf !== undefined && { keysOf }) }
  const resolution = await resolveCall(agent, call, { ctx: agentContext(needs, sessionId, input) })
  return { resolution }
}

async function execute(
  needs: ActivityNeeds,
  flusher: Flusher,
  shelf: BlobShelf,
  tool: Tool,
  input: ExecuteToolInput,
  attempt: Attempt,
): Promise<ExecuteToolResult> {
  const { number } = attempt
  if (attempt.givenUp)
    return {
      kind: 'failed',
      attempt: number,
      code: 'worker_died',
      message: 'This call took too many worker processes with it and was given up.',
    }
  const parsed = await parseInput(tool, input.input)
  if ('problem' in parsed) return { kind: 'failed', attempt: number, code: 'invalid_arguments', message: parsed.problem }
  const { effect } = input.resolution
  await attempt.heard
  if (effect === 'external') {
    try {
      // Only a confirmed beat lets an external body be entered: without it, a lost attempt has surely not begun.
      await attempt.begin()
    } catch {
      return { kind: 'not_begun', attempt: number }
    }
    // The same beat may have told of an interrupt.
    if (attempt.hold.signal.aborted) return { kind: 'interrupted', attempt: number, begun: false }
  }
  const startedAt = Date.now()
  const row = startLiveRow(needs, flusher, input, attempt, callIdOfInput(input))
  let given: { value: unknown; ctx: ToolContext }
  try {
    given = await runBody(tool.timeoutMs, attempt.hold, async (signal) => {
      const ctx = toolContext(needs, input, attempt, signal, notesOf(attempt, row))
      return { value: await tool.execute?.(parsed.input, ctx), ctx }
    })
  } catch (error) {
    return whenThrown(needs, tool, effect, attempt, error)
  } finally {
    row.stop()
  }
  const { value, ctx } = given
  const problem = await outputProblem(tool, value)
  if (problem !== undefined && effect === 'read') return notFitting(needs, attempt, problem)
  const shelving = shelvingFor(shelf, attempt.hold, startedAt, tool.timeoutMs)
  const recorded = await recordResult(problem === undefined ? tool : tellingOf(tool, problem), value, ctx, shelving)
  return { kind: 'completed', attempt: number, startedAt, worker: needs.worker, ...recorded }
}

/** A read that gave something else than it promises has no result; its code would give the same again. */
function notFitting(needs: ActivityNeeds, { number, failed }: Attempt, problem: string): ExecuteToolResult {
  const error = new InvalidResult(problem)
  failed.push(failedAttempt(number, error, { retryable: false, worker: needs.worker }))
  return { kind: 'failed', attempt: number, code: error.code, message: error.message }
}

/** A body's result may wait for the store, but not so long that the process is killed for an attempt that outlives its time. */
export function shelvingFor(shelf: BlobShelf, hold: Hold, startedAt: number, timeoutMs: number): Shelving {
  return { shelf, until: Math.min(Date.now() + SHELVE_MS, startedAt + timeoutMs + SHELVE_GRACE_MS), signal: hold.signal }
}

/** `effect` is the one that the call was resolved with: a tool that has become laxer since changes nothing for it. */
function whenThrown(needs: ActivityNeeds, tool: Tool, effect: Effect, attempt: Attempt, error: unknown): ExecuteToolResult {
  const { number, hold, failed, failures } = attempt
  const told = isToolError(error) ? error : undefined
  const surelyNot = told?.happened === false
  if (hold.signal.aborted) return { kind: 'interrupted', attempt: number, begun: !surelyNot }
  const mayRetry = effect !== 'external' && (told?.retryable ?? true) && failures < tool.retry.maxRetries
  if (mayRetry) {
    const afterMs = nextDelayMs(tool.retry, failures + 1, told?.retryAfterMs)
    failed.push(failedAttempt(number, error, { retryable: true, worker: needs.worker, nextDelayMs: afterMs }))
    return { kind: 'again', attempt: number, afterMs }
  }
  const last = failedAttempt(number, error, { retryable: false, worker: needs.worker })
  failed.push(last)
  if (effect === 'external' && !surelyNot) return { kind: 'unknown', attempt: number, message: last.message }
  const code = (told && last.code) ?? (error instanceof TimedOut ? 'timeout' : 'tool_failed')
  return { kind: 'failed', attempt: number, code, message: last.message }
}

type Notes = Pick<ToolContext, 'progress' | 'lastProgress' | 'milestone'>

function notesOf(attempt: Attempt, row: LiveRow): Notes {
  const { lastProgress, milestone } = attempt
  return {
    progress: (value) => row.progress(attempt.progress(value)),
    lastProgress,
    milestone,
  }
}

/** What `execute` and `verify` are given. */
export function toolContext(
  needs: ActivityNeeds,
  input: ToolCallInput,
  attempt: Pick<Attempt, 'number' | 'sessionId' | 'hold'>,
  signal: AbortSignal,
  notes: Notes,
): ToolContext {
  return {
    ...agentContext(needs, attempt.sessionId, input),
    callId: callIdOfInput(input),
    attempt: attempt.number,
    idempotencyKey: input.resolution.key ?? '',
    signal,
    stillMine: () => attempt.hold.stillMine(),
    ...notes,
  }
}
