// The job `callModel`: reads the transcript up to the watermark, calls the model, and resolves the requested calls.
import type { CallModelInput, CallModelResult } from '../activities/contract.ts'
import type { Agent } from '../agent/agent.ts'
import { isModelError } from '../agent/errors.ts'
import type { Model, ModelRequest } from '../agent/model.ts'
import { nextDelayMs } from '../agent/retry.ts'
import type { AgentContext } from '../agent/tool.ts'
import type { AssistantBlock } from '../session/content.ts'
import type { FailedAttempt, Resolution, RunLimits } from '../session/events.ts'
import type { JsonObject } from '../session/json.ts'
import type { SessionState } from '../session/state.ts'
import { messagesFor } from '../session/transcript.ts'
import { agentContext } from './agent-context.ts'
import { failedAttempt } from './attempt.ts'
import { checkResponse } from './check-response.ts'
import { ArchiveUnavailable, archiveAway, notServed, StaleWatermark, TryAgain } from './errors.ts'
import type { Job, JobNeeds } from './needs.ts'
import { resolveCall } from './resolve.ts'
import type { SessionView } from './session-views.ts'
import { unlessAborted } from './unless-aborted.ts'
import { defined } from '../session/defined.ts'

const STORE_RETRY_MS = 500

/** Carries out the job. @throws TryAgain. */
export async function callModel(needs: JobNeeds, job: Job, input: CallModelInput): Promise<CallModelResult> {
  const agent = needs.agents.get(input.agent)
  if (!agent) {
    if (!input.untilServed) return { kind: 'not_served' }
    throw notServed(needs.worker, `the agent "${input.agent}"`)
  }
  const timeLeft = startDeadline(agent, input)
  const { sessionId, executionId, attempt } = job
  const failed = [...attempt.failed]
  const withFailed = (result: CallModelResult): CallModelResult => ({ ...result, ...(failed.length > 0 && { failed }) })
  try {
    const { epoch, watermark, origin } = input
    const view = await needs.views.view({ sessionId, epoch, executionId, watermark, ...(origin && { origin }) }, job.along)
    // `answer` may add to the failed attempts, which the result must include.
    return withFailed(await answer(needs, agent, { ...input, timeLeft }, { ...job, attempt: { ...attempt, failed } }, view))
  } catch (error) {
    if (error instanceof StaleWatermark) return withFailed({ kind: 'stale_watermark' })
    if (error instanceof ArchiveUnavailable) {
      if (input.untilServed) throw archiveAway(error.message)
      return withFailed({ kind: 'archive_unavailable', reason: error.message })
    }
    // Not a failure of the model: the events could not be read at the moment.
    const unread = failedAttempt(attempt.number, error, { retryable: true, worker: needs.worker })
    throw new TryAgain('AttemptFailed', unread.message, { afterMs: STORE_RETRY_MS, failed: unread })
  }
}

/** A model call with the milliseconds until its run's deadline. */
interface ModelCall extends CallModelInput {
  timeLeft(): number
}

async function answer(needs: JobNeeds, agent: Agent, input: ModelCall, job: Job, view: SessionView): Promise<CallModelResult> {
  const { state, transcript } = view
  const { metadata } = transcript.newestRun
  const context = agent.context?.safeParse(state.context)
  if (context && !context.success) {
    return {
      kind: 'failed',
      code: 'invalid_context',
      reason: `The session's context does not match the agent's schema: ${context.error.message}`.slice(0, 4_000),
    }
  }
  const { run, turn } = input
  const ctx = agentContext(needs, job.sessionId, { agent: agent.name, run, turn, context: state.context, metadata, tags: state.tags })
  const left = input.timeLeft()
  if (left <= 0) return deadlineExceeded(agent)
  const signal = Number.isFinite(left) ? AbortSignal.any([job.link.signal, AbortSignal.timeout(left)]) : job.link.signal
  try {
    const model = await modelFor(agent, ctx)
    const system = typeof agent.instructions === 'string' ? agent.instructions : await agent.instructions(shownTo(state, ctx), ctx)
    const request: ModelRequest = {
      system,
      messages: messagesFor(view.transcript),
      tools: [...agent.tools.values()].map((tool) => ({ name: tool.name, description: tool.description, input_schema: tool.inputSchema })),
      sessionId: job.sessionId,
      run: input.run,
      turn: input.turn,
    }
    const response = await unlessAborted(signal, model.generate(request, { signal, attempt: job.attempt.number, onDelta: () => undefined }))
    const { notes, ...answered } = checkResponse(response, model)
    for (const note of notes) needs.logger.warn({ sessionId: job.sessionId, agent: agent.name }, note)
    const { content } = answered
    const calls = await resolveCalls(agent, content, input, view, ctx)
    return {
      kind: 'completed',
      attempt: job.attempt.number,
      ...answered,
      calls,
      limits: limitsOf(agent),
      ...(agent.checkpoint !== 'turn' && { checkpoint: agent.checkpoint }),
      ...(isEmpty(state.current?.metadata) && !isEmpty(metadata) && { metadata }),
    }
  } catch (error) {
    if (job.link.signal.aborted) return { kind: 'interrupted' }
    if (signal.aborted) return deadlineExceeded(agent)
    return giveUpOrRetry(needs, agent, input, job.attempt, error)
  }
}

