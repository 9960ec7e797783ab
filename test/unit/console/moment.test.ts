// What the session page shows at an event is what the server's readers say about that moment.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Moment, momentReader } from '../../../console/src/session/moment.ts'
import { memoryOf } from '../../../src/client/session/versions.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import { effectsAfter } from '../../../src/session/recovery/targets.ts'
import type { SessionEvent } from '../../../src/session/events.ts'
import { memoryVersions, planVersions } from '../../support/past.ts'
import { eventfulSessions } from '../session/sound-session.ts'
import { size } from '../../support/sizes.ts'

/** A session, and a point in it. */
const moments = eventfulSessions.chain(({ events }) =>
  fc.integer({ min: 1, max: events.length }).map((count) => ({ events, seen: events.slice(0, count) })),
)
const momentOf = (events: readonly SessionEvent[]): Moment | undefined => momentReader().read(events, Number.POSITIVE_INFINITY)
const RUNS = { numRuns: size(200, 600) }

describe('a moment of a session', () => {
  it('a moment of a session has as plan and memory their newest version that counts', () => {
    fc.assert(
      fc.property(moments, ({ seen }) => {
        const moment = momentOf(seen) ?? expect.fail()
        const state = fold(undefined, structuredClone(seen)) ?? expect.fail()
        const newest = <V extends { archivedSeq?: number }>(versions: readonly V[]): V | undefined =>
          versions.findLast(({ archivedSeq }) => archivedSeq === undefined)
        // A session that started over has neither, although its events have versions.
        const begin = seen.findLastIndex(({ type }) => type === 'session_started')
        const own = seen.slice(begin)
        const [plan, memory] = [newest(planVersions(own)), newest(memoryVersions(own))]
        expect([moment.plan?.version, moment.plan?.objective, moment.plan?.steps]).toEqual([plan?.version, plan?.objective, plan?.steps])
        const texts = moment.memory.filter(({ content }) => content !== '').map(({ block, content }) => [block, content])
        expect(new Map(texts as [string, string][])).toEqual(new Map((memory?.blocks ?? []).map(({ block, content }) => [block, content])))
        expect(moment.memory).toEqual(memoryOf(state))
      }),
      RUNS,
    )
  })

  it('a moment of a session has each effect that a rollback to before it would report, unless a person has undone it', () => {
    fc.assert(
      fc.property(moments, ({ seen }) => {
        const forgets = seen.some((event) => event.type === 'rolled_back' && event.keys === 'forgotten')
        const { effects } = momentOf(seen) ?? expect.fail()
        const reported = effectsAfter(seen, 0).effects.map(({ callId, status }) => [callId, status])
        const shown = effects.map(({ callId, status }) => [callId, status])
        if (forgets) expect(reported).toEqual(expect.arrayContaining(shown))
        else expect(shown.slice(-100)).toEqual(reported)
      }),
      RUNS,
    )
  })

  it('a moment of a session is the same whichever moments were read before it, as the slider moves and new events arrive', () => {
    fc.assert(
      fc.property(eventfulSessions, fc.array(fc.tuple(fc.nat(), fc.nat()), { minLength: 2, maxLength: 8 }), ({ events }, moves) => {
        const reader = momentReader()
        for (const [known, to] of moves) {
          const seen = events.slice(0, 1 + (known % events.length))
          const at = 1 + (to % seen.length)
          expect(reader.read(seen, at)).toEqual(momentOf(events.slice(0, at)))
        }
      }),
      { numRuns: size(100, 500) },
    )
  })
})
