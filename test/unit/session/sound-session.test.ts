// Properties of every session that the core drives, whatever happens to it.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { messageRowsOf } from '../../../src/client/session/message-rows.ts'
import type { Message } from '../../../src/session/content.ts'
import { continues } from '../../../src/session/digest.ts'
import type { EventOf, SessionEvent } from '../../../src/session/events.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import type { JsonObject } from '../../../src/session/json.ts'
import { unknownCallsOf } from '../../../src/session/recovery/recovery.ts'
import type { SessionState } from '../../../src/session/state.ts'
import { messagesFor } from '../../../src/session/transcript/model-messages.ts'
import { addToTranscript } from '../../../src/session/transcript/adding.ts'
import { emptyTranscript, type Transcript } from '../../../src/session/transcript/transcript.ts'
import { callsOfTurn } from '../../../src/session/fold/turn-calls.ts'
import { type Entered, eventfulSessions, FIXED_SESSIONS, metInSessions, type SoundSession, soundSessions } from './sound-session.ts'
import { ofType } from '../../support/events.ts'
import { size } from '../../support/sizes.ts'

const RUNS = { numRuns: size(50, 150) }

/** A property of every sound session, including those that go back, are forked, and ask people and clients. */
function always(what: string, holds: (session: SoundSession) => void): void {
  it(what, () => {
    fc.assert(fc.property(soundSessions, holds), RUNS)
    fc.assert(fc.property(eventfulSessions, holds), RUNS)
  })
}

/** A property of every sound session that never goes back, because going back archives messages. */
function alwaysUnlessRewound(what: string, holds: (session: SoundSession) => void): void {
  it(what, () => {
    fc.assert(fc.property(soundSessions, holds), RUNS)
  })
}

/** The contents of the waiting messages. */
const waitingIn = ({ waiting }: Transcript) => [...waiting.values()].map(({ content }) => content)

const copy = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T

function transcriptOf(events: readonly SessionEvent[], at?: (event: SessionEvent, transcript: Transcript) => void): Transcript {
  const transcript = emptyTranscript()
  for (const event of events) {
    addToTranscript(transcript, event)
    at?.(event, transcript)
  }
  return transcript
}

/** Ids of the tool calls that a message requests, or of those that it answers. */
function callsIn(message: Message | undefined, type: 'tool_use' | 'tool_result'): string[] {
  if (message === undefined || typeof message.content === 'string') return []
  return message.content.flatMap((block) => {
    if (block.type === 'tool_use' && type === 'tool_use') return [block.id]
    return block.type === 'tool_result' && type === 'tool_result' ? [block.tool_use_id] : []
  })
}

describe('the random sessions', () => {
  it('the random sessions reach every kind of event and every way in which a call may be admitted', () => {
    const seen = new Set<string>()
    for (const { events } of fc.sample(soundSessions, { numRuns: 400, seed: 1 })) {
      for (const event of events) {
        seen.add(event.type)
        if (event.type === 'tool_completed' && event.replayOf !== undefined) seen.add('replayed')
        if (event.type === 'tool_unknown' && event.again !== undefined) seen.add('unknown again')
        if (event.type === 'recovery_started') seen.add(event.strategy)
        if (event.type === 'tool_completed' && event.callId.includes('#')) seen.add('made again')
        if (event.type === 'error_entered') seen.add(event.code)
        if (event.type === 'turn_started' && event.turn > 1 && event.takes.length > 0) seen.add('steered')
      }
    }
    expect([...seen].sort()).toEqual(
      [
        'session_started',
        'session_resumed',
        'session_closed',
        'message_received',
        'message_rejected',
        'run_started',
        'run_completed',
        'run_interrupted',
        'turn_started',
        'model_attempt_failed',
        'model_completed',
        'agent_declared',
        'tool_issued',
        'tool_attempt_failed',
        'tool_completed',
        'tool_failed',
        'tool_unknown',
        'tool_resolved',
        'error_entered',
        'recovery_started',
        'recovery_ended',
        'replayed',
        'unknown again',
        'steered',
        'abandon',
        'continue_run',
        'restart_from_last_effect',
        'restart_run',
        'selective',
        'made again',
        'agent_not_served',
        'archive_unavailable',
        'model_call_failed',
        'max_turns',
        'deadline_exceeded',
      ].sort(),
    )
  })
})

