// The exporter of traces: what it does while the collector is slow, refuses, or is away, and with events that cannot become spans.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { SessionEvent } from '../../../src/session/events.ts'
import type { Key } from '../../../src/store/filters.ts'
import type { Span } from '../../../src/telemetry/span.ts'
import { type ExportNeeds, exportTraces } from '../../../src/worker/orchestrator/telemetry/export-traces.ts'
import { UnsendableSpans } from '../../../src/worker/orchestrator/telemetry/otlp-traces.ts'
import { sessionStarted } from '../../support/session-started.ts'

const BEGINNING: Key = ['0', '', 0]

/** A run of one turn. */
function runOf(sessionId: string): SessionEvent[] {
  const usage = { input_tokens: 1, output_tokens: 1 }
  const bodies = [
    sessionStarted({ sessionId, agent: 'support', context: {} }),
    { type: 'message_received', messageId: 'm', content: 'Hello' },
    { type: 'run_started', run: 1, messageId: 'm' },
    { type: 'turn_started', run: 1, turn: 1, takes: ['m'] },
    { type: 'model_completed', run: 1, turn: 1, attempt: 1, model: 'm', usage, stopReason: 'end_turn', content: [], calls: [] },
    { type: 'run_completed', run: 1, turns: 1, stopReason: 'end_turn', usage },
  ]
  return bodies.map((body, at) => ({ v: 1, seq: at + 1, at: 1_000 + at, ...body }) as unknown as SessionEvent)
}

/** A deployment with these sessions in its feed, one per page, and a collector that does what `send` does. */
function deployed(sessions: readonly SessionEvent[][], send: (spans: readonly Span[]) => Promise<void>) {
  const lease = { holder: '', until: 0, place: BEGINNING }
  const sent: Span[] = []
  const warnings: string[] = []
  const lines = { trace() {}, debug() {}, info() {}, error() {}, warn: (_: unknown, text: string) => void warnings.push(text) }
  const count = { held: 0, passed: 0 }
  const store = {
    async leaseFeed({ holder }: { holder: string }, forMs: number) {
      count.held += 1
      if (lease.holder !== holder && lease.until > Date.now()) return null
      Object.assign(lease, { holder, until: Date.now() + forMs })
      return lease.place
    },
    async passFeed({ holder }: { holder: string }, { from, to }: { from: Key; to: Key }) {
      if (lease.holder !== holder || lease.place !== from) return false
      count.passed += 1
      lease.place = to
      return true
    },
    async releaseFeed({ holder }: { holder: string }) {
      if (lease.holder === holder) lease.until = 0
    },
    lists: {
      async feed(_: unknown, place: Key) {
        const at = Number(place[0])
        const events = sessions[at]
        if (!events) return { items: [], next: place, more: false }
        const items = events.map((event) => ({ item: { sessionId: `s${at}`, agent: 'support', event }, place }))
        return { items, next: [String(at + 1), '', 0], more: at + 1 < sessions.length }
      },
    },
    watch: () => () => undefined,
    events: async () => [],
    stateAt: async () => null,
    newestRun: async () => null,
  } as unknown as ExportNeeds['store']
  const start = (holder: string): (() => Promise<void>) =>
    exportTraces({
      store,
      sender: {
        async send(spans) {
          await send(spans)
          sent.push(...spans)
        },
        close: async () => undefined,
      },
      settings: { contents: false, share: 1 },
      logger: lines as unknown as ExportNeeds['logger'],
      holder,
    })
  return { start, sent, warnings, count, lease }
}

const runsIn = (spans: readonly Span[]): unknown[] =>
  spans.filter(({ name }) => name.startsWith('invoke_agent')).map(({ attributes }) => attributes['session.id'])
const after = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

