// Watching: what belongs to one moment is seen together.
import { expect, it } from 'vitest'
import { watchBatches } from '../../../src/client/session/watch.ts'
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
    { sessionId: 's', client: undefined as never, store, closed: new AbortController().signal },
    0,
    stop.signal,
  )) {
    seen.push(batch.map((item) => (item.type === 'event' ? item.event.type : item.type === 'status' ? item.status : item.type)).join(', '))
    if (seen.length === 2) stop.abort()
  }
  expect(seen).toEqual(['session_started, idle', 'session_closed, closed'])
})