describe('the random sessions that go back, are forked, and ask people and clients', () => {
  /** Every event type: the compiler reports one that is missing. */
  const TYPES: Record<SessionEvent['type'], true> = {
    agent_declared: true,
    recovery_refused: true,
    answer_received: true,
    answer_requested: true,
    sleep_started: true,
    approval_decided: true,
    approval_refused: true,
    approval_rule_given: true,
    approval_rule_revoked: true,
    approval_requested: true,
    checkpoint_made: true,
    checkpoint_requested: true,
    emitted: true,
    compacted: true,
    compaction_failed: true,
    content_replaced: true,
    spent: true,
    budget_warning: true,
    budget_raised: true,
    caller_told: true,
    allowance_raised: true,
    hook_answered: true,
    hooks_ended: true,
    plan_changed: true,
    memory_changed: true,
    error_entered: true,
    forked: true,
    message_received: true,
    message_scheduled: true,
    messages_unscheduled: true,
    message_rejected: true,
    milestone_reached: true,
    model_attempt_failed: true,
    model_completed: true,
    recovery_ended: true,
    recovery_started: true,
    request_passed_on: true,
    rolled_back: true,
    run_completed: true,
    run_interrupted: true,
    run_started: true,
    session_closed: true,
    session_paused: true,
    session_resumed: true,
    session_started: true,
    session_unpaused: true,
    tool_attempt_failed: true,
    tool_completed: true,
    tool_failed: true,
    tool_issued: true,
    tool_progress: true,
    tool_resolved: true,
    tool_unknown: true,
    turn_started: true,
  }

  it('the random sessions that go back, are forked, and ask people and clients have events of every type', () => {
    const seen = new Set(fc.sample(eventfulSessions, { numRuns: 400, seed: 1 }).flatMap(({ events }) => events.map(({ type }) => type)))
    expect(Object.keys(TYPES).filter((type) => !seen.has(type as SessionEvent['type']))).toEqual([])
  })
})

describe('the fold', () => {
  always('returns the same state for the same events, even through snapshots of it', ({ events, state }) => {
    // The driver went through snapshots at random points.
    expect(fold(undefined, events)).toEqual(state)
  })

  it('the fold continues from a snapshot at any event as if there had been no snapshot', () => {
    fc.assert(
      fc.property(soundSessions, fc.nat(), ({ events }, where) => {
        const cut = 1 + (where % events.length)
        const snapshot = copy(fold(undefined, copy(events.slice(0, cut))))
        expect(snapshot).toEqual(fold(undefined, events.slice(0, cut)))
        expect(JSON.stringify(fold(snapshot, copy(events.slice(cut))))).toBe(JSON.stringify(fold(undefined, events)))
      }),
      RUNS,
    )
  })

  always('does not change the events', ({ events, entries }) => {
    fold(undefined, events)
    transcriptOf(events)
    expect(events.map((event) => JSON.stringify(event))).toEqual(entries.map((entry) => entry.json))
  })

  always('sees run and turn numbers that only increase', ({ events }) => {
    let place: readonly [number, number] = [0, 0]
    for (const event of events) {
      if (event.type !== 'run_started' && event.type !== 'turn_started') continue
      const [run, turn] = place
      const next = [event.run, event.type === 'turn_started' ? event.turn : 0] as const
      if (event.type === 'run_started') expect(next[0]).toBe(run + 1)
      else expect(next).toEqual([run, turn + 1])
      place = next
    }
  })

  always('returns a status that agrees with the run and the error', ({ events }) => {
    let state: SessionState | undefined
    for (const event of events) {
      state = fold(state, [event])
      if (!state) throw new Error('unfolded')
      if (state.status === 'error') expect(state.error).not.toBeNull()
      if (state.status === 'running') expect([state.current === null, state.error]).toEqual([false, null])
      if (state.status === 'idle') expect(state.error).toBeNull()
    }
  })
})

