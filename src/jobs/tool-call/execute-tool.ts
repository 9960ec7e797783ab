// The job `executeTool`: enters a tool's body only as often as its effect allows, and reports the outcome.
import type { ExecuteToolInput, ExecuteToolResult, ToolCallInput } from '../../calls/activities.ts'
import { isAsking, withReplies } from '../../agent/asking.ts'
import { isToolError } from '../../agent/errors.ts'
import { nextDelayMs } from '../../agent/retry.ts'
import type { Tool, ToolContext } from '../../agent/tool.ts'
import { withFields } from '../../log/logger.ts'
import { callIdOf } from '../../session/ids.ts'
import { type Effect, OVERDUE_GRACE_MS } from '../../session/call-facts.ts'
import { agentContext, type JobWithSlices, NO_SLICES, slicesIfReadable } from '../agent-context.ts'
import { failedAttempt, type BodyReports, startReports } from '../attempt.ts'
import { ABANDON_AFTER_MS, runBody, TimedOut } from './body.ts'
import { InvalidResult, notServed } from '../../calls/errors.ts'
import type { JobLink } from '../../calls/jobs.ts'
import { lostIn } from '../../session/attempts.ts'
import { readTarget } from '../../calls/reads.ts'
import type { Job, JobNeeds } from '../needs.ts'
import { outputProblem, inputForModel, recordResult, type ResultStorage } from './record.ts'
import { askLimits } from './limits.ts'
import { parseInput, pastOfCall, resolveCall } from './resolve.ts'
import { toolForCall, withToolsNow } from '../tools-now.ts'
import { defined } from '../../session/defined.ts'

/** How long a result too large for history waits for the store; this is shorter than the grace period of an overdue attempt. */
const STORE_WAIT_MS = 30_000
const STORE_GRACE_MS = 3_000
const STRICTNESS = { read: 0, idempotent: 1, external: 2 } as const

/** The tool that the call was resolved with; undefined if this build has a different tool by that name, or none. */
async function servedTool(needs: JobNeeds, { sessionId }: Job, input: ToolCallInput): Promise<Tool | undefined> {
  const { agent: name, resolution } = input
  const { effect, schemaDigest } = resolution
  const agent = needs.agents.get(name)
  const isSame = (tool: Tool): boolean => tool.execute !== undefined && tool.schemaDigest === schemaDigest && !isStricter(tool, effect)
  return agent && toolForCall(agent, resolution, agentContext(needs, sessionId, input, NO_SLICES), isSame)
}

/** Whether this build's tool allows fewer repetitions than the call's resolution. */
export function isStricter(tool: Tool, effect: Effect): boolean {
  return STRICTNESS[tool.effect] > STRICTNESS[effect]
}

/** @throws TryAgain. */
export async function executeTool(needs: JobNeeds, job: Job, input: ExecuteToolInput): Promise<ExecuteToolResult> {
  const { number } = job.attempt
  // Attempts of this activity that were lost before are recorded, although this one is none.
  const before = { attempt: number - 1, ...lostIn(job.attempt) }
  // The workflow was reset during the call: the session resumes from the store and settles the call from there.
  if (input.executionId !== job.executionId) return { kind: 'interrupted', ...before, begun: false }
  const slices = await slicesIfReadable(needs, job, input)
  if (!slices) return { kind: 'not_begun', ...before }
  const served = await servedTool(needs, job, input)
  if (!served) {
    const other = await otherResolution(needs, { ...job, slices }, input)
    if (input.untilServed && !other.resolution) throw notServed(needs.worker, `the tool "${input.resolution.tool}"`)
    return { kind: 'not_begun', ...before, ...other }
  }
  if (input.untilServed) return { kind: 'not_begun', ...before }
  const limited = await askLimits(needs, job, served, input, callIdOfInput(input))
  if ('result' in limited) return limited.result
  try {
    const { result } = await makeAttempt(needs, limited.tool, input, { ...job, slices })
    return result
  } finally {
    limited.left()
  }
}

/**
 * Makes an attempt at a call of this build's tool. `early`: an outcome that may be known before the body ends; pawl then no longer waits
 * for the body.
 */
