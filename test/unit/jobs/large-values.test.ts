// Large values that an executor stores through its orchestrator: what waits for the store and for how long, what is read again, and what
// is rejected.
import { describe, expect, it, vi } from 'vitest'
import { blobStore } from '../../../src/activities/blobs.ts'
import { sha256Hex } from '../../../src/agent/sha256.ts'
import { ArchiveUnavailable } from '../../../src/calls/errors.ts'
import { type LargeValues, largeValues } from '../../../src/jobs/large-values.ts'
import { type Blob, blobOfJson } from '../../../src/session/blobs.ts'
import type { BlobRef } from '../../../src/session/call-facts.ts'
import type { EventOf, SessionEvent } from '../../../src/session/events.ts'
import type { Json } from '../../../src/session/json.ts'
import type { Blobs } from '../../../src/store/blobs.ts'

const LOG = { debug() {}, info() {}, warn() {}, error() {} }
const signal = new AbortController().signal

/** A store of large values that can be taken away; `gets` and `puts` count the requests. */
function memory(): Blobs & { away: boolean | 'silent'; gets: number; puts: number; pieces: number[] } {
  const kept = new Map<string, string>()
  const answered = async <T>(work: () => T): Promise<T> => {
    if (blobs.away === 'silent') return new Promise<T>(() => undefined)
    if (blobs.away) throw new Error('away')
    return work()
  }
  const blobs = {
    away: false as boolean | 'silent',
    gets: 0,
    puts: 0,
    /** The length of each piece that was read. */
    pieces: [] as number[],
    put: (sessionId: string, { ref, json }: Blob) => {
      blobs.puts += 1
      return answered(() => void kept.set(`${sessionId} ${ref.sha256}`, json))
    },
    get: (sessionId: string, refs: readonly Pick<BlobRef, 'sha256'>[]) => {
      blobs.gets += 1
      return answered(
        () =>
          new Map(
            refs.flatMap(({ sha256 }) => {
              const json = kept.get(`${sessionId} ${sha256}`)
              return json === undefined ? [] : [[sha256, json] as const]
            }),
          ),
      )
    },
    piece: (sessionId: string, sha256: string, from: number, bytes: number) =>
      answered(() => {
        const json = kept.get(`${sessionId} ${sha256}`)
        if (json === undefined) return undefined
        const piece = Buffer.from(json)
          .subarray(from, from + bytes)
          .toString('latin1')
        blobs.pieces.push(piece.length)
        return piece
      }),
    size: () => Promise.reject(new Error('not here')),
    copy: () => Promise.reject(new Error('not here')),
  }
  return blobs
}

/** The values of an executor whose orchestrator has this store. */
const valuesOver = (blobs: Blobs): LargeValues => largeValues(blobStore({ blobs, completedKey: async () => null }, LOG), LOG)

const LARGE = blobOfJson({ value: { rows: 'x'.repeat(200_000) } }, 'xxx', sha256Hex)

function completed(blob: BlobRef): SessionEvent {
  return { v: 1, seq: 7, at: 0, type: 'tool_completed', run: 1, turn: 1, callId: 't_1_1_0', tool: 't', attempt: 1, effectId: 'e', blob }
}

function received(blob: BlobRef): EventOf<'message_received'> {
  return { v: 1, seq: 2, at: 0, type: 'message_received', messageId: 'm', content: 'how it', blob }
}

describe('a value that is kept', () => {
  it('a stored value is put back into its event by another executor', async () => {
    const blobs = memory()
    expect(await valuesOver(blobs).keep('s', LARGE, { executionId: 'x', signal })).toEqual(LARGE.ref)
    const { blob: _, ...rest } = completed(LARGE.ref) as EventOf<'tool_completed'>
    expect(await valuesOver(blobs).hydrate('s', [completed(LARGE.ref)])).toEqual([{ ...rest, value: { rows: 'x'.repeat(200_000) } }])
  })

  it('a value waits while the store accepts others one after another, even if it would fit into history', async () => {
    vi.useFakeTimers()
    try {
      const blobs = memory()
      let turn = Promise.resolve()
      const slow = { ...blobs, put: () => (turn = turn.then(() => new Promise((resolve) => setTimeout(resolve, 1_500)))) }
      const values = valuesOver(slow)
      const kept = Promise.all(Array.from({ length: 6 }, () => values.keep('s', LARGE, { executionId: 'x', signal })))
      await vi.advanceTimersByTimeAsync(9_000)
      expect(await kept).toEqual(Array.from({ length: 6 }, () => LARGE.ref))
    } finally {
      vi.useRealTimers()
    }
  })

  it('a stored value is read once per executor, and not at all by the executor that wrote it', async () => {
    const blobs = memory()
    const values = valuesOver(blobs)
    await values.keep('s', LARGE, { executionId: 'x', signal })
    await values.hydrate('s', [completed(LARGE.ref)])
    expect(blobs.gets).toBe(0)
    const other = valuesOver(blobs)
    await other.hydrate('s', [completed(LARGE.ref)])
    await other.hydrate('s', [completed(LARGE.ref), completed(LARGE.ref)])
    expect(blobs.gets).toBe(1)
  })

  it('a stored value belongs to its session: another session that names it gets nothing', async () => {
    const values = valuesOver(memory())
    await values.keep('s', LARGE, { executionId: 'x', signal })
    expect(await values.hydrate('other', [completed(LARGE.ref)])).toEqual([completed(LARGE.ref)])
  })

  it('the store is not queried for events without large values', async () => {
    const blobs = memory()
    const event: SessionEvent = { v: 1, seq: 1, at: 0, type: 'session_closed', reason: 'idle' }
    expect(await valuesOver(blobs).hydrate('s', [event])).toEqual([event])
    expect(blobs.gets).toBe(0)
  })
})

