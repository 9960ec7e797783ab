// Calls that wait for a person or a client: requests, decisions, and expiries.
import type { ResolveToolResult } from '../../calls/activities.ts'
import { isAgentCall } from '../../session/agents/agent-calls.ts'
import { admit, dueAt, isWoken } from '../../session/decide.ts'
import type { Approvers, Resolution } from '../../session/call-facts.ts'
import { turnOf } from '../../session/ids.ts'
import { isObject, isTooDeep, type Json, jsonBytes } from '../../session/json.ts'
import type { AnswerRequest, ApproveAnswer, ApproveRequest, DenyRequest, ResolveRequest } from '../../session/protocol/protocol.ts'
import { nextQuestion, replyIn } from '../../session/question.ts'
import { BEGUN_BEFORE, inPlaceOf } from '../../session/recovery/redo.ts'
import type { CallState, RunState, SessionState, UnknownCall } from '../../session/state.ts'
import { cutText, TEXT_BYTES } from '../../session/protocol/texts.ts'
import { patched } from '@temporalio/workflow'
import { answerIn, whyLost } from '../lost-activity.ts'
import { checkAnswer, resolveTool } from '../scheduling.ts'
import { childFor } from '../agents/agent-calls.ts'
import { inputOf, whereIn, recorded } from './call.ts'
import { recordHooks } from '../hooks.ts'
import { eventsOf } from '../journal.ts'
import { failRun, refuse, type Session, textOf } from '../session-parts.ts'
import { approveByRule, checkRemember, confirmRule, giveRule } from './standing.ts'
import { issue } from './tool-call.ts'
import { isRole, MAX_ROLES, mayDecide } from '../../session/approvers.ts'
import { defined } from '../../session/defined.ts'
import { numberText } from '../../session/number-text.ts'
import { beginningOf } from '../../session/beginning.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'

/** Maximum bytes of an answer or of changed arguments. Both go into the session's history. */
const MAX_INPUT_BYTES = 1_000_000

/** Requests the approval or answer that each of the calls needs, all at once, so a person sees them together. */
export function askFor({ journal, flushing }: Session, asked: readonly { call: CallState; for: 'approval' | 'answer' }[]): void {
  const run = journal.state.current
  if (!run) return
  for (const { call, for: need } of asked) {
    const { resolution, input = null, status } = call
    const where = whereIn(run, call)
    if (status === 'requested') issue(journal, { ...where, input, resolution })
    if (need === 'approval' && resolution.approval) {
      const { expiresMs, onExpiry, approvers } = resolution.approval
      const reason = begunBefore(call) ? [resolution.approval.reason, ATTEMPTED].filter(Boolean).join(' ') : resolution.approval.reason
      const about = { digest: resolution.inputDigest, expiresAt: Date.now() + expiresMs, onExpiry, ...defined({ reason, approvers }) }
      journal.append({ type: 'approval_requested', ...where, ...about })
    } else {
      const called = isAgentCall(call) ? childFor(journal.state, call) : undefined
      if (called && 'problem' in called) {
        journal.append({ type: 'tool_failed', ...where, attempt: 0, ...called.problem })
        continue
      }
      const { timeoutMs, sleeps } = resolution.client ?? {}
      if (sleeps) {
        journal.append({ type: 'sleep_started', ...where, expiresAt: Date.now() + (timeoutMs ?? 1) })
        continue
      }
      const asks = resolution.client ? undefined : nextQuestion(call)
      journal.append({
        type: 'answer_requested',
        ...where,
        ...(timeoutMs !== undefined && { expiresAt: Date.now() + timeoutMs }),
        ...(asks && { asks }),
        ...called,
      })
    }
  }
  flushing.nudge()
}

/** Tells the person who decides about a call that it was attempted before. */
const ATTEMPTED = 'An earlier attempt of this call failed, and may have taken effect.'

