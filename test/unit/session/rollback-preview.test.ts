// What a preview of going back says is what happens: compared with the events of a rollback, a regeneration and a fork, as other readers
// understand them.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { messageRowsOf } from '../../../src/client/session/message-rows.ts'
import { decide, dueAt, isRunInProgress } from '../../../src/session/decide.ts'
import type { EventBody, SessionEvent, Target } from '../../../src/session/events.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import { requestIdOf } from '../../../src/session/ids.ts'
import { keptAt } from '../../../src/session/recovery/kept.ts'
import {
  type GoingBackPreview,
  previewFork,
  previewRegeneration,
  previewRollback,
  targetsBefore,
} from '../../../src/session/recovery/rollback-preview.ts'
import { effectsAfter, locate, messagesAfter, newestRun, TargetRefused } from '../../../src/session/recovery/targets.ts'
import { addToTranscript } from '../../../src/session/transcript/adding.ts'
import { emptyTranscript } from '../../../src/session/transcript/transcript.ts'
import { ofType } from '../../support/events.ts'
import { eventfulSessions, metInSessions } from './sound-session.ts'
import { size } from '../../support/sizes.ts'

/** A session at any moment: also while a run is in progress. */
const moments = eventfulSessions.chain(({ events }) =>
  fc.record({ events: fc.integer({ min: 1, max: events.length }).map((count) => events.slice(0, count)), nth: fc.nat() }),
)
const RUNS = { numRuns: size(100, 300) }

/** Each preview reads a whole session several times. */
const metInFew = (holds: Parameters<typeof metInSessions>[0]): number => metInSessions(holds, 100)

/** Asserts `holds` at random moments, then at fixed ones. Returns how often it met its subject at those. */
function metAt(holds: (moment: { events: SessionEvent[]; nth: number }) => boolean): number {
  fc.assert(
    fc.property(moments, (moment) => void holds(moment)),
    RUNS,
  )
  return fc.sample(moments, { numRuns: 100, seed: 1 }).filter(holds).length
}

function targetsOf(events: readonly SessionEvent[]): Target[] {
  return events.flatMap((event): Target[] => {
    if (event.type === 'run_started') return [{ run: event.run }]
    if (event.type === 'checkpoint_made') return [{ checkpoint: event.version }]
    return event.type === 'message_received' ? [{ message: event.messageId }] : []
  })
}

const add = (events: readonly SessionEvent[], body: EventBody): SessionEvent[] => [
  ...events,
  { v: 1, seq: (events.at(-1)?.seq ?? 0) + 1, at: events.at(-1)?.at ?? 0, ...body } as SessionEvent,
]

/** What the session does before it goes back, in other words than the preview's. */
function stopped(given: readonly SessionEvent[]): { events: readonly SessionEvent[]; run: number | null } {
  const isClosed = fold(undefined, given)?.status === 'closed'
  const events = isClosed ? add(given, { type: 'session_resumed', executionId: 'next', fromEpoch: 'e', coreVersion: 1 }) : given
  const state = fold(undefined, events)
  if (!state?.current || !isRunInProgress(state)) return { events, run: null }
  return { events: add(events, { type: 'run_interrupted', run: state.current.run }), run: state.current.run }
}

/** The users' messages and the answers that the rows of the transcript show. */
function rowsOf(events: readonly SessionEvent[]): { messages: string[]; answers: string[] } {
  const rows = messageRowsOf(events)
  return {
    messages: rows.flatMap(({ kind, messageId }) => (kind === 'user' ? [messageId] : [])).sort(),
    answers: rows.flatMap(({ kind, messageId }) => (kind === 'assistant' ? [messageId] : [])).sort(),
  }
}

/** The calls with a result that the model sees. */
function resultsIn(events: readonly SessionEvent[]): Set<string> {
  const transcript = emptyTranscript()
  for (const event of events) addToTranscript(transcript, event)
  return new Set(
    transcript.messages.flatMap(({ content }) =>
      typeof content === 'string' ? [] : content.flatMap((block) => (block.type === 'tool_result' ? [block.tool_use_id] : [])),
    ),
  )
}

function refusalOf(work: () => unknown): string | undefined {
  try {
    work()
    return undefined
  } catch (error) {
    if (error instanceof TargetRefused) return error.code
    throw error
  }
}

/** Compares a preview with the events after it was carried out. `before`: with the run interrupted. */
function compare(preview: GoingBackPreview, before: readonly SessionEvent[], after: readonly SessionEvent[]): void {
  const [had, has] = [rowsOf(before), rowsOf(after)]
  const gone = (kind: 'messages' | 'answers'): string[] => had[kind].filter((id) => !has[kind].includes(id))
  expect(preview.messages.toSorted()).toEqual(gone('messages'))
  expect(preview.answers.map(({ run, turn }) => `m_${run}_${turn}`).sort()).toEqual(gone('answers'))
  const left = resultsIn(after)
  // The transcript names calls by the ids of their requests.
  for (const callId of preview.calls) expect(left.has(requestIdOf(callId))).toBe(false)
  const state = fold(undefined, after) ?? expect.fail()
  expect(preview.waits).toEqual(state.inbox.map(({ messageId }) => messageId))
  expect(preview.next?.step === 'new_run').toBe(decide(state, dueAt(0)).do === 'start_run')
  const known = new Set(Object.values(state.keys))
  for (const callId of preview.replays) expect(known.has(callId)).toBe(true)
}

