// The crash kit finds each mistake that only a crash reveals, and rejects what it could learn nothing from.
import { crashTest, type CrashTestResult } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { seed, size, variants } from '../support/sizes.ts'
import { bank } from './support/bank.ts'
import { type Kit, openKit } from './support/kit.ts'

const DURING = /: tool .*during/
/** With this seed, most rounds begin with a trouble that occurs when about half of the boundaries have been reached. */
const SEED_IN_THE_MIDDLE = 46

const differing = ({ boundaries }: CrashTestResult) => boundaries.filter(({ verdict }) => verdict === 'differs')
const effects = (result: CrashTestResult) =>
  differing(result).flatMap(({ differences }) => differences.flatMap(({ where, text }) => (where === 'effects' ? [text] : [])))
const repeats = (tool: string) => (result: CrashTestResult) =>
  expect(effects(result)).toEqual(expect.arrayContaining([expect.stringMatching(new RegExp(`"${tool}".* once more than without kills`))]))

/** An agent with a mistake, and what the kit must find when it kills during the tool's calls. */
interface Mistake {
  mistake: string
  agent: string
  /** Default: a transfer. */
  message?: string
  /** Default: during the tool's calls. */
  only?: RegExp
  isFound(result: CrashTestResult): void
}

const MISTAKES: Mistake[] = [
  {
    mistake: 'a tool that is external by nature and was declared idempotent',
    agent: 'repeated',
    isFound(result) {
      repeats('transfer')(result)
      expect(result.table).toContain('transfer repeated an effect')
    },
  },
  { mistake: 'a different key at each attempt', agent: 'random-inside', message: 'charge:alice', isFound: repeats('charge') },
  {
    mistake: 'an idempotency function that does not answer the same twice, before anything goes wrong',
    agent: 'random-key',
    message: 'charge:alice',
    isFound: ({ problems }) => expect(problems).toEqual([expect.stringContaining('the idempotency key of tool charge differs each time')]),
  },
  { mistake: 'a tool that writes before it checks', agent: 'writes-first', isFound: repeats('transfer') },
  {
    mistake: 'a tool that notes as done what is not, between two requests of its body',
    agent: 'notes-first',
    isFound(result) {
      expect(differing(result).map(({ boundary }) => boundary.id)).toEqual(['tool:t_1_1_0/answer:2'])
      expect(effects(result)).toEqual([expect.stringMatching(/"transfer".* is missing/)])
    },
  },
  {
    mistake: 'a verify that answers otherwise when it is asked again, by a second kill within it',
    agent: 'asks-once',
    only: /: (tool .*during|verify )/,
    isFound(result) {
      expect(result.boundaries.filter(({ boundary }) => boundary.what === 'tool').map(({ verdict }) => verdict)).toEqual(['ok', 'ok'])
      expect(differing(result).map(({ boundary }) => boundary.id)).toEqual([
        'tool:t_1_1_0/end+verify:t_1_1_0/answer:1',
        'tool:t_1_1_0/end+verify:t_1_1_0/end',
      ])
      expect(effects(result)).toEqual(Array(2).fill(expect.stringMatching(/"transfer".* once more than without kills/)))
      expect(result.table).toContain('verify of transfer is called again when its process dies')
    },
  },
]

const drawn = variants(MISTAKES, 2).map((one) => [one.mistake, one] as const)

describe(`the crash kit (seed ${seed}, again with PAWL_SEED)`, () => {
  let kit: Kit

  beforeAll(async () => {
    kit = await openKit()
  })
  afterAll(() => kit?.close())

  it.each(drawn)('finds %s', async (_, { agent, message = 'transfer:alice', only = DURING, isFound }) => {
    const result = await kit.test(agent, message, { only })
    expect(result.ok).toBe(false)
    isFound(result)
  })

  it('reaches the boundaries within verify even if no others are chosen', async () => {
    const result = await kit.test('good', 'transfer:alice', { only: /verify transfer .*killed at end.*during/ })
    expect(result.boundaries.map(({ boundary, verdict }) => [boundary.id, verdict])).toEqual([
      ['tool:t_1_1_0/end+verify:t_1_1_0/answer:1', 'ok'],
      ['tool:t_1_1_0/end+verify:t_1_1_0/end', 'ok'],
    ])
  })

  it('finds what only the death of the supervisor with all its processes reveals', async () => {
    const result = await kit.test('per-machine', 'charge:alice', {
      only: /tool charge .*(response 1 from|the body has ended)/,
      random: { kinds: ['both'], rounds: size(2, 4), seed: SEED_IN_THE_MIDDLE },
    })
    expect(result.boundaries.map(({ verdict }) => verdict)).toEqual(['ok', 'ok'])
    const found = result.rounds.filter(({ verdict }) => verdict === 'differs')
    expect(found.length, result.table).toBeGreaterThan(0)
    expect(found[0]?.differences[0]?.text).toMatch(/"charge".* once more than without kills/)
  })

  it('reports that the outcome of an external tool without verify is unknown, and that nothing was done twice', async () => {
    const result = await kit.test('unverified', 'transfer:alice', { only: DURING })
    expect(result.ok, result.table).toBe(true)
    expect(new Set(result.boundaries.map(({ verdict }) => verdict))).toEqual(new Set(['unknown']))
    expect(result.table).toContain('transfer has no `verify`')
  })

  it('rejects a conversation that differs each time, and one that has no agent to talk to', async () => {
    let time = 0
    const clock = { ...bank(), snapshot: () => ++time }
    await expect(kit.test('good', 'balance:alice', { world: clock })).rejects.toMatchObject({ code: 'not_repeatable' })
    await expect(crashTest({ module: kit.module, script: ['hello'], world: bank(), stack: kit.stack })).rejects.toMatchObject({
      code: 'invalid_option',
    })
    await expect(kit.test('nobody', 'balance:alice')).rejects.toMatchObject({ code: 'invalid_option' })
  })

  it('rejects a conversation that fails without kills: it does not end, or its run fails', async () => {
    const endless = { script: [() => new Promise<void>(() => undefined)], timeout: 3_000 }
    await expect(kit.test('good', '', endless)).rejects.toMatchObject({
      code: 'baseline_failed',
      message: expect.stringContaining('did not end'),
    })
    await expect(kit.test('good', 'fail:now')).rejects.toMatchObject({
      code: 'baseline_failed',
      message: expect.stringContaining('step 1 of the script ended as failed (invalid_script'),
    })
  })

  it('reports what is wrong with a world, and which calls of the script were not executed, and leaves the environment as it was', async () => {
    const shut = { ...bank(), effects: () => expect.fail('the bank is shut') }
    await expect(kit.test('good', 'balance:alice', { world: shut })).rejects.toMatchObject({
      code: 'world_failed',
      message: "The world's `effects` threw: the bank is shut. Fix the world.",
    })
    const before = { ...process.env }
    const { baseline, table } = await kit.test('good', 'transfr:alice', { only: /no such boundary/ })
    expect({ ...process.env }).toEqual(before)
    expect(baseline.notes).toEqual([expect.stringContaining('a call of transfr was not executed: There is no tool "transfr".')])
    expect(table).toContain('without kills (may be intended): a call of transfr was not')
  })
})
