// The activity `callModel`: reads the transcript up to the watermark, calls the model, resolves the calls it asks for.
import { ApplicationFailure, Context } from '@temporalio/activity'
import type { Agent } from '../agent/agent.ts'
import { isModelError, ModelError } from '../agent/errors.ts'
import type { Model, ModelRequest, ModelResponse } from '../agent/model.ts'
import type { AgentContext } from '../agent/tool.ts'
import type { AssistantBlock, StopReason, Usage } from '../session/content.ts'
import { NO_USAGE } from '../session/content.ts'
import type { Resolution, RunLimits } from '../session/events.ts'
import { jsonBytes, type JsonObject } from '../session/json.ts'
import type { SessionState } from '../session/state.ts'
import { MAX_CALLS } from '../session/snapshot.ts'
import { type Attempt, backoff, failedAttempt, startAttempt } from './attempt.ts'
import type { CallModelInput, CallModelResult } from './contract.ts'
import { archiveAway, notServed, StaleWatermark } from './errors.ts'
import type { Flusher } from './flusher.ts'
import { plainJson } from './json.ts'
import type { ActivityNeeds } from './needs.ts'
import { ArchiveUnavailable } from './blobs.ts'
import { resolveCall } from './resolve.ts'
import type { SessionReader, SessionView } from './session-reader.ts'
import { unlessAborted } from './unless-aborted.ts'

/** A model's answer must fit into an activity's result, with how its calls are resolved, also when a codec expands it; the server's limit is 2 MB. */
const MAX_ANSWER_BYTES = 1_000_000
const STORE_RETRY_MS = 500

/** Makes the activity. */
export function callModelActivity(needs: ActivityNeeds, reader: SessionReader, flusher: Flusher) {
  return async function callModel(input: CallModelInput): Promise<CallModelResult> {
    const agent = needs.agents.get(input.agent)
    if (!agent) {
      if (!input.untilServed) return { kind: 'not_served' }
      throw notServed(needs.worker, `the agent "${input.agent}"`)
    }
    const attempt = startAttempt(needs, {
      call: `model:${input.run}:${input.turn}`,
      prior: input.prior,
      ...(input.untilServed && { uncounted: true }),
    })
    // Also those that the answer below adds.
    const withFailed = (result: CallModelResult): CallModelResult => ({
      ...result,
      ...(attempt.failed.length > 0 && { failed: attempt.failed }),
    })
    try {
      if (attempt.givenUp)
        return withFailed({ kind: 'failed', code: 'worker_died', reason: 'The model call took too many worker processes with it.' })
      const { epoch, watermark, origin } = input
      const target = { sessionId: attempt.sessionId, epoch, executionId: attempt.executionId, watermark, ...(origin && { origin }) }
      const { client } = Context.current()
      flusher.nudge(target, client)
      const view = await reader.view(target, client)
      await attempt.heard
      return withFailed(await answer(needs, agent, input, attempt, view))
    } catch (error) {
      if (error instanceof StaleWatermark) return withFailed({ kind: 'stale_watermark' })
      if (error instanceof ArchiveUnavailable) {
        if (input.untilServed) throw archiveAway(error.message)
        return withFailed({ kind: 'archive_unavailable', reason: error.message })
      }
      if (error instanceof ApplicationFailure) throw error
      // Not the model's failure: the events could not be read just now.
      throw await attempt.retry(failedAttempt(attempt.number, error, { retryable: true, worker: needs.worker }), STORE_RETRY_MS)
    } finally {
      attempt.hold.release()
    }
  }
}

async function answer(
  needs: ActivityNeeds,
  agent: Agent,
  input: CallModelInput,
  attempt: Attempt,
  view: SessionView,
): Promise<CallModelResult> {
  const { state, transcript } = view
  const { metadata } = transcript.newestRun
  const context = agent.context?.safeParse(state.context)
  if (context && !context.success) {
    return {
      kind: 'failed',
      code: 'invalid_context',
      reason: `The session's context does not fit the agent's schema: ${context.error.message}`.slice(0, 4_000),
    }
  }
  const ctx: AgentContext = {
    sessionId: attempt.sessionId,
    agent: agent.name,
    run: input.run,
    turn: input.turn,
    context: state.context,
    metadata,
    tags: state.tags,
    services: needs.services,
    log: needs.logger,
  }
  const left = timeLeft(agent, input)
  if (left <= 0) return deadlineExceeded(agent)
  const signal = Number.isFinite(left) ? AbortSignal.any([attempt.hold.signal, AbortSignal.timeout(left)]) : attempt.hold.signal
  try {
    const model = await modelFor(agent, ctx)
    const system = typeof agent.instructions === 'string' ? agent.instructions : await agent.instructions(shownTo(state, ctx), ctx)
    const request: ModelRequest = {
      system,
      messages: view.transcript.messages.slice(),
      tools: [...agent.tools.values()].map((tool) => ({ name: tool.name, description: tool.description, input_schema: tool.inputSchema })),
      sessionId: attempt.sessionId,
      run: input.run,
      turn: input.turn,
    }
    const response = await unlessAborted(signal, model.generate(request, { signal, attempt: attempt.number, onDelta: () => undefined }))
    const { content, stopReason, usage } = checkResponse(response)
    const calls = await resolveCalls(agent, content, input, view, ctx)
    return {
      kind: 'completed',
      attempt: attempt.number,
      content,
      stopReason,
      usage,
      model: response.model ?? model.name,
      calls,
      limits: limitsOf(agent),
      ...(agent.checkpoint !== 'turn' && { checkpoint: agent.checkpoint }),
      ...(isEmpty(state.current?.metadata) && !isEmpty(metadata) && { metadata }),
    }
  } catch (error) {
    if (attempt.hold.signal.aborted) return { kind: 'interrupted' }
    if (signal.aborted) return deadlineExceeded(agent)
    return giveUpOrRetry(needs, agent, input, attempt, error)
  }
}

