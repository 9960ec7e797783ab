// The support desk's tickets, letters and policy, without a shop.
import { describe, expect, it } from 'vitest'
import { createPacing } from '../../examples/support-desk/demo/pacing.ts'
import { percentile } from '../../examples/support-desk/demo/report.ts'
import type { Call, Outcome, Policy } from '../../examples/support-desk/policy/replay.ts'
import { nextStep } from '../../examples/support-desk/policy/replay.ts'
import { readLetter } from '../../examples/support-desk/policy/letter.ts'
import { email } from '../../examples/support-desk/policy/steps.ts'
import type { Effect } from '../../examples/support-desk/shop/records.ts'
import { countEffects, differences, expectedState, identityOf } from '../../examples/support-desk/world/expected.ts'
import { SCENARIOS } from '../../examples/support-desk/world/scenarios.ts'
import { makeWorld } from '../../examples/support-desk/world/tickets.ts'
import { TOOLS } from '../../examples/support-desk/tools/index.ts'

const SEEDS = [1, 2, 3, 42, 4_294_967_295]

describe('the tickets of a seed', () => {
  it('the tickets of a seed are the same every time, and different for another seed', () => {
    expect(makeWorld(7, 40)).toEqual(makeWorld(7, 40))
    expect(makeWorld(7, 40)).not.toEqual(makeWorld(8, 40))
  })

  it.each(SEEDS)('the tickets of a seed use every scenario and expect each effect once (seed %i)', (seed) => {
    for (const count of [40, 200]) {
      const { tickets } = makeWorld(seed, count)
      expect(tickets).toHaveLength(count)
      expect(new Set(tickets.map((ticket) => ticket.scenario))).toEqual(new Set(Object.keys(SCENARIOS)))
      const identities = tickets.flatMap((ticket) => ticket.expected).map(identityOf)
      expect(new Set(identities).size).toBe(identities.length)
    }
  })

  it.each(SEEDS)('the tickets of a seed do not change the records that they start from (seed %i)', (seed) => {
    const world = makeWorld(seed, 60)
    const before = structuredClone(world.records)
    const state = expectedState(world)
    expect(world.records).toEqual(before)
    expect(state.orders).not.toEqual(before.orders)
    expect(Math.min(...state.products.map((product) => product.stock))).toBe(0)
  })
})

describe('a letter', () => {
  it.each(SEEDS)('the desk understands the letters of every scenario (seed %i)', (seed) => {
    for (const { scenario, messages, customer } of makeWorld(seed, 100).tickets) {
      for (const message of messages) {
        const letter = readLetter(message)
        expect(letter.wish, message).not.toBe('other')
        expect(letter.from).toBe(customer.email)
        if (letter.wish === 'exchange' || letter.wish === 'question') expect(letter.option, message).toBeTruthy()
        if (letter.wish === 'address') expect(letter.address, message).toBeDefined()
        if (scenario.endsWith('without_number')) expect(letter.product, message).toBeTruthy()
      }
    }
  })
})

describe('the comparison with what was expected', () => {
  const world = makeWorld(3, 40)
  const expected = expectedState(world)
  const refund = expected.effects.find((effect) => effect.kind === 'refund') as Effect

  it('the comparison with the expected result does not depend on the order', () => {
    const shuffled = { ...expected, effects: [...expected.effects].reverse(), orders: [...expected.orders].reverse() }
    expect(differences(expected, shuffled)).toEqual([])
    expect(countEffects(expected.effects, shuffled.effects)).toMatchObject({ duplicates: 0, missing: [], unexpected: [] })
  })

  it('the comparison finds an effect that was applied twice, one that is missing and one that was not expected', () => {
    const other: Effect = { kind: 'coupon', customerId: 'C-1', cents: 1 }
    const [dropped, ...rest] = expected.effects.filter((effect) => effect !== refund)
    const applied = [...rest, refund, refund, other]
    expect(countEffects(expected.effects, applied)).toEqual({
      expected: expected.effects.length,
      applied: applied.length,
      duplicates: 1,
      missing: [dropped],
      unexpected: [other],
    })
    expect(differences(expected, { ...expected, effects: applied })).toHaveLength(3)
  })

  it('the comparison with the expected result finds a row that differs', () => {
    const orders = expected.orders.map((order, index) => (index === 0 ? { ...order, refundedCents: order.refundedCents + 1 } : order))
    expect(differences(expected, { ...expected, orders })).toEqual([expect.stringContaining(`order ${orders[0]?.id}`)])
  })
})

