// What is recorded of an error that a body threw, and of the events that it reported.
import { describe, expect, it } from 'vitest'
import { isToolError } from '../../../src/agent/errors.ts'
import { failedAttempt, type BodyReports, startReports } from '../../../src/jobs/attempt.ts'
import type { JobLink } from '../../../src/calls/jobs.ts'
import { areCustomEvents } from '../../../src/session/hooks/custom-events.ts'
import type { Json } from '../../../src/session/json.ts'

describe('what is recorded of a failed attempt', () => {
  it('the record of a failed attempt is bounded for any thrown value', () => {
    const error = Object.assign(new Error('m'.repeat(1_000_000)), { name: 'n'.repeat(1_000_000), code: 'c'.repeat(1_000_000) })
    const { class: name, code, message } = failedAttempt(1, error, { retryable: true, worker: 'w' })
    expect([name.length, code?.length, message.length]).toEqual([200, 200, 4_000])
  })

  it('the record of a failed attempt never has an empty message', () => {
    expect(failedAttempt(1, new TypeError(' '), { retryable: true, worker: 'w' }).message).toBe('TypeError was thrown without a message.')
  })
})

describe('custom events', () => {
  const LINK = { progress: () => undefined } as unknown as JobLink
  const reports = (): BodyReports => startReports({ number: 1, failures: 0, failed: [], deaths: 0 } as never, LINK)

  /** The code of the error that `emit` throws; undefined if it accepts the event. */
  function refusal(notes: BodyReports, name: string, data?: unknown): string | undefined {
    try {
      notes.emit(name, data as Json)
    } catch (error) {
      return isToolError(error) && !error.retryable ? error.code : String(error)
    }
    return undefined
  }

  it('custom events are what the attempt reported, in order, as plain JSON', () => {
    const notes = reports()
    notes.emit('shipped', { parcel: 7, weight: undefined as never })
    notes.emit('shipped', null)
    notes.emit('told the customer')
    expect(notes.all().emitted).toEqual([
      { name: 'shipped', data: { parcel: 7 } },
      { name: 'shipped', data: null },
      { name: 'told the customer' },
    ])
  })

  it('custom events are copies: what the tool changes later does not change them', () => {
    const notes = reports()
    const parcels = [1]
    notes.emit('packed', parcels)
    parcels.push(2)
    expect(notes.all().emitted).toEqual([{ name: 'packed', data: [1] }])
  })

  it.each(['', 'x'.repeat(201), 'a\0', '\ud800', 7 as unknown as string])('custom events are refused with the name %j', (name) => {
    expect(refusal(reports(), name)).toBe('invalid_event')
  })

  it('custom events are refused if their data is not JSON, or is too large', () => {
    const circular: { self?: unknown } = {}
    circular.self = circular
    expect([circular, 1n, 'x'.repeat(16_000)].map((data) => refusal(reports(), 'n', data))).toEqual([
      'invalid_event',
      'invalid_event',
      'event_too_large',
    ])
    expect(refusal(reports(), 'n', 'x'.repeat(15_998))).toBeUndefined()
  })

  it('custom events are refused beyond the limits on their number and total size, and the earlier ones stay', () => {
    const many = reports()
    for (let n = 0; n < 100; n++) many.emit('n')
    expect(refusal(many, 'n')).toBe('too_many_events')
    const large = reports()
    while (refusal(large, 'n', 'x'.repeat(15_000)) === undefined);
    expect(refusal(large, 'n', 'x'.repeat(15_000))).toBe('event_too_large')
    expect(refusal(large, 'n', 'x')).toBeUndefined()
    for (const { emitted } of [many.all(), large.all()]) expect(areCustomEvents(emitted)).toBe(true)
  })
})
