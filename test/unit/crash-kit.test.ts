// The pure parts of the crash kit: which boundaries exist, how two runs compare, and what is printed.
import { describe, expect, it } from 'vitest'
import type { Agent } from '../../src/agent/agent.ts'
import { defineAgent } from '../../src/agent/define-agent.ts'
import {
  boundariesOf,
  boundaryOf,
  chosen,
  killsOf,
  leadsToVerify,
  type Mark,
  verifyBoundaries,
} from '../../src/testing/crash/boundaries.ts'
import { compare, firstDifference, type ConversationOutcome, withoutNames } from '../../src/testing/crash/compare.ts'
import { checkCrashTest } from '../../src/testing/crash/options.ts'
import { randomFrom } from '../../src/testing/crash/random.ts'
import { tableOf } from '../../src/testing/crash/table.ts'
import { drawTroubles } from '../../src/testing/crash/troubles.ts'
import type { BoundaryResult, CrashTestOptions, RoundResult } from '../../src/testing/crash/types.ts'
import { observedAgent } from '../../src/testing/crash/worker/observed.ts'
import { heldTo } from '../../src/testing/crash/world.ts'
import { markOf } from '../../src/testing/crash/worker/recorded.ts'

const mark = (id: string, more: Partial<Mark> = {}): Mark => ({ id, ...more })

describe('the boundaries of a conversation', () => {
  const marks = [
    mark('model:1:1/before'),
    mark('flush:1/before'),
    mark('model:1:1/during'),
    mark('model:1:1/after'),
    mark('tool:t_1_1_0/before', { tool: 'refund' }),
    mark('tool:t_1_1_0/answer:1', { tool: 'refund' }),
    mark('tool:t_1_1_0/end', { tool: 'refund' }),
    mark('tool:t_1_1_0/after'),
    mark('checkpoint:1/after'),
    // A replay reports once more what was recorded.
    mark('model:1:1/after'),
  ]

  it('the boundaries of a conversation are those that were reached, each once, in order', () => {
    expect(boundariesOf(marks).map(({ id }) => id)).toEqual(marks.slice(0, -1).map(({ id }) => id))
  })

  it('the boundaries of a conversation name stage, subject and tool, even if the mark does not name the tool', () => {
    const [, , , , before, answer, end, after] = boundariesOf(marks)
    expect([before, answer, end, after].map((boundary) => boundary?.stage)).toEqual(['before', 'during', 'during', 'after'])
    expect(new Set([before, answer, end, after].map((boundary) => boundary?.subject))).toEqual(
      new Set(['run 1 turn 1: tool refund (t_1_1_0)']),
    )
    expect(after).toMatchObject({ what: 'tool', tool: 'refund', name: 'run 1 turn 1: tool refund (t_1_1_0), after' })
  })

  it('the boundaries of a conversation leave out marks that are not boundaries', () => {
    expect(boundaryOf('sleep:t_1_1_0/before')).toBeUndefined()
  })

  it('the boundaries of a conversation can be chosen by name, by id, or by a function', () => {
    const all = boundariesOf(marks)
    expect(chosen(all, undefined)).toEqual(all)
    expect(chosen(all, /tool refund.*during/g).map(({ id }) => id)).toEqual(['tool:t_1_1_0/answer:1', 'tool:t_1_1_0/end'])
    expect(chosen(all, /^flush:1/).map(({ id }) => id)).toEqual(['flush:1/before'])
    expect(chosen(all, ({ what }) => what === 'checkpoint').map(({ id }) => id)).toEqual(['checkpoint:1/after'])
  })

  it('the boundaries within verify follow a kill during the call: before its body began, and at its end', () => {
    const verified = marks.map((one) => (one.tool === undefined ? one : { ...one, verifies: true as const }))
    const leads = leadsToVerify(verified)
    expect(leads.map(({ id }) => id)).toEqual(['tool:t_1_1_0/before', 'tool:t_1_1_0/end'])
    expect(leadsToVerify(marks)).toEqual([])
    const [, end] = leads
    const asked = ['before', 'answer:1', 'answer:2', 'end', 'after'].map((step) => mark(`verify:t_1_1_0/${step}`))
    const within = verifyBoundaries(end ?? expect.fail(), [...marks, ...asked, ...asked])
    expect(within.map(({ id }) => id)).toEqual(asked.map(({ id }) => `tool:t_1_1_0/end+${id}`))
    expect(within[1]).toMatchObject({
      what: 'verify',
      stage: 'during',
      tool: 'refund',
      name: 'run 1 turn 1: verify refund (t_1_1_0, killed at end), during (response 1 from outside)',
    })
    expect(killsOf(within[1]?.id ?? '')).toEqual(['tool:t_1_1_0/end', 'verify:t_1_1_0/answer:1'])
    expect(verifyBoundaries(end ?? expect.fail(), marks)).toEqual([])
    expect(verifyBoundaries(end ?? expect.fail()).map(({ stage }) => stage)).toEqual(['before', 'during', 'during', 'after'])
  })

  it('the boundaries after a call are its recorded outcomes', () => {
    const call = { callId: 't_1_1_0', tool: 'refund' }
    expect(markOf({ type: 'model_completed', run: 2, turn: 3 })).toEqual({ id: 'model:2:3/after' })
    expect(markOf({ type: 'tool_failed', ...call })).toEqual({ id: 'tool:t_1_1_0/after', tool: 'refund' })
    expect(markOf({ type: 'checkpoint_made', version: 4 })).toEqual({ id: 'checkpoint:4/after' })
    expect(markOf({ type: 'tool_resolved', ...call, by: 'verify' })).toEqual({ id: 'verify:t_1_1_0/after', tool: 'refund' })
    expect(markOf({ type: 'tool_resolved', ...call, by: 'person' })).toBeUndefined()
    expect(markOf({ type: 'tool_issued', ...call })).toBeUndefined()
  })

  it('the boundaries of a conversation name the tool of a call that no worker executed, and of a call that was made again', () => {
    const answered = markOf({ type: 'tool_completed', callId: 't_1_1_0', tool: 'plan_setup' }) ?? expect.fail()
    const again = markOf({ type: 'tool_completed', callId: 't_1_2_0#2', tool: 'refund' }) ?? expect.fail()
    expect(boundariesOf([answered, again]).map(({ subject }) => subject)).toEqual([
      'run 1 turn 1: tool plan_setup (t_1_1_0)',
      'run 1 turn 2: tool refund (t_1_2_0#2)',
    ])
  })
})