/** The state for an agent's instructions: a copy that has the run's metadata from the first turn on. */
function shownTo(state: SessionState, { metadata }: AgentContext): SessionState {
  const { current, ...rest } = structuredClone(state)
  return { ...rest, current: current && { ...current, metadata: metadata as JsonObject } }
}

function isEmpty(metadata: JsonObject | undefined): boolean {
  return metadata === undefined || Object.keys(metadata).length === 0
}

function limitsOf(agent: Agent): RunLimits {
  return { maxTurns: agent.limits.maxTurns, ...defined({ deadlineMs: agent.limits.deadlineMs }) }
}

/** Counts the milliseconds until the run's deadline. Durations only: this machine's clock need not be the server's. */
function startDeadline({ limits: { deadlineMs } }: Agent, { runMs }: CallModelInput): () => number {
  const since = performance.now()
  return () => (deadlineMs === undefined ? Number.POSITIVE_INFINITY : Math.ceil(deadlineMs - runMs - (performance.now() - since)))
}

function deadlineExceeded(agent: Agent): CallModelResult {
  return {
    kind: 'failed',
    code: 'deadline_exceeded',
    reason: `The run took longer than its limit of ${agent.limits.deadlineMs} ms (limits.deadline).`,
  }
}

async function modelFor(agent: Agent, ctx: AgentContext): Promise<Model> {
  const chosen = typeof agent.model === 'function' ? await agent.model(ctx) : agent.model
  if (typeof chosen !== 'string') return chosen
  // Loaded on demand: the SDK behind it takes a tenth of a second to load.
  const { modelOf } = await import('../models/index.ts')
  return modelOf(chosen)
}

function giveUpOrRetry(
  needs: JobNeeds,
  agent: Agent,
  { timeLeft }: ModelCall,
  attempt: { number: number; failures: number; failed: FailedAttempt[] },
  error: unknown,
): CallModelResult {
  const told = isModelError(error) ? error : undefined
  const retryable = told?.retryable !== false
  const retry = attempt.failures + 1
  if (!retryable || retry > agent.retry.maxRetries) {
    const failed = failedAttempt(attempt.number, error, { retryable: false, worker: needs.worker })
    attempt.failed.push(failed)
    return {
      kind: 'failed',
      code: (told && failed.code) ?? 'model_call_failed',
      reason: failed.message,
      ...(retryable && { transient: true }),
    }
  }
  const afterMs = nextDelayMs(agent.retry, retry, told?.retryAfterMs)
  attempt.failed.push(failedAttempt(attempt.number, error, { retryable, worker: needs.worker, nextDelayMs: afterMs }))
  // If the deadline comes first, the run ends then.
  return { kind: 'again', afterMs: Math.max(0, Math.min(afterMs, timeLeft())) }
}

async function resolveCalls(
  agent: Agent,
  content: AssistantBlock[],
  { run, turn }: CallModelInput,
  { state: { keysOf, current }, transcript: { keys: completed } }: SessionView,
  ctx: AgentContext,
): Promise<Resolution[]> {
  const { sessionId } = ctx
  const asked = content.flatMap((block) => (block.type === 'tool_use' ? [block] : []))
  return Promise.all(
    asked.map((block, index) => {
      const call = {
        sessionId,
        run,
        intent: current?.intent ?? run,
        turn,
        index,
        tool: block.name,
        input: block.input,
        ...defined({ keysOf }),
      }
      return resolveCall(agent, call, { completed, ctx })
    }),
  )
}
