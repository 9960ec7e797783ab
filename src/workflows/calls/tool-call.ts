// One tool call: admitted, executed as its effect allows, and recorded.
import { patched, sleep, workflowInfo } from '@temporalio/workflow'
import type { ExecuteToolInput, ExecuteToolResult } from '../../calls/activities.ts'
import { noAttempts } from '../../session/attempts.ts'
import { backoffMs, timerMs } from '../../session/backoff.ts'
import { admit } from '../../session/decide.ts'
import type { Resolution } from '../../session/call-facts.ts'
import type { Json } from '../../session/json.ts'
import { askedQuestion, repliesOf } from '../../session/question.ts'
import type { UserReplies } from '../../session/question-facts.ts'
import { inPlaceOf } from '../../session/recovery/redo.ts'
import type { CallState } from '../../session/state.ts'
import { answerIn, interruptedWhile, RideLost, whyLost } from '../lost-activity.ts'
import { summaryOf, toolCalls } from '../scheduling.ts'
import { answerBuiltIn } from './built-in-call.ts'
import { type Attempts, countAttempts } from './attempts.ts'
import { inputOf, whereIn, whereOf, type WorkflowCall, mayRunForMs, recorded, recordReports } from './call.ts'
import type { CallNeeds } from '../session-parts.ts'
import { flushBeforeBackoff } from '../flushing.ts'
import { eventsOf, type Journal } from '../journal.ts'
import { resolveEarlier, settleUnknown, UNKNOWN_TO_MODEL } from './unknown-call.ts'
import { defined } from '../../session/defined.ts'

/** How many times other builds are tried before the call uses another build's resolution. */
const ASKS_BEFORE_NEW_RESOLUTION = 4

/** The classes of lost attempts whose death no process has seen. */
const UNSEEN: readonly string[] = ['HeartbeatTimeout', 'Timeout', 'EndedBefore']

/** `ridden`: the outcome of the call's first attempt, if the model call included it. */
export async function runToolCall(needs: CallNeeds, requested: CallState, ridden?: ExecuteToolResult | RideLost): Promise<void> {
  const { journal, run } = needs
  const { callId, resolution, input = null } = requested
  const where = whereIn(run, requested)
  /** Whether an earlier step has issued the call: its attempts are not known here. A person's approval comes before the first attempt. */
  const isContinued = requested.status === 'issued' && !requested.approved
  /** Whether an attempt was lost that no process saw die. */
  let mayBeAlive = isContinued
  const attempts = countAttempts(
    (error) => {
      mayBeAlive ||= UNSEEN.includes(error.class)
      journal.append({ type: 'tool_attempt_failed', ...where, error })
    },
    noAttempts({ attempts: requested.attempts }),
  )
  const mayHaveBegun = (): boolean => isContinued || attempts.used.attempts > 0
  /** How many attempts were made before another build resolved the call again: one that no event counts may have been an `idempotent` one. */
  const attemptsBefore = (effect: Resolution['effect']): number =>
    Math.max(attempts.used.attempts, isContinued && effect === 'idempotent' ? 1 : 0)
  let call: WorkflowCall = { ...where, input, resolution }
  let first = ridden
  const replies = repliesOf(requested.asking)
  if (requested.status === 'requested') issue(journal, call)
  while (await admitted(needs, requested, call)) {
    if (resolution.builtIn) return answerBuiltIn(journal, call)
    const newResolution = await execute(needs, { ...call, replies }, attempts, startProgress(journal, call, requested.progress), first)
    first = undefined
    needs.waits.end(callId)
    if (!newResolution) return
    const { effect, key } = call.resolution
    const aliveMs = mayBeAlive ? mayRunForMs(call.resolution) : 0
    const isStricter = effect === 'idempotent' && newResolution.effect === 'external'
    const isCareful = effect === 'idempotent' && mayHaveBegun() && patched('begun-by-key')
    call = { ...call, resolution: inPlaceOf(resolution, newResolution) }
    // The key finds what an earlier attempt may have done, although this build would choose another one.
    if (isCareful && key !== undefined && call.resolution.key !== undefined) call.resolution = { ...call.resolution, key }
    issue(journal, call, call.resolution, attemptsBefore(effect))
    // The call was safe to repeat with its key, but no longer is, and it may have taken effect in an earlier attempt. No approval and no
    // client's answer may lead to it before that is known.
    if (isStricter && isCareful && (await settleUnknown(needs, call, attempts.used.attempts, aliveMs)) === 'settled') return
    // Another build requires an approval or a client's answer first.
    if ((newResolution.approval && !requested.approved) || newResolution.client) return
    if (isStricter && !isCareful && attempts.used.attempts > 0) {
      if ((await settleUnknown(needs, call, attempts.used.attempts)) === 'settled') return
    }
  }
}