const outcome = (more: Partial<ConversationOutcome> = {}): ConversationOutcome => ({
  ends: [{ status: 'completed', text: 'Done.' }],
  failed: [],
  transcript: ['a', 'b'],
  world: { orders: { 7: 'refunded' } },
  effects: [{ refund: 7, cents: 100 }],
  unknown: [],
  unstable: [],
  notes: [],
  problems: [],
  ...more,
})

it('an observed agent’s model keeps what its Model declares, so that budgets and compaction work in a crash test', async () => {
  const declared = { provider: 'p', account: 'a', contextWindow: 1_000, price: { input: 3, output: 15 }, maxTokens: 500, thinkingTokens: 7 }
  const generate = () => Promise.reject(new Error('not asked'))
  const agent = defineAgent({ name: 'a', instructions: 'i', model: { name: 'mine', ...declared, generate } })
  const { model } = observedAgent(agent as Agent, {} as never, {} as never)
  const observed = typeof model === 'function' ? await model({} as never) : model
  expect(observed).toMatchObject({ name: 'mine', ...declared })
})

describe('a disturbed run', () => {
  it('a disturbed run is ok if transcript, world, effects and ends match the undisturbed run', () => {
    expect(compare(outcome(), outcome())).toEqual({ verdict: 'ok', differences: [] })
  })

  it('a disturbed run differs if an effect was repeated, regardless of the order of its members', () => {
    const twice = outcome({
      effects: [
        { refund: 7, cents: 100 },
        { cents: 100, refund: 7 },
      ],
    })
    expect(compare(outcome(), twice)).toEqual({
      verdict: 'differs',
      differences: [{ where: 'effects', text: '{"cents":100,"refund":7} once more than without kills (repeated)' }],
    })
  })

  it('a disturbed run differs if an effect is missing, or if the effects are in another order', () => {
    expect(compare(outcome(), outcome({ effects: [] })).differences).toEqual([
      { where: 'effects', text: '{"cents":100,"refund":7} is missing' },
    ])
    expect(compare(outcome({ effects: ['a', 'b'] }), outcome({ effects: ['b', 'a'] })).differences).toEqual([
      { where: 'effects', text: 'the same effects in a different order' },
    ])
  })

  it('a disturbed run differs if its world, its transcript or its end differs, and the report says where', () => {
    const other = outcome({ world: { orders: { 7: 'paid' } }, transcript: ['a', 'c'], ends: [{ status: 'failed', code: 'max_turns' }] })
    expect(compare(outcome(), other).differences).toEqual([
      { where: 'world', text: 'at /orders/7: "paid" instead of "refunded"' },
      { where: 'conversation', text: 'at /0/status: "failed" instead of "completed"' },
      { where: 'transcript', text: 'at /1: "c" instead of "b"' },
    ])
  })

  it('a disturbed run is unknown, not different, if the outcome of a call is unknown and nothing was done twice', () => {
    const asked = outcome({ unknown: ['transfer'], effects: [], transcript: ['a', 'nobody knows'] })
    expect(compare(outcome(), asked)).toEqual({
      verdict: 'unknown',
      differences: [{ where: 'conversation', text: 'whether transfer happened is unknown; a `verify` could find out' }],
    })
    const repeated = outcome({ unknown: ['transfer'], effects: [...outcome().effects, ...outcome().effects] })
    expect(compare(outcome(), repeated).verdict).toBe('differs')
  })

  it('a disturbed run differs if it did not end, or if a stable key changed', () => {
    expect(compare(outcome(), outcome({ problems: ['it did not end'] }))).toEqual({
      verdict: 'differs',
      differences: [{ where: 'problem', text: 'it did not end' }],
    })
    const unstable = outcome({ unstable: ['the key changes'] })
    expect(compare(outcome(), unstable).verdict).toBe('differs')
    expect(compare(unstable, unstable).verdict).toBe('ok')
  })

  it('a disturbed run is compared without the names that differ between sessions', () => {
    const names = new Map([
      ['s-1', '<session>'],
      ['key-of-s-1', '<key>'],
    ])
    expect(withoutNames({ text: 'paid with key-of-s-1 for "s-1"', 's-1': 1 }, names)).toEqual({
      text: 'paid with <key> for "<session>"',
      '<session>': 1,
    })
  })
})