describe('the transcript', () => {
  always('answers every tool call once, in the very next message, whenever the model is called', ({ events }) => {
    const seen = new Set<string>()
    transcriptOf(events, (event, { messages }) => {
      if (event.type !== 'turn_started') return
      seen.clear()
      for (const [index, message] of messages.entries()) {
        const asked = callsIn(message, 'tool_use')
        if (asked.length > 0) expect(callsIn(messages[index + 1], 'tool_result')).toEqual(asked)
        const answered = callsIn(message, 'tool_result')
        if (answered.length > 0) expect(callsIn(messages[index - 1], 'tool_use')).toEqual(answered)
        for (const id of asked) {
          expect(id).toMatch(/^[a-zA-Z0-9_-]+$/)
          expect(seen).not.toContain(id)
          seen.add(id)
        }
      }
    })
  })

  always('has the same waiting messages as the inbox', ({ events }) => {
    let state: SessionState | undefined
    transcriptOf(events, (event, transcript) => {
      state = fold(state, [event])
      expect(state?.inbox.map((message) => message.messageId)).toEqual([...transcript.waiting.keys()])
    })
  })

  alwaysUnlessRewound('has every accepted message once: among its messages, or waiting', ({ events, accepted }) => {
    const transcript = transcriptOf(events)
    const texts = transcript.messages.flatMap(({ role, content }) => (role === 'user' && typeof content === 'string' ? [content] : []))
    expect([...texts, ...waitingIn(transcript)].sort()).toEqual(accepted.map((id) => `text of ${id}`).sort())
  })

  always(
    'keeps the messages in the order in which they were accepted, except that one may be overtaken after its deadline',
    ({ events }) => {
      const transcript = transcriptOf(events)
      const texts = transcript.messages.flatMap(({ role, content }) => (role === 'user' && typeof content === 'string' ? [content] : []))
      const received = ofType(events, 'message_received')
      const takenAt = new Map(ofType(events, 'turn_started').flatMap(({ takes, at }) => takes.map((id) => [id, at] as const)))
      const end = events.at(-1)?.at ?? 0
      // A model that sleeps accepts what came after such a message: its own run would end at once.
      const overdue = received.filter(({ messageId, at, deadlineMs }) => at + (deadlineMs ?? Infinity) <= (takenAt.get(messageId) ?? end))
      const late = new Set(overdue.map(({ content }) => content))
      const order = received.map(({ content }) => content)
      const places = [...texts, ...waitingIn(transcript)].filter((text) => !late.has(text)).map((text) => order.lastIndexOf(text))
      expect(places).toEqual(places.toSorted((a, b) => a - b))
    },
  )

  always('is what the client shows as messages while the store is unavailable', ({ events }) => {
    const transcript = transcriptOf(events)
    const { messages } = transcript
    // Scheduled messages come last.
    const rows = messageRowsOf(events).filter(({ kind }) => kind !== 'scheduled')
    expect(rows.map(({ role, content }) => ({ role, content }))).toEqual([
      ...messages,
      ...waitingIn(transcript).map((content) => ({ role: 'user', content })),
    ])
    expect(rows.slice(messages.length).every((row) => row.run === null && row.turn === null)).toBe(true)
    expect(rows.slice(0, messages.length).every((row) => row.run !== null && row.turn !== null)).toBe(true)
    expect(new Set(rows.map((row) => row.messageId)).size).toBe(rows.length)
  })
})

describe('the metadata of a run', () => {
  it('a run’s metadata is its opening message’s: in the transcript at once, in the state from the first answer on', () => {
    fc.assert(
      fc.property(eventfulSessions, ({ events }) => {
        const said = new Map<string, JsonObject | undefined>()
        let state: SessionState | undefined
        let opened: EventOf<'run_started'> | undefined
        transcriptOf(events, (event, { newestRun }) => {
          state = fold(state, [event])
          if (event.type === 'message_received') said.set(event.messageId, event.metadata)
          if (event.type === 'run_started') opened = event
          if (!state?.current || state.current.run !== opened?.run) return
          expect(newestRun.metadata).toEqual(said.get(opened.messageId) ?? {})
          if (event.type === 'model_completed') expect(state.current.metadata).toEqual(said.get(opened.messageId) ?? {})
        })
      }),
      RUNS,
    )
  })
})

describe('the calls of a turn', () => {
  it('the calls of a turn are the same whether they are folded from the events of that turn or from all events', () => {
    const compared = metInSessions(({ events }) => {
      let met = 0
      let state: SessionState | undefined
      for (const [index, event] of events.entries()) {
        state = fold(state, [event])
        const { phase, answerSeq = 0, calls } = state?.current ?? {}
        if (phase !== 'tools') continue
        const first = events.findIndex(({ seq }) => seq === answerSeq)
        expect(callsOfTurn(events.slice(first, index + 1))).toEqual(calls)
        met += 1
      }
      return met
    })
    expect(compared).toBeGreaterThan(FIXED_SESSIONS)
  })
})