/** No answer came in time. */
export function expire(session: Session, call: CallState): void {
  const { journal } = session
  const run = journal.state.current
  if (!run) return
  const where = whereIn(run, call)
  if (call.status === 'asleep') {
    const value = { wokenBy: isWoken(journal.state, run, call, session.alarms.due) ? 'message' : 'time' }
    journal.append({ type: 'tool_completed', ...where, attempt: 0, value })
    return
  }
  if (call.status === 'awaiting_answer') {
    const message = 'The call was not answered in time.'
    journal.append({ type: 'tool_failed', ...where, attempt: 0, code: 'answer_timeout', message })
    return
  }
  const { digest = '', onExpiry } = call.asked ?? {}
  const begun = begunBefore(call)
  const message = begun ? `The call was not approved in time. ${begun.message}` : 'The call was not approved in time; it was not executed.'
  journal.append({ type: 'approval_decided', ...where, digest, approved: false, expired: true })
  journal.append({ type: 'tool_failed', ...where, attempt: begun?.attempt ?? 0, code: 'approval_expired', message })
  if (onExpiry === 'error')
    failRun(session, run.run, {
      code: 'approval_expired',
      reason: `The call ${call.callId} of "${call.resolution.tool}" was not approved in time.`,
    })
}

/** What is known of an `idempotent` call that was attempted before another build required its approval; undefined if it never began. */
function begunBefore({ attempts = 0, resolution }: CallState): { attempt: number; message: string } | undefined {
  if (attempts === 0 || resolution.effect !== 'idempotent' || !patched('denied-after-attempts')) return undefined
  return { attempt: attempts, message: BEGUN_BEFORE }
}

/** The validator of `approve`. */
export function checkApprove(session: Session | undefined, request: ApproveRequest, now: number): void {
  checkDecision(session, request, now)
  if (session) checkRemember(session, callOf(session, request.callId).call, request, now)
}

/**
 * The validator of `deny`, and a part of that of `approve`: refuses a call that was already decided or whose digest differs. Only the validator gets `now`:
 * it does not run during replay, which may see a different time.
 */
export function checkDecision(session: Session | undefined, request: ApproveRequest | DenyRequest, now?: number): void {
  // The session is not open yet; the handler checks again.
  if (!session) return
  const { callId, digest } = request
  const call = waitingCall(session, callId, 'awaiting_approval')
  const isDue = session.alarms.due.call(call) || (now !== undefined && dueAt(now).call(call))
  if (isDue) refuse('approval_expired', `The request to approve ${callId} has expired. The call can no longer be approved or denied.`)
  if (digest !== call.asked?.digest) {
    refuse(
      'digest_mismatch',
      `The digest does not match the arguments of ${callId} (${call.asked?.digest}). Read the arguments again, then decide.`,
    )
  }
}

/**
 * Refuses the decision of a person without the role of the call's approvers, and records it. The validator does not, because it can record
 * nothing.
 */
function requireApprover({ journal, flushing }: Session, request: ApproveRequest | DenyRequest, approved: boolean, also?: Approvers): void {
  const { run, call } = callOf({ journal }, request.callId)
  const approvers = [call.asked?.approvers, also].find((one) => !mayDecide(one, request.roles))
  if (!approvers) return
  const roles = Array.isArray(request.roles) ? request.roles.filter(isRole).slice(0, MAX_ROLES) : undefined
  const about = { digest: request.digest, approved, approvers, ...textOf(request, 'by'), ...defined({ roles }) }
  journal.append({ type: 'approval_refused', ...whereIn(run, call), ...about })
  flushing.nudge()
  refuse('not_an_approver', `Only a person with the role "${approvers.role}" may approve or deny ${call.callId}. The call still waits.`)
}

