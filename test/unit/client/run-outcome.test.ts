// Which run a message belongs to and how it ended, over whole sessions and over their pieces.
import { leavesByItself } from '../../../src/session/recovery/recovery.ts'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { watchRun } from '../../../src/client/session/run-outcome.ts'
import type { SettledRun } from '../../../src/client/types.ts'
import { textOf } from '../../../src/session/content.ts'
import type { EventBody, SessionEvent } from '../../../src/session/events.ts'
import { eventfulSessions, soundSessions } from '../session/sound-session.ts'
import { sessionStarted } from '../../support/session-started.ts'

const numbered = (...bodies: EventBody[]): SessionEvent[] =>
  bodies.map((body, index) => ({ v: 1, seq: index + 1, at: index, ...body }) as SessionEvent)
const settledOf = (messageId: string, events: readonly SessionEvent[]): SettledRun | undefined => watchRun(messageId).take(events)?.settled

/** The run that a message ended up in, from the events alone: the last run that opened with it or took it. */
function runOf(messageId: string, events: readonly SessionEvent[]): number | undefined {
  let run: number | undefined
  for (const event of events) {
    if (event.type === 'run_started' && event.messageId === messageId) run = event.run
    if (event.type === 'turn_started' && event.takes.includes(messageId)) run = event.run
    if (event.type === 'recovery_started' && event.strategy === 'restart_run' && event.run === run) run = undefined
  }
  return run
}