describe('a policy run from the transcript', () => {
  const request = { system: '', tools: [], sessionId: 's', run: 1, turn: 1 }
  const letter = { role: 'user' as const, content: 'From: A <a@b>\n\nhello' }
  function* twoLooks(): Policy {
    const [first]: Outcome[] = yield [{ tool: 'look', input: { at: 1 } }]
    yield [{ tool: 'look', input: { at: first?.text ?? '' } }]
    return 'done'
  }
  const used = (id: string, input: Call['input']) => ({
    role: 'assistant' as const,
    content: [{ type: 'tool_use' as const, id, name: 'look', input }],
  })
  const result = (id: string, content: string) => ({
    role: 'user' as const,
    content: [{ type: 'tool_result' as const, tool_use_id: id, content }],
  })

  it('a policy run from the transcript continues where the transcript ends', () => {
    const messages = [letter, used('t_1_1_0', { at: 1 }), result('t_1_1_0', 'here')]
    expect(nextStep({ ...request, messages }, twoLooks).at(-1)).toMatchObject({ type: 'tool_use', name: 'look', input: { at: 'here' } })
    const longer = [...messages, used('t_1_2_0', { at: 'here' }), result('t_1_2_0', 'there')]
    expect(nextStep({ ...request, messages: longer }, twoLooks)).toEqual([{ type: 'text', text: 'done' }])
  })

  it('a policy run from the transcript refuses a transcript that is not its own', () => {
    const foreign = [letter, used('t_1_1_0', { at: 2 }), result('t_1_1_0', 'here')]
    const cut = [letter, used('t_1_1_0', { at: 1 })]
    const mixed = [letter, used('t_1_1_0', { at: 1 }), result('t_9_9_9', 'here')]
    for (const messages of [foreign, cut, mixed, []]) {
      expect(() => nextStep({ ...request, messages }, twoLooks)).toThrow(
        expect.objectContaining({ code: 'transcript_mismatch', retryable: false }),
      )
    }
  })

  it('a policy run from the transcript checks before it resends an e-mail whose outcome is unknown', () => {
    const unknown: Outcome = { ok: false, value: {}, text: 'the outcome is unknown' }
    const listed = (...templates: string[]): Outcome => ({
      ok: true,
      value: { emails: templates.map((template) => ({ template })) },
      text: '',
    })
    const steps = email('W-1', 'apology')
    expect(steps.next().value).toEqual([{ tool: 'email_customer', input: { orderId: 'W-1', template: 'apology' } }])
    expect(steps.next([unknown]).value).toEqual([{ tool: 'list_emails', input: { orderId: 'W-1' } }])
    expect(steps.next([listed('refund_confirmed')]).value).toMatchObject([{ tool: 'email_customer', input: { attempt: 2 } }])
    expect(steps.next([unknown]).value).toMatchObject([{ tool: 'list_emails' }])
    expect(steps.next([listed('apology')]).done).toBe(true)
  })
})

describe('the tools', () => {
  it('the tools are at least twelve, of all three effects, with and without verify', () => {
    expect(TOOLS.length).toBeGreaterThanOrEqual(12)
    expect(new Set(TOOLS.map((tool) => tool.effect))).toEqual(new Set(['read', 'idempotent', 'external']))
    expect(TOOLS.filter((tool) => tool.verify).map((tool) => tool.name)).toEqual(['send_coupon', 'book_pickup'])
  })
})

describe('the pacing of the kills', () => {
  const { tickets } = makeWorld(11, 40)

  it.each([0, 20, 100])('the pacing of the kills makes all %i kills due while tickets are still in progress', (kills) => {
    const pacing = createPacing(tickets, kills, 11)
    const dues: number[] = []
    for (const [index, ticket] of tickets.entries()) {
      pacing.started(ticket)
      for (let turn = 0; turn < ticket.turns; turn++) {
        dues.push(pacing.due())
        pacing.turn(ticket)
      }
      if (index < tickets.length - 1) pacing.finished(ticket)
    }
    expect(pacing.inWork()).toBe(1)
    expect(pacing.due()).toBe(kills)
    expect(dues).toEqual([...dues].sort((a, b) => a - b))
    expect(dues[Math.floor(dues.length / 2)]).toBeLessThanOrEqual(kills)
  })

  it('the pacing of the kills spreads them over the work by the seed', () => {
    const dueAt = (seed: number) => {
      const pacing = createPacing(tickets, 50, seed)
      return tickets.map((ticket) => {
        pacing.started(ticket)
        pacing.finished(ticket)
        return pacing.due()
      })
    }
    expect(dueAt(1)).toEqual(dueAt(1))
    expect(dueAt(1)).not.toEqual(dueAt(2))
    expect(new Set(dueAt(1)).size).toBeGreaterThan(15)
  })
})

describe('a percentile', () => {
  it('a percentile is one of the values, rounded, or null if there are none', () => {
    expect(percentile([], 50)).toBeNull()
    expect(percentile([3.4], 99)).toBe(3)
    expect(percentile([30, 10, 20, 40], 50)).toBe(20)
    expect(
      percentile(
        Array.from({ length: 100 }, (_, index) => index + 1),
        99,
      ),
    ).toBe(99)
  })
})
