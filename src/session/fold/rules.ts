// The fold of the session's standing approvals: what is given, used and revoked.
import { defined } from '../defined.ts'
import type { EventOf } from '../events.ts'
import { cutText } from '../protocol/texts.ts'
import type { SessionRule } from '../standing/facts.ts'
import { hasUses, MAX_RULES, RULE_BYTES } from '../standing/rules.ts'
import type { SessionState } from '../state.ts'
import { keepTakenWithinBounds } from './queue.ts'

/** Adds a rule of this session. The side store has those for a context. */
export function giveRule(state: SessionState, event: EventOf<'approval_rule_given'>): void {
  if (event.members !== undefined) return
  const { rule, seq, tool, effect, schemaDigest, matching, inputDigest, approvers, until, uses, by } = event
  const terms = { tool, effect, schemaDigest, matching, ...defined({ inputDigest, approvers, until, uses }) }
  const given: SessionRule = { rule, seq, used: 0, ...terms, ...(by !== undefined && { by: cutText(by, RULE_BYTES.by) }) }
  const others = (state.rules ?? []).filter((one) => one.rule !== rule)
  keep(state, [...(others.length < MAX_RULES ? others : withoutFirstToEnd(others)), given].slice(-MAX_RULES))
  keepTakenWithinBounds(state)
}

/** The rule makes room whose end has passed first. The session accepts another one only if there is such a rule. */
function withoutFirstToEnd(rules: readonly SessionRule[]): SessionRule[] {
  const ends = rules.flatMap(({ until }) => until ?? [])
  const first = rules.findIndex(({ until }) => until !== undefined && until === Math.min(...ends))
  return rules.filter((_, index) => index !== first)
}

export function revokeRule(state: SessionState, event: EventOf<'approval_rule_revoked'>): void {
  keep(
    state,
    state.rules?.filter(({ rule }) => rule !== event.rule),
  )
}

/** Counts a use; a rule without uses left no longer applies. */
export function useRule(state: SessionState, { rule: id }: EventOf<'approval_decided'>): void {
  if (id === undefined) return
  keep(state, state.rules?.map((one) => (one.rule === id ? { ...one, used: one.used + 1 } : one)).filter(hasUses))
}

/** Going back removes later rules, and restores none. */
export function forgetRulesAfter(state: SessionState, toSeq: number): void {
  keep(
    state,
    state.rules?.filter(({ seq }) => seq <= toSeq),
  )
}

function keep(state: SessionState, rules: SessionRule[] | undefined): void {
  if (rules && rules.length > 0) state.rules = rules
  else delete state.rules
}