export async function makeAttempt(
  needs: JobNeeds,
  tool: Tool,
  input: ExecuteToolInput,
  job: JobWithSlices,
  early?: Promise<ExecuteToolResult>,
): Promise<{ result: ExecuteToolResult; ms: number }> {
  const failed = [...job.attempt.failed]
  const reports = startReports(job.attempt, job.link)
  const since = performance.now()
  const body = execute(needs, tool, input, { ...job, attempt: { ...job.attempt, failed } }, reports)
  const result = await (early ? Promise.race([body, early]) : body)
  const ms = Math.round(performance.now() - since)
  return { result: { ...(failed.length > 0 && { failed: [...failed] }), ...result, ...reports.all() }, ms }
}

/** The call's id, derived from the position of its request. */
function callIdOfInput({ run, turn, resolution }: ToolCallInput): string {
  return callIdOf(run, turn, resolution.index, resolution.generation)
}

/**
 * This build's resolution of the call, if it has the tool. It needs the session's past, because its key may differ, and an effect with that
 * key may have completed.
 */
async function otherResolution(
  needs: JobNeeds,
  job: JobWithSlices,
  input: ExecuteToolInput,
): Promise<Partial<Pick<ExecuteToolResult & { kind: 'not_begun' }, 'resolution'>>> {
  const served = needs.agents.get(input.agent)
  const { sessionId, slices } = job
  const ctx = agentContext(needs, sessionId, input, slices)
  const agent = served && (await withToolsNow(served, ctx))
  const { tool, index, generation } = input.resolution
  if (!agent?.tools.has(tool)) return {}
  const { run, intent, turn, keysOf } = input
  const past = await needs.views.view(readTarget(job, input), job.along).catch((err: unknown) => {
    needs.logger.debug({ session: sessionId, call: callIdOfInput(input), err }, 'the events for resolving a call cannot be read now')
  })
  if (!past) return {}
  const call = { sessionId, run, intent, turn, index, tool, input: input.input, ...defined({ generation, keysOf }) }
  return { resolution: await resolveCall(agent, call, { ...pastOfCall(past, sessionId, needs.earlierKeys), ctx }) }
}

async function execute(
  needs: JobNeeds,
  tool: Tool,
  input: ExecuteToolInput,
  job: JobWithSlices,
  reports: BodyReports,
): Promise<ExecuteToolResult> {
  const { number } = job.attempt
  const parsed = await parseInput(tool, input.input)
  if ('problem' in parsed) return { kind: 'failed', attempt: number, code: 'invalid_arguments', message: parsed.problem }
  const { effect } = input.resolution
  if (effect === 'external') {
    try {
      // An external body is entered only after a confirmed heartbeat, so a lost attempt without one certainly has not begun.
      await job.link.begin()
    } catch {
      return { kind: 'not_begun', attempt: number }
    }
  }
  // The attempt may have been stopped before it could begin: the heartbeat that confirmed it may have reported the stop.
  if (job.link.signal.aborted) return { kind: 'interrupted', attempt: number, begun: false }
  const startedAt = Date.now()
  const ownInput = inputForModel(tool, parsed.input)
  let value: unknown
  // The body gets one context, and the functions that describe the result get another.
  const context = (signal: AbortSignal): ToolContext => withReplies(toolContext(needs, input, job, signal, reports), input.replies)
  try {
    const bounds = { timeoutMs: tool.timeoutMs, stop: job.link.signal, ...abandonment(needs, effect) }
    const body = runBody(bounds, async (signal) => {
      job.link.entered(tool.timeoutMs)
      return tool.execute?.(parsed.input, context(signal))
    })
    value = await measured(needs, input, job.link, body)
  } catch (error) {
    return whenThrown(needs, tool, effect, job, error)
  }
  const problem = await outputProblem(tool, value)
  if (problem !== undefined && effect === 'read') return notFitting(needs, job.attempt, problem)
  const storage = storageFor(needs, job, startedAt, tool.timeoutMs)
  const recorded = await recordResult({ tool, input: ownInput, result: value, problem }, context(job.link.signal), storage)
  return { kind: 'completed', attempt: number, startedAt, worker: needs.worker, ...recorded }
}

