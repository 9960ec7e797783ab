// The keeper of the rate gates: what it shares with other workers, and when a call may try a gate that stays shut.
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { keepGates } from '../../../src/worker/orchestrator/rate-gates/gate-keeper.ts'

const LOG = { debug() {}, info() {}, warn() {}, error() {} }

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** A keeper whose store a test plays. */
function keeper({ mayProbe = true, fails = false } = {}) {
  const told: string[] = []
  const store = {
    shutGate: async (key: string) => void told.push(`shut ${key}`),
    shutGates: async () => [],
    openGate: async (key: string, by: string) => (told.push(`open ${key} by ${by}`), true),
    probeGate: async (key: string) => {
      told.push(`probe ${key}`)
      if (fails) throw new Error('Postgres is away')
      return mayProbe
    },
    watchGates: () => () => undefined,
  }
  return { told, ...keepGates({ store, executors: () => [], logger: LOG, worker: 'w' }) }
}

it('a gate that a Model of the user has shut for long lets a call through after a minute, and opens if the provider accepts it', async () => {
  const { told, ...gates } = keeper()
  gates.refused('p', 600_000, false)
  expect(await gates.slotFor('p', 'a')).toMatchObject({ afterMs: 60_000, slotMs: expect.closeTo(600_000, -3) })
  await vi.advanceTimersByTimeAsync(60_000)
  expect(await gates.slotFor('p', 'a')).toEqual({ afterMs: 0, slotMs: 0 })
  expect(await gates.slotFor('p', 'b')).toMatchObject({ afterMs: 60_000 })
  gates.accepted('p')
  expect((await gates.slotFor('p', 'b')).slotMs).toBeLessThan(1_000)
  expect(told).toEqual(['shut p', 'probe p', 'open p by w'])
  gates.end()
})

it('a gate that stays shut holds the call if another worker has just tried it, and lets it through if the store cannot say', async () => {
  for (const [options, waitMs] of [
    [{ mayProbe: false }, 60_000],
    [{ fails: true }, 0],
  ] as const) {
    const gates = keeper(options)
    gates.refused('p', 600_000, false)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(await gates.slotFor('p', 'a')).toMatchObject({ afterMs: waitMs })
    gates.end()
  }
})

it('a gate that the provider’s own header has shut is not tried', async () => {
  const { told, ...gates } = keeper()
  gates.refused('p', 600_000, true)
  await vi.advanceTimersByTimeAsync(120_000)
  expect(await gates.slotFor('p', 'a')).toMatchObject({ afterMs: 60_000 })
  expect(told).toEqual(['shut p'])
  gates.end()
})
