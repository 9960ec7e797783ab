// Finds the standing approval that approves a call which the model has requested.
import type { ContextRules } from '../../calls/reads.ts'
import type { Resolution } from '../../session/call-facts.ts'
import { defined } from '../../session/defined.ts'
import type { Json } from '../../session/json.ts'
import type { ApprovedBy } from '../../session/call-facts.ts'
import { hasMembers, matchingRule, mayBeRuled, tenantOf } from '../../session/standing/rules.ts'
import type { SessionState } from '../../session/state.ts'

/** The resolution, with the rule that approves the call, if one does: a rule of the session comes before one for its context. */
export async function withRule(
  resolution: Resolution,
  input: Json,
  { agent, context, tags, rules = [] }: Pick<SessionState, 'agent' | 'context' | 'tags' | 'rules'>,
  contextRules: ContextRules,
): Promise<Resolution> {
  if (!mayBeRuled({ resolution })) return resolution
  const call = { resolution, input }
  const own = matchingRule(rules, call, Date.now())
  if (own) return { ...resolution, approvedBy: approvedBy('session', own) }
  const all = await contextRules({ agent, tool: resolution.tool, tenant: tenantOf(tags) })
  const ofContext = matchingRule(
    all.filter(({ members }) => hasMembers(context, members)),
    call,
    Date.now(),
  )
  return ofContext ? { ...resolution, approvedBy: approvedBy('context', ofContext) } : resolution
}

function approvedBy(scope: ApprovedBy['for'], { rule, by }: { rule: string; by?: string }): ApprovedBy {
  return { rule, for: scope, ...defined({ by }) }
}
