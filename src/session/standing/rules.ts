// Standing approvals: which calls a rule that a person gave with a decision approves. Pure, because the workflow and executors both ask.
import type { ApprovedBy, Resolution } from '../call-facts.ts'
import { isObject, type Json, type JsonObject, jsonBytes } from '../json.ts'
import { numberText } from '../number-text.ts'
import type { SessionState } from '../state.ts'
import type { RuleForContext, InputBound, RememberRequest, RuleMatching, RuleTerms, SessionRule } from './facts.ts'

/** How many rules a session may have at a time. */
export const MAX_RULES = 20
/** Bytes of JSON of the members of a rule that a client chooses. */
export const RULE_BYTES = { matching: 1_000, members: 2_000, by: 200 } as const

/** A call that a rule may approve. */
type RuledCall = { resolution: Resolution; input?: Json }

/** Whether the rule approves such a call. Does not look at `until` and `uses`. */
export function covers(rule: RuleTerms, { resolution, input }: RuledCall): boolean {
  const { tool, effect, schemaDigest, inputDigest, approval } = resolution
  if (!approval || !mayBeRuled({ resolution })) return false
  if (tool !== rule.tool || effect !== rule.effect || schemaDigest !== rule.schemaDigest) return false
  if (approval.approvers?.role !== rule.approvers?.role) return false
  return rule.matching === 'input' ? inputDigest === rule.inputDigest : isWithin(rule.matching, input)
}

/**
 * Whether a rule may decide about the call at all. A person must, if a function that should have decided has failed, or if the call is made
 * again.
 */
export function mayBeRuled({ resolution: { approval, generation, invalid } }: Pick<RuledCall, 'resolution'>): boolean {
  return approval !== undefined && !approval.failed && generation === undefined && invalid === undefined
}

function isWithin(matching: Exclude<RuleMatching, 'input'>, input: Json | undefined): boolean {
  if (matching === 'tool') return true
  return Object.entries(matching).every(([pointer, bound]) => {
    const value = valueAt(input, pointer)
    return value !== undefined && fits(value, bound)
  })
}

function fits(value: Json, { max, min, equals, oneOf }: InputBound): boolean {
  if ((max !== undefined || min !== undefined) && typeof value !== 'number') return false
  if (max !== undefined && !((value as number) <= max)) return false
  if (min !== undefined && !((value as number) >= min)) return false
  const isSame = (other: Json): boolean => areEqual(other, value)
  return (equals === undefined || isSame(equals)) && (oneOf === undefined || oneOf.some(isSame))
}

/** Whether two JSON values are the same; the order of members does not matter. */
function areEqual(one: Json, other: Json): boolean {
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return one === other
  const names = Object.keys(one)
  if (Array.isArray(one) !== Array.isArray(other) || names.length !== Object.keys(other).length) return false
  const of = (value: object, name: string): Json => (value as JsonObject)[name] ?? null
  return names.every((name) => Object.hasOwn(other, name) && areEqual(of(one, name), of(other, name)))
}

const ARRAY_INDEX = /^(?:0|[1-9]\d*)$/

/** The value at a JSON pointer (RFC 6901); undefined if there is none. */
function valueAt(value: Json | undefined, pointer: string): Json | undefined {
  let at = value
  for (const part of pointer === '' ? [] : pointer.slice(1).split('/')) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~')
    if (Array.isArray(at)) at = ARRAY_INDEX.test(name) ? at[Number(name)] : undefined
    else at = isObject(at) && Object.hasOwn(at, name) ? (at[name] as Json) : undefined
    if (at === undefined) return undefined
  }
  return at
}

/** Whether the rule has uses left. */
export function hasUses({ uses, used }: Pick<SessionRule, 'uses' | 'used'>): boolean {
  return uses === undefined || used < uses
}

/**
 * The rule that approves the call according to the session's state, if one does: the one that matched when the call was resolved, if it was
 * neither revoked nor used up since, else one that was given since. A rule with an end is matched only when a call is resolved, because the
 * session has no clock. `taken`: uses that other calls are about to take.
 */
export function ruleFor(
  { rules = [] }: Pick<SessionState, 'rules'>,
  call: RuledCall & { attempts?: number; approved?: true },
  taken: (rule: string) => number = () => 0,
): ApprovedBy | undefined {
  const { approvedBy, approval } = call.resolution
  if (!approval || call.approved) return undefined
  if (approvedBy?.for === 'context') return approvedBy
  const isFree = (one: SessionRule): boolean => hasUses({ ...one, used: one.used + taken(one.rule) })
  const matched = approvedBy && rules.find((one) => one.rule === approvedBy.rule)
  if (matched && isFree(matched)) return approvedBy
  if (call.attempts !== undefined) return undefined
  const later = rules.find((one) => one.until === undefined && isFree(one) && covers(one, call))
  return later && { rule: later.rule, for: 'session', ...(later.by !== undefined && { by: later.by }) }
}

/** A rule of these that approves the call now, the oldest first. */
export function matchingRule<R extends RuleTerms & { used: number }>(rules: readonly R[], call: RuledCall, now: number): R | undefined {
  return rules.find((one) => (one.until === undefined || one.until > now) && hasUses(one) && covers(one, call))
}

const REMEMBER_MEMBERS: readonly string[] = ['for', 'matching', 'until', 'uses']
const BOUND_MEMBERS: readonly string[] = ['max', 'min', 'equals', 'oneOf']
const MAX_POINTERS = 10