describe('the exporter', () => {
  it('the exporter keeps its lease while it waits for a slow collector, so no other one sends the same spans', async () => {
    const { start, sent, count } = deployed([runOf('s0'), runOf('s1')], () => after(25_000))
    const ends = [start('a'), start('b')]
    await vi.advanceTimersByTimeAsync(60_000)
    expect(runsIn(sent)).toEqual(['s0', 's1'])
    expect(count.passed).toBe(2)
    for (const end of ends) await Promise.all([end(), vi.advanceTimersByTimeAsync(5_000)])
  })

  it('the exporter leaves out only the spans that are refused, and logs that', async () => {
    const { start, sent, warnings } = deployed([runOf('s0'), runOf('s1')], async (spans) => {
      if (spans.some(({ name, attributes }) => name === 'turn 1' && attributes['session.id'] === 's0'))
        throw Object.assign(new Error('no'), { code: 400 })
    })
    const end = start('a')
    await vi.advanceTimersByTimeAsync(1_000)
    expect(sent.map(({ name, attributes }) => `${String(attributes['session.id'])} ${name}`)).toEqual([
      's0 chat m',
      's0 invoke_agent support',
      's1 chat m',
      's1 turn 1',
      's1 invoke_agent support',
    ])
    expect(warnings).toEqual(['the collector refused spans: they are dropped'])
    await Promise.all([end(), vi.advanceTimersByTimeAsync(5_000)])
  })

  it('the exporter leaves out spans that cannot be encoded', async () => {
    const { start, sent } = deployed([runOf('s0'), runOf('s1')], async (spans) => {
      if (spans.some(({ attributes }) => attributes['session.id'] === 's0')) throw new UnsendableSpans('no')
    })
    const end = start('a')
    await vi.advanceTimersByTimeAsync(1_000)
    expect(runsIn(sent)).toEqual(['s1'])
    await Promise.all([end(), vi.advanceTimersByTimeAsync(5_000)])
  })

  it('the exporter continues with the other sessions after events that cannot become spans', async () => {
    const [started, received, run, turn, , completed] = runOf('s0')
    const broken = { v: 1, seq: 5, at: 5, type: 'model_completed', run: 1, turn: 1, attempt: 1, usage: null, content: null }
    const { start, sent, warnings } = deployed(
      [[started, received, run, turn, broken, completed] as SessionEvent[], runOf('s1')],
      async () => undefined,
    )
    const end = start('a')
    await vi.advanceTimersByTimeAsync(1_000)
    expect(runsIn(sent)).toEqual(['s1'])
    expect(warnings).toEqual(['events of this session cannot be converted to spans: they are skipped'])
    await Promise.all([end(), vi.advanceTimersByTimeAsync(5_000)])
  })

  it('the exporter waits longer after each failure, and omits nothing', async () => {
    let tries = 0
    const { start, sent } = deployed([runOf('s0')], async () => {
      tries += 1
      if (tries < 5) throw new Error('away')
    })
    const end = start('a')
    await vi.advanceTimersByTimeAsync(14_000)
    expect(tries).toBe(4)
    await vi.advanceTimersByTimeAsync(2_000)
    expect(runsIn(sent)).toEqual(['s0'])
    await Promise.all([end(), vi.advanceTimersByTimeAsync(5_000)])
  })

  it('the exporter exports what is left when its worker ends, and does not wait long for a collector that hangs', async () => {
    const quick = deployed([runOf('s0')], async () => undefined)
    const end = quick.start('a')
    await Promise.all([end(), vi.advanceTimersByTimeAsync(100)])
    expect(runsIn(quick.sent)).toEqual(['s0'])

    const hanging = deployed([runOf('s0')], () => new Promise(() => undefined))
    const cut = hanging.start('a')
    await vi.advanceTimersByTimeAsync(100)
    await Promise.all([cut(), vi.advanceTimersByTimeAsync(4_100)])
    expect(hanging.lease.until).toBeLessThanOrEqual(Date.now())
  })

  it('the exporter polls a feed without news every few seconds', async () => {
    const { start, count } = deployed([], async () => undefined)
    const end = start('a')
    await vi.advanceTimersByTimeAsync(60_000)
    expect(count.held).toBeLessThan(15)
    await Promise.all([end(), vi.advanceTimersByTimeAsync(5_000)])
  })
})