describe('the run of a message', () => {
  it('the run of a message has settled once it has ended, in any session, and in the way that it ended', () => {
    fc.assert(
      fc.property(soundSessions, ({ events, accepted }) => {
        for (const messageId of accepted) {
          const run = runOf(messageId, events)
          // The failure before a recovery does not settle the run.
          const recovered = events.findLastIndex(
            (event) =>
              event.type === 'recovery_started' && event.run === run && event.strategy !== 'abandon' && event.strategy !== 'automatic',
          )
          const ends = events
            .slice(recovered + 1)
            .filter(
              (event) =>
                (event.type === 'run_completed' && event.run === run) ||
                (event.type === 'run_interrupted' && event.run === run) ||
                (event.type === 'error_entered' && event.run === run && !leavesByItself(event)) ||
                (event.type === 'recovery_started' && event.run === run && event.strategy === 'abandon'),
            )
          const settled = settledOf(messageId, events)
          const expected: Partial<Record<SessionEvent['type'], string>> = {
            run_completed: 'completed',
            run_interrupted: 'interrupted',
            error_entered: 'failed',
            recovery_started: 'failed',
          }
          expect(settled?.status).toBe(run === undefined || !ends[0] ? undefined : expected[ends[0].type])
          if (settled) expect(settled).toMatchObject({ run })
        }
      }),
    )
  })

  it('later events revoke the end of a run exactly if all events together have another outcome', () => {
    fc.assert(
      fc.property(eventfulSessions, fc.double({ min: 0, max: 1, noNaN: true }), ({ events }, share) => {
        const cut = Math.floor(share * events.length)
        const [before, after] = [events.slice(0, cut), events.slice(cut)]
        for (const event of events) {
          if (event.type !== 'message_received') continue
          const watch = watchRun(event.messageId)
          const end = watch.take(before)
          if (end) expect(watch.isTakenBackBy(after)).toBe(watchRun(event.messageId).take(events)?.seq !== end.seq)
        }
      }),
    )
  })

  it('the run of each message has settled once its session has nothing left to do', () => {
    fc.assert(
      fc.property(eventfulSessions, ({ events, state }) => {
        if (state.current !== null || state.inbox.length > 0) return
        const startedOver = events.findLastIndex((event) => event.type === 'session_started')
        const hasRunSince = events.findLastIndex((event) => event.type === 'run_started') > startedOver
        for (const [at, event] of events.entries()) {
          // The messages that the session may still be told of again, because it has just started over.
          if (event.type !== 'message_received' || (at < startedOver && !hasRunSince)) continue
          expect(settledOf(event.messageId, events), event.messageId).toBeDefined()
        }
      }),
    )
  })

  it('the run of a message has the text of its last answer', () => {
    fc.assert(
      fc.property(soundSessions, ({ events, accepted }) => {
        for (const messageId of accepted) {
          const settled = settledOf(messageId, events)
          if (settled?.status !== 'completed') continue
          const answers = events.flatMap((event) => (event.type === 'model_completed' && event.run === settled.run ? [event.content] : []))
          expect(settled.text).toBe(textOf(answers.at(-1) ?? []))
        }
      }),
    )
  })

  it('the run of a message ends at the same event, no matter in which batches the events arrive', () => {
    fc.assert(
      fc.property(soundSessions, fc.integer({ min: 1, max: 7 }), ({ events, accepted }, size) => {
        const completed = accepted.find((messageId) => settledOf(messageId, events)?.status === 'completed')
        if (completed === undefined) return
        const watch = watchRun(completed)
        for (let from = 0; from < events.length; from += size) {
          const batch = events.slice(from, from + size)
          const end = watch.take(batch)
          if (!end) continue
          const last = batch.find(({ seq }) => seq === end.seq)
          // In batches, a failure may be reported before its run is restarted. A completion never is.
          if (end.settled.status === 'completed') expect(last).toMatchObject({ type: 'run_completed', run: end.settled.run })
          return
        }
        throw new Error('it never ended')
      }),
    )
  })

  it('the run of a message is the one that took the message, not the one in progress when the message arrived', () => {
    const events = numbered(
      { type: 'run_started', run: 1, messageId: 'm1' },
      { type: 'turn_started', run: 1, turn: 1, takes: ['m1'] },
      { type: 'message_received', messageId: 'm2', content: 'wait' },
      { type: 'run_interrupted', run: 1, reason: 'enough' },
    )
    expect(settledOf('m1', events)).toEqual({ status: 'interrupted', run: 1, reason: 'enough' })
    expect(settledOf('m2', events)).toBeUndefined()
  })

  it('the run of a message continues through an error that pawl leaves by itself, and through a restart', () => {
    const opened: EventBody[] = [
      { type: 'run_started', run: 1, messageId: 'm1' },
      { type: 'error_entered', run: 1, code: 'agent_not_served', reason: 'r', strategy: 'automatic' },
    ]
    expect(settledOf('m1', numbered(...opened))).toBeUndefined()
    const failed: EventBody = { type: 'error_entered', run: 1, code: 'max_turns', reason: 'r', strategy: 'restart_run' }
    expect(settledOf('m1', numbered(...opened, failed))).toMatchObject({ status: 'failed', code: 'max_turns', strategy: 'restart_run' })
    expect(settledOf('m1', numbered(...opened, failed, { type: 'recovery_started', run: 1, strategy: 'restart_run' }))).toBeUndefined()
  })

  it('the run of a message has failed once a person abandons it while it waits for the next attempt', () => {
    const events = numbered(
      { type: 'message_received', messageId: 'm1', content: 'go' },
      { type: 'run_started', run: 1, messageId: 'm1' },
      { type: 'turn_started', run: 1, turn: 1, takes: ['m1'] },
      { type: 'error_entered', run: 1, code: 'overloaded_error', reason: 'r', strategy: 'continue_run', nextAttemptAt: 1_000 },
      { type: 'recovery_started', run: 1, strategy: 'abandon', by: 'ann' },
      { type: 'recovery_ended', run: 1, strategy: 'abandon' },
    )
    expect(settledOf('m1', events.slice(0, 4))).toBeUndefined()
    const failed = { status: 'failed', run: 1, code: 'overloaded_error', reason: 'r', strategy: 'continue_run' }
    expect(settledOf('m1', events)).toEqual(failed)
    const watch = watchRun('m1')
    expect(events.map((event) => watch.take([event])?.settled).find((settled) => settled)).toEqual(failed)
  })

  it('the run of a message ends at a fork that began in its middle, and a message that no run had taken is rejected there', () => {
    const forked: EventBody = {
      type: 'forked',
      sessionId: 'f',
      executionId: 'e',
      coreVersion: 1,
      from: { sessionId: 's', seq: 4 },
      keys: 'carried',
    }
    const events = numbered(
      { type: 'message_received', messageId: 'm1', content: 'go' },
      { type: 'run_started', run: 1, messageId: 'm1' },
      { type: 'turn_started', run: 1, turn: 1, takes: ['m1'] },
      { type: 'message_received', messageId: 'm2', content: 'wait' },
      forked,
    )
    expect(settledOf('m1', events)).toEqual({ status: 'interrupted', run: 1, reason: 'forked' })
    expect(settledOf('m2', events)).toMatchObject({ status: 'rejected', code: 'forked' })
    expect(settledOf('m3', events)).toBeUndefined()
  })

  it('the run of a message is lost once its session has started over and begun another run, unless the message was passed on', () => {
    const started = sessionStarted({ after: { seq: 3, digest: '', run: 1, checkpoint: 0, origin: { seq: 3, digest: '' } } as never })
    const before: EventBody[] = [
      { type: 'message_received', messageId: 'm1', content: 'go' },
      { type: 'run_started', run: 1, messageId: 'm1' },
      { type: 'turn_started', run: 1, turn: 1, takes: ['m1'] },
      started,
    ]
    const next: EventBody[] = [
      { type: 'message_received', messageId: 'm2', content: 'hello' },
      { type: 'run_started', run: 2, messageId: 'm2' },
    ]
    expect(settledOf('m1', numbered(...before))).toBeUndefined()
    expect(settledOf('m1', numbered(...before, ...next))).toMatchObject({ status: 'rejected', code: 'started_over' })
    expect(settledOf('m2', numbered(...before, ...next))).toBeUndefined()
    const passedOn: EventBody = { type: 'message_received', messageId: 'm1', content: 'go' }
    expect(settledOf('m1', numbered(...before, passedOn, ...next))).toBeUndefined()
  })

  it('the run of a message does not exist if the message was rejected', () => {
    expect(settledOf('m1', numbered({ type: 'message_rejected', messageId: 'm1', code: 'agent_mismatch', reason: 'r' }))).toEqual({
      status: 'rejected',
      code: 'agent_mismatch',
      reason: 'r',
    })
    expect(settledOf('m1', numbered({ type: 'message_rejected', code: 'undecodable', reason: 'r' }))).toBeUndefined()
    const refused: EventBody = { type: 'message_rejected', messageId: 'm1', code: 'inbox_full', reason: 'r' }
    expect(settledOf('m1', numbered(refused, { type: 'message_received', messageId: 'm1', content: 'again' }))).toBeUndefined()
  })
})
