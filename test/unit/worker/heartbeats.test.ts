// Heartbeats: each attempt's go out on time whatever happened to the one before, and what the server says is reported once.
import type { Payload } from '@temporalio/common'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  type FromSender,
  type HeartbeatAnswer,
  heartbeatSender,
  type ToSender,
} from '../../../src/worker/orchestrator/heartbeats/heartbeats.ts'

/** Details that can be told apart. */
const details = (text: string): Payload[] => [{ data: new TextEncoder().encode(text) }]
const textOf = ([payload]: Payload[]): string => new TextDecoder().decode(payload?.data ?? undefined)

/** A heartbeat that was sent; the test decides what happens to it. */
interface SentHeartbeat {
  says: string
  answered(answer?: HeartbeatAnswer): void
  failed(): void
}

/** A sending half, what it has sent to the server, and what it has posted. */
function sending() {
  const sent: SentHeartbeat[] = []
  const posted: FromSender[] = []
  /** How long ago each confirmed heartbeat was sent. */
  const kept: number[] = []
  const receive = heartbeatSender(
    (_token, payloads) =>
      new Promise((resolve, reject) => {
        sent.push({ says: textOf(payloads), answered: (answer = 'mine') => resolve(answer), failed: () => reject(new Error('away')) })
      }),
    (message) => (message.type === 'kept' ? kept.push(message.agoMs) : posted.push(message)),
  )
  const tell = async (message: ToSender): Promise<void> => {
    receive(message)
    await settled()
  }
  return { sent, posted, kept, tell, says: () => sent.map(({ says }) => says) }
}

const settled = (): Promise<unknown> => vi.advanceTimersByTimeAsync(0)
const start = (text: string): ToSender => ({ type: 'start', id: 1, taskToken: new Uint8Array([1]), everyMs: 3_000, details: details(text) })
const note = (text: string): ToSender => ({ type: 'note', id: 1, details: details(text) })
const begin: ToSender = { type: 'tell', id: 1, request: 7, details: details('begun'), alone: true }

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

describe('heartbeats of an attempt', () => {
  it('heartbeats of an attempt follow one another on time, even while earlier ones hang', async () => {
    const { tell, says } = sending()
    await tell(start('first'))
    await vi.advanceTimersByTimeAsync(9_000)
    expect(says()).toEqual(['first', 'first', 'first'])
  })

  it('heartbeats of an attempt carry the latest note, and go out at most once a second for changes', async () => {
    const { tell, says } = sending()
    await tell({ ...start('0'), everyMs: 60_000 } as ToSender)
    for (let n = 1; n <= 25; n++) {
      await tell(note(String(n)))
      await vi.advanceTimersByTimeAsync(100)
    }
    await vi.advanceTimersByTimeAsync(5_000)
    expect(says()).toEqual(['1', '10', '20', '25'])
  })

  it('heartbeats of an attempt end with it: none is sent afterwards, and the answer to an old one is not reported', async () => {
    const { sent, posted, tell } = sending()
    await tell(start('a'))
    await vi.advanceTimersByTimeAsync(3_000)
    await tell(note('b'))
    await tell({ type: 'end', id: 1 })
    sent[0]?.answered('cancelled')
    await vi.advanceTimersByTimeAsync(60_000)
    expect([sent.length, posted]).toEqual([1, []])
  })
})

describe('what the server answers', () => {
  it.each(['cancelled', 'lost'] as const)(
    'a server’s answer of %s is reported once, even though every heartbeat receives it',
    async (why) => {
      const { sent, posted, tell } = sending()
      await tell(start('a'))
      await vi.advanceTimersByTimeAsync(9_000)
      for (const one of sent) one.answered(why)
      await settled()
      expect(posted).toEqual([{ type: 'stop', id: 1, why }])
    },
  )

  it('the server’s answer confirms an attempt that is not lost, from the moment at which the heartbeat was sent', async () => {
    const { sent, kept, tell } = sending()
    await tell(start('a'))
    await vi.advanceTimersByTimeAsync(3_000)
    await vi.advanceTimersByTimeAsync(500)
    sent[0]?.answered('mine')
    await vi.advanceTimersByTimeAsync(3_000)
    sent[1]?.answered('cancelled')
    await settled()
    expect(kept).toEqual([500, 500])
    await vi.advanceTimersByTimeAsync(3_000)
    sent[2]?.answered('lost')
    await settled()
    expect(kept).toHaveLength(2)
  })

  it('the server’s answer reaches the request that asked for it after the notice that the attempt has to stop', async () => {
    const { sent, posted, tell } = sending()
    await tell(start('a'))
    await tell({ type: 'tell', id: 1, request: 5 })
    sent[0]?.answered('cancelled')
    await settled()
    expect(posted).toEqual([
      { type: 'stop', id: 1, why: 'cancelled' },
      { type: 'told', request: 5, answer: 'cancelled' },
    ])
  })

  it('an attempt without heartbeats counts as lost, regardless of the server’s answer', async () => {
    const { posted, tell } = sending()
    await tell({ type: 'tell', id: 1, request: 5 })
    expect(posted).toEqual([{ type: 'told', request: 5, answer: 'lost' }])
  })

  it('a request gets the reason, and no answer, if the server cannot be reached', async () => {
    const { sent, posted, tell } = sending()
    await tell(start('a'))
    await tell({ type: 'tell', id: 1, request: 5 })
    sent[0]?.failed()
    await settled()
    expect(posted).toEqual([{ type: 'not_told', request: 5, reason: 'away' }])
  })
})

