// Standing approvals with random rules and calls: no rule approves a call outside what it says, however the session got there.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { withRule } from '../../../src/jobs/tool-call/standing.ts'
import type { ApprovalTerms, Effect, Resolution } from '../../../src/session/call-facts.ts'
import { NO_USAGE } from '../../../src/session/content.ts'
import { decide, NOTHING_DUE } from '../../../src/session/decide.ts'
import { defined } from '../../../src/session/defined.ts'
import { shortHash } from '../../../src/session/digest.ts'
import type { EventBody, SessionEvent } from '../../../src/session/events.ts'
import { apply, initialState } from '../../../src/session/fold/fold.ts'
import type { Json, JsonObject } from '../../../src/session/json.ts'
import type { InputBound, RuleMatching, RuleTerms } from '../../../src/session/standing/facts.ts'
import {
  contextRuleIn,
  covers,
  hasMembers,
  isFor,
  matchingRule,
  MAX_RULES,
  membersFor,
  rememberProblem,
} from '../../../src/session/standing/rules.ts'
import type { CallState, RunState, SessionState } from '../../../src/session/state.ts'
import { sessionStarted } from '../../support/session-started.ts'
import { size } from '../../support/sizes.ts'

const RUNS = { numRuns: size(400, 5_000) }
const NOW = 1_000_000

// Few names and values, so that rules and calls often almost match.
const NAMES = ['cents', 'to', '0', '', 'a/b', 'm~n', '__proto__', 'length'] as const
const scalars = fc.constantFrom<Json>(null, true, false, 0, -0, 1, 1.5, 100, 101, -1, '', '100', 'x', 'X')
const objectOf = (entries: [string, Json][]): Json =>
  JSON.parse(`{${entries.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(',')}}`) as Json
const jsonAt = (depth: number): fc.Arbitrary<Json> =>
  depth === 0
    ? scalars
    : fc.oneof(
        { weight: 2, arbitrary: scalars },
        { weight: 1, arbitrary: fc.array(jsonAt(depth - 1), { maxLength: 3 }) },
        { weight: 3, arbitrary: fc.array(fc.tuple(fc.constantFrom(...NAMES), jsonAt(depth - 1)), { maxLength: 4 }).map(objectOf) },
      )
const json = jsonAt(2)

