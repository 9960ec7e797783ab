// What a watcher sees, in whatever order and however often parts of answers reach it.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { DeltaPart } from '../../../src/session/watching/deltas.ts'
import type { SessionEvent } from '../../../src/session/events.ts'
import { startWatching, type WatchItem } from '../../../src/session/watching/watching.ts'

const CALL = { sessionId: 's1', seq: 4, run: 1, turn: 1, attempt: 1, begunAt: 1_000 }

const part = (from: number, text: string, call: Partial<typeof CALL> = {}): DeltaPart => ({
  ...CALL,
  ...call,
  from,
  until: from + text.length,
  pieces: [{ type: 'text', index: 0, text }],
})
const event = (seq: number, type: string, more: object = {}): SessionEvent =>
  ({ v: 1, seq, at: 0, type, ...more }) as unknown as SessionEvent
const completed = (seq: number, attempt = 1) => event(seq, 'model_completed', { run: 1, turn: 1, attempt })
const textIn = (items: readonly WatchItem[]): string =>
  items.map((item) => (item.type === 'delta' && item.delta.type === 'text' ? item.delta.text : '')).join('')
const types = (items: readonly WatchItem[]): string[] => items.map((item) => (item.type === 'event' ? item.event.type : item.type))

describe('a watcher', () => {
  it('a watcher sees each piece once and in order, whichever parts it receives again and however they were cut', () => {
    const text = 'abcdefghijklmnopqrstuvwxyz'
    const cut = fc
      .tuple(fc.nat(text.length), fc.nat(text.length))
      .map(([a, b]) => part(Math.min(a, b), text.slice(Math.min(a, b), Math.max(a, b))))
    fc.assert(
      fc.property(fc.array(fc.array(cut, { maxLength: 5 }), { maxLength: 8 }), (looks) => {
        const watching = startWatching(4, 3)
        let seen = ''
        for (const parts of looks) {
          const sorted = parts.filter(({ from, until }) => from < until).sort((a, b) => a.until - b.until)
          seen += textIn(watching.parts(sorted))
          expect(text.startsWith(seen)).toBe(true)
          const reach = Math.max(0, ...sorted.filter(({ from }) => from === 0).map(({ until }) => until))
          expect(seen.length).toBeGreaterThanOrEqual(reach)
        }
        seen += textIn(watching.parts([part(0, text)]))
        expect(seen).toBe(text)
      }),
    )
  })

  it('a watcher is shown no piece before the events that its call has seen', () => {
    const watching = startWatching(3, 2)
    expect(watching.parts([part(0, 'early')])).toEqual([])
    expect(watching.cursor.until).toBe(0)
    expect(types(watching.events([event(4, 'turn_started')]))).toEqual(['turn_started'])
    expect(textIn(watching.parts([part(0, 'early')]))).toBe('early')
  })

  it('a watcher is shown no piece of a call that has ended', () => {
    const watching = startWatching(4, 3)
    expect(textIn(watching.parts([part(0, 'some')]))).toBe('some')
    expect(types(watching.events([completed(5)]))).toEqual(['model_completed'])
    expect(watching.parts([part(0, 'some'), part(4, ' more')])).toEqual([])
    expect(startWatching(6, 5).parts([part(0, 'some')])).toEqual([])
  })

  it('a watcher is notified of a new attempt before its pieces, even if it has the same number on another executor', () => {
    for (const next of [{ attempt: 2 }, { begunAt: 2_000 }]) {
      const watching = startWatching(4, 3)
      watching.parts([part(0, 'first')])
      const items = watching.parts([part(5, ' more'), part(0, 'again', next)])
      expect(items[0]).toEqual({ type: 'reset', run: 1, turn: 1, attempt: 1 })
      expect(textIn(items)).toBe('again')
      // What the dead executor had already sent.
      expect(watching.parts([part(10, ' ghost')])).toEqual([])
    }
  })

  it.each([
    ['the answer of another attempt', [completed(5, 2)], ['reset', 'model_completed']],
    ['its own answer', [completed(5)], ['model_completed']],
    ['an interrupt', [event(5, 'run_interrupted', { run: 1 })], ['reset', 'run_interrupted']],
    ['an error', [event(5, 'error_entered')], ['reset', 'error_entered']],
    ['a rollback', [event(5, 'rolled_back')], ['reset', 'rolled_back']],
    [
      'a failure of its attempt',
      [event(5, 'model_attempt_failed', { run: 1, turn: 1, error: { attempt: 1 } })],
      ['reset', 'model_attempt_failed'],
    ],
    ['a message that waits', [event(5, 'message_received'), completed(6)], ['message_received', 'model_completed']],
  ])('a watcher sees the pieces followed by %s', (_, events, expected) => {
    const watching = startWatching(4, 3)
    watching.parts([part(0, 'some')])
    expect(types(watching.events(events))).toEqual(expected)
  })

  it('a watcher is not told that the answer of an attempt is void because an earlier attempt failed', () => {
    const watching = startWatching(4, 3)
    watching.parts([part(0, 'second', { attempt: 2 })])
    const failed = event(5, 'model_attempt_failed', { run: 1, turn: 1, error: { attempt: 1 } })
    expect(types(watching.events([failed, completed(6, 2)]))).toEqual(['model_attempt_failed', 'model_completed'])
  })

  it('a watcher receives the status of the session once, and whenever it changes', () => {
    const watching = startWatching(0, 0)
    expect(watching.setStatus('running')).toEqual([{ type: 'status', status: 'running' }])
    expect(watching.setStatus('running')).toEqual([])
    expect(watching.setStatus('idle')).toEqual([{ type: 'status', status: 'idle' }])
  })
})
