// The job `callModel`: reads the transcript up to the watermark, calls the model, and resolves the requested calls.
import type { CallModelInput, CallModelResult, Ride } from '../../calls/activities.ts'
import type { Agent } from '../../agent/agent.ts'
import { builtInTools } from '../../agent/built-in-tools.ts'
import type { ModelRequest, ToolDefinition } from '../../agent/model.ts'
import { definitionOf } from '../../agent/provider-tool.ts'
import type { AgentContext } from '../../agent/tool.ts'
import { type HookOutcome, type HookRun, saidBy } from '../../session/hooks/hooks.ts'
import { jsonBytes, type JsonObject } from '../../session/json.ts'
import { hasBudget } from '../../session/spending/spend.ts'
import { costOfNote } from '../../session/spending/spend-notes.ts'
import { newestRepeats } from '../../session/transcript/repeats.ts'
import { messagesFor, systemTextsOf } from '../../session/transcript/model-messages.ts'
import { type Transcript, withAnswers } from '../../session/transcript/transcript.ts'
import { agentContext } from '../agent-context.ts'
import { askModel, spentWith } from './ask-model.ts'
import { afterFailure } from './after-failure.ts'
import { callBudget, continuing, costOfAnswer } from './call-budget.ts'
import { cutCall, MAX_ANSWER_BYTES } from './check-response.ts'
import { contextProblem } from '../context-check.ts'
import type { ModelAnswer } from '../../calls/jobs.ts'
import { type CallDeadline, signalUntil, deadlineExceeded, modelStep } from './model-step.ts'
import { AttemptLost } from '../../calls/errors.ts'
import { isFinal, runHooksBefore, runHooksOfCall, runHooksOfFinal } from './hooks.ts'
import type { Job, JobNeeds } from '../needs.ts'
import { type Prompt, renderPrompt, withActiveTools, withVolatile } from './prompt.ts'
import { hookRoom, type HookRunner } from '../run-hooks.ts'
import { pastOfCall, resolveCall } from '../tool-call/resolve.ts'
import { withRule } from '../tool-call/standing.ts'
import { storedAnswer } from './provider-blocks.ts'
import { askWithoutRefused } from './refused-content.ts'
import { CompactionDue, sizing } from './request-size.ts'
import { mayRideWithEffect, rideWithEffect, mayRide, rideReads, takesRides } from './riding.ts'
import { outputMissing } from './run-output.ts'
import type { FoldedSession } from '../session-views.ts'
import { withToolsNow } from '../tools-now.ts'
import { unlessAborted } from '../../waiting/unless-aborted.ts'
import { defined } from '../../session/defined.ts'
import { numberText } from '../../session/number-text.ts'
import { beginningOf } from '../../session/beginning.ts'

/** @throws TryAgain. */
export async function callModel(needs: JobNeeds, job: Job, input: CallModelInput): Promise<CallModelResult> {
  // Recorded however the call ends.
  const hooks: HookOutcome[] = []
  let rideWith: ((answered: CallModelResult) => Promise<Ride[]>) | undefined
  const result = await modelStep<CallModelResult>(needs, job, input, ({ agent, deadline, job: counted, view }) => {
    const call = { ...input, deadline, hooks, rideLast: (ride: typeof rideWith) => void (rideWith = ride) }
    return answer(needs, agent, call, counted, view)
  })
  const answered = hooks.length > 0 ? { ...result, hooks } : result
  if (!rideWith || answered.kind !== 'completed') return answered
  const rides = await rideWith(answered)
  return rides.length > 0 ? { ...answered, rides } : answered
}

/** A model call with its deadline. */
interface ModelCall extends CallModelInput {
  deadline: CallDeadline
  /** Receives the hooks that ran before the request. */
  hooks: HookOutcome[]
  /** Receives the function that makes the answer's call once the whole result is known. */
  rideLast(ride: (answered: CallModelResult) => Promise<Ride[]>): void
}