/** Every value in a value, by its pointer: what a rule's pointers are compared with. */
function placesIn(value: Json, at = ''): [string, Json][] {
  if (typeof value !== 'object' || value === null) return [[at, value]]
  const step = (name: string): string => `${at}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
  return [[at, value], ...Object.keys(value).flatMap((name) => placesIn((value as JsonObject)[name] as Json, step(name)))]
}

/** Text that is the same for the same JSON, whatever the order of members. */
function canonical(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const names = Object.keys(value).toSorted()
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical((value as JsonObject)[name] as Json)}`).join(',')}}`
}
const same = (one: Json, other: Json): boolean => canonical(one) === canonical(other)
const digestOf = (tool: string, input: Json): string => shortHash(`${tool} ${canonical(input)}`)

/** A call as a worker resolves it. */
interface Facts {
  tool: string
  effect: Effect
  schemaDigest: string
  role: string | undefined
  input: Json
  kind: 'plain' | 'failed' | 'again' | 'invalid' | 'needs_none'
}
const facts: fc.Arbitrary<Facts> = fc.record({
  tool: fc.constantFrom('pay', 'pay2'),
  effect: fc.constantFrom<Effect>('external', 'read'),
  schemaDigest: fc.constantFrom('s1', 's2'),
  role: fc.constantFrom(undefined, 'finance', 'support'),
  input: json,
  kind: fc.oneof({ weight: 6, arbitrary: fc.constant('plain' as const) }, fc.constantFrom('failed', 'again', 'invalid', 'needs_none')),
})

function resolutionOf({ tool, effect, schemaDigest, role, input, kind }: Facts, index = 0): Resolution {
  const approval = {
    expiresMs: 1_000,
    onExpiry: 'deny',
    ...(role !== undefined && { approvers: { role } }),
    ...(kind === 'failed' && { failed: true }),
  }
  return {
    index,
    tool,
    effect,
    key: `key ${index}`,
    inputDigest: digestOf(tool, input),
    schemaDigest,
    timeoutMs: 1,
    retry: { maxRetries: 0, baseDelayMs: 0 },
    verify: false,
    ...(kind !== 'needs_none' && { approval: approval as ApprovalTerms }),
    ...(kind === 'again' && { generation: 2 }),
    ...(kind === 'invalid' && { invalid: { code: 'invalid_arguments' as const, message: 'no' } }),
  }
}

const bounds: fc.Arbitrary<InputBound> = fc
  .record(
    {
      max: fc.constantFrom(0, 1, 100),
      min: fc.constantFrom(0, 1, 100),
      equals: json,
      oneOf: fc.array(json, { minLength: 1, maxLength: 3 }),
    },
    { requiredKeys: [] },
  )
  .filter((bound) => Object.keys(bound).length > 0)

/** A rule that was given with some call; it often is about the call that it is compared with. */
const ruleAbout = (call: Facts): fc.Arbitrary<RuleTerms & { givenFor: Facts }> =>
  fc
    .record({
      other: facts,
      takes: fc.record({ tool: fc.boolean(), effect: fc.boolean(), schemaDigest: fc.boolean(), role: fc.boolean(), input: fc.boolean() }),
      keepsAll: fc.boolean(),
      matching: fc.oneof(
        fc.constantFrom<RuleMatching>('tool', 'input'),
        fc
          .array(
            fc.tuple(fc.constantFrom(...placesIn(call.input).map(([at]) => at), '/cents', '/none', '/0', '/length', '/__proto__'), bounds),
            {
              minLength: 1,
              maxLength: 3,
            },
          )
          .map((entries) => Object.fromEntries(entries) as RuleMatching),
      ),
      until: fc.option(fc.constantFrom(NOW - 1, NOW, NOW + 1), { nil: undefined }),
      uses: fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined }),
    })
    .map(({ other, takes, keepsAll, matching, until, uses }) => {
      const from = <K extends keyof typeof takes>(member: K): Facts[K] => (takes[member] && !keepsAll ? other[member] : call[member])
      const givenFor: Facts = {
        tool: from('tool'),
        effect: from('effect'),
        schemaDigest: from('schemaDigest'),
        role: from('role'),
        input: from('input'),
        kind: 'plain',
      }
      const { tool, effect, schemaDigest, inputDigest, approval } = resolutionOf(givenFor)
      const terms = { tool, effect, schemaDigest, matching, ...(matching === 'input' && { inputDigest }) }
      return { ...terms, ...defined({ approvers: approval?.approvers, until, uses }), givenFor }
    })

/** What a rule says, in other words than the code: the reference. */
function says(rule: RuleTerms & { givenFor: Facts }, call: Facts): boolean {
  const { givenFor: given } = rule
  if (call.kind !== 'plain') return false
  if (given.tool !== call.tool || given.effect !== call.effect || given.schemaDigest !== call.schemaDigest || given.role !== call.role)
    return false
  if (rule.matching === 'tool') return true
  if (rule.matching === 'input') return same(given.input, call.input)
  const places = new Map(placesIn(call.input))
  return Object.entries(rule.matching).every(([at, { max, min, equals, oneOf }]) => {
    if (!places.has(at)) return false
    const value = places.get(at) as Json
    if (max !== undefined && !(typeof value === 'number' && value <= max)) return false
    if (min !== undefined && !(typeof value === 'number' && value >= min)) return false
    if (equals !== undefined && !same(equals, value)) return false
    return oneOf === undefined || oneOf.some((one) => same(one, value))
  })
}

const callAndRule = facts.chain((call) => fc.tuple(fc.constant(call), ruleAbout(call)))
const callAndRules = facts.chain((call) => fc.tuple(fc.constant(call), fc.array(ruleAbout(call), { maxLength: 5 })))

describe('a rule', () => {
  it('a rule covers exactly the calls that it says: tool, effect, schema, role, arguments, and none that only a person may decide', () => {
    let covered = 0
    fc.assert(
      fc.property(callAndRule, ([call, rule]) => {
        const does = covers(rule, { resolution: resolutionOf(call), input: call.input })
        expect(does).toBe(says(rule, call))
        if (does) covered += 1
      }),
      RUNS,
    )
    // The test would say nothing if hardly a call matched.
    expect(covered).toBeGreaterThan(RUNS.numRuns / 20)
  })

  it('a rule that a worker matches says so of the call, has not ended, and has uses left', async () => {
    let matched = 0
    await fc.assert(
      fc.asyncProperty(
        callAndRules,
        fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 5, maxLength: 5 }),
        async ([call, rules], used) => {
          const all = rules.map((rule, n) => ({ ...rule, rule: `ar_${n}`, seq: n, used: used[n] ?? 0, members: {} }))
          const mayUse = all.filter((rule) => says(rule, call) && (rule.until ?? NOW + 1) > NOW && rule.used < (rule.uses ?? 4))
          const resolution = resolutionOf(call)
          const found = matchingRule(all, { resolution, input: call.input }, NOW)
          expect(found?.rule).toBe(mayUse[0]?.rule)
          // The same for rules of the session and of its context, by the worker's clock.
          const lasting = all.map((rule) => ({ ...rule, until: undefined as never }))
          const usable = lasting.filter((rule) => says(rule, call) && rule.used < (rule.uses ?? 4))
          const session = { agent: 'a', context: {}, tags: [] }
          const own = await withRule(resolution, call.input, { ...session, rules: lasting }, async () =>
            expect.fail('its own rule comes first'),
          ).catch(() => undefined)
          if (usable[0]) expect(own?.approvedBy).toEqual({ rule: usable[0].rule, for: 'session' })
          const ofContext = await withRule(resolution, call.input, session, async () => lasting)
          expect(ofContext.approvedBy).toEqual(usable[0] && { rule: usable[0].rule, for: 'context' })
          if (usable[0]) matched += 1
        },
      ),
      RUNS,
    )
    expect(matched).toBeGreaterThan(RUNS.numRuns / 20)
  })
})

const contexts = fc.oneof(
  json,
  fc.record({ customer: fc.constantFrom('c1', 'c2'), plan: fc.constantFrom<Json>('pro', null, { tier: 1 }) }, { requiredKeys: [] }),
)
const tags = fc.array(fc.constantFrom('vip', 'tenant:acme', 'tenant:globex'), { maxLength: 2 })
const sessions = fc.record({ agent: fc.constantFrom('a', 'b'), context: contexts as fc.Arbitrary<Json>, tags })

describe('a rule for a context', () => {
  it('a rule for a context is for the sessions of its agent and tenant with the same members, and for no others', () => {
    const scopes = fc.oneof(
      fc.constant('context' as const),
      fc.subarray(['customer', 'plan', 'cents'], { minLength: 1 }).map((context) => ({ context })),
    )
    fc.assert(
      fc.property(sessions, sessions, scopes, (giver, other, scope) => {
        const found = membersFor(giver.context, scope)
        if ('problem' in found) return
        const { members } = found
        const tenant = giver.tags.find((tag) => tag.startsWith('tenant:')) ?? null
        const rule = { agent: giver.agent, tenant, members }
        expect(isFor(rule, giver)).toBe(true)
        const has = Object.keys(members).every((name) => {
          const context = (other.context ?? {}) as JsonObject
          return (
            typeof context === 'object' &&
            !Array.isArray(context) &&
            Object.hasOwn(context, name) &&
            same(context[name] as Json, members[name] as Json)
          )
        })
        expect(hasMembers(other.context, members)).toBe(has)
        const tenantOfOther = other.tags.find((tag) => tag.startsWith('tenant:')) ?? null
        expect(isFor(rule, other)).toBe(has && giver.agent === other.agent && tenant === tenantOfOther)
      }),
      RUNS,
    )
  })

  it('a request names a rule only if it can be compared with any call', () => {
    const sound = { rule: 'ar_1', agent: 'a', tenant: null, members: {}, tool: 'pay', effect: 'external', schemaDigest: 's1' }
    const members = fc.record(
      {
        ...Object.fromEntries(
          Object.entries(sound).map(([name, value]) => [name, fc.oneof({ weight: 8, arbitrary: fc.constant<unknown>(value) }, json)]),
        ),
        matching: fc.oneof(
          { weight: 3, arbitrary: fc.constantFrom<unknown>('tool', { '/cents': { max: 1 } }) },
          json,
          fc.dictionary(fc.string(), json),
        ),
        approvers: fc.oneof(fc.constant<unknown>({ role: 'finance' }), json),
        inputDigest: json,
        by: json,
        until: json,
        uses: json,
      },
      { requiredKeys: ['matching'] },
    )
    fc.assert(
      fc.property(fc.oneof(members, json), facts, sessions, (given, call, session) => {
        const rule = contextRuleIn(given)
        if (rule === undefined) return
        // Neither throws, whatever the request says.
        expect(typeof covers(rule, { resolution: resolutionOf(call), input: call.input })).toBe('boolean')
        expect(typeof isFor(rule, session)).toBe('boolean')
      }),
      RUNS,
    )
    expect(contextRuleIn({ ...sound, matching: 'tool' })).toMatchObject({ rule: 'ar_1' })
    expect(contextRuleIn({ ...sound, matching: 'input' })).toBeUndefined()
  })

  it('what a person cannot mean is refused before it becomes a rule', () => {
    fc.assert(
      fc.property(fc.oneof(json, fc.record({ for: json, matching: json, until: json, uses: json }, { requiredKeys: [] })), (given) => {
        const problem = rememberProblem(given)
        if (problem !== undefined) return
        const { matching } = given as { matching: RuleMatching }
        const unlimited = typeof matching === 'object' && Object.values(matching).some((bound) => Object.keys(bound).length === 0)
        expect(unlimited || (typeof matching === 'object' && Object.keys(matching).length === 0)).toBe(false)
      }),
      RUNS,
    )
  })
})

/** What happens to the rules of a session. */
type Step =
  | { do: 'give'; rule: RuleTerms & { givenFor: Facts } }
  | { do: 'revoke'; of: number }
  | { do: 'back'; to: number }
  | { do: 'call'; calls: Facts[] }

const steps = facts.chain((about) =>
  fc.array(
    fc.oneof(
      { weight: 3, arbitrary: ruleAbout(about).map((rule): Step => ({ do: 'give', rule })) },
      { weight: 1, arbitrary: fc.nat(30).map((of): Step => ({ do: 'revoke', of })) },
      { weight: 1, arbitrary: fc.nat(30).map((to): Step => ({ do: 'back', to })) },
      {
        weight: 4,
        arbitrary: fc
          .array(fc.oneof({ weight: 3, arbitrary: fc.constant(about) }, { weight: 1, arbitrary: facts }), { minLength: 1, maxLength: 5 })
          .map((calls): Step => ({ do: 'call', calls })),
      },
    ),
    { maxLength: 25 },
  ),
)

const RUN: RunState = {
  run: 1,
  intent: 1,
  messageId: 'm',
  metadata: {},
  startedAt: 0,
  turn: 1,
  phase: 'tools',
  calls: [],
  usage: NO_USAGE,
  taken: [],
  takenBytes: 0,
  effects: [],
  moreEffects: 0,
}

describe('the rules of a session', () => {
  it('a session never approves a call by a rule that it does not have, that has ended, that is used up, or that does not say so', () => {
    const approvedIn = (all: readonly Step[]): number => {
      let approved = 0
      const state: SessionState = initialState({ v: 1, seq: 1, at: 0, ...sessionStarted() })
      const model = new Map<string, { terms: RuleTerms & { givenFor: Facts }; seq: number; used: number }>()
      let seq = 1
      const append = (body: EventBody): void => apply(state, { v: 1, seq: (seq += 1), at: seq, ...body } as SessionEvent)
      for (const [n, step] of all.entries()) {
        if (step.do === 'give') {
          if ((state.rules ?? []).length >= MAX_RULES) continue
          const { givenFor, ...terms } = step.rule
          append({ type: 'approval_rule_given', run: 1, turn: 1, callId: 't', rule: `ar_${n}`, ...terms })
          model.set(`ar_${n}`, { terms: { ...terms, givenFor }, seq, used: 0 })
        } else if (step.do === 'revoke') {
          append({ type: 'approval_rule_revoked', rule: `ar_${step.of}` })
          model.delete(`ar_${step.of}`)
        } else if (step.do === 'back') {
          const toSeq = Math.min(step.to, seq)
          append({ type: 'rolled_back', toSeq, upToSeq: seq, effects: [] })
          for (const [id, rule] of model) if (rule.seq > toSeq) model.delete(id)
        } else {
          approved += useIn(state, step.calls, model, append)
        }
        expect((state.rules ?? []).map(({ rule }) => rule)).toEqual([...model.entries()].filter(hasLeft).map(([id]) => id))
      }
      return approved
    }
    fc.assert(
      fc.property(steps, (all) => void approvedIn(all)),
      RUNS,
    )
    // At fixed sessions, because few random ones approve anything.
    const approved = fc.sample(steps, { numRuns: 400, seed: 1 }).reduce((sum, all) => sum + approvedIn(all), 0)
    expect(approved).toBeGreaterThan(10)
  })
})

type Model = Map<string, { terms: RuleTerms & { givenFor: Facts }; seq: number; used: number }>
const hasLeft = ([, { terms, used }]: [string, Model extends Map<string, infer R> ? R : never]): boolean => used < (terms.uses ?? Infinity)

/** Lets the session decide about a turn's calls until no rule is used any more; returns how many calls rules have approved. */
function useIn(state: SessionState, calls: readonly Facts[], model: Model, append: (body: EventBody) => void): number {
  const made = calls.map(
    (call, index): CallState => ({
      callId: `t_1_1_${index}`,
      index,
      status: 'requested',
      input: call.input,
      resolution: resolutionOf(call, index),
    }),
  )
  let approved = 0
  for (;;) {
    Object.assign(state, { status: 'running', current: { ...RUN, calls: made } })
    const step = decide(state, NOTHING_DUE)
    if (step.do === 'ask' || step.do === 'run_calls') {
      // They are not what this test is about: they end.
      const ids = step.do === 'ask' ? step.calls.map(({ call }) => call.callId) : step.calls.map(({ callId }) => callId)
      for (const one of made) if (ids.includes(one.callId)) one.status = 'completed'
      continue
    }
    if (step.do !== 'use_rules') return approved
    for (const { call, by } of step.calls) {
      const rule = model.get(by.rule)
      const asked = calls[call.index]
      if (!rule || !asked) return expect.fail(`${by.rule} is none of the session's`)
      expect(says(rule.terms, asked)).toBe(true)
      expect(rule.used).toBeLessThan(rule.terms.uses ?? Infinity)
      // The session has no clock: only a worker, when it resolves a call, uses a rule with an end.
      expect(rule.terms.until).toBeUndefined()
      rule.used += 1
      approved += 1
      append({
        type: 'approval_decided',
        run: 1,
        turn: 1,
        callId: call.callId,
        tool: asked.tool,
        digest: '',
        approved: true,
        rule: by.rule,
      })
    }
  }
}