/** What an agent's instructions may look at: a copy, in which the metadata of the run stands from its first turn on. */
function shownTo(state: SessionState, { metadata }: AgentContext): SessionState {
  const { current, ...rest } = structuredClone(state)
  return { ...rest, current: current && { ...current, metadata: metadata as JsonObject } }
}

function isEmpty(metadata: JsonObject | undefined): boolean {
  return metadata === undefined || Object.keys(metadata).length === 0
}

function limitsOf(agent: Agent): RunLimits {
  return { maxTurns: agent.limits.maxTurns, ...(agent.limits.deadlineMs !== undefined && { deadlineMs: agent.limits.deadlineMs }) }
}

/** Milliseconds until the run's deadline. */
function timeLeft(agent: Agent, { startedAt }: CallModelInput): number {
  const { deadlineMs } = agent.limits
  return deadlineMs === undefined ? Number.POSITIVE_INFINITY : startedAt + deadlineMs - Date.now()
}

function deadlineExceeded(agent: Agent): CallModelResult {
  return {
    kind: 'failed',
    code: 'deadline_exceeded',
    reason: `The run took longer than ${agent.limits.deadlineMs} ms, its limit (limits.deadline).`,
  }
}

async function modelFor(agent: Agent, ctx: AgentContext): Promise<Model> {
  const chosen = typeof agent.model === 'function' ? await agent.model(ctx) : agent.model
  if (typeof chosen !== 'string') return chosen
  // The SDK behind it takes a tenth of a second to load: a worker that does not need it boots without.
  const { modelOf } = await import('../models/index.ts')
  return modelOf(chosen)
}

function giveUpOrRetry(needs: ActivityNeeds, agent: Agent, input: CallModelInput, attempt: Attempt, error: unknown): CallModelResult {
  const told = isModelError(error) ? error : undefined
  const retryable = told?.retryable ?? true
  const retry = attempt.failures + 1
  if (!retryable || retry > agent.retry.maxRetries) {
    const failed = failedAttempt(attempt.number, error, { retryable, worker: needs.worker })
    attempt.failed.push(failed)
    return { kind: 'failed', code: told?.code ?? 'model_call_failed', reason: failed.message }
  }
  const nextDelayMs = told?.retryAfterMs ?? backoff(agent.retry.baseDelayMs, retry)
  attempt.failed.push(failedAttempt(attempt.number, error, { retryable, worker: needs.worker, nextDelayMs }))
  // The deadline comes first: the run then ends when it is due.
  return { kind: 'again', afterMs: Math.max(0, Math.min(nextDelayMs, timeLeft(agent, input))) }
}

const STOP_REASONS: readonly string[] = [
  'end_turn',
  'max_tokens',
  'stop_sequence',
  'tool_use',
  'pause_turn',
  'refusal',
  'model_context_window_exceeded',
]

/** The response as plain JSON of the right shape and size: a Model is somebody else's code. */
function checkResponse(response: ModelResponse): { content: AssistantBlock[]; stopReason: StopReason; usage: Usage } {
  const bad = (what: string): never => {
    throw new ModelError('invalid_response', `The model's answer cannot be used: ${what}. Mend the Model's generate().`, {
      retryable: false,
    })
  }
  if (!Array.isArray(response?.content)) return bad('content is no list of blocks')
  const content = plainJson(response.content) as unknown as AssistantBlock[]
  for (const block of content) {
    if (!isSound(block)) bad(`a block of type ${JSON.stringify(block?.type)} is malformed`)
    if (block.type === 'tool_use') block.input ??= {}
  }
  const bytes = jsonBytes(content)
  if (bytes > MAX_ANSWER_BYTES) bad(`it has ${bytes} bytes, the limit is ${MAX_ANSWER_BYTES}`)
  const calls = content.filter(({ type }) => type === 'tool_use').length
  if (calls > MAX_CALLS) bad(`it asks for ${calls} calls, the limit is ${MAX_CALLS}`)
  if (!STOP_REASONS.includes(response.stopReason)) bad(`the stop reason is ${JSON.stringify(response.stopReason)}`)
  const usage = { ...NO_USAGE }
  for (const kind of Object.keys(usage) as (keyof Usage)[]) usage[kind] = Number(response.usage?.[kind]) || 0
  return { content, stopReason: response.stopReason, usage }
}

function isSound(block: AssistantBlock | null): boolean {
  switch (block?.type) {
    case 'text':
      return typeof block.text === 'string'
    case 'thinking':
      return typeof block.thinking === 'string'
    case 'redacted_thinking':
      return typeof block.data === 'string'
    case 'tool_use':
      return typeof block.name === 'string'
    default:
      return false
  }
}

async function resolveCalls(
  agent: Agent,
  content: AssistantBlock[],
  { run, turn }: CallModelInput,
  { state: { keysOf }, transcript: { keys: completed } }: SessionView,
  ctx: AgentContext,
): Promise<Resolution[]> {
  const { sessionId } = ctx
  const asked = content.flatMap((block) => (block.type === 'tool_use' ? [block] : []))
  return Promise.all(
    asked.map((block, index) => {
      const call = { sessionId, run, turn, index, tool: block.name, input: block.input, ...(keysOf !== undefined && { keysOf }) }
      return resolveCall(agent, call, { completed, ctx })
    }),
  )
}