const sentence = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`)

const CONTEXT_STAYS =
  "A session's context never changes. Start another session with a context that matches, or recover this one once a worker's agent accepts it."

async function answer(needs: JobNeeds, declared: Agent, input: ModelCall, job: Job, view: FoldedSession): Promise<CallModelResult> {
  const { state, transcript, slices } = view
  const { metadata } = transcript.newestRun
  const mismatch = await contextProblem(declared, state.context)
  if (mismatch !== undefined) {
    const reason = `The session's context does not match the agent's schema: ${sentence(beginningOf(mismatch, 3_000))} ${CONTEXT_STAYS}`
    return { kind: 'failed', code: 'invalid_context', reason }
  }
  const repeats = job.answer ? undefined : newestRepeats(transcript)
  if (repeats && repeats.count >= (declared.limits.maxRepeats ?? Infinity)) {
    const reason = `The run made the same call of ${repeats.tool} ${numberText(repeats.count)} times in a row, each with the same result (limits.maxRepeats).`
    return { kind: 'failed', code: 'no_progress', reason }
  }
  const { run, turn, deadline } = input
  const place = { agent: declared.name, run, turn, context: state.context, metadata, tags: state.tags }
  const ctx = agentContext(needs, job.sessionId, place, slices)
  if (deadline.leftMs() <= 0) return deadlineExceeded(deadline)
  const { signal, end } = signalUntil(deadline, job.link.signal)
  const isShared = needs.sharesBudget(state.agent, state.tags)
  const isBudgeted = isShared || hasBudget(declared.limits) || hasBudget(declared.sessionLimits)
  let paid = isBudgeted && job.answer ? costOfAnswer(job.answer) : undefined
  try {
    const agent = await unlessAborted(signal, withToolsNow(declared, ctx))
    const runner = { hooks: agent.hooks, ctx, attempt: job.attempt.number, room: hookRoom(job.answer?.hooks), signal }
    const before = job.answer ? { runs: job.answer.hooks ?? [] } : await runHooksBefore(runner, view, turn)
    input.hooks.push(...before.runs)
    if (before.stopped) return stoppedBy(before.stopped)
    const {
      hooks: _,
      activeTools,
      ...answered
    } = job.answer ?? (await newAnswer(agent, view, { job, ctx, signal, needs, hooks: before.runs }))
    if (isBudgeted) paid = costOfAnswer(answered)
    const active = withActiveTools(agent, activeTools)
    const { requested, runs } = await resolveCalls(active, answered, input, view, runner, needs)
    const calls = requested.map(({ resolution }) => resolution)
    const outputProblem = agent.output && isFinal(answered) ? outputMissing(answered.stopReason) : undefined
    const ofAnswer = outputProblem === undefined ? [...runs, ...(await runHooksOfFinal(runner, answered, calls, turn))] : runs
    const host = { agent: active, job, input, view }
    const mayTake = takesRides(job, input)
    const rides = mayTake && mayRide(active, calls, needs, job.heldBack)
    const [call] = requested
    if (mayTake && call && input.ridesEffects && mayRideWithEffect({ agent: active, calls, state }, needs, job.heldBack))
      input.rideLast((answered) => rideWithEffect(needs, call, host, answered))
    return {
      kind: 'completed',
      attempt: job.attempt.number,
      ...answered,
      calls,
      ...(rides && { rides: await rideReads(needs, requested, host, roomBeside(answered)) }),
      ...(ofAnswer.length > 0 && { hooksOfAnswer: ofAnswer }),
      ...defined({ outputProblem }),
      ...(isEmpty(state.current?.metadata) && !isEmpty(metadata) && { metadata }),
    }
  } catch (error) {
    // An unusable answer must be paid for, too.
    const spent = paid ?? spentWith(error)
    if (job.link.signal.aborted || error instanceof AttemptLost) return { kind: 'interrupted', ...defined({ spent }) }
    if (signal.aborted) return { ...deadlineExceeded(deadline), ...defined({ spent }) }
    if (error instanceof CompactionDue) return { kind: 'compact', ...error.tooLarge }
    return afterFailure({ agent: declared, worker: needs.worker, attempt: job.attempt, timeLeft: deadline.leftMs, spent }, error)
  } finally {
    end()
  }
}

interface AskContext {
  needs: Pick<JobNeeds, 'gates' | 'sharesBudget' | 'worker' | 'values'>
  job: Job
  ctx: AgentContext
  signal: AbortSignal
  /** The hooks that have just run. */
  hooks: HookOutcome[]
}

async function newAnswer(agent: Agent, view: FoldedSession, { job, ctx, signal, needs, hooks }: AskContext): Promise<ModelAnswer> {
  const { gates, worker, values } = needs
  const prompt = await renderPrompt(agent, view, ctx)
  const active = withActiveTools(agent, prompt.activeTools)
  const transcript = withAnswers(view.transcript, hooks)
  const request = requestOf(active, transcript, prompt, ctx)
  const size = sizing(agent, transcript, request, { volatile: prompt.volatile, log: ctx.log })
  const before = [...job.attempt.failed.flatMap(({ spent }) => spent ?? []), ...hooks.flatMap(({ spent = [] }) => spent.map(costOfNote))]
  const budget = callBudget(agent, view, before, job, needs.sharesBudget)
  const ask = (given: Transcript): Promise<ModelAnswer> =>
    askModel(agent, {
      request: given === transcript ? request : requestOf(active, given, prompt, ctx),
      attempt: job.attempt,
      ctx,
      signal,
      gates,
      store: (content) => storedAnswer(content, { values, sessionId: job.sessionId, executionId: job.executionId, signal }),
      check: size.check,
      budget: budget && continuing(budget, view, request, prompt),
      onDelta: (piece) => job.link.delta(piece),
      onBegin: () => job.link.asking(),
      onEnd: (timed) => job.link.asked(timed),
    })
  const { attempt } = job
  const asked = await size.unlessRefused(worker, attempt, () =>
    askWithoutRefused({ transcript, attempt, worker, mayCompact: size.mayCompact, ask }),
  )
  const { digest: promptDigest, activeTools } = prompt
  const answer = { ...asked, promptDigest, ...defined({ activeTools }), ...(hooks.length > 0 && { hooks }) }
  // Resolving the calls and running the hooks executes user code, which may end this process.
  if (answer.content.some(({ type }) => type === 'tool_use') || agent.hooks.length > 0) job.link.answered(answer)
  return answer
}

function stoppedBy(run: HookRun): CallModelResult {
  return { kind: 'stopped', hook: run.hook, reason: saidBy(run, 'stop') ?? '' }
}

function requestOf(agent: Agent, transcript: FoldedSession['transcript'], { system, volatile }: Prompt, ctx: AgentContext): ModelRequest {
  const { sessionId, run, turn } = ctx
  return {
    system,
    ...withVolatile(messagesFor(transcript), volatile, systemTextsOf(transcript)),
    tools: toolsOf(agent),
    ...(agent.providerTools.length > 0 && { providerTools: agent.providerTools.map(definitionOf) }),
    sessionId,
    run,
    turn,
  }
}

/** The agent's own tools, and those of pawl's tools that it uses. */
function toolsOf(agent: Agent): ToolDefinition[] {
  const own = [...agent.tools.values()].map((tool) => ({ name: tool.name, description: tool.description, input_schema: tool.inputSchema }))
  return [...own, ...builtInTools(agent)]
}

function isEmpty(metadata: JsonObject | undefined): boolean {
  return metadata === undefined || Object.keys(metadata).length === 0
}

async function resolveCalls(
  agent: Agent,
  answer: ModelAnswer,
  { run, turn }: CallModelInput,
  view: FoldedSession,
  runner: HookRunner,
  { earlierKeys, contextRules }: Pick<JobNeeds, 'earlierKeys' | 'contextRules'>,
) {
  const { ctx } = runner
  const { sessionId } = ctx
  const { keysOf, current } = view.state
  const past = pastOfCall(view, sessionId, earlierKeys)
  const cut = cutCall(answer)
  const asked = answer.content.flatMap((block) => (block.type === 'tool_use' ? [block] : []))
  const resolved = await Promise.all(
    asked.map(async (block, index) => {
      const call = {
        sessionId,
        run,
        intent: current?.intent ?? run,
        turn,
        index,
        tool: block.name,
        input: block.input,
        isCut: index === cut,
        isAlone: asked.length === 1,
        ...defined({ keysOf }),
      }
      const { runs, input, verdict } = await runHooksOfCall(runner, agent, call, asked.length)
      const resolution = await resolveCall(agent, { ...call, input }, { ...past, ctx, verdict })
      return { resolution: await withRule(resolution, input, view.state, contextRules), input, runs }
    }),
  )
  return { requested: resolved, runs: resolved.flatMap(({ runs }) => runs) }
}

/** The bytes left for the results of reads, which share one activity's result with the answer. */
function roomBeside({ content }: ModelAnswer): number {
  return MAX_ANSWER_BYTES - jsonBytes(content)
}
