// The projection of `approval_rules`: standing approvals that people give, and those of a session that are revoked.
import type { EventOf, SessionEvent } from '../../session/events.ts'
import type { APPROVAL_RULES, RowOf } from '../postgres/tables.ts'
import { sanitiser } from '../postgres/sanitise.ts'

/** The rows of rules that events make. */
export interface RuleRows {
  rules: RowOf<typeof APPROVAL_RULES>[]
  /** Stored rules that are revoked. */
  revokedRules: { id: string; by: string | null; at: string }[]
}

/**
 * A rule for a context that is stored this long after it was given counts as revoked: the store may have been lost, and with it that the rule
 * was revoked.
 */
const STORED_WITHIN_MS = 3_600_000

/** Applies one event to the rows. */
export function projectRule(rows: RuleRows, event: SessionEvent): void {
  if (event.type === 'approval_rule_given') rows.rules.push(ruleRow(event))
  if (event.type !== 'approval_rule_revoked') return
  const safe = sanitiser()
  const revoked = { id: safe.key(event.rule), by: safe.text(event.by ?? null), at: new Date(event.at).toISOString() }
  const own = rows.rules.find((row) => row.id === revoked.id)
  if (own) Object.assign(own, { revoked_at: revoked.at, revoked_by: revoked.by })
  else rows.revokedRules.push(revoked)
}

function ruleRow(event: EventOf<'approval_rule_given'>): RowOf<typeof APPROVAL_RULES> {
  const {
    rule,
    seq,
    callId,
    tool,
    effect,
    schemaDigest,
    matching,
    inputDigest = null,
    members,
    tenant = null,
    approvers,
    until,
    uses,
  } = event
  const safe = sanitiser()
  const isLate = members !== undefined && Date.now() - event.at > STORED_WITHIN_MS
  return {
    id: safe.key(rule),
    seq,
    call_id: safe.key(callId),
    tool: safe.key(tool),
    effect,
    schema_digest: safe.key(schemaDigest),
    scope: members === undefined ? 'session' : 'context',
    members: members === undefined ? null : safe.json(members),
    tenant: tenant === null ? null : safe.key(tenant),
    matching: safe.json(matching as never),
    input_digest: inputDigest === null ? null : safe.key(inputDigest),
    role: approvers ? safe.key(approvers.role) : null,
    until: until === undefined ? null : new Date(Math.min(until, LAST_MS)).toISOString(),
    uses: uses ?? null,
    given_at: new Date(event.at).toISOString(),
    given_by: safe.text(event.by ?? null),
    note: safe.text(event.note ?? null),
    revoked_at: isLate ? new Date().toISOString() : null,
    revoked_by: isLate ? 'stored late' : null,
  }
}

/** The end of the year 9999: Postgres reads no later ISO text. */
const LAST_MS = 253_402_300_799_000
