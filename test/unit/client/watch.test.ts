// Watching: what belongs to one moment is seen together.
import { expect, it } from 'vitest'
import { watchBatches } from '../../../src/client/session/follow.ts'
import { watchTree } from '../../../src/client/session/tree-watch.ts'
import type { SessionEvent } from '../../../src/session/events.ts'
import type { Store } from '../../../src/store/store.ts'

it('a watcher never sees an event together with an older status, even if the event was stored between two reads', async () => {
  const event = (seq: number, type: string): SessionEvent => ({ v: 1, seq, at: 0, type }) as unknown as SessionEvent
  const all = [event(1, 'session_started'), event(2, 'session_closed')]
  const moments = [
    { head: 1, status: 'idle', parts: [], more: false },
    { head: 2, status: 'closed', parts: [], more: false },
  ]
  let looks = 0
  const store = {
    lastCallEnd: async () => 0,
    live: async () => moments[Math.min(looks++, 1)],
    events: async (_: string, { after = 0 }) => all.filter(({ seq }) => seq > after),
    watch: () => () => undefined,
    hasHeardWithin: () => true,
  } as unknown as Store
  const stop = new AbortController()
  const seen: string[] = []
  for await (const batch of watchBatches(
    { sessionId: 's', client: undefined as never, store, closed: new AbortController().signal, seen: { seq: 0 } },
    0,
    stop.signal,
  )) {
    seen.push(batch.map((item) => (item.type === 'event' ? item.event.type : item.type === 'status' ? item.status : item.type)).join(', '))
    if (seen.length === 2) stop.abort()
  }
  expect(seen).toEqual(['session_started, idle', 'session_closed, closed'])
})

it('a watcher does not read again and again while a model streams more than it may show before the events are stored', async () => {
  const started = { v: 1, seq: 1, at: 0, type: 'session_started' } as unknown as SessionEvent
  // A model call that has seen event 5, which is not stored yet.
  const part = { sessionId: 's', seq: 5, attempt: 1, begunAt: 1, until: 1, from: 0, run: 1, turn: 1, pieces: [] }
  let looks = 0
  const store = {
    lastCallEnd: async () => 0,
    live: async () => {
      looks += 1
      // Other work of the process gets its turn.
      await new Promise((resolve) => setImmediate(resolve))
      return { head: 1, status: 'running', parts: [part], more: true }
    },
    events: async (_: string, { after = 0 }) => [started].filter(({ seq }) => seq > after),
    watch: () => () => undefined,
    hasHeardWithin: () => true,
  } as unknown as Store
  const stop = new AbortController()
  const source = { sessionId: 's', client: undefined as never, store, closed: new AbortController().signal, seen: { seq: 0 } }
  setTimeout(() => stop.abort(), 300)
  for await (const _ of watchBatches(source, 0, stop.signal));
  expect(looks).toBeLessThan(10)
})

it('a watcher of a tree that reads slowly costs a few batches, however many children have something to show', async () => {
  const child = (n: number): string => `s/${String(n).padStart(12, '0')}`
  const CHILDREN = 100
  const event = (seq: number, type: string, more: object = {}): SessionEvent =>
    ({ v: 1, seq, at: 0, type, ...more }) as unknown as SessionEvent
  const asked = Array.from({ length: CHILDREN }, (_, n) =>
    event(n + 1, 'answer_requested', { callId: `t_1_1_${n}`, child: { session: child(n) } }),
  )
  let read = 0
  const store = {
    lastCallEnd: async () => 0,
    live: async (id: string) => ({ head: id === 's' ? CHILDREN : 1, status: 'running', parts: [], more: false }),
    async events(id: string, { after = 0 }) {
      if (id === 's') return asked.filter(({ seq }) => seq > after)
      if (after === 0) read += 1
      return after === 0 ? [event(1, 'caller_told')] : []
    },
    watch: () => () => undefined,
    hasHeardWithin: () => true,
  } as unknown as Store
  const stop = new AbortController()
  const source = { sessionId: 's', client: undefined as never, store, closed: new AbortController().signal, seen: { seq: 0 } }
  const readState = () => Promise.reject(new Error('not needed'))
  const told = new Set<string>()
  for await (const items of watchTree({ source, start: 0, signal: stop.signal, readState })) {
    if (told.size === 0) {
      await new Promise((resolve) => setTimeout(resolve, 100))
      expect(read).toBeLessThan(10)
    }
    for (const item of items) if (item.type === 'event' && item.event.type === 'caller_told') told.add(item.sessionId)
    if (told.size === CHILDREN) stop.abort()
  }
  expect(read).toBe(CHILDREN)
})
