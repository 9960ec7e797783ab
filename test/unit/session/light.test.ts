// Events without their contents: readers that look for a place in a session find the same one in them.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { SessionEvent, Target } from '../../../src/session/events.ts'
import { lightOf } from '../../../src/session/light.ts'
import { effectsAfter, locate, TargetRefused } from '../../../src/session/recovery/targets.ts'
import { addToTranscript } from '../../../src/session/transcript/adding.ts'
import { emptyTranscript } from '../../../src/session/transcript/transcript.ts'
import { surviving } from '../../../src/ui/surviving.ts'
import { eventfulSessions, soundSessions } from './sound-session.ts'

function placeOf(events: readonly SessionEvent[], target: Target | undefined): unknown {
  try {
    const place = locate(
      events.map((event) => ({ event, digest: `${event.seq}` })),
      target,
      { archived: true },
    )
    return { place, effects: effectsAfter(events, place.seq) }
  } catch (error) {
    if (error instanceof TargetRefused) return error.code
    throw error
  }
}

function keysIn(events: readonly SessionEvent[]): unknown {
  const transcript = emptyTranscript()
  for (const event of events) addToTranscript(transcript, event)
  return { keys: transcript.keys, unknown: transcript.lost.unknown }
}

describe('events without contents', () => {
  it('events without contents have the same places, effects, keys and remaining parts as the events themselves', () => {
    for (const sessions of [soundSessions, eventfulSessions]) {
      fc.assert(
        fc.property(sessions, fc.integer({ min: 1, max: 6 }), ({ events }, number) => {
          const light = events.map(lightOf)
          for (const target of [undefined, { checkpoint: number }, { run: number }]) {
            expect(placeOf(light, target)).toEqual(placeOf(events, target))
          }
          expect(keysIn(light)).toEqual(keysIn(events))
          const seen = (all: readonly SessionEvent[]) =>
            surviving(all).map(({ event, at, isArchived }) => ({ seq: event.seq, at, isArchived }))
          expect(seen(light)).toEqual(seen(events))
        }),
        { numRuns: 50 },
      )
    }
  })

  it('events without contents are small, even if their contents are large', () => {
    const text = 'x'.repeat(100_000)
    const event = {
      ...{ v: 1, seq: 4, at: 1, type: 'model_completed', run: 1, turn: 1, attempt: 1, model: 'm', stopReason: 'tool_use' },
      content: [
        { type: 'text', text },
        { type: 'tool_use', id: 't', name: 'tool', input: { text } },
      ],
      calls: [{ index: 0, tool: 'tool', effect: 'read', output: { text } }],
      metadata: { text },
    } as unknown as SessionEvent
    expect(JSON.stringify(lightOf(event)).length).toBeLessThan(500)
  })
})