/** Approves a call, optionally with different arguments. */
export async function approve(session: Session, request: ApproveRequest): Promise<ApproveAnswer> {
  checkDecision(session, request)
  if (request.rule !== undefined) return approveUnder(session, request)
  requireApprover(session, request, true)
  const { journal } = session
  const { callId, digest, input } = request
  checkRemember(session, callOf(session, callId).call, request)
  const changed = input === undefined ? undefined : await resolveWith(session, callId, input)
  // In the meantime, another client may have decided, or the run may have been stopped.
  checkDecision(session, request)
  const { run, call } = callOf(session, callId)
  // Other arguments may need another person.
  requireApprover(session, request, true, changed?.resolution.approval?.approvers)
  checkRemember(session, { ...call, ...(changed && { resolution: changed.resolution }) }, request)
  if (changed && input !== undefined) applyHooks(session, { run, call }, changed, input)
  journal.append({
    type: 'approval_decided',
    ...whereIn(run, call),
    digest,
    approved: true,
    ...byAndNote(request),
    ...(changed && input !== undefined && { input, resolution: changed.resolution }),
  })
  const given = giveRule(session, run, call, request)
  session.flushing.nudge()
  return { digest: changed?.resolution.inputDigest ?? digest, ...given }
}

/** Approves a call by a rule for its context, which a person gave while the call waited. */
async function approveUnder(session: Session, request: ApproveRequest): Promise<ApproveAnswer> {
  const { callId, digest, rule } = request
  const by = await confirmRule(session, callOf(session, callId).call, rule)
  // In the meantime, a person may have decided.
  checkDecision(session, request)
  const { run, call } = callOf(session, callId)
  approveByRule(session, run, call, by)
  session.flushing.nudge()
  return { digest }
}

/** Records the hooks' answers about a person's arguments. If a hook refuses or changes them, the call still waits for a decision. */
function applyHooks(
  { journal, flushing }: Session,
  { run, call }: ReturnType<typeof callOf>,
  { resolution, hooks = [], input }: ChangedCall,
  given: Json,
): void {
  recordHooks(journal, run.run, hooks, given)
  if (hooks.length > 0) flushing.nudge()
  if (resolution.invalid) refuse('denied_by_hook', `These arguments are not allowed. ${resolution.invalid.message}`)
  if (input === undefined) return
  const ownDigest = call.resolution.ownDigest ?? call.resolution.inputDigest
  const { approval = call.resolution.approval } = resolution
  const newResolution = { ...resolution, ownDigest, ...defined({ approval }) }
  issue(journal, { ...whereIn(run, call), input, resolution: newResolution }, newResolution)
  refuse(
    'changed_by_hook',
    `A hook has changed these arguments, and approval of ${call.callId} is requested again. Read them, then decide.`,
  )
}

/** Denies a call and tells the model the reason. */
export function deny(session: Session, request: DenyRequest): void {
  checkDecision(session, request)
  requireApprover(session, request, false)
  const { journal } = session
  const { callId, digest } = request
  const { run, call } = callOf(session, callId)
  const where = whereIn(run, call)
  const why = textOf(request, 'reason')
  journal.append({ type: 'approval_decided', ...where, digest, approved: false, ...byAndNote(request), ...why })
  const begun = begunBefore(call)
  const what = begun ? `This call was not approved. ${begun.message}` : 'This call was not approved and was not executed.'
  const message = `${what}${why.reason === undefined ? '' : ` Reason: ${why.reason}`}`
  journal.append({ type: 'tool_failed', ...where, attempt: begun?.attempt ?? 0, code: 'denied', message })
  session.flushing.nudge()
}

export function checkResolveRequest(session: Session | undefined, request: ResolveRequest): void {
  const { callId, resolution } = request
  const sound =
    resolution === 'retry' ||
    resolution === 'skip' ||
    (isObject(resolution) && (resolution.happened === false || (resolution.happened === true && 'result' in resolution)))
  if (!sound) refuse('invalid_resolution', "Say { happened: true, result }, { happened: false }, 'retry' or 'skip'.")
  if (isObject(resolution) && resolution.happened) checkJson(resolution.result, 'result')
  if (!session) return
  const { state } = session.journal
  if (!unknownOf(state, callId)) {
    if (!mayExist(state, callId)) refuseNoCall('The session', callId)
    refuse(
      'not_unknown',
      `The outcome of ${nameOf(callId)} is known, or too many calls have become unknown since: there is nothing to resolve.`,
    )
  }
  const waits = state.current?.calls.some((call) => call.callId === callId && call.status === 'awaiting_resolution')
  if (!waits && (resolution === 'retry' || resolution === 'skip')) {
    refuse(
      'call_has_ended',
      `The model was told that the outcome of ${named(callId)} is unknown. Resolve it with { happened: true, result } or { happened: false }.`,
    )
  }
}