/** Notes how long the body takes, unless a stop ends it early. */
async function measured<T>(
  { quickTools }: JobNeeds,
  { agent, resolution }: ExecuteToolInput,
  { signal }: JobLink,
  body: Promise<T>,
): Promise<T> {
  const end = quickTools.measure(agent, resolution.tool)
  try {
    return await body
  } finally {
    end(signal.aborted)
  }
}

/** A repeatable body is abandoned after its timeout; any other must have ended before `verify` is called, if its process can be killed. */
function abandonment({ killsOverdue }: JobNeeds, effect: Effect): { abandonAfterMs?: number } {
  if (effect !== 'external') return { abandonAfterMs: ABANDON_AFTER_MS }
  return killsOverdue ? {} : { abandonAfterMs: OVERDUE_GRACE_MS }
}

/** A read whose result does not match its schema fails without retries, because its code would return the same result again. */
function notFitting(needs: JobNeeds, { number, failed }: Job['attempt'], problem: string): ExecuteToolResult {
  const error = new InvalidResult(problem)
  failed.push(failedAttempt(number, error, { retryable: false, worker: needs.worker }))
  return { kind: 'failed', attempt: number, code: error.code, message: error.message }
}

/** A result may wait for the store, but only as long as its attempt is not overdue. */
export function storageFor({ values }: JobNeeds, { link, executionId }: Job, startedAt: number, timeoutMs: number): ResultStorage {
  const leftMs = startedAt + timeoutMs + STORE_GRACE_MS - Date.now()
  return { values, executionId, waitMs: Math.max(0, Math.min(STORE_WAIT_MS, leftMs)), signal: link.signal }
}

/** `effect` comes from the call's resolution, because a less strict effect of this build's tool does not apply to the call. */
function whenThrown(needs: JobNeeds, tool: Tool, effect: Effect, { attempt, link }: Job, error: unknown): ExecuteToolResult {
  const { number, failed, failures } = attempt
  const asks = isAsking(error) ? error : undefined
  const told = isToolError(error) ? error : undefined
  const didNotHappen = asks !== undefined || told?.happened === false
  if (link.signal.aborted) return { kind: 'interrupted', attempt: number, begun: !didNotHappen }
  if (asks) return { kind: 'asks', attempt: number, questions: [...asks.questions], ...defined({ state: asks.state }) }
  const mayRetry = effect !== 'external' && (told?.retryable ?? true) && failures < tool.retry.maxRetries
  if (mayRetry) {
    const afterMs = nextDelayMs(tool.retry, failures + 1, told?.retryAfterMs)
    failed.push(failedAttempt(number, error, { retryable: true, worker: needs.worker, nextDelayMs: afterMs }))
    return { kind: 'again', attempt: number, afterMs }
  }
  const last = failedAttempt(number, error, { retryable: false, worker: needs.worker })
  failed.push(last)
  if (effect === 'external' && !didNotHappen) return { kind: 'unknown', attempt: number, message: last.message }
  const code = (told && last.code) ?? (error instanceof TimedOut ? 'timeout' : 'tool_failed')
  return { kind: 'failed', attempt: number, code, message: last.message }
}

/** For contexts that execute nothing, such as a check or `verify`: these functions report nothing. */
export const NO_REPORTS = {
  progress: () => undefined,
  lastProgress: undefined,
  milestone: () => undefined,
  emit: () => undefined,
  spend: () => undefined,
}

/** The context of `execute` and `verify`. */
export function toolContext(
  needs: JobNeeds,
  input: ToolCallInput,
  { sessionId, attempt, link, slices }: JobWithSlices,
  signal: AbortSignal,
  { progress, lastProgress, milestone, emit, spend }: Omit<BodyReports, 'all'>,
): ToolContext {
  const ctx = agentContext(needs, sessionId, input, slices)
  const callId = callIdOfInput(input)
  return {
    ...ctx,
    log: withFields(ctx.log, { call: callId, tool: input.resolution.tool }),
    callId,
    intent: input.intent,
    attempt: attempt.number,
    idempotencyKey: input.resolution.key ?? '',
    signal,
    stillMine: () => link.stillMine(),
    progress,
    lastProgress,
    milestone,
    emit,
    spend,
  }
}
