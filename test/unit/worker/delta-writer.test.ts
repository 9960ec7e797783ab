// What an orchestrator writes of what models say: a little at a time, and again from its copy if it may be lost.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { JobOrder } from '../../../src/calls/jobs.ts'
import type { DeltaPart, ModelDelta } from '../../../src/session/watching/deltas.ts'
import type { Store } from '../../../src/store/store.ts'
import { deltaWriter } from '../../../src/worker/orchestrator/delta-writer.ts'

const LOG = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const text = (value: string): ModelDelta[] => [{ type: 'text', index: 0, text: value }]
const order = (sessionId: string): JobOrder =>
  ({
    kind: 'callModel',
    input: { run: 1, turn: 2, watermark: { seq: 7, digest: '' } },
    attempt: { number: 3 },
    ticket: { sessionId },
  }) as unknown as JobOrder
const part = (from: number, value: string) => ({ begunAt: 99, from, until: from + value.length, pieces: text(value) })

/** A writer over a store that can be away, or have lost everything. */
function writerOver() {
  const statements: DeltaPart[][] = []
  const state = { isAway: false, recorded: false, isEmpty: false, sweeps: 0 }
  const store: Pick<Store, 'saveDeltas' | 'tidyDeltas' | 'sweepDeltas'> = {
    async saveDeltas(parts) {
      if (state.isAway) throw new Error('away')
      statements.push([...parts])
    },
    async tidyDeltas({ ended, unfinished }) {
      const all = (some: readonly unknown[], yes: boolean): Set<number> => new Set(yes ? some.keys() : [])
      const emptied = all(unfinished, state.isEmpty)
      state.isEmpty = false
      return { deleted: all(ended, state.recorded), emptied }
    },
    async sweepDeltas() {
      state.sweeps += 1
      return 0
    },
  }
  const written = (): string[] => statements.flat().map(({ sessionId, from, pieces }) => `${sessionId} ${from} ${JSON.stringify(pieces)}`)
  return { writer: deltaWriter(store, LOG), state, statements, written }
}

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
afterEach(() => void vi.useRealTimers())

const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms)

describe('a writer of deltas', () => {
  it('a writer of deltas writes what is new in all sessions with one statement, every few milliseconds', async () => {
    const { writer, statements } = writerOver()
    writer.add('a', order('s1'), part(0, 'one '))
    writer.add('b', order('s2'), part(0, 'uno '))
    await pass(5)
    expect(statements).toEqual([
      [
        { sessionId: 's1', seq: 7, run: 1, turn: 2, attempt: 3, begunAt: 99, from: 0, until: 4, pieces: text('one ') },
        { sessionId: 's2', seq: 7, run: 1, turn: 2, attempt: 3, begunAt: 99, from: 0, until: 4, pieces: text('uno ') },
      ],
    ])
    writer.add('a', order('s1'), part(4, 'two '))
    writer.add('a', order('s1'), part(8, 'three '))
    await pass(5)
    expect(statements).toHaveLength(1)
    await pass(10)
    expect(statements[1]).toMatchObject([{ sessionId: 's1', from: 4, until: 14, pieces: text('two three ') }])
  })

  it('a writer of deltas writes nothing for an answer that is complete at once', async () => {
    const { writer, statements } = writerOver()
    writer.add('a', order('s1'), part(0, 'all of it'))
    writer.end('a')
    await pass(100)
    expect(statements).toEqual([])
  })

  it('a writer of deltas accepts only the unknown part from an executor that sends its whole answer', async () => {
    const { writer, written } = writerOver()
    writer.add('a', order('s1'), part(0, 'one '))
    await pass(5)
    writer.add('a', order('s1'), part(0, 'one two '))
    await pass(20)
    expect(written()).toEqual(['s1 0 [{"type":"text","index":0,"text":"one "}]', 's1 4 [{"type":"text","index":0,"text":"two "}]'])
  })

  it('a writer of deltas writes a whole answer again after Postgres was away or has lost its beginning', async () => {
    const { writer, state, written } = writerOver()
    writer.add('a', order('s1'), part(0, 'one '))
    await pass(5)
    state.isAway = true
    writer.add('a', order('s1'), part(4, 'two '))
    await pass(100)
    state.isAway = false
    writer.add('a', order('s1'), part(8, 'three '))
    await pass(1_000)
    expect(written().at(-1)).toBe('s1 0 [{"type":"text","index":0,"text":"one two three "}]')
    state.isEmpty = true
    await pass(1_500)
    expect(written()).toHaveLength(3)
    expect(written().at(-1)).toBe('s1 0 [{"type":"text","index":0,"text":"one two three "}]')
  })

  it('a writer of deltas tries less and less often while Postgres is away, and keeps what models say', async () => {
    const { writer, state, written } = writerOver()
    state.isAway = true
    for (let at = 0; at < 10; at++) {
      writer.add('a', order('s1'), part(at, `${at}`))
      await pass(1_000)
    }
    expect(written()).toEqual([])
    state.isAway = false
    await pass(5_000)
    expect(written()).toEqual(['s1 0 [{"type":"text","index":0,"text":"0123456789"}]'])
  })

  it('a writer of deltas checks ended answers until their end is recorded, and then stops', async () => {
    const { writer, state } = writerOver()
    writer.add('a', order('s1'), part(0, 'one '))
    await pass(5)
    writer.end('a')
    await pass(3_000)
    state.recorded = true
    await pass(1_000)
    await pass(100_000)
    expect(vi.getTimerCount()).toBe(0)
    expect(state.sweeps).toBe(1)
  })
})
