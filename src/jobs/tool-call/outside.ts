// The jobs `resolveTool` and `checkAnswer`, for calls that a person approves or a client answers.
import type { CheckAnswerInput, CheckAnswerResult, ResolveToolInput, ResolveToolResult } from '../../calls/activities.ts'
import type { Tool } from '../../agent/tool.ts'
import { type Json, jsonBytes } from '../../session/json.ts'
import { numberText } from '../../session/number-text.ts'
import { MAX_REPLY_BYTES, replyProblem } from '../../session/question.ts'
import type { CallQuestion } from '../../session/question-facts.ts'
import { agentContext, NO_SLICES, readSlices } from '../agent-context.ts'
import { StaleWatermark } from '../../calls/errors.ts'
import { NO_REPORTS, toolContext } from './execute-tool.ts'
import { runHooksOfCall } from '../model-call/hooks.ts'
import { activeToolsNow, withActiveTools } from '../model-call/prompt.ts'
import { readTarget } from '../../calls/reads.ts'
import type { Job, JobNeeds } from '../needs.ts'
import { outputProblem, recordResult } from './record.ts'
import { hasTool, parseInput, pastOfCall, resolveCall } from './resolve.ts'
import { hookRoom } from '../run-hooks.ts'
import { toolNow, withToolsNow } from '../tools-now.ts'
import { defined } from '../../session/defined.ts'

/** How long a large answer waits for the store, while its sender waits. */
const STORE_WAIT_MS = 5_000
/** Resolves a call with changed arguments, using this build's tool. */
export async function resolveTool(needs: JobNeeds, job: Job, input: ResolveToolInput): Promise<ResolveToolResult> {
  const { sessionId } = job
  const served = needs.agents.get(input.agent)
  const agent = served && (await withToolsNow(served, agentContext(needs, sessionId, input, NO_SLICES)))
  if (!agent || !hasTool(agent, input.tool)) return { kind: 'not_served' }
  const { run, turn, index, generation, tool } = input
  try {
    const { state, transcript, slices } = await needs.views.view(readTarget(job, input), job.along)
    const { keysOf, current } = state
    const call = {
      sessionId,
      run,
      intent: current?.intent ?? run,
      turn,
      index,
      tool,
      input: input.input,
      ...defined({ generation, keysOf }),
    }
    const ctx = agentContext(needs, sessionId, input, slices)
    const past = pastOfCall({ state, transcript }, sessionId, needs.earlierKeys)
    if (!input.asksHooks) {
      // The call may be invalid because its tool was not active.
      const active = withActiveTools(agent, await activeToolsNow(agent, { state }, ctx))
      return { kind: 'resolved', resolution: await resolveCall(active, call, { ...past, ctx }) }
    }
    const runner = { hooks: agent.hooks, ctx, attempt: job.attempt.number, room: hookRoom(), signal: job.link.signal }
    const asked = await runHooksOfCall(runner, agent, call, 1)
    const resolution = await resolveCall(agent, { ...call, input: asked.input }, { ...past, ctx, verdict: asked.verdict })
    return { kind: 'resolved', resolution, hooks: asked.runs, ...(asked.verdict.own !== undefined && { input: asked.input }) }
  } catch (error) {
    if (error instanceof StaleWatermark) return { kind: 'stale_watermark' }
    throw error
  }
}

/**
 * Checks a client's answer, or a result that a person states, against the tool's output schema. For an answer, makes its record. Checks the
 * answer to a question against that question, for which it needs no tool.
 */
export async function checkAnswer(needs: JobNeeds, job: Job, input: CheckAnswerInput): Promise<CheckAnswerResult> {
  if (input.question) return checkReply(input.question, input.result)
  const tool = await knownTool(needs, job, input)
  if (!tool) return { kind: 'not_served' }
  const message = await outputProblem(tool, input.result)
  if (message !== undefined) return { kind: 'does_not_fit', message }
  if (input.shapeOnly) return { kind: 'fits' }
  const { signal } = job.link
  const ctx = toolContext(needs, input, { ...job, slices: await readSlices(needs, job, input) }, signal, NO_REPORTS)
  const call = { tool, input: tool.toModel && (await argumentsOf(needs, job, input, { tool, callId: ctx.callId })), result: input.result }
  const storage = { values: needs.values, executionId: job.executionId, waitMs: STORE_WAIT_MS, signal }
  return { kind: 'fits', ...(await recordResult(call, ctx, storage)) }
}

function checkReply(question: CallQuestion, answer: Json): CheckAnswerResult {
  if (jsonBytes(answer) > MAX_REPLY_BYTES)
    return { kind: 'does_not_fit', message: `The answer has more than ${numberText(MAX_REPLY_BYTES)} bytes of JSON. Shorten it.` }
  const message = replyProblem(question, answer)
  return message === undefined ? { kind: 'fits' } : { kind: 'does_not_fit', message }
}

/** The tool of the call; undefined if this build lacks it, or its source cannot be read now. */
async function knownTool(needs: JobNeeds, { sessionId }: Job, input: CheckAnswerInput): Promise<Tool | undefined> {
  const agent = needs.agents.get(input.agent)
  return agent && (await toolNow(agent, input.resolution.tool, agentContext(needs, sessionId, input, NO_SLICES)).catch(() => undefined))
}

/** The call's arguments as its schema returns them. They are in the session's events: the job does not have them. */
async function argumentsOf(
  needs: JobNeeds,
  job: Job,
  input: CheckAnswerInput,
  { tool, callId }: { tool: Tool; callId: string },
): Promise<unknown> {
  const { state } = await needs.views.view(readTarget(job, input), job.along)
  const raw = state.current?.calls.find((call) => call.callId === callId)?.input
  const parsed = raw !== undefined ? await parseInput(tool, raw) : undefined
  return parsed && 'input' in parsed ? parsed.input : raw
}
