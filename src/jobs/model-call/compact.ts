// The job `compact`: summarises the next piece of a conversation that is too long for its model.
import type { CompactInput, CompactResult, TooLarge } from '../../calls/activities.ts'
import type { Agent } from '../../agent/agent.ts'
import type { AgentCompaction, Summary } from '../../agent/compaction.ts'
import { ModelError } from '../../agent/errors.ts'
import type { ModelRequest } from '../../agent/model.ts'
import type { AgentContext } from '../../agent/tool.ts'
import { chooseCut, type CompactionCut, pieceEnd, summaryBytes, summaryTokens } from '../../session/transcript/compaction.ts'
import { textOf } from '../../session/content.ts'
import { defined } from '../../session/defined.ts'
import { copyOf } from '../../session/json.ts'
import { bytesOfText, BYTES_PER_TOKEN } from '../../session/transcript/measure.ts'
import { messagesBetween, sentFrom } from '../../session/transcript/model-messages.ts'
import { hasBudget } from '../../session/spending/spend.ts'
import { cutText } from '../../session/protocol/texts.ts'
import type { Transcript } from '../../session/transcript/transcript.ts'
import { agentContext } from '../agent-context.ts'
import { askModel, type AsksModel, ModelFailure, spentWith } from './ask-model.ts'
import { afterFailure } from './after-failure.ts'
import { failedAttempt } from '../attempt.ts'
import { callBudget, costOfAnswer, listRates } from './call-budget.ts'
import { checkResponse } from './check-response.ts'
import { signalUntil, deadlineExceeded, modelStep, type ModelStep } from './model-step.ts'
import { AttemptLost } from '../../calls/errors.ts'
import type { Job, JobNeeds } from '../needs.ts'
import { isOverflow, windowOf } from './request-size.ts'
import type { FoldedSession } from '../session-views.ts'
import { summaryInstruction, summaryRequest } from './summary-prompt.ts'
import { unlessAborted } from '../../waiting/unless-aborted.ts'

/**
 * The share of the summariser's window that one piece may fill, measured like the request. The rest is for the answer and for measurement
 * error.
 */
const PIECE_SHARE = 0.6
/** Text has at least one byte per token, and rarely more than eight. */
const TOKEN_BYTES = { min: 1, max: 8 } as const
/** How often a piece that turns out too long is halved. */
const MAX_HALVINGS = 5

/** @throws TryAgain. */
export function compact(needs: JobNeeds, job: Job, input: CompactInput): Promise<CompactResult> {
  return modelStep<CompactResult>(needs, job, input, (step) => compactPiece(needs, step, input))
}

async function compactPiece(needs: JobNeeds, step: ModelStep, { run, turn, tooLarge }: CompactInput): Promise<CompactResult> {
  const { agent, deadline, job, view } = step
  const { state, transcript, slices } = view
  const { compaction } = agent
  if (!compaction) return failed('no_compaction', `The agent "${agent.name}" of this worker has no compaction.`)
  const cut = chooseCut(transcript, compaction.keepTurns, tooLarge.forced && fittingOf(tooLarge, compaction))
  if (!cut) return failed('nothing_to_compact', 'Nothing of the conversation can be left out.')
  if (deadline.leftMs() <= 0) return deadlineExceeded(deadline)
  const { signal, end } = signalUntil(deadline, job.link.signal)
  const place = { agent: agent.name, run, turn, context: state.context, metadata: transcript.newestRun.metadata, tags: state.tags }
  const asks = asksFor(agent, compaction)
  try {
    const ctx = agentContext(needs, job.sessionId, place, slices)
    const summariser = { agent, view, asks, compaction, job, ctx, signal, needs, tooLarge }
    return await summarised(transcript, cut, summariser)
  } catch (error) {
    const spent = spentWith(error)
    if (job.link.signal.aborted || error instanceof AttemptLost) return { kind: 'interrupted', ...defined({ spent }) }
    if (signal.aborted) return { ...deadlineExceeded(deadline), ...defined({ spent }) }
    return afterFailure({ agent: asks, worker: needs.worker, attempt: job.attempt, timeLeft: deadline.leftMs, spent }, error)
  } finally {
    end()
  }
}

function failed(code: string, reason: string): CompactResult {
  return { kind: 'failed', code, reason }
}

/** The models that write the summary: the agent's own, unless the option names a different one. */
function asksFor(agent: Agent, { model }: AgentCompaction): AsksModel {
  return model === undefined ? agent : { name: agent.name, retry: agent.retry, model, fallback: [] }
}

/** The average number of bytes per token in the request that was too large. */
function bytesPerToken({ bytes, tokens }: TooLarge): number {
  return Math.min(TOKEN_BYTES.max, Math.max(TOKEN_BYTES.min, bytes / tokens))
}

/** The request must shrink by the ratio of the window to its tokens, even if the declared window is wrong. */
function fittingOf(
  { window, besides, bytes, tokens }: TooLarge,
  { at }: AgentCompaction,
): { bytes: number; besides: number; window: number } {
  return { bytes: (at * window * bytes) / tokens, besides, window }
}

interface Summariser {
  agent: Agent
  view: FoldedSession
  asks: AsksModel
  compaction: AgentCompaction
  job: Job
  ctx: AgentContext
  signal: AbortSignal
  needs: Pick<JobNeeds, 'gates' | 'sharesBudget' | 'worker'>
  tooLarge: TooLarge
}

