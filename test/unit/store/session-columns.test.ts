// A session's row says what its state says, whatever has happened to it.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { rootIdOf } from '../../../src/session/agents/agent-calls.ts'
import type { SessionEvent } from '../../../src/session/events.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import { isWaiting } from '../../../src/session/past/call-status.ts'
import type { SessionState } from '../../../src/session/state.ts'
import { newProjection, project, type Projection, preload } from '../../../src/store/project/projections.ts'
import { newSessionColumns, type SessionColumns, waitingCalls } from '../../../src/store/project/session-columns.ts'
import { eventfulSessions } from '../session/sound-session.ts'
import { size } from '../../support/sizes.ts'

/** The columns according to the state. */
function columnsOf(state: SessionState) {
  const { status, run, current, turns, error, paused, plan, usage, spend, checkpoint, forkedFrom, updatedAt } = state
  return {
    status,
    run,
    currentRun: current?.run ?? null,
    turns,
    error,
    paused: paused ?? null,
    plan: plan?.current ?? null,
    usage,
    checkpoint: checkpoint?.version ?? 0,
    forkedFrom: forkedFrom ?? null,
    root: rootIdOf(state.sessionId, state.caller) ?? null,
    spent: { tokens: spend?.tokens ?? 0, usd: spend?.usd ?? 0 },
    updatedAt,
    waiting: current?.calls.filter((call) => isWaiting(call) && call.status !== 'asleep').length ?? 0,
    calls: current?.phase === 'tools' ? current.calls.map(({ callId, status }) => [callId, status]) : null,
  }
}

/** `isOpen`: the newest turn is open; otherwise its calls need not be known. */
function said(session: SessionColumns, isOpen: boolean) {
  const { calls, incident: _incident, planIsNew: _planIsNew, model: _model, provider: _provider, usd: _usd, ...columns } = session
  return { ...columns, waiting: waitingCalls(session), calls: isOpen ? [...calls].map(([callId, { status }]) => [callId, status]) : null }
}

/** What the next flush knows of the projection: the row, and the events of the open turn or of one that the next events reopen. */
function flushedAgain({ session, openTurn }: Projection, events: readonly SessionEvent[], next: readonly SessionEvent[]): Projection {
  const projection = newProjection({ ...session, calls: new Map() })
  const reopens = next.find((event) => event.type === 'recovery_started' && event.strategy === 'selective')
  const answerSeq = reopens?.type === 'recovery_started' ? reopens.toSeq : undefined
  const from = answerSeq !== undefined && answerSeq <= events.length ? answerSeq : openTurn?.seq
  if (from !== undefined) preload(projection, events.slice(from - 1))
  return projection
}

describe("a session's columns", () => {
  it('a session’s columns match the folded state after every event, however the events are split into flushes', () => {
    fc.assert(
      fc.property(eventfulSessions, fc.integer({ min: 1, max: 5 }), ({ events }, every) => {
        let state: SessionState | undefined
        let projection = newProjection(newSessionColumns())
        for (const [index, event] of events.entries()) {
          state = fold(state, [event])
          if (index % every === 0) projection = flushedAgain(projection, events.slice(0, index), events.slice(index, index + every))
          project(projection, [event], false)
          expect(said(projection.session, state?.current?.phase === 'tools')).toEqual(columnsOf(state ?? expect.fail()))
        }
      }),
      { numRuns: size(60, 300), endOnFailure: true },
    )
  })

  it("a session's columns are tested with sessions in which everything happens", () => {
    const seen = new Set<string>()
    for (const { events } of fc.sample(eventfulSessions, { numRuns: 400, seed: 1 })) {
      for (const event of events) seen.add(event.type === 'session_started' && event.after ? 'started over' : event.type)
    }
    for (const type of [
      'approval_requested',
      'approval_decided',
      'answer_requested',
      'answer_received',
      'tool_progress',
      'milestone_reached',
      'checkpoint_made',
      'rolled_back',
      'forked',
      'started over',
      'session_resumed',
      'tool_resolved',
    ]) {
      expect(seen).toContain(type)
    }
  })
})