it('the comparison finds the first difference between two values, even if one has more members', () => {
  expect(firstDifference({ a: [1, { b: null }] }, { a: [1, { b: null }] })).toBeUndefined()
  expect(firstDifference({ a: [1] }, { a: [1, 2] })).toBe('at /a/1: 2 instead of nothing')
  expect(firstDifference({ a: 1 }, [1])).toBe('[1] instead of {"a":1}')
  expect(firstDifference('x', null)).toBe('null instead of "x"')
})

describe('the table', () => {
  const at = (id: string, verdict: BoundaryResult['verdict'], text?: string): BoundaryResult => ({
    boundary: boundaryOf(id, 'refund') ?? expect.fail(id),
    verdict,
    differences: text === undefined ? [] : [{ where: 'effects', text }],
    ms: 1,
  })

  it('the table has one line per call with the worst result of each stage, and lists the differences below', () => {
    const boundaries = [
      at('model:1:1/before', 'ok'),
      at('tool:t_1_1_0/answer:1', 'ok'),
      at('tool:t_1_1_0/end', 'differs', 'refund once more than without kills (repeated)'),
      at('tool:t_1_1_0/after', 'unknown'),
      at('flush:1/before', 'not_reached'),
    ]
    const troubles = ['kill 7, after boundary 3', 'both 8 and its 2 processes, after boundary 9']
    const rounds: RoundResult[] = [{ round: 1, troubles, verdict: 'ok', differences: [], ms: 1 }]
    expect(tableOf({ boundaries, rounds, problems: ['the key changes'], notes: [], seed: 42 }).split('\n')).toEqual([
      'killed at                            before       during   after',
      'run 1 turn 1: model                  ok           -        -',
      'run 1 turn 1: tool refund (t_1_1_0)  -            DIFFERS  not known',
      'flush 1                              not reached  -        -',
      '',
      'random round 1  ok  kill 7, after boundary 3',
      '                    both 8 and its 2 processes, after boundary 9',
      '',
      '- even without kills: the key changes',
      '- run 1 turn 1: tool refund (t_1_1_0), during (the body has ended, unrecorded)',
      '    effects: refund once more than without kills (repeated)',
      '',
      'refund repeated an effect. Send ctx.idempotencyKey, which is the same on each',
      "attempt, to a service that honours it, or declare the tool 'external' with a",
      '`verify`.',
      'refund has no `verify`. Add one, or a person has to find out what happened.',
      '',
      '5 boundaries and 1 random round, 3 the same as without kills, 1 DIFFER, 1 with',
      'an unknown outcome, 1 not reached, 1 wrong even without kills, seed 42',
    ])
  })

  it('the table reports a wrong verify if the tool that repeated an effect has one', () => {
    const { boundary, ...differs } = at('tool:t_1_1_0/end', 'differs', 'refund once more than without kills (repeated)')
    const table = tableOf({
      boundaries: [{ boundary: { ...boundary, verifies: true }, ...differs }],
      rounds: [],
      problems: [],
      notes: [],
      seed: 1,
    })
    expect(table.replaceAll('\n', ' ')).toContain(
      'refund repeated an effect: `verify` answered { happened: false } although it had happened.',
    )
    expect(table).not.toContain("'external'")
  })

  it('the table fits the terminal and shows the whole name of each call, as far as the name itself fits', () => {
    const name = 'find_the_order_of_the_customer_and_refund_it_to_where_it_came_fr'
    const row = (id: string, verdict: BoundaryResult['verdict']): BoundaryResult => ({
      boundary: boundaryOf(id, name) ?? expect.fail(id),
      verdict,
      differences: [],
      ms: 1,
    })
    const boundaries = [row('tool:t_10_12_0/before', 'not_reached'), row('tool:t_10_12_0/end+verify:t_10_12_0/after', 'differs')]
    const result = { boundaries, rounds: [], problems: [], notes: [`a call of ${name} was not executed`], seed: 1 }
    expect(tableOf(result).split('\n')).toEqual([
      'killed at                     before       during  after',
      'run 10 turn 12: tool',
      `  ${name} (t_10_12_0)`,
      '                              not reached  -       -',
      'run 10 turn 12: verify',
      `  ${name}`,
      '  (t_10_12_0, killed at end)  -            -       DIFFERS',
      '',
      '- without kills (may be intended): a call of',
      `  ${name} was not`,
      '  executed',
      '',
      `verify of ${name} is`,
      'called again when its process dies, and must then return the same answer: it',
      'must only read.',
      '',
      '2 boundaries and 0 random rounds, 0 the same as without kills, 1 DIFFER, 1 not',
      'reached',
    ])
    for (const columns of [30, 60, 80, 132, 200]) {
      const lines = tableOf(result, columns).split('\n')
      expect(lines.filter((line) => line.length > Math.max(columns, name.length + 2))).toEqual([])
      expect(lines.filter((line) => line.includes(name)).length).toBeGreaterThanOrEqual(3)
    }
    expect(tableOf(result, 132).split('\n')[1]).toBe(`run 10 turn 12: tool ${name} (t_10_12_0)  not reached  -       -`)
  })
})

