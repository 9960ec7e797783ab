// The rate gates: what waits behind them, for how long, and in which order it goes through.
import { describe, expect, it } from 'vitest'
import { rateGates } from '../../../src/worker/orchestrator/rate-gates/rate-gates.ts'

/** Gates with a clock that is set by hand. */
function gatesAt(random = () => 0.5) {
  const clock = { now: 1_000 }
  return { clock, ...rateGates(() => clock.now, random) }
}

/** The times at which this many calls go through, each asking again when its time has come. */
function passing(gates: ReturnType<typeof gatesAt>, calls: number): number[] {
  const waiting = new Map(Array.from({ length: calls }, (_, n) => [`call-${n}`, gates.slotFor('p', `call-${n}`) + gates.clock.now]))
  const passed: number[] = []
  while (waiting.size > 0) {
    const [[call, at] = expect.fail('nothing waits')] = [...waiting].toSorted(([, a], [, b]) => a - b)
    gates.clock.now = Math.max(gates.clock.now, at)
    const waitMs = gates.slotFor('p', call)
    if (waitMs > 0) waiting.set(call, gates.clock.now + waitMs)
    else {
      waiting.delete(call)
      passed.push(gates.clock.now)
    }
  }
  return passed
}

describe('a gate', () => {
  it('a gate lets everything through until the provider refuses something', () => {
    const gates = gatesAt()
    expect(gates.slotFor('p', 'a')).toBe(0)
    expect(gates.keys()).toEqual([])
  })

  it('a gate holds every call of the account for as long as the provider asked, and none of another account', () => {
    const gates = gatesAt()
    expect(gates.refused('p', 3_000, true)).toBe(true)
    expect(gates.keys()).toEqual(['p'])
    expect(gates.slotFor('p', 'a')).toBeGreaterThanOrEqual(3_000)
    expect(gates.slotFor('other', 'a')).toBe(0)
  })

  it('a gate stays closed until the latest time that was asked for, whichever process learned of it', () => {
    const gates = gatesAt()
    gates.refused('p', 3_000, true)
    expect(gates.refused('p', 1_000, true)).toBe(false)
    expect(gates.slotFor('p', 'a')).toBeGreaterThanOrEqual(3_000)
    gates.learn('p', 9_000)
    expect(gates.slotFor('p', 'a')).toBeGreaterThanOrEqual(9_000)
  })

  it('a gate keeps a call’s place when it asks again, and lets it through when its turn comes', () => {
    const gates = gatesAt()
    gates.refused('p', 3_000, true)
    const [first, second] = [gates.slotFor('p', 'a'), gates.slotFor('p', 'b')]
    expect(second).toBeGreaterThan(first)
    gates.clock.now += 1_000
    expect(gates.slotFor('p', 'a')).toBe(first - 1_000)
    gates.clock.now += first
    expect(gates.slotFor('p', 'a')).toBe(0)
  })

  it('a gate opens slowly, a few calls in the first second and twice as many every five seconds, and is then forgotten', () => {
    const gates = gatesAt()
    gates.refused('p', 3_000, true)
    const opens = gates.clock.now + 3_000
    const passed = passing(gates, 100)
    const within = (fromMs: number, toMs: number): number => passed.filter((at) => at >= opens + fromMs && at < opens + toMs).length
    expect(passed.every((at) => at >= opens)).toBe(true)
    expect(within(0, 1_000)).toBeLessThanOrEqual(6)
    expect(within(5_000, 6_000)).toBeLessThanOrEqual(12)
    expect(within(0, 12_000)).toBe(100)
    gates.clock.now = opens + 30_000
    expect(gates.keys()).toEqual([])
    expect(gates.slotFor('p', 'z')).toBe(0)
  })

  it('a gate opens more slowly after a refusal of a call that it let through, not after refusals of earlier calls', () => {
    const gates = gatesAt()
    gates.refused('p', 1_000, true)
    for (let n = 0; n < 50; n++) gates.refused('p', 1_000, true)
    gates.clock.now += 1_001
    gates.refused('p', 1_000, true)
    const opens = gates.clock.now + 1_000
    const passed = passing(gates, 10)
    expect(passed.filter((at) => at < opens + 1_000).length).toBeLessThanOrEqual(3)
    expect(passed.filter((at) => at < opens + 1_000).length).toBeGreaterThan(0)
  })

  it('a gate lets one call a minute through if it stays closed for longer, unless the provider’s own header says how long', () => {
    for (const isHeader of [true, false]) {
      const gates = gatesAt()
      gates.refused('p', 600_000, isHeader)
      gates.clock.now += 59_000
      expect(gates.mayProbe('p')).toBe(false)
      gates.clock.now += 1_000
      expect(gates.mayProbe('p')).toBe(!isHeader)
      gates.probed('p')
      expect(gates.mayProbe('p')).toBe(false)
      gates.clock.now += 60_000
      expect(gates.mayProbe('p')).toBe(!isHeader)
    }
    const told = gatesAt()
    told.learn('p', 600_000)
    told.clock.now += 60_000
    expect(told.mayProbe('p')).toBe(true)
    told.clock.now += 600_000
    expect(told.mayProbe('p')).toBe(false)
  })

  it('a gate is opened before its time, slowly, unless it was closed again since', () => {
    const gates = gatesAt()
    gates.refused('p', 600_000, true)
    gates.slotFor('p', 'a')
    gates.clock.now += 5_000
    expect(gates.opened('p', 6_000)).toBe(false)
    expect(gates.slotFor('p', 'a')).toBeGreaterThan(590_000)
    expect(gates.opened('p', 1_000)).toBe(true)
    expect(gates.slotFor('p', 'a')).toBeLessThan(1_000)
    expect(gates.keys()).toEqual(['p'])
    expect(gates.opened('p', 0)).toBe(false)
    expect(gates.opened('other', 0)).toBe(false)
  })

  it('a gate spreads the calls of machines that wait for the same moment', () => {
    const places = [0, 0.25, 0.75].map((die) => {
      const gates = gatesAt(() => die)
      gates.refused('p', 1_000, true)
      return gates.slotFor('p', 'a')
    })
    expect(new Set(places).size).toBe(3)
  })
})