/**
 * Records a person's decision about a call with an unknown outcome. Histories without the patch recorded any result unchecked. Synchronous,
 * because a promise would change the order of a task's commands.
 */
export function resolve(session: Session, request: ResolveRequest): void | Promise<void> {
  checkResolveRequest(session, request)
  const { resolution } = request
  const result = isObject(resolution) && resolution.happened ? { value: resolution.result } : undefined
  if (!result || !patched('resolution-checked')) return recordReportedOutcome(session, request)
  return checkShape(session, request, result.value).then(() => {
    // In the meantime, another client may have resolved it.
    checkResolveRequest(session, request)
    recordReportedOutcome(session, request)
  })
}

/** Refuses a result that does not match the tool's output schema. If no worker can check it, pawl accepts the person's statement. */
async function checkShape({ journal, pacing }: Session, { callId }: ResolveRequest, result: Json): Promise<void> {
  const { state } = journal
  const unknown = unknownOf(state, callId)
  if (!unknown) return
  const { run, turn, resolution } = unknown
  const { index, tool, effect, schemaDigest } = resolution
  const { agent, context, tags, current } = state
  const call = { agent, run, intent: current?.intent ?? run, turn, input: null, resolution: { index, tool, effect, schemaDigest } }
  const about = { ...call, context, metadata: current?.metadata ?? {}, tags, result, shapeOnly: true as const, ...eventsOf(journal) }
  const checked = await pacing.schedule(about, checkAnswer).then(answerIn, () => undefined)
  if (checked?.kind !== 'does_not_fit') return
  refuse(
    'invalid_resolution',
    `The result does not match the output schema of the tool "${tool}". ${checked.message} Pass what the tool itself would have returned.`,
  )
}

function recordReportedOutcome(session: Session, request: ResolveRequest): void {
  const { journal } = session
  const { callId, resolution } = request
  const unknown = unknownOf(journal.state, callId)
  if (!unknown) return
  const waits = journal.state.current?.calls.some((call) => call.callId === callId && call.status === 'awaiting_resolution') ?? false
  const where = whereIn(unknown, { ...unknown, callId })
  const by = decidedBy(request)
  if (resolution === 'skip') {
    journal.append({ type: 'tool_resolved', ...where, by: 'person', happened: false, decision: 'skip', ...by })
    const message = 'It is not known whether this call took effect. A person decided not to repeat it.'
    journal.append({ type: 'tool_failed', ...where, attempt: unknown.attempt, code: 'skipped', message })
  } else if (resolution === 'retry') {
    journal.append({ type: 'tool_resolved', ...where, by: 'person', happened: false, decision: 'retry', ...by })
  } else if (resolution.happened) {
    const result = { value: resolution.result }
    // The result is recorded once: in the call's own end event if the call has not ended yet.
    journal.append({ type: 'tool_resolved', ...where, by: 'person', happened: true, ...(!waits && result), ...by })
    if (waits) journal.append({ type: 'tool_completed', ...where, attempt: unknown.attempt, ...result })
  } else {
    journal.append({ type: 'tool_resolved', ...where, by: 'person', happened: false, ...by })
  }
  session.flushing.nudge()
}

