// What happens to events before they become rows: nothing, if they are sound.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { SessionEvent } from '../../../src/session/events.ts'
import { newProjection, project } from '../../../src/store/project/projections.ts'
import { newSessionColumns } from '../../../src/store/project/session-columns.ts'
import { soundEvent } from '../../../src/store/project/sound-events.ts'
import { damaged, damages } from '../../support/damage.ts'
import { size } from '../../support/sizes.ts'
import { eventfulSessions } from '../session/sound-session.ts'

const of = (event: object) => soundEvent({ v: 1, seq: 1, at: 1_000, ...event } as SessionEvent)

describe('a sound event', () => {
  it('a sound event of any session is left as it is', () => {
    fc.assert(
      fc.property(eventfulSessions, ({ events }) => {
        for (const event of events) {
          const { event: sound, adjusted } = soundEvent(event)
          expect(adjusted).toEqual([])
          expect(sound).toBe(event)
        }
      }),
      { numRuns: size(80, 200) },
    )
  })

  it('a sound event may have fractional delays and due times, and values of any kind', () => {
    const call = { run: 1, turn: 1, callId: 't_1_1_0', tool: 'x' }
    const error = { attempt: 1, class: 'Error', message: 'no', retryable: true, nextDelayMs: 500.4 }
    expect(of({ type: 'tool_attempt_failed', ...call, error }).adjusted).toEqual([])
    expect(of({ type: 'model_attempt_failed', run: 1, turn: 1, error: { ...error, unexpected: 'a1b2' } }).adjusted).toEqual([])
    expect(of({ type: 'answer_requested', ...call, expiresAt: 1_000.5 }).adjusted).toEqual([])
    for (const value of [null, 1.5, 'x', [], {}]) {
      expect(of({ type: 'tool_completed', ...call, attempt: 1, value }).adjusted).toEqual([])
      expect(of({ type: 'tool_issued', ...call, index: 0, effect: 'read', input: value, inputDigest: 'd' }).adjusted).toEqual([])
    }
  })

  it('a sound event of a type that this release does not know is left as it is', () => {
    expect(of({ type: 'begun_tomorrow', run: 1.5 }).adjusted).toEqual([])
    expect(of({ type: 'constructor' }).adjusted).toEqual([])
  })
})

describe('an event that is not sound', () => {
  it('an invalid event is copied, not changed', () => {
    const event = { v: 1, seq: 1, at: 1e300, type: 'turn_started', run: 1, turn: 1, takes: ['a', 7] } as unknown as SessionEvent
    const before = structuredClone(event)
    const { event: sound, adjusted } = soundEvent(event)
    expect(event).toEqual(before)
    expect(sound).toMatchObject({ run: 1, takes: ['a', '7'] })
    expect(adjusted.map(({ member, was }) => [member, was])).toEqual([
      ['takes.1', '7'],
      ['at', '1e+300'],
    ])
  })

  it('an invalid event of any type is turned into one from which rows can be made', () => {
    fc.assert(
      fc.property(eventfulSessions, fc.array(damages, { minLength: 1, maxLength: 40 }), ({ events }, all) => {
        const wrong = all.reduce<readonly SessionEvent[]>((sofar, damage) => damaged(sofar, damage), events)
        const read = JSON.parse(JSON.stringify(wrong)) as SessionEvent[]
        const sound = read.map((event) => soundEvent(event).event)
        project(newProjection(newSessionColumns()), sound, false)
      }),
      { numRuns: size(300, 10_000), endOnFailure: true },
    )
  })

  it('an invalid event of any size is described in a few lines', () => {
    const takes = Array.from({ length: 10_000 }, () => 'x'.repeat(1_000)).map((text) => ({ text }))
    const { adjusted } = of({ type: 'turn_started', run: 1, turn: 1, takes })
    expect(JSON.stringify(adjusted).length).toBeLessThan(20_000)
  })

  it('an invalid event may be nested deeper than JSON.stringify can write', () => {
    const deep = JSON.parse(`${'['.repeat(50_000)}${']'.repeat(50_000)}`) as unknown
    expect(of({ type: 'run_started', run: 1, messageId: deep }).adjusted).toMatchObject([{ member: 'messageId' }])
  })
})
