// Whether a session has moved on: exactly the events that change what going back would do.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { EVENT_TYPES } from '../../../src/session/event-types.ts'
import type { SessionEvent } from '../../../src/session/events.ts'
import { movedBy } from '../../../src/session/recovery/moved.ts'
import { previewRollback, targetsBefore } from '../../../src/session/recovery/rollback-preview.ts'
import { TargetRefused } from '../../../src/session/recovery/targets.ts'
import { eventfulSessions } from './sound-session.ts'
import { size } from '../../support/sizes.ts'

describe('a session that has moved on', () => {
  it('a session has moved on after a message, an answer or an outcome, and not after progress, a warning or a checkpoint', () => {
    const of = (type: string): SessionEvent => ({ v: 1, seq: 5, at: 1, type }) as never
    const moving = EVENT_TYPES.filter((type) => movedBy([of(type)], 4))
    expect(moving).toEqual(expect.arrayContaining(['message_received', 'model_completed', 'tool_completed', 'tool_unknown', 'rolled_back']))
    for (const type of ['tool_progress', 'budget_warning', 'checkpoint_made', 'session_paused']) expect(moving).not.toContain(type)
    expect(movedBy([of('message_received')], 5)).toBeUndefined()
  })

  it('a session that has not moved on would do the same if it went back: the preview of a rollback is unchanged', () => {
    fc.assert(
      fc.property(eventfulSessions, fc.nat(), fc.nat(), ({ events }, from, count) => {
        const seen = 1 + (from % events.length)
        const before = events.slice(0, seen)
        const later = events.slice(0, seen + (count % 8))
        if (movedBy(later, seen)) return
        for (const target of targetsBefore(before, seen)) {
          const preview = (past: readonly SessionEvent[]): unknown => {
            try {
              return previewRollback(past, { target })
            } catch (error) {
              if (error instanceof TargetRefused) return error.code
              throw error
            }
          }
          expect(preview(later)).toEqual(preview(before))
        }
      }),
      { numRuns: size(150, 400) },
    )
  })
})