/** What is wrong with a client's request to remember an approval; undefined if nothing is. */
export function rememberProblem(given: unknown): string | undefined {
  if (!isObject(given)) return "`remember` must be an object such as { for: 'session', matching: 'tool' }."
  const unknown = Object.keys(given).find((name) => !REMEMBER_MEMBERS.includes(name))
  if (unknown !== undefined) return `\`remember\` has no member "${unknown.slice(0, 100)}". Its members are ${REMEMBER_MEMBERS.join(', ')}.`
  const { until, uses } = given
  if (!isScope(given.for)) return "`remember.for` must be 'session', 'context' or { context: [members] }, with 1 to 20 names of members."
  if (until !== undefined && !(typeof until === 'number' && Number.isFinite(until)))
    return '`remember.until` must be a time in milliseconds.'
  if (uses !== undefined && !(Number.isSafeInteger(uses) && Number(uses) >= 1)) return '`remember.uses` must be an integer from 1.'
  return matchingProblem(given.matching)
}

function isScope(value: unknown): boolean {
  if (value === 'session' || value === 'context') return true
  if (!isObject(value) || Object.keys(value).length !== 1) return false
  const { context } = value
  return Array.isArray(context) && context.length >= 1 && context.length <= 20 && context.every((name) => typeof name === 'string')
}

function matchingProblem(matching: unknown): string | undefined {
  if (matching === 'tool' || matching === 'input') return undefined
  if (!isObject(matching))
    return "`remember.matching` must be 'tool', 'input' or bounds by JSON pointer, such as { '/cents': { max: 10000 } }."
  const bounds = Object.entries(matching)
  if (bounds.length === 0 || bounds.length > MAX_POINTERS) return `\`remember.matching\` must have 1 to ${MAX_POINTERS} JSON pointers.`
  if (jsonBytes(matching) > RULE_BYTES.matching)
    return `\`remember.matching\` has more than ${numberText(RULE_BYTES.matching)} bytes of JSON. Shorten it.`
  const wrong = bounds.find(([pointer, bound]) => !isPointer(pointer) || !isBound(bound))
  if (!wrong) return undefined
  const what = `\`remember.matching\`: ${JSON.stringify(wrong[0].slice(0, 100))}`
  if (!isPointer(wrong[0])) return `${what} is not a JSON pointer. It begins with "/", such as "/cents".`
  return `${what} needs one or more of max and min (numbers), equals (a value) and oneOf (a list of values).`
}

const isPointer = (pointer: string): boolean => pointer === '' || /^\/(?:[^~]|~[01])*$/.test(pointer)

function isBound(bound: unknown): boolean {
  if (!isObject(bound)) return false
  const names = Object.keys(bound)
  if (names.length === 0 || names.some((name) => !BOUND_MEMBERS.includes(name))) return false
  const { max, min, oneOf } = bound
  const isNumber = (value: unknown): boolean => value === undefined || (typeof value === 'number' && Number.isFinite(value))
  return isNumber(max) && isNumber(min) && (oneOf === undefined || (Array.isArray(oneOf) && oneOf.length > 0))
}

/** The members of the context that a rule applies to, or why it cannot apply to them. */
export function membersFor(
  context: Json,
  scope: Exclude<RememberRequest['for'], 'session'>,
): { members: JsonObject } | { problem: string } {
  if (!isObject(context)) return { problem: 'The session has no context with members, so the rule can only be for the session.' }
  const names = scope === 'context' ? Object.keys(context) : [...new Set(scope.context)]
  const missing = names.find((name) => !Object.hasOwn(context, name))
  if (missing !== undefined) return { problem: `The session's context has no member "${missing.slice(0, 100)}".` }
  if (names.length === 0) return { problem: 'The context of the session is empty, so the rule can only be for the session.' }
  const members = Object.fromEntries(names.map((name) => [name, (context[name] ?? null) as Json]))
  if (jsonBytes(members) <= RULE_BYTES.members) return { members }
  return {
    problem: `The members of the context have more than ${numberText(RULE_BYTES.members)} bytes of JSON. Name those that identify whom the rule is for.`,
  }
}

/** Whether a context has the members of a rule, with the same values. */
export function hasMembers(context: Json, members: JsonObject): boolean {
  return (
    isObject(context) &&
    Object.entries(members).every(([name, value]) => Object.hasOwn(context, name) && areEqual((context[name] ?? null) as Json, value))
  )
}

/** Whether a session is one of those that the rule is for. */
export function isFor(
  { agent, tenant, members }: Pick<RuleForContext, 'agent' | 'tenant' | 'members'>,
  session: Pick<SessionState, 'agent' | 'context' | 'tags'>,
): boolean {
  return agent === session.agent && tenant === tenantOf(session.tags) && hasMembers(session.context, members)
}

/** The rule for a context that a request names; undefined if it does not name one. Its content is arbitrary. */
export function contextRuleIn(given: unknown): RuleForContext | undefined {
  if (!isObject(given)) return undefined
  const { rule, agent, tenant, members, tool, effect, schemaDigest, matching, by, inputDigest, approvers } = given
  const texts = [rule, agent, tool, effect, schemaDigest]
  if (texts.some((text) => typeof text !== 'string') || !isObject(members) || matchingProblem(matching) !== undefined) return undefined
  if (tenant !== null && typeof tenant !== 'string') return undefined
  if ([by, inputDigest].some((text) => text !== undefined && typeof text !== 'string')) return undefined
  if (matching === 'input' && inputDigest === undefined) return undefined
  return approvers === undefined || (isObject(approvers) && typeof approvers.role === 'string')
    ? (given as unknown as RuleForContext)
    : undefined
}

/** The tag by which a rule stays within the tenant whose session gave it: no request can set such a tag. */
export function tenantOf(tags: readonly string[]): string | null {
  return tags.find((tag) => tag.startsWith('tenant:')) ?? null
}