describe('a value of more than one piece', () => {
  const huge = blobOfJson({ value: '€😀'.repeat(1_200_000) }, '€', sha256Hex)

  it('a value of more than one piece is read piece by piece, so that the orchestrator never holds a whole one', async () => {
    const blobs = memory()
    await blobs.put('s', huge)
    const [event] = await valuesOver(blobs).hydrate('s', [completed(huge.ref), completed(huge.ref)])
    expect((event as EventOf<'tool_completed'>).value === '€😀'.repeat(1_200_000)).toBe(true)
    expect(blobs.gets).toBe(0)
    expect(blobs.pieces).toEqual([...Array.from({ length: 16 }, () => 500_000), 400_012])
  })

  it('a value whose pieces do not match its digest, or that is gone, is lost', async () => {
    for (const damage of ['changed', 'gone'] as const) {
      const blobs = memory()
      await blobs.put('s', { ...huge, json: damage === 'changed' ? `${huge.json.slice(0, -3)}!"}` : huge.json })
      const { ref } = damage === 'gone' ? { ref: { ...huge.ref, sha256: '0'.repeat(64) } } : huge
      expect(await valuesOver(blobs).hydrate('s', [completed(ref)])).toEqual([completed(ref)])
    }
  })
})

describe('a value while the store is away', () => {
  it('a value that need not be stored is not kept if the store fails, and later ones do not ask the store again for a while', async () => {
    const blobs = memory()
    blobs.away = true
    const values = valuesOver(blobs)
    expect(await values.keep('s', LARGE, { executionId: 'x', signal })).toBeUndefined()
    expect(await values.keep('s', LARGE, { executionId: 'x', signal })).toBeUndefined()
    expect(blobs.puts).toBe(1)
  })

  it('a value that the session needs is offered again until the store is back', async () => {
    const blobs = memory()
    blobs.away = true
    const values = valuesOver(blobs)
    const kept = values.keep('s', LARGE, { executionId: 'x', signal, waitMs: 30_000 })
    const put = blobs.put
    blobs.put = (sessionId, blob) => {
      blobs.away = false
      return put(sessionId, blob)
    }
    expect(await kept).toEqual(LARGE.ref)
  })

  it('a value that need not be stored does not wait for a silent store, nor do later ones', async () => {
    vi.useFakeTimers()
    try {
      const blobs = memory()
      const values = valuesOver(blobs)
      blobs.away = 'silent'
      const first = values.keep('s', LARGE, { executionId: 'x', signal })
      await vi.advanceTimersByTimeAsync(5_001)
      expect(await first).toBeUndefined()
      expect(await values.keep('s', LARGE, { executionId: 'x', signal })).toBeUndefined()
      expect(blobs.puts).toBe(1)
    } finally {
      vi.useRealTimers()
    }
  })

  it('a value does not wait for the store once its attempt is stopped', async () => {
    const blobs = memory()
    blobs.away = 'silent'
    const stop = new AbortController()
    const kept = valuesOver(blobs).keep('s', LARGE, { executionId: 'x', signal: stop.signal, waitMs: 600_000 })
    stop.abort()
    expect(await kept).toBeUndefined()
  })

  it('a value that is needed while the store is away fails with an error, and nothing is guessed', async () => {
    const blobs = memory()
    await valuesOver(blobs).keep('s', LARGE, { executionId: 'x', signal })
    blobs.away = true
    const values = valuesOver(blobs)
    await expect(values.hydrate('s', [completed(LARGE.ref)])).rejects.toThrow(ArchiveUnavailable)
    blobs.away = false
    expect(await values.hydrate('s', [completed(LARGE.ref)])).not.toEqual([completed(LARGE.ref)])
  })
})

describe('a value that is not what an event may carry', () => {
  it.each<[string, Json]>([
    ['a tool result', { value: 1 }],
    ['a number', 7],
    ['blocks of no known type', [{ type: 'tool_result', tool_use_id: 'x' }]],
    ['nothing', ''],
  ])('a value that is not what an event may carry as a message: %s is replaced by what its event says about it', async (_, value) => {
    const blob = blobOfJson(value, 'how it begins', sha256Hex)
    const values = valuesOver(memory())
    await values.keep('s', blob, { executionId: 'x', signal })
    const [event] = await values.hydrate('s', [received(blob.ref)])
    expect(event).toEqual({
      ...received(blob.ref),
      content: `[A value of ${blob.ref.bytes} bytes, sha256 ${blob.ref.sha256}; it begins:]\nhow it begins`,
    })
  })

  it.each<[string, Json]>([
    ['text', 'a message'],
    ['no value', { content: 'a' }],
  ])('a value that is not what an event may carry as a tool result: %s leaves the event as it is', async (_, value) => {
    const blob = blobOfJson(value, 'how it begins', sha256Hex)
    const values = valuesOver(memory())
    await values.keep('s', blob, { executionId: 'x', signal })
    expect(await values.hydrate('s', [completed(blob.ref)])).toEqual([completed(blob.ref)])
  })

  it('a restored value changes only the value and the content of its event', async () => {
    const blob = blobOfJson({ value: 1, content: 'one', callId: 'forged', seq: 99 }, 'one', sha256Hex)
    const values = valuesOver(memory())
    await values.keep('s', blob, { executionId: 'x', signal })
    const { blob: _, ...rest } = completed(blob.ref) as EventOf<'tool_completed'>
    expect(await values.hydrate('s', [completed(blob.ref)])).toEqual([{ ...rest, value: 1, content: 'one' }])
  })
})
