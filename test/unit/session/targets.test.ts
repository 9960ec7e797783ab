// Points in a session's past: they are found, and going back to one shows the transcript as it was.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { defined } from '../../../src/session/defined.ts'
import type { EventBody, SessionEvent, Target } from '../../../src/session/events.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import { keptAt, restoredFrom } from '../../../src/session/recovery/kept.ts'
import { effectsAfter, checkTarget, locate, messagesAfter } from '../../../src/session/recovery/targets.ts'
import { addToTranscript } from '../../../src/session/transcript/adding.ts'
import { emptyTranscript, type Transcript } from '../../../src/session/transcript/transcript.ts'
import { ofType } from '../../support/events.ts'
import { FIXED_SESSIONS, metInSessions, type SoundSession, soundSessions } from './sound-session.ts'
import { messageRowsOf } from '../../../src/client/session/message-rows.ts'
import { rowsAt } from '../../support/past.ts'
import { sessionStarted } from '../../support/session-started.ts'

const numbered = (...bodies: EventBody[]): SessionEvent[] =>
  bodies.map((body, index) => ({ v: 1, seq: index + 1, at: index, ...body }) as SessionEvent)
const asEntries = (events: readonly SessionEvent[]) => events.map((event) => ({ event, digest: `d${event.seq}` }))

function transcriptOf(events: readonly SessionEvent[]): Transcript {
  const transcript = emptyTranscript()
  for (const event of events) addToTranscript(transcript, event)
  return transcript
}

/** Every target that the session has. */
function targetsOf({ events, accepted }: SoundSession): Target[] {
  const runs = events.flatMap((event): Target[] => (event.type === 'run_started' ? [{ run: event.run }] : []))
  return [...runs, ...accepted.map((message) => ({ message }))]
}

/** Whether a rollback may go there. A fork may also begin in turns that a recovery has archived. */
function isLive(events: readonly SessionEvent[], target: Target): boolean {
  try {
    locate(asEntries(events), target)
    return true
  } catch (error) {
    expect(error).toMatchObject({ code: 'target_archived' })
    return false
  }
}