describe('the random rounds', () => {
  it('the random rounds are the same for the same seed, and different for another', () => {
    const drawn = (seed: number) =>
      drawTroubles(randomFrom(seed), ['kill', 'both', 'pause_supervisor', 'temporal'], 'kill', { marks: 30, ms: 300 })
    expect(drawn(7)).toEqual(drawn(7))
    expect(drawn(7)).not.toEqual(drawn(8))
  })

  it('each random round begins with a fault of the requested kind that occurs early enough', () => {
    for (let seed = 0; seed < 200; seed++) {
      const drawn = drawTroubles(randomFrom(seed), ['kill'], 'pause', { marks: 30, ms: 300 })
      const pause = drawn.find(({ kind }) => kind === 'pause') ?? expect.fail('no pause')
      expect(pause.afterMarks).toBeLessThanOrEqual(15)
      expect(drawn.every(({ afterMarks, delayMs }) => afterMarks < 30 && delayMs <= 10)).toBe(true)
    }
  })
})

describe('the options of a crash test', () => {
  const good: CrashTestOptions = {
    module: new URL(import.meta.url),
    script: ['hello'],
    world: { reset: () => undefined, snapshot: () => null, effects: () => [] },
  }

  it('the options of a crash test are completed with the defaults', () => {
    expect(checkCrashTest(good)).toMatchObject({
      processes: 2,
      rounds: 7,
      kinds: ['kill', 'pause', 'supervisor', 'pause_supervisor', 'both', 'postgres', 'temporal'],
    })
    expect(checkCrashTest({ ...good, random: false })).toMatchObject({ rounds: 0 })
  })

  it.each<[string, Partial<Record<keyof CrashTestOptions, unknown>>, string]>([
    ['a module that does not exist', { module: './nowhere.ts' }, 'module_not_found'],
    ['no module', { module: undefined }, 'invalid_option'],
    ['a module that is not on this machine', { module: new URL('https://example.com/agents.js') }, 'invalid_option'],
    ['no script', { script: [] }, 'invalid_option'],
    ['a world that counts no effects', { world: { reset() {}, snapshot() {} } }, 'invalid_option'],
    ['no world', { world: undefined }, 'invalid_option'],
    ['half a process', { processes: 0.5 }, 'invalid_option'],
    ['a negative number of rounds', { random: { rounds: -1 } }, 'invalid_option'],
    ['an unknown kind of trouble', { random: { kinds: ['earthquake'] } }, 'invalid_option'],
  ])('the options of a crash test are refused with %s', (_, wrong, code) => {
    expect(() => checkCrashTest({ ...good, ...wrong } as CrashTestOptions)).toThrow(expect.objectContaining({ code }))
  })
})

