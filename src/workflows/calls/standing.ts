// Standing approvals: rules that a person gives with a decision, and what they approve in the person's place.
import { patched, uuid4 } from '@temporalio/workflow'
import type { ApproveAnswer, ApproveRequest, RevokeRuleRequest } from '../../session/protocol/protocol.ts'
import type { ApprovedBy } from '../../session/call-facts.ts'
import type { RuleTerms } from '../../session/standing/facts.ts'
import {
  contextRuleIn,
  covers,
  hasUses,
  isFor,
  mayBeRuled,
  MAX_RULES,
  membersFor,
  rememberProblem,
  tenantOf,
} from '../../session/standing/rules.ts'
import { admit, type SessionStep } from '../../session/decide.ts'
import type { EventBody } from '../../session/events.ts'
import type { CallState, RunState, SessionState } from '../../session/state.ts'
import { defined } from '../../session/defined.ts'
import { whyLost } from '../lost-activity.ts'
import { useContextRule } from '../scheduling.ts'
import { refuse, type Session, textOf } from '../session-parts.ts'
import { whereIn } from './call.ts'
import { issue } from './tool-call.ts'

type UseRules = Extract<SessionStep, { do: 'use_rules' }>

/** Approves calls by the rules that cover them. A call whose rule no longer holds is left to a person. */
export async function useRules(session: Session, calls: UseRules['calls']): Promise<void> {
  const run = session.journal.state.current
  if (!run) return
  await Promise.all(calls.map(({ call, by }) => useRuleFor(session, run, call, by)))
}

async function useRuleFor(session: Session, run: RunState, call: CallState, by: ApprovedBy): Promise<void> {
  const { journal } = session
  const { resolution, input = null } = call
  if (call.status === 'requested') issue(journal, { ...whereIn(run, call), input, resolution })
  if (by.for === 'session') return approveByRule(session, run, call, by)
  const used = await useOfContext(call, by)
  // Meanwhile, the run may have been stopped.
  if (used === 'stopped' || journal.state.current?.run !== run.run || call.status !== 'issued') return
  if (used === 'used') return approveByRule(session, run, call, by)
  const { approvedBy: _, ...without } = resolution
  const reason = [resolution.approval?.reason, WHY_NOT[used]].filter(Boolean).join(' ')
  const asked = { ...without, ...(resolution.approval && { approval: { ...resolution.approval, reason } }) }
  issue(journal, { ...whereIn(run, call), input, resolution: asked }, asked)
}

/** What the person who is asked after all is told. */
const WHY_NOT = {
  revoked: 'A standing approval for it was revoked.',
  expired: 'A standing approval for it has expired.',
  used_up: 'A standing approval for it is used up.',
  unavailable: 'A standing approval for it could not be confirmed, because the side store is unavailable.',
} as const

async function useOfContext({ callId }: CallState, { rule }: Pick<ApprovedBy, 'rule'>): Promise<keyof typeof WHY_NOT | 'used' | 'stopped'> {
  try {
    return await useContextRule({ rule, callId })
  } catch (error) {
    if (whyLost(error).how === 'cancelled') return 'stopped'
    return 'unavailable'
  }
}

export function approveByRule({ journal }: Session, run: RunState, call: CallState, { rule, by }: ApprovedBy): void {
  const digest = call.resolution.inputDigest
  journal.append({ type: 'approval_decided', ...whereIn(run, call), digest, approved: true, rule, ...defined({ by }) })
}

/** Refuses what cannot be remembered. `now`: only the validator's, which does not run during replay. */
export function checkRemember({ journal }: Session, call: CallState, { remember }: ApproveRequest, now?: number): void {
  if (remember === undefined) return
  const problem = rememberProblem(remember)
  if (problem !== undefined) refuse('invalid_rule', problem)
  if (now !== undefined && remember.until !== undefined && remember.until <= now)
    refuse('invalid_rule', '`remember.until` has passed. Name a time that is still to come.')
  if (!mayBeRuled(call))
    refuse(
      'invalid_rule',
      `The approval of ${call.callId} cannot be remembered: the call is made again, or the function that decides who approves it has failed. Approve it without \`remember\`.`,
    )
  const { state } = journal
  if (remember.for !== 'session') {
    const found = membersFor(state.context, remember.for)
    if ('problem' in found) refuse('invalid_rule', found.problem)
  } else if (!hasRoomForRule(state, now)) {
    refuse(
      'too_many_rules',
      `The session has ${MAX_RULES} standing approvals, as many as it can have. Revoke one, or approve without \`remember\`.`,
    )
  }
}

