// The crash kit finds each mistake that only a crash reveals, and rejects what it could learn nothing from.
import { crashTest, type CrashTestOptions, type CrashTestResult } from 'pawl/testing'
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

/** How a conversation fails, with which message and options, and why. */
const ENDLESS_OR_FAILED: [string, string, Partial<CrashTestOptions>, string][] = [
  ['it does not end', '', { script: [() => new Promise<void>(() => undefined)], timeout: 3_000 }, 'did not end'],
  ['its run fails', 'fail:now', {}, 'step 1 of the script ended as failed (invalid_script'],
]

const drawn = variants(MISTAKES, 1).map((one) => [one.mistake, one] as const)

describe(`the crash kit (seed ${seed}, again with PAWL_SEED)`, () => {
  let kit: Kit

  beforeAll(async () => {
    kit = await openKit({ processes: 1 })
  })
  afterAll(() => kit?.close())

  it.each(drawn)('the crash kit finds %s', async (_, { agent, message = 'transfer:alice', only = DURING, isFound }) => {
    const result = await kit.test(agent, message, { only })
    expect(result.ok).toBe(false)
    isFound(result)
  })

  it('the crash kit reaches the boundaries within verify even if no others are chosen', async () => {
    const result = await kit.test('good', 'transfer:alice', { only: /verify transfer .*killed at end.*during/ })
    expect(result.boundaries.map(({ boundary, verdict }) => [boundary.id, verdict])).toEqual([
      ['tool:t_1_1_0/end+verify:t_1_1_0/answer:1', 'ok'],
      ['tool:t_1_1_0/end+verify:t_1_1_0/end', 'ok'],
    ])
  })

  it('the crash kit finds what only the death of the supervisor with all its processes reveals', async () => {
    const result = await kit.test('per-machine', 'charge:alice', {
      only: /tool charge .*(response 1 from|the body has ended)/,
      random: { kinds: ['both'], rounds: size(1, 4), seed: SEED_IN_THE_MIDDLE },
    })
    expect(result.boundaries.map(({ verdict }) => verdict)).toEqual(['ok', 'ok'])
    const found = result.rounds.filter(({ verdict }) => verdict === 'differs')
    expect(found.length, result.table).toBeGreaterThan(0)
    expect(found[0]?.differences[0]?.text).toMatch(/"charge".* once more than without kills/)
  })

  describe('in a conversation that misspells a tool and calls an external one without verify', () => {
    let before: NodeJS.ProcessEnv
    let result: CrashTestResult

    beforeAll(async () => {
      before = { ...process.env }
      result = await kit.test('unverified', 'transfr:alice transfer:alice', { only: DURING })
    })

    it('the crash kit reports that the outcome of the external call is unknown, and that nothing was done twice', () => {
      expect(result.ok, result.table).toBe(true)
      expect(new Set(result.boundaries.map(({ verdict }) => verdict))).toEqual(new Set(['unknown']))
      expect(result.table).toContain('transfer has no `verify`')
    })

    it('the crash kit reports which calls of the script were not executed', () => {
      expect(result.baseline.notes).toEqual([expect.stringContaining('a call of transfr was not executed: There is no tool "transfr".')])
      expect(result.table).toContain('without kills (may be intended): a call of transfr was not')
    })

    it('the crash kit leaves the environment as it was', () => expect({ ...process.env }).toEqual(before))
  })

  it('the crash kit rejects a conversation that differs each time', async () => {
    let time = 0
    const clock = { ...bank(), snapshot: () => ++time }
    await expect(kit.test('good', 'balance:alice', { world: clock })).rejects.toMatchObject({ code: 'not_repeatable' })
  })

  it.each(variants(['none of several', 'an unknown one'], 1))(
    'the crash kit rejects a conversation that has no agent to talk to: it names %s',
    async (named) => {
      const agent = named === 'an unknown one' ? { agent: 'nobody' } : {}
      const test = crashTest({ module: kit.module, ...agent, script: ['hello'], world: bank(), stack: kit.stack, processes: 1 })
      await expect(test).rejects.toMatchObject({ code: 'invalid_option' })
    },
  )

  it.each(variants(ENDLESS_OR_FAILED, 1))(
    'the crash kit rejects a conversation that fails without kills: %s',
    async (_, message, options, reason) => {
      await expect(kit.test('good', message, options)).rejects.toMatchObject({
        code: 'baseline_failed',
        message: expect.stringContaining(reason),
      })
    },
  )

  it('the crash kit reports what is wrong with a world', async () => {
    const shut = { ...bank(), effects: () => expect.fail('the bank is shut') }
    await expect(kit.test('good', 'balance:alice', { world: shut })).rejects.toMatchObject({
      code: 'world_failed',
      message: "The world's `effects` threw: the bank is shut. Fix the world.",
    })
  })
})