describe('the heartbeat that lets an external body be entered', () => {
  it('the heartbeat that lets an external body be entered is sent once the fate of every earlier one is known', async () => {
    const { sent, posted, tell, says } = sending()
    await tell(start('not begun'))
    await vi.advanceTimersByTimeAsync(6_000)
    await tell(begin)
    sent[1]?.answered()
    await settled()
    expect(says()).toEqual(['not begun', 'not begun'])
    sent[0]?.answered()
    await settled()
    expect(says().at(-1)).toBe('begun')
    sent[2]?.answered()
    await settled()
    expect(posted).toEqual([{ type: 'told', request: 7, answer: 'mine' }])
  })

  it('an external body is not entered, nor its heartbeat sent, if an earlier heartbeat may still arrive', async () => {
    const { sent, posted, tell, says } = sending()
    await tell(start('not begun'))
    await vi.advanceTimersByTimeAsync(3_000)
    sent[0]?.failed()
    await settled()
    await tell(begin)
    expect(posted).toEqual([{ type: 'not_told', request: 7, reason: expect.stringContaining('earlier heartbeat') }])
    expect(says()).toEqual(['not begun'])
  })

  it('a regular heartbeat does not overtake the one before an external body: it also reports that the body has begun', async () => {
    const { sent, posted, tell, says } = sending()
    await tell(start('not begun'))
    await vi.advanceTimersByTimeAsync(3_000)
    await tell(begin)
    await vi.advanceTimersByTimeAsync(3_000)
    expect(says()).toEqual(['not begun', 'begun'])
    sent[0]?.answered()
    await settled()
    sent[2]?.answered()
    await settled()
    expect(posted).toEqual([{ type: 'told', request: 7, answer: 'mine' }])
  })

  it('the heartbeat that lets an external body be entered is not held up by heartbeats of another attempt', async () => {
    const { posted, sent, tell } = sending()
    await tell({ ...start('other'), id: 2 } as ToSender)
    await vi.advanceTimersByTimeAsync(3_000)
    await tell(start('not begun'))
    await tell(begin)
    sent[1]?.answered()
    await settled()
    expect(posted).toEqual([{ type: 'told', request: 7, answer: 'mine' }])
  })
})

describe('the heartbeat that records what is set aside', () => {
  const reserve: ToSender = { type: 'tell', id: 1, request: 8, details: details('set aside'), last: true }

  it('the heartbeat that records a reservation is sent after all earlier ones have ended, so none replaces its details', async () => {
    const { sent, posted, tell, says } = sending()
    await tell(start('before'))
    await vi.advanceTimersByTimeAsync(6_000)
    await tell(reserve)
    sent[0]?.failed()
    await settled()
    expect(says()).toEqual(['before', 'before'])
    sent[1]?.answered()
    await settled()
    expect(says().at(-1)).toBe('set aside')
    sent[2]?.answered()
    await settled()
    expect(posted).toEqual([{ type: 'told', request: 8, answer: 'mine' }])
  })

  it('the details of the heartbeat that records a reservation are also in those sent at the same time', async () => {
    const { tell, says } = sending()
    await tell(start('before'))
    await vi.advanceTimersByTimeAsync(3_000)
    await tell(reserve)
    await vi.advanceTimersByTimeAsync(3_000)
    expect(says()).toEqual(['before', 'set aside'])
  })
})