/**
 * Whether the session can have another rule: one whose end has passed makes room. Only the validator may look at the clock, so the handler
 * believes it.
 */
function hasRoomForRule({ rules = [] }: SessionState, now: number | undefined): boolean {
  if (rules.length < MAX_RULES) return true
  const mayHaveEnded = ({ until }: { until?: number }): boolean => until !== undefined && (now === undefined || until <= now)
  return rules.some(mayHaveEnded) && (now !== undefined || patched('ended-rules-make-room'))
}

/** Records the rule that a person gives with the approval of `call`, and approves the session's other calls that wait and that it covers. */
export function giveRule(
  session: Session,
  run: RunState,
  call: CallState,
  request: ApproveRequest,
): Pick<ApproveAnswer, 'rule' | 'released'> {
  const { remember } = request
  if (!remember) return {}
  const { journal } = session
  const { tool, effect, schemaDigest, inputDigest, approval } = call.resolution
  const { matching, until, uses } = remember
  const terms: RuleTerms = {
    tool,
    effect,
    schemaDigest,
    matching,
    ...(matching === 'input' && { inputDigest }),
    ...defined({ approvers: approval?.approvers, until, uses }),
  }
  const rule = `ar_${uuid4().replaceAll('-', '').slice(0, 16)}`
  const said = { ...textOf(request, 'by'), ...textOf(request, 'note') }
  const where = { run: run.run, turn: run.turn, callId: call.callId }
  journal.append({ type: 'approval_rule_given', ...where, rule, ...terms, ...scopeOf(session, request), ...said })
  // Histories of earlier builds have no such activity.
  if (remember.for !== 'session' && patched('release-in-context')) session.releasing.begin(rule)
  const released = remember.for === 'session' ? release(session, run, { rule, for: 'session', ...textOf(request, 'by') }) : []
  return { rule, ...(released.length > 0 && { released }) }
}

/** The sessions to which the rule applies; nothing for this session alone. */
function scopeOf(
  { journal: { state } }: Session,
  { remember }: ApproveRequest,
): Pick<EventBody & { type: 'approval_rule_given' }, 'members' | 'tenant'> {
  if (!remember || remember.for === 'session') return {}
  const found = membersFor(state.context, remember.for)
  return 'problem' in found ? {} : { members: found.members, tenant: tenantOf(state.tags) }
}

/** Approves what waits and is covered, while the rule has uses left. */
function release(session: Session, run: RunState, by: ApprovedBy): string[] {
  const { journal } = session
  const released: string[] = []
  for (const call of run.calls) {
    const rule = journal.state.rules?.find((one) => one.rule === by.rule)
    if (!rule || !hasUses(rule)) break
    if (call.status !== 'awaiting_approval' || call.attempts !== undefined || !covers(rule, call)) continue
    if (repeatsUnknown(journal.state, call) && patched('release-admits')) continue
    approveByRule(session, run, call, by)
    released.push(call.callId)
  }
  return released
}

/** Nobody has said that an effect may happen again whose outcome is unknown. */
function repeatsUnknown(state: SessionState, call: CallState): boolean {
  return admit(state, call).as !== 'execute'
}

/**
 * Confirms that a rule, which a person gave in another session, approves a call that waits here: this session knows what the call is, and the
 * store whether the rule still holds. Refuses otherwise.
 */
export async function confirmRule({ journal: { state } }: Session, call: CallState, given: unknown): Promise<ApprovedBy> {
  const rule = contextRuleIn(given)
  if (!rule || !isFor(rule, state) || call.attempts !== undefined || !covers(rule, call) || repeatsUnknown(state, call))
    return refuse('invalid_rule', `The standing approval does not cover ${call.callId}, which still waits for a person.`)
  const used = await useOfContext(call, rule)
  if (used === 'stopped') return refuse('rule_not_found', 'The request was cancelled.')
  if (used !== 'used') return refuse('rule_not_found', `${WHY_NOT[used]} ${call.callId} still waits for a person.`)
  return { rule: rule.rule, for: 'context', ...defined({ by: rule.by }) }
}

/** Carries out the update `revoke_rule`. */
export function revokeRule({ journal, flushing }: Session, request: RevokeRuleRequest): { rule: string } {
  const { rule } = request
  if (!journal.state.rules?.some((one) => one.rule === rule))
    refuse('rule_not_found', 'The session has no such standing approval: it was revoked or used up, or the session went back behind it.')
  journal.append({ type: 'approval_rule_revoked', rule, ...textOf(request, 'by'), ...textOf(request, 'reason') })
  flushing.nudge()
  return { rule }
}
