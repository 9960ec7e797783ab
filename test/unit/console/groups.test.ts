// How the inbox groups calls, and the rules that a person may give for a group.
import { describe, expect, it } from 'vitest'
import type { PendingRow } from '../../../console/src/api/rows.ts'
import { groupsOf, ownOf, sharedBy } from '../../../console/src/session/groups.ts'
import { coveragesOf, rememberFor } from '../../../console/src/session/remembering.ts'
import type { Resolution } from '../../../src/session/call-facts.ts'
import type { Json } from '../../../src/session/json.ts'
import { covers } from '../../../src/session/standing/rules.ts'

function waiting(sessionId: string, more: Partial<PendingRow> & { group?: string } = {}): PendingRow {
  return { kind: 'approval', sessionId, callId: 't_1_1_0', digest: `digest of ${sessionId}`, group: sessionId, ...more } as PendingRow
}

/** Whether a rule with this matching approves such a call. */
function approves(matching: ReturnType<typeof coveragesOf>[number]['matching'], input: Json): boolean {
  const resolution = { tool: 'pay', effect: 'external', schemaDigest: 's', inputDigest: 'i', approval: {} } as unknown as Resolution
  const rule = { tool: 'pay', effect: 'external' as const, schemaDigest: 's', inputDigest: 'i', matching }
  return covers(rule, { resolution, input })
}

describe('groups of the inbox', () => {
  it('the inbox keeps the order of the longest wait, and shows calls of other kinds one by one', () => {
    const rows = [
      waiting('a', { group: 'g' }),
      waiting('b', { kind: 'unknown' } as never),
      waiting('c', { group: 'g' }),
      waiting('d', { kind: 'unknown' } as never),
    ]
    expect(groupsOf(rows).map(({ rows: members }) => members.map(({ sessionId }) => sessionId))).toEqual([['a', 'c'], ['b'], ['d']])
  })

  it('the inbox shows once what all calls of a group have in common, and of each what is its own', () => {
    const inputs = [
      { order: { id: 1 }, cents: 5 },
      { order: { id: 1 }, cents: 7 },
    ]
    const shared = sharedBy(inputs)
    expect(shared).toEqual({ order: { id: 1 } })
    expect(inputs.map((input) => ownOf(input, shared))).toEqual([{ cents: 5 }, { cents: 7 }])
    expect(sharedBy(['text', { cents: 5 }])).toBeUndefined()
    expect(ownOf({ order: { id: 1 } }, shared)).toBeUndefined()
  })
})

describe('rules for a group', () => {
  const inputs: Json[] = [
    { what: 'rent', n: 5 },
    { what: 'rent', n: 9 },
  ]

  it('each rule that the console offers approves all calls of the group, the narrowest first', () => {
    const offered = coveragesOf(inputs)
    expect(offered.map(({ title }) => title)).toEqual([
      'exactly the arguments of these calls',
      'what is "rent", n is from 5 to 9',
      'any arguments',
    ])
    for (const { matching } of offered) for (const input of inputs) expect(approves(matching, input)).toBe(true)
    const other = (input: Json) => offered.map(({ matching }) => approves(matching, input))
    expect(other({ what: 'rent', n: 7 })).toEqual([false, true, true])
    expect(other({ what: 'food', n: 5 })).toEqual([false, false, true])
  })

  it('the console offers only rules that are short enough for pawl', () => {
    const long = Array.from({ length: 100 }, (_, n) => ({ note: 'x'.repeat(20), n }))
    expect(coveragesOf(long).map(({ matching }) => matching)).toEqual([
      { '/note': { equals: 'x'.repeat(20) }, '/n': { min: 0, max: 99 } },
      'tool',
    ])
    expect(coveragesOf([{ note: 'x'.repeat(2_000) }, { note: 'y' }]).map(({ matching }) => matching)).toEqual(['tool'])
    expect(coveragesOf([{ n: 1 }, { n: 1 }]).map(({ matching }) => matching)).toEqual(['input', 'tool'])
  })

  it('a rule for a group is for its session, or for sessions with the same context if it has several', () => {
    const alike = [waiting('a'), waiting('b'), waiting('c')]
    expect(rememberFor(alike, 'tool')).toEqual({ for: 'context', matching: 'tool' })
    expect(rememberFor([waiting('a'), waiting('a')], 'input')).toEqual({ for: 'session', matching: 'input' })
  })
})