/** Completes a call of a client tool with the client's answer, or has another call continue with the answer to its question. */
export async function answer(session: Session, request: AnswerRequest): Promise<void> {
  checkAnswerRequest(session, request)
  const { journal, pacing } = session
  const { callId, result } = request
  const open = callOf(session, callId)
  if (open.call.asking?.question) return answerQuestion(session, { ...request, digest: open.call.asked?.digest ?? '' }, open)
  // The check omits the arguments, because the two together could exceed the size limit of an input.
  const call = { ...whereIn(open.run, open.call), input: null, resolution: open.call.resolution }
  const checked = await asking(() =>
    pacing.schedule({ ...inputOf({ journal, run: open.run }, call), ...eventsOf(journal), result }, checkAnswer),
  )
  if (checked.kind === 'not_served') refuse('agent_not_served', `No worker currently serves the tool "${call.tool}". Try again.`)
  if (checked.kind === 'does_not_fit') refuse('invalid_answer', `The answer does not match the tool's output schema. ${checked.message}`)
  checkAnswerRequest(session, request)
  journal.append({ type: 'answer_received', ...whereIn(open.run, open.call), ...textOf(request, 'by') })
  if (checked.kind === 'fits') {
    journal.append({ type: 'tool_completed', ...whereIn(open.run, open.call), attempt: 1, ...recorded(checked) })
  }
  session.flushing.nudge()
}

/** Has the call continue with the answer to its question, once a worker has checked it. `request`: with the question's digest. */
async function answerQuestion(session: Session, request: AnswerRequest, { run, call }: ReturnType<typeof callOf>): Promise<void> {
  const { journal, pacing } = session
  const { result } = request
  const question = call.asking?.question
  if (!question) return
  const about = { ...whereIn(run, call), input: null, resolution: call.resolution }
  const checked = await asking(() =>
    pacing.schedule({ ...inputOf({ journal, run }, about), ...eventsOf(journal), result, question }, checkAnswer),
  )
  if (checked.kind === 'does_not_fit') refuse('invalid_answer', `The question is not answered. ${checked.message}`)
  // In the meantime, another client may have answered it, and the call may wait for the answer to another question.
  checkAnswerRequest(session, request)
  journal.append({ type: 'answer_received', ...whereIn(run, call), ...textOf(request, 'by'), reply: replyIn(result) })
  session.flushing.nudge()
}

/** The validator of `answer`. */
export function checkAnswerRequest(session: Session | undefined, request: AnswerRequest): void {
  const { callId, result, digest } = request
  checkJson(result, 'result')
  if (!session) return
  const { asked } = waitingCall(session, callId, 'awaiting_answer')
  if (asked?.child)
    refuse(
      'answered_by_agent',
      `The agent "${asked.child.agent}" answers ${callId}, in the session ${asked.child.session}. Talk to that session.`,
    )
  if (digest !== undefined && digest !== asked?.digest)
    refuse(
      'digest_mismatch',
      `The digest does not match the question of ${callId} (${asked?.digest}). Read the question again, then answer.`,
    )
}

/** A worker's resolution of a call with a person's arguments. `input`: the arguments that a hook substituted, if any. */
type ChangedCall = Omit<ResolveToolResult & { kind: 'resolved' }, 'kind'>

/** Has a worker resolve the call with different arguments. */
async function resolveWith(session: Session, callId: string, given: Json): Promise<ChangedCall> {
  checkJson(given, 'input')
  const { run, call } = callOf(session, callId)
  const resolved = await askToResolve(session, run, call, given, 'and its hooks')
  const resolution = resolutionIn(resolved, call)
  const { hooks, input } = resolved.kind === 'resolved' ? resolved : {}
  if (resolution.invalid?.code === 'denied') return { resolution, ...defined({ hooks }) }
  if (resolution.invalid) refuse(resolution.invalid.code, resolution.invalid.message)
  const admission = admit(session.journal.state, { ...call, resolution })
  if (admission.as === 'replay')
    refuse(
      'already_completed',
      `${admission.of} has already completed the call with these arguments. Deny this call, or change the arguments.`,
    )
  return { resolution, ...defined({ hooks, input }) }
}

/** Has a worker resolve the call with these arguments. Synchronous, because a promise would change the order of a task's commands. */
export function askToResolve(
  { journal, pacing }: Session,
  run: RunState,
  call: CallState,
  input: Json,
  whom?: 'and its hooks',
): Promise<ResolveToolResult> {
  const { agent, context, tags } = journal.state
  const { index, tool, generation } = call.resolution
  const about = { index, ...defined({ generation }), tool, input, ...(whom && { asksHooks: true as const }) }
  const place = { agent, run: run.run, turn: run.turn, ...about, context, metadata: run.metadata, tags }
  return asking(() => pacing.schedule({ ...place, ...eventsOf(journal) }, resolveTool))
}