describe('a world', () => {
  const world = { reset: () => undefined, snapshot: () => null, effects: () => [] }

  it.each<[string, object, 'snapshot' | 'effects' | 'reset' | 'start', string]>([
    ['throws', { snapshot: () => expect.fail('the shop is down') }, 'snapshot', '`snapshot` threw: the shop is down'],
    ['does not come up', { start: () => Promise.reject(new Error('no port')) }, 'start', '`start` threw: no port'],
    ['answers no list of effects', { effects: () => undefined }, 'effects', '`effects` returned undefined: return an array'],
    ['answers with a value that JSON drops', { snapshot: () => ({ paid: new Map([['A17', 1]]) }) }, 'snapshot', 'is not JSON'],
    ['answers with invalid JSON', { effects: () => [{ cents: 1n }] }, 'effects', 'is not JSON'],
    ['answers nothing', { snapshot: () => undefined }, 'snapshot', 'is not JSON'],
  ])('a world that %s is reported to be at fault', async (_, wrong, part, text) => {
    const held = heldTo({ ...world, ...wrong })
    await expect(held[part]()).rejects.toMatchObject({ code: 'world_failed', message: expect.stringContaining(text) })
  })

  it('a world is read as it is at that moment', async () => {
    const effects = ['a']
    const given = await heldTo({ ...world, effects: () => effects }).effects()
    effects.push('b')
    expect(given).toEqual(['a'])
  })
})