describe('a target', () => {
  it('a target is a point without an open turn, and going back to it shows the transcript as it was', () => {
    fc.assert(
      fc.property(soundSessions, fc.nat(), (session, nth) => {
        const targets = targetsOf(session)
        const target = targets[nth % targets.length]
        if (!target) return
        const { events } = session
        const { seq, digest } = locate(asEntries(events), target, { archived: true })
        const then = transcriptOf(events.filter((event) => event.seq <= seq))
        expect(then.open).toBeNull()
        expect(digest).toBe(`d${seq}`)
        const last = events.at(-1)?.seq ?? 0
        const back: SessionEvent = { v: 1, seq: last + 1, at: 0, type: 'rolled_back', toSeq: seq, upToSeq: last, effects: [] }
        const now = transcriptOf([...events, back])
        // Turns that a recovery has archived are not targets of a rollback, and a choice of calls replaces their results permanently.
        const isReplaced = events.some((event) => event.seq > seq && event.type === 'recovery_started' && event.strategy === 'selective')
        if (isLive(events, target) && !isReplaced) expect(now.messages).toEqual(then.messages)
        expect(now.waiting.size).toBe(0)
        // What completed stays completed.
        expect([...now.completed.keys()]).toEqual([...transcriptOf(events).completed.keys()])
      }),
    )
  })

  it('a target that names a checkpoint is that checkpoint: no turn is open there, and a rollback to it keeps it', () => {
    const met = metInSessions(({ events }) => {
      const from = events.findLastIndex(({ type }) => type === 'session_started')
      const made = ofType(events.slice(from), 'checkpoint_made')
      for (const { seq, version, lastMessageId } of made) {
        // A fork's past is another session's, up to the same point.
        expect(locate(asEntries(events), { checkpoint: version }, { archived: true })).toEqual({
          seq,
          digest: `d${seq}`,
          ...defined({ lastMessageId }),
        })
        expect(transcriptOf(events.slice(0, seq)).open).toBeNull()
        expect(rowsAt(events.slice(0, seq), { checkpoint: version }).at(-1)?.messageId).toBe(lastMessageId)
      }
      return made.length
    })
    expect(met).toBeGreaterThan(FIXED_SESSIONS)
  })

  it('after a rollback to a checkpoint, messages, plan and memory are those that `at` shows', () => {
    metInSessions(({ events }) => {
      const head = events.length
      let met = 0
      const from = events.findLastIndex(({ type }) => type === 'session_started')
      for (const { seq, version } of ofType(events.slice(from), 'checkpoint_made').slice(-2)) {
        const isLater = (event: SessionEvent): boolean =>
          event.type === 'session_started' ||
          event.type === 'forked' ||
          (event.type === 'recovery_started' && event.strategy === 'selective')
        if (!isLive(events, { checkpoint: version }) || events.slice(seq).some(isLater)) continue
        const restored = restoredFrom(keptAt(events, seq), keptAt(events, head))
        const about = { toSeq: seq, upToSeq: head, effects: [], ...defined({ restored }) }
        const back: SessionEvent = { v: 1, seq: head + 1, at: 0, type: 'rolled_back', ...about }
        const then = fold(undefined, events.slice(0, seq))
        const now = fold(undefined, [...events, back])
        expect(now?.plan?.current ?? null).toEqual(then?.plan?.current ?? null)
        expect(now?.memory?.current ?? null).toEqual(then?.memory?.current ?? null)
        const rows = messageRowsOf([...events, back]).filter(({ kind }) => kind !== 'scheduled')
        expect(rows.map(({ content }) => content)).toEqual(rowsAt(events, { checkpoint: version }).map(({ content }) => content))
        met += 1
      }
      return met
    })
  })

  it('a target reports exactly the effects after it, each once', () => {
    fc.assert(
      fc.property(soundSessions, fc.nat(), ({ events }, nth) => {
        const seq = nth % (events.length + 1)
        const effectful = new Set(
          events.flatMap((event) => (event.type === 'tool_issued' && event.effect !== 'read' ? [event.callId] : [])),
        )
        const completed = events.flatMap((event) =>
          event.seq > seq && event.type === 'tool_completed' && event.replayOf === undefined && effectful.has(event.callId)
            ? [event.callId]
            : [],
        )
        const { effects, more } = effectsAfter(events, seq)
        expect(more).toBe(0)
        expect(new Set(effects.map(({ callId }) => callId)).size).toBe(effects.length)
        expect(effects.filter(({ status }) => status === 'completed').map(({ callId }) => callId)).toEqual(
          expect.arrayContaining(completed),
        )
      }),
    )
  })

  const started: EventBody = sessionStarted({ coreVersion: 2 })
  const runs = (...numbers: number[]): EventBody[] =>
    numbers.flatMap((run): EventBody[] => [
      { type: 'message_received', messageId: `q${run}`, content: `q${run}` },
      { type: 'run_started', run, messageId: `q${run}` },
      { type: 'turn_started', run, turn: 1, takes: [`q${run}`] },
      {
        type: 'run_completed',
        run,
        turns: 1,
        stopReason: 'end_turn',
        usage: { input_tokens: 0, output_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
      },
      { type: 'checkpoint_made', version: run, run, reasons: ['turn'] },
    ])

  it('a target in turns that a recovery archived is refused, except for forks', () => {
    const log: EventBody[] = [
      ...runs(1),
      { type: 'run_started', run: 2, messageId: 'q2' },
      { type: 'turn_started', run: 2, turn: 1, takes: [] },
      { type: 'checkpoint_made', version: 2, run: 2, reasons: ['turn'] },
      { type: 'turn_started', run: 2, turn: 2, takes: [] },
      { type: 'checkpoint_made', version: 3, run: 2, reasons: ['turn'] },
      { type: 'error_entered', run: 2, code: 'c', reason: 'r', strategy: 'manual' },
    ]
    const before = numbered(started, ...log)
    const toSeq = before.find((event) => event.type === 'checkpoint_made' && event.version === 2)?.seq ?? expect.fail()
    const recovered = asEntries(
      numbered(started, ...log, { type: 'recovery_started', run: 2, strategy: 'restart_from_last_effect', toSeq }),
    )
    expect(locate(recovered, { checkpoint: 2 }).seq).toBe(toSeq)
    const archived = expect.objectContaining({ code: 'target_archived' })
    expect(() => locate(recovered, { checkpoint: 3 })).toThrow(archived)
    expect(locate(recovered, { checkpoint: 3 }, { archived: true }).seq).toBeGreaterThan(toSeq)
    const abandoned = asEntries(numbered(started, ...log, { type: 'recovery_started', run: 2, strategy: 'abandon' }))
    expect(() => locate(abandoned, { checkpoint: 2 })).toThrow(archived)
    expect(locate(abandoned, { checkpoint: 1 }).seq).toBeLessThan(toSeq)
  })

  it('a target that a rollback has archived is refused, except for forks', () => {
    const events = asEntries(numbered(started, ...runs(1, 2), { type: 'rolled_back', toSeq: 6, upToSeq: 11, effects: [] }, ...runs(3)))
    expect(locate(events, { checkpoint: 1 }).seq).toBe(6)
    expect(() => locate(events, { checkpoint: 2 })).toThrow(expect.objectContaining({ code: 'target_archived' }))
    expect(locate(events, { checkpoint: 2 }, { archived: true }).seq).toBe(11)
    expect(locate(events, { checkpoint: 3 }).seq).toBe(17)
    expect(locate(events, undefined).seq).toBe(17)
  })

  it.each([
    [{ checkpoint: 9 }, 'checkpoint_not_found'],
    [{ message: 'never' }, 'message_not_found'],
    [{ run: 9 }, 'run_not_found'],
  ])('a target %j that does not exist is refused with a code for its kind', (target, code) => {
    expect(() => locate(asEntries(numbered(started, ...runs(1))), target)).toThrow(expect.objectContaining({ code }))
  })

  it.each([undefined, null, 7, {}, { checkpoint: 0 }, { checkpoint: '1' }, { run: 1.5 }, { message: '' }, { checkpoint: 1, run: 1 }])(
    'a target cannot be %j',
    (raw) => {
      expect(() => checkTarget(raw)).toThrow(expect.objectContaining({ code: 'invalid_target' }))
    },
  )
})

describe('messages that are answered a second time', () => {
  it('messages that are answered again keep their place before those that were waiting then', () => {
    const messages = ['a', 'b']
    const received = messages.map((messageId): EventBody => ({ type: 'message_received', messageId, content: 'hi' }))
    const again = { messages: [{ messageId: 'a', seq: 2 }], intent: 1 }
    const events = numbered(
      sessionStarted(),
      ...received.slice(0, 1),
      { type: 'run_started', run: 1, messageId: 'a' },
      { type: 'turn_started', run: 1, turn: 1, takes: ['a'] },
      ...received.slice(1),
      { type: 'run_interrupted', run: 1 },
      { type: 'rolled_back', toSeq: 1, upToSeq: 0, effects: [], again },
      { type: 'run_started', run: 2, messageId: 'a', intent: 1 },
      { type: 'turn_started', run: 2, turn: 2, takes: messages },
    )
    expect(messagesAfter(events, 1, 0).map(({ messageId }) => messageId)).toEqual(messages)
  })
})