/** The call's resolution in a worker's answer. */
export function resolutionIn(resolved: ResolveToolResult, { resolution: before }: CallState): Resolution {
  if (resolved.kind === 'stale_watermark') return refuse('stale_watermark', 'The events of the session could not be read back. Try again.')
  if (resolved.kind === 'not_served') return refuse('agent_not_served', `No worker currently serves the tool "${before.tool}". Try again.`)
  return inPlaceOf(before, resolved.resolution)
}

/** Runs an activity that the sender of an update waits for. If it fails, the request fails, not the session. */
async function asking<T>(activity: () => Promise<T>): Promise<T> {
  try {
    return answerIn(await activity())
  } catch (error) {
    const lost = whyLost(error)
    return refuse(
      'agent_not_served',
      `No worker could check the request (${lost.how === 'cancelled' ? 'cancelled' : lost.message}). Try again.`,
    )
  }
}

/** The unknown call with this id. The id comes from a client and may be the name of an inherited property. */
function unknownOf({ unknown }: SessionState, callId: unknown): UnknownCall | undefined {
  return typeof callId === 'string' && Object.hasOwn(unknown, callId) ? unknown[callId] : undefined
}

/** Names a call by the id that was sent, which may be any value. */
function nameOf(callId: unknown): string {
  return beginningOf(JSON.stringify(callId) ?? 'without an id', 100)
}

function callOf({ journal }: Pick<Session, 'journal'>, callId: string): { run: RunState; call: CallState } {
  const run = journal.state.current
  const call = run?.calls.find((one) => one.callId === callId)
  return run && call ? { run, call } : refuseNoCall('The current run', callId)
}

function refuseNoCall(where: 'The current run' | 'The session', callId: unknown): never {
  return refuse('call_not_found', `${where} has no call ${nameOf(callId)}: \`${SUGGESTIONS.listPending()}\` lists the calls that wait.`)
}

/** Whether the session has, or may have had, this call: the state has only the calls of the current turn. */
function mayExist({ run, current }: SessionState, callId: unknown): boolean {
  if (current?.calls.some((call) => call.callId === callId)) return true
  const turn = typeof callId === 'string' ? turnOf(callId) : undefined
  if (!turn || turn.run > run) return false
  return turn.run < run || !current || turn.turn < current.turn
}

function waitingCall(session: Session, callId: string, status: CallState['status']): CallState {
  const { call } = callOf(session, callId)
  if (call.status !== status) {
    const asked = status === 'awaiting_answer' ? 'an answer' : 'approval'
    refuse('not_waiting', `${callId} does not wait for ${asked} (it is ${call.status}): it was already decided, or nothing was requested.`)
  }
  return call
}

function byAndNote(request: { by?: string; note?: string }): { by?: string; note?: string } {
  return { ...textOf(request, 'by'), ...textOf(request, 'note') }
}

function decidedBy(request: { by?: string; note?: string }): { decidedBy?: string; note?: string } {
  const { by, note } = byAndNote(request)
  return { ...defined({ decidedBy: by, note }) }
}

function checkJson(value: unknown, name: string): void {
  if (value === undefined) refuse('invalid_request', `\`${name}\` is missing.`)
  if (isTooDeep(value)) refuse('invalid_request', `\`${name}\` is nested too deep. Flatten it.`)
  if (jsonBytes(value) > MAX_INPUT_BYTES)
    refuse('invalid_request', `\`${name}\` has more than ${numberText(MAX_INPUT_BYTES)} bytes of JSON. Shorten it.`)
}

/** Shows a client's value in a refusal. The value may be of any type and size. */
function named(callId: unknown): string {
  return cutText(JSON.stringify(callId) ?? 'undefined', TEXT_BYTES.name)
}