/** Records that the call is about to be dispatched or answered without running. `attempts`: how many were made before. */
export function issue(journal: Journal, call: WorkflowCall, newResolution?: Resolution, attempts = 0): void {
  const { tool, effect, inputDigest, index, key } = call.resolution
  const { input } = call
  journal.append({
    type: 'tool_issued',
    ...whereOf(call),
    tool,
    effect,
    inputDigest,
    index,
    ...(key && { key }),
    input,
    ...(newResolution && { resolution: newResolution }),
    ...(attempts > 0 && patched('issued-after-attempts') && { attempts }),
  })
}

/** Whether to execute the call. If not, records its answer. */
async function admitted(needs: CallNeeds, requested: CallState, call: WorkflowCall): Promise<boolean> {
  const { journal } = needs
  const where = whereOf(call)
  for (;;) {
    const admission = admit(journal.state, { ...requested, resolution: call.resolution })
    switch (admission.as) {
      case 'execute':
        return true
      case 'invalid':
        journal.append({ type: 'tool_failed', ...where, attempt: 0, code: admission.code, message: admission.message })
        return false
      case 'replay':
        journal.append({ type: 'tool_completed', ...where, attempt: 0, replayOf: admission.of })
        return false
      case 'verify_first': {
        const { of } = admission
        const resolved = await resolveEarlier(needs, of)
        if (resolved === 'did_not_happen') continue
        if (resolved === 'happened') journal.append({ type: 'tool_completed', ...where, attempt: 0, replayOf: of })
        else journal.append({ type: 'tool_unknown', ...where, attempt: 0, message: UNKNOWN_TO_MODEL, again: of })
        return false
      }
    }
  }
}

/**
 * Waits briefly for a worker that serves the call. Once the session has entered the error, relies on Temporal's retries, which add nothing
 * to history.
 */
async function untilServed(needs: CallNeeds, call: WorkflowCall): Promise<void> {
  needs.waits.begin(call.callId, { for: 'worker', reason: `a worker that has the tool "${call.tool}"` })
  await needs.serving.notServed(`the tool "${call.tool}"`)
  if (needs.journal.state.status !== 'error') return
  await onlyWait(needs, call, { untilServed: true }, 'until a worker serves it')
}

/** Waits, by Temporal's retries, until the limits of the tool admit the call. It then has half a minute to begin. */
function untilAdmitted(needs: CallNeeds, call: WorkflowCall): Promise<void> {
  return onlyWait(needs, call, { untilAdmitted: true }, 'until its limit admits it')
}

async function onlyWait(
  needs: CallNeeds,
  call: WorkflowCall,
  forWhat: Pick<ExecuteToolInput, 'untilServed' | 'untilAdmitted'>,
  summary: string,
): Promise<void> {
  try {
    const input = { ...inputOf(needs, call), ...eventsOf(needs.journal), executionId: workflowInfo().runId, ...forWhat }
    await needs.pacing.schedule(
      input,
      toolCalls(call.resolution, 'until_served', needs.heartbeatTimeoutMs, `${call.tool}, ${summary}`).executeTool,
    )
  } catch (error) {
    // No other outcome matters, because the activity only waited.
    if (whyLost(error).how === 'cancelled') throw error
  }
}