/** The summary of as many turns as the summariser has room for. @throws whatever the summariser throws. */
async function summarised(transcript: Transcript, cut: CompactionCut, summariser: Summariser): Promise<CompactResult> {
  const { job, tooLarge, needs } = summariser
  const from = sentFrom(transcript)
  const { upToSeq: upTo = 0, summary: previous } = transcript.compactions.at(-1) ?? {}
  const results = defined({ resultBytes: cut.resultBytes })
  // Only results were shortened.
  if (cut.to <= from) {
    return { kind: 'compacted', attempt: job.attempt.number, upToSeq: upTo, summary: previous ?? '', messages: 0, ...results }
  }
  const before = previous === '' ? undefined : previous
  for (let halved = 0; ; halved++) {
    try {
      const { to, text, ...spent } = await summaryOf(transcript, cut.to, before, halved, summariser)
      return {
        kind: 'compacted',
        attempt: job.attempt.number,
        upToSeq: transcript.seqs[to - 1] ?? 0,
        summary: cutText(text, summaryBytes(tooLarge.window)),
        messages: to - from,
        ...spent,
        ...(to < cut.to ? { more: true as const } : results),
      }
    } catch (error) {
      if (!(error instanceof ModelFailure) || !isOverflow(error.cause) || halved >= MAX_HALVINGS) throw error
      // A smaller piece may fit, and the retry needs no delay.
      const about = { retryable: true, nextDelayMs: 0, worker: needs.worker, ...error.call }
      job.attempt.failed.push(failedAttempt(job.attempt.number, error.cause, about))
      job.attempt.number += 1
    }
  }
}

type WrittenSummary = Pick<CompactResult & { kind: 'compacted' }, 'model' | 'provider' | 'usage' | 'price' | 'spent'> & {
  text: string
  to: number
}

/** Has the first piece of the messages before `to` summarised. */
async function summaryOf(
  transcript: Transcript,
  to: number,
  previous: string | undefined,
  halved: number,
  summariser: Summariser,
): Promise<WrittenSummary> {
  const { agent, compaction, job, ctx, signal, tooLarge } = summariser
  const maxTokens = summaryTokens(tooLarge.window)
  const roomIn = (window: number): number => {
    const room = window * PIECE_SHARE * bytesPerToken(tooLarge) - bytesOfText(previous ?? '')
    return Math.max(BYTES_PER_TOKEN * maxTokens, room) / 2 ** halved
  }
  const { summarise } = compaction
  if (!summarise) return modelSummary(transcript, to, previous, roomIn, summariser)
  const end = pieceEnd(transcript, to, roomIn(tooLarge.window))
  // Copied, because the messages are part of the session's cached past.
  const messages = copyOf(messagesBetween(transcript, sentFrom(transcript), end))
  job.link.asking()
  const given: unknown = await unlessAborted(signal, Promise.resolve(summarise({ messages, previous, maxTokens, ctx, signal })))
  return { to: end, ...ownSummary(given, isBudgeted(agent)) }
}

const isBudgeted = (agent: Agent): boolean => hasBudget(agent.limits) || hasBudget(agent.sessionLimits)

/** The summary that a model writes. `roomIn`: bytes of messages that a request to a model with such a window may have. */
async function modelSummary(
  transcript: Transcript,
  to: number,
  previous: string | undefined,
  roomIn: (window: number) => number,
  { agent, view, asks, job, ctx, signal, needs: { gates, sharesBudget }, tooLarge }: Summariser,
): Promise<WrittenSummary> {
  const from = sentFrom(transcript)
  let end = to
  const request: ModelRequest = {
    purpose: 'compaction',
    system: '',
    messages: [],
    tools: [],
    sessionId: ctx.sessionId,
    run: ctx.run,
    turn: ctx.turn,
  }
  const answer = await askModel(asks, {
    request,
    attempt: job.attempt,
    ctx,
    signal,
    gates,
    budget: callBudget(
      agent,
      view,
      job.attempt.failed.flatMap(({ spent }) => spent ?? []),
      job,
      sharesBudget,
    ),
    onBegin: () => job.link.asking(),
    onEnd: (timed) => job.link.asked(timed),
    check(model) {
      const room = roomIn(windowOf(model) ?? tooLarge.window)
      end = pieceEnd(transcript, to, room)
      request.system = summaryInstruction(summaryTokens(tooLarge.window))
      request.messages = [{ role: 'user', content: summaryRequest(messagesBetween(transcript, from, end), previous, room) }]
    },
  })
  const text = textOf(answer.content).trim()
  const { model, provider, usage, price, spent } = answer
  if (text === '' || answer.stopReason === 'refusal') {
    const cost = isBudgeted(agent) ? costOfAnswer(answer) : undefined
    throw new ModelFailure(noSummary(answer.stopReason), { model, ...defined({ provider, spent: cost }) })
  }
  return { to: end, text, model, usage, ...defined({ provider, price, spent }) }
}

function noSummary(stopReason: string): ModelError {
  return new ModelError('invalid_summary', `The model wrote no summary (stop reason ${stopReason}).`, { retryable: true })
}

/** The checked return value of a user's `summarise` function. @throws ModelError `invalid_summary`. */
function ownSummary(given: unknown, hasOwnBudget: boolean): Omit<WrittenSummary, 'to'> {
  const text = typeof given === 'string' ? given : (given as Partial<Summary> | null | undefined)?.text
  if (typeof text !== 'string' || text.trim() === '') {
    throw new ModelError('invalid_summary', 'compaction.summarise returned no text. Return the summary as a string.', { retryable: false })
  }
  if (typeof given === 'string') return { text: text.trim() }
  const { model = 'unknown', usage } = given as Partial<Summary>
  const response = { content: [], stopReason: 'end_turn' as const, usage: usage as Summary['usage'], model }
  const checked = checkResponse(response, { name: model })
  // A budget counts only recorded prices.
  const price = hasOwnBudget ? listRates(checked.model, checked.usage) : undefined
  return { text: text.trim(), model: checked.model, usage: checked.usage, ...defined({ price }) }
}