describe('a preview of going back', () => {
  it('a preview of a rollback names the messages, answers, results and effects that the rollback then archives and reports', () => {
    const met = metAt(({ events, nth }) => {
      const targets = targetsOf(events)
      const target = targets[nth % targets.length]
      if (!target) return false
      const { events: before, run } = stopped(events)
      const entries = before.map((event) => ({ event, digest: '' }))
      const refused = refusalOf(() => locate(entries, target))
      expect(refusalOf(() => previewRollback(events, { target }))).toBe(refused)
      if (refused !== undefined) return false
      const preview = previewRollback(events, { target })
      const place = locate(entries, target)
      const upToSeq = before.at(-1)?.seq ?? 0
      const { effects, more } = effectsAfter(before, place.seq)
      expect([preview.toSeq, preview.interrupts, preview.effects, preview.moreEffects]).toEqual([place.seq, run, effects, more])
      const kept = keptAt(before, place.seq)
      const { lastMessageId } = place
      const restored = { plan: kept.plan, memory: kept.memory }
      const last = lastMessageId !== undefined && { lastMessageId }
      const after = add(before, { type: 'rolled_back', toSeq: place.seq, upToSeq, target, ...last, effects, restored })
      compare(preview, before, after)
      return preview.answers.length > 0
    })
    expect(met).toBeGreaterThan(10)
  })

  it('a preview of a rollback is the same as what random sessions did that went back, at the event before they did', () => {
    const met = metInFew(({ events }) => {
      let compared = 0
      for (const back of ofType(events, 'rolled_back')) {
        if (back.keepsRun || back.again) continue
        const before = events.slice(0, back.seq - 1)
        // The driver does not say which target it meant: any that lies there will do.
        const target = targetsOf(before).find((one) => placeBefore(before, one) === back.toSeq)
        if (!target || back.upToSeq !== back.seq - 1) continue
        const preview = previewRollback(before, { target })
        expect([preview.toSeq, preview.effects]).toEqual([back.toSeq, back.effects])
        compare(preview, before, events.slice(0, back.seq))
        compared += 1
      }
      return compared
    })
    expect(met).toBeGreaterThan(5)
  })

  it('a preview of a regeneration says which message is answered again, and that a new run begins with it', () => {
    const met = metInFew(({ events }) => {
      const { events: before } = stopped(events)
      const run = newestRun(before)
      if (!run || refusalOf(() => previewRegeneration(events)) !== undefined) return 0
      const preview = previewRegeneration(events)
      const messages = messagesAfter(before, preview.toSeq, 0)
      const { effects } = effectsAfter(before, preview.toSeq)
      expect(preview.effects).toEqual(effects)
      const after = add(before, { type: 'rolled_back', toSeq: preview.toSeq, upToSeq: 0, effects, again: { messages, intent: run.intent } })
      compare(preview, before, after)
      return messages.length > 0 ? 1 : 0
    })
    expect(met).toBeGreaterThan(5)
  })

  it('a preview of a fork names what the fork lacks, also from a past that was archived, and the effects that only the original had', () => {
    const met = metAt(({ events, nth }) => {
      const targets = [undefined, ...targetsOf(events)]
      const target = targets[nth % targets.length]
      const { events: before } = stopped(events)
      const entries = before.map((event) => ({ event, digest: '' }))
      const refused = refusalOf(() => locate(entries, target, { archived: true }))
      expect(refusalOf(() => previewFork(events, target ? { target } : {}))).toBe(refused)
      if (refused !== undefined) return false
      const preview = previewFork(events, target ? { target } : {})
      const { seq } = locate(entries, target, { archived: true })
      expect([preview.toSeq, preview.effects]).toEqual([seq, effectsAfter(before, seq).effects])
      const from = { sessionId: 's', seq }
      const copied = before.filter((event) => event.seq <= seq)
      const fork = add(copied, { type: 'forked', sessionId: 'f', executionId: 'e', coreVersion: 1, from, keys: 'carried' })
      compare(preview, before, fork)
      return preview.answers.length > 0
    })
    expect(met).toBeGreaterThan(10)
  })

  it('a rollback that forgets effects is previewed with no key of an effect after the target', () => {
    const met = metInFew(({ events }) => {
      const [target] = targetsOf(events)
      if (!target || refusalOf(() => previewRollback(events, { target })) !== undefined) return 0
      const kept = previewRollback(events, { target })
      expect(previewRollback(events, { target, keys: 'forgotten' }).replays).toEqual([])
      return kept.replays.length > 0 ? 1 : 0
    })
    expect(met).toBeGreaterThan(5)
  })

  it('a rollback of a session that closed before its run had ended interrupts that run, which a request lets continue first', () => {
    const met = metAt(({ events, nth }) => {
      const run = stopped(events).run
      const targets = targetsOf(events)
      const target = targets[nth % targets.length]
      if (run === null || !target || refusalOf(() => previewRollback(events, { target })) !== undefined) return false
      const closed = add(events, { type: 'session_closed', reason: 'requested' })
      expect(previewRollback(closed, { target })).toEqual(previewRollback(events, { target }))
      return true
    })
    expect(met).toBeGreaterThan(10)
  })

  it('the targets at an event lie at or before it', () => {
    fc.assert(
      fc.property(moments, ({ events, nth }) => {
        const seq = 1 + (nth % events.length)
        for (const target of targetsBefore(events, seq)) expect(placeBefore(events, target) ?? 0).toBeLessThanOrEqual(seq)
      }),
      RUNS,
    )
  })
})

/** Where the target lies; undefined if a rollback cannot go there. */
function placeBefore(events: readonly SessionEvent[], target: Target): number | undefined {
  const entries = events.map((event) => ({ event, digest: '' }))
  let seq: number | undefined
  refusalOf(() => (seq = locate(entries, target).seq))
  return seq
}