/** Executes the call to its end; returns another build's resolution if no build has the tool as it was resolved. */
async function execute(
  needs: CallNeeds,
  call: WorkflowCall & { replies: UserReplies | undefined },
  attempts: Attempts,
  progress: ReportedProgress,
  ridden: ExecuteToolResult | RideLost | undefined,
): Promise<Resolution | undefined> {
  const { journal, serving, pacing, inherited } = needs
  const { resolution } = call
  const where = whereOf(call)
  let asks = 0
  const fail = (code: string, message: string): undefined => {
    journal.append({ type: 'tool_failed', ...where, attempt: attempts.used.attempts, code, message })
  }
  /** Ends a call without an attempt in progress. An earlier attempt of an idempotent call may have taken effect before it failed. */
  const failInterrupted = (): undefined =>
    fail('interrupted', attempts.used.attempts > 0 && resolution.effect === 'idempotent' ? INTERRUPTED_BEGUN : INTERRUPTED)

  let ride = ridden
  for (;;) {
    let result: ExecuteToolResult
    const isRide = ride !== undefined
    try {
      const input = executeInput(needs, call, attempts, progress)
      const how = asks === 0 ? 'first' : 'again'
      const { executeTool } = toolCalls(resolution, how, needs.heartbeatTimeoutMs, summaryOf(call.tool, attempts.used))
      const known = ride
      ride = undefined
      if (known instanceof RideLost) throw known
      result = answerIn(await (known ?? inherited.call(call.callId) ?? pacing.schedule(input, executeTool)))
    } catch (error) {
      const lost = whyLost(error)
      if (lost.how === 'cancelled') return failInterrupted()
      if (lost.how === 'not_begun') {
        asks += 1
        if (await interruptedWhile(untilServed(needs, call))) return failInterrupted()
        continue
      }
      const isOnce = resolution.effect === 'external' && (lost.how === 'failed' || lost.begun)
      const { maxRetries } = resolution.retry
      const attempt = attempts.lost(lost, { maxFailures: maxRetries, isOnce })
      progress.note(attempt, lost.how === 'died' ? lost.report?.progress : undefined)
      if (isOnce) {
        const settled = await settleUnknown(needs, call, attempt, lost.how === 'died' && lost.confirmed ? 0 : mayRunForMs(resolution))
        if (settled === 'settled') return
      }
      const givenUp = attempts.givenUp()
      if (givenUp !== undefined) return fail('worker_died', `This call ${givenUp} and was given up.`)
      if (lost.how === 'failed' && attempts.used.failures > maxRetries) return fail('tool_failed', lost.message)
      continue
    }
    if (result.kind !== 'not_begun') needs.waits.end(call.callId)
    recordAttempt(journal, call, result, attempts, progress)
    switch (result.kind) {
      case 'completed': {
        serving.served()
        const { attempt, startedAt: at, worker } = result
        journal.append({ type: 'tool_completed', ...where, attempt, startedAt: at, worker, ...recorded(result) })
        return
      }
      case 'failed':
        serving.served()
        journal.append({ type: 'tool_failed', ...where, attempt: result.attempt, code: result.code, message: result.message })
        return
      case 'again':
        serving.served()
        // A call that could not finish within its model call runs again at once.
        if (isRide && result.afterMs === 0) continue
        flushBeforeBackoff(needs.flushing, result.afterMs)
        if (await interruptedWhile(sleep(timerMs(result.afterMs)))) return failInterrupted()
        continue
      case 'not_begun':
        asks += 1
        if (result.resolution && asks >= ASKS_BEFORE_NEW_RESOLUTION) return result.resolution
        if (await interruptedWhile(untilServed(needs, call))) return failInterrupted()
        continue
      case 'limited':
        serving.served()
        needs.waits.begin(call.callId, { for: 'limit', reason: result.reason })
        if (await interruptedWhile(untilAdmitted(needs, call))) return failInterrupted()
        continue
      case 'unknown': {
        const settled = await settleUnknown(needs, call, result.attempt)
        if (settled === 'settled') return
        // The effect certainly did not happen, so the attempt that threw counts like any failed attempt.
        if (attempts.used.failures > resolution.retry.maxRetries) return fail('tool_failed', result.message)
        if (await interruptedWhile(sleep(timerMs(backoffMs(resolution.retry.baseDelayMs, attempts.used.failures)))))
          return failInterrupted()
        continue
      }
      case 'asks': {
        serving.served()
        const asks = askedQuestion(result.attempt, result.questions, result.state)
        if (!asks) return fail('tool_failed', 'The tool asked the user nothing.')
        journal.append({ type: 'answer_requested', ...where, asks })
        // The question is visible although other calls of the turn may still run.
        needs.flushing.nudge()
        return
      }
      case 'interrupted':
        if (resolution.effect === 'external' && result.begun) {
          const settled = await settleUnknown(needs, call, result.attempt)
          if (settled === 'settled') return
        }
        return fail('interrupted', result.begun && resolution.effect === 'idempotent' ? INTERRUPTED_BEGUN : INTERRUPTED)
    }
  }
}

const INTERRUPTED = 'The run was interrupted; this call did not take effect.'
const INTERRUPTED_BEGUN = 'The run was interrupted during this call; it may have taken effect.'

function executeInput(
  needs: CallNeeds,
  call: WorkflowCall & { replies: UserReplies | undefined },
  { used }: Attempts,
  { last }: ReportedProgress,
): ExecuteToolInput {
  return {
    ...inputOf(needs, call),
    ...eventsOf(needs.journal),
    executionId: workflowInfo().runId,
    ...(used.attempts > 0 && { prior: used }),
    ...defined({ progress: last, replies: call.replies }),
  }
}

/** Records what an attempt reports besides its outcome. */
function recordAttempt(
  journal: Journal,
  call: WorkflowCall,
  result: ExecuteToolResult,
  attempts: Attempts,
  progress: ReportedProgress,
): void {
  attempts.failed(result.failed)
  progress.note(result.attempt, result.progress)
  for (const name of result.milestones ?? []) journal.append({ type: 'milestone_reached', ...whereOf(call), name })
  recordReports(journal, whereOf(call), result)
}

interface ReportedProgress {
  readonly last: Json | undefined
  note(attempt: number, value: Json | undefined): void
}

function startProgress(journal: Journal, call: WorkflowCall, before: Json | undefined): ReportedProgress {
  let last = before
  return {
    get last() {
      return last
    },
    note(attempt, value) {
      if (value === undefined || JSON.stringify(value) === JSON.stringify(last)) return
      last = value
      journal.append({ type: 'tool_progress', ...whereOf(call), attempt, value })
    },
  }
}