describe('effects', () => {
  /** Calls `onEntered` for each entered body, with the keys that were completed and the calls that were unknown at that moment. */
  function walk(
    { events, entered }: SoundSession,
    onEntered: (one: Entered, completed: Set<string>, unknown: Map<string, Entered>) => void,
  ): void {
    const completed = new Set<string>()
    const unknown = new Map<string, Entered>()
    const byCall = new Map(entered.map((one) => [one.callId, one]))
    const complete = (callId: string): void => {
      const { key, effect } = byCall.get(callId) ?? {}
      if (key !== undefined && effect !== 'read') completed.add(key)
    }
    let next = 0
    for (const event of events) {
      for (; (entered[next]?.afterSeq ?? Number.POSITIVE_INFINITY) < event.seq; next++)
        onEntered(entered[next] as Entered, completed, unknown)
      if (event.type === 'session_started' || (event.type === 'forked' && event.keys === 'forgotten')) {
        completed.clear()
        unknown.clear()
      }
      if (event.type === 'tool_completed' && event.replayOf === undefined) complete(event.callId)
      // A call that was approved but not entered may be given up.
      const begun = event.type === 'tool_unknown' && event.again === undefined ? byCall.get(event.callId) : undefined
      if (begun) unknown.set(begun.callId, begun)
      // A person has allowed these calls to happen again.
      if (event.type === 'recovery_started') for (const { callId, as } of event.redo ?? []) if (as !== callId) unknown.delete(callId)
      if (event.type !== 'tool_resolved') continue
      unknown.delete(event.callId)
      if (event.happened) complete(event.callId)
    }
  }

  always('that completed are never executed again under their key', (session) => {
    walk(session, ({ effect, key }, completed) => {
      if (effect !== 'read') expect(completed).not.toContain(key)
    })
  })

  always('with an unknown outcome are never executed again, nor is the same intent', (session) => {
    walk(session, ({ callId, effect, key, inputDigest }, _completed, unknown) => {
      if (effect === 'read') return
      expect([...unknown.keys()]).not.toContain(callId)
      for (const other of unknown.values()) {
        expect(other.inputDigest).not.toBe(inputDigest)
        if (key !== undefined) expect(other.key).not.toBe(key)
      }
    })
  })

  always('that may have happened prevent anything that might repeat them', ({ events }) => {
    let state: SessionState | undefined
    for (const event of events) {
      if (event.type === 'recovery_started' && event.strategy !== 'abandon' && event.strategy !== 'automatic' && state?.current) {
        const named = [...(event.keep ?? []), ...(event.skip ?? []), ...(event.redo ?? []).map(({ callId }) => callId)]
        expect(unknownCallsOf(state, state.current).filter((callId) => !named.includes(callId))).toEqual([])
      }
      state = fold(state, [event])
    }
  })

  /** How many effects a note counts without naming them: beside a small window there is no room for more. */
  const countedIn = (shown: string): number =>
    [...shown.matchAll(/- and (\d+) earlier ones: /g)].reduce((sum, [, count]) => sum + Number(count), 0)

  always('that completed are shown to the model in every request, in their results or in a note', ({ events }) => {
    const transcript = emptyTranscript()
    const completed = new Map<string, number>()
    for (const event of events) {
      addToTranscript(transcript, event)
      if (event.type === 'session_started' || event.type === 'forked') completed.clear()
      if (event.type === 'tool_completed' && event.replayOf === undefined) completed.set(event.callId, event.seq)
      if (event.type !== 'turn_started') continue
      const shown = JSON.stringify(messagesFor(transcript))
      const newest = [...completed.keys()].filter((id) => transcript.effects.byCall.has(id)).slice(-20)
      expect(newest.filter((callId) => !shown.includes(callId)).length).toBeLessThanOrEqual(countedIn(shown))
    }
  })
})

describe('the digest', () => {
  always('is continuous over every session', ({ entries }) => {
    expect(continues({ seq: 0, digest: '' }, entries)).toBe(true)
  })

  it('the digest detects any event that is changed, left out or moved', () => {
    fc.assert(
      fc.property(soundSessions, fc.nat(), fc.nat(3), ({ entries }, where, how) => {
        const at = where % entries.length
        const changed = entries.map((entry) => ({ ...entry }))
        const one = changed[at]
        const next = changed[at + 1]
        if (!one || !next) return
        if (how === 0) one.json = one.json.replace('"v":1', '"v":2')
        else if (how === 1) changed.splice(at, 1)
        else if (how === 2) changed.splice(at, 2, next, one)
        else one.digest = next.digest
        expect(continues({ seq: 0, digest: '' }, changed)).toBe(false)
      }),
      RUNS,
    )
  })
})
