// Incidents: who ended an error, how its run ended, and what the metrics count.
import { describe, expect, it } from 'vitest'
import type { EventBody, SessionEvent } from '../../../src/session/events.ts'
import { endingsOf, errorEndOf } from '../../../src/store/project/incidents.ts'
import { applyToSession, newSessionColumns } from '../../../src/store/project/session-columns.ts'

const failed = (run: number, strategy: 'continue_run' | 'automatic' = 'continue_run'): EventBody => ({
  type: 'error_entered',
  run,
  code: 'broken',
  reason: 'It failed.',
  strategy,
})
const recovered = (strategy: 'continue_run' | 'abandon' | 'restart_run', automatic = false): EventBody[] => [
  { type: 'recovery_started', run: 1, strategy, ...(automatic && { automatic: true as const }) },
  { type: 'recovery_ended', run: 1, strategy },
]
const BEGUN: EventBody[] = [{ type: 'run_started', run: 1, messageId: 'u1' }, failed(1)]
const DONE = { type: 'run_completed', run: 1, turns: 1, stopReason: 'end_turn', usage: {} } as unknown as EventBody

/** What the events end, in order; the events are a second apart. */
function endings(bodies: readonly EventBody[]) {
  const session = newSessionColumns()
  const found: unknown[] = []
  for (const [index, body] of bodies.entries()) {
    const event = { v: 1, seq: index + 1, at: index * 1_000, ...body } as SessionEvent
    const end = errorEndOf(session, event)
    for (const { what, ...ending } of endingsOf(session, event)) found.push([event.type, what, ...Object.values(ending)])
    if (end?.ended_by) found.push([event.type, end.ended_by])
    applyToSession(session, event)
  }
  return { found, incident: session.incident }
}

describe('an incident', () => {
  it('an incident that pawl recovers heals by itself, once its run has completed', () => {
    const { found, incident } = endings([...BEGUN, ...recovered('continue_run', true), DONE])
    expect(found).toEqual([
      ['recovery_ended', 'error', 'broken', 'itself', 2_000],
      ['recovery_ended', 'itself'],
      ['run_completed', 'recovery', 'continue_run', true, 'completed'],
      ['run_completed', 'incident', 'broken', 'healed_by_itself'],
    ])
    expect(incident).toBeNull()
  })

  it('an incident continues if the recovered run fails again, and is healed by the person who then recovers it', () => {
    const { found } = endings([...BEGUN, ...recovered('continue_run', true), failed(1), ...recovered('restart_run'), DONE])
    expect(found).toEqual([
      ['recovery_ended', 'error', 'broken', 'itself', 2_000],
      ['recovery_ended', 'itself'],
      ['error_entered', 'recovery', 'continue_run', true, 'failed'],
      ['recovery_ended', 'error', 'broken', 'person', 2_000],
      ['recovery_ended', 'person'],
      ['run_completed', 'recovery', 'restart_run', false, 'completed'],
      ['run_completed', 'incident', 'broken', 'healed_by_person'],
    ])
  })

  it('an incident is given up if its run is abandoned or interrupted, or the session is closed', () => {
    const ends: EventBody[][] = [
      recovered('abandon'),
      [{ type: 'run_interrupted', run: 1 }],
      [{ type: 'session_closed', reason: 'requested' }],
    ]
    for (const end of ends) expect(endings([...BEGUN, ...end]).found).toContainEqual([end.at(-1)?.type, 'incident', 'broken', 'given_up'])
  })

  it('an incident whose session is rolled back is neither healed nor given up', () => {
    const { found } = endings([...BEGUN, { type: 'rolled_back', toSeq: 1, upToSeq: 1, effects: [] }])
    expect(found).toContainEqual(['rolled_back', 'incident', 'broken', 'rolled_back'])
  })

  it('an incident of an error that ends by itself heals without a recovery', () => {
    const held: EventBody[] = [failed(1, 'automatic'), { type: 'recovery_ended', run: 1, strategy: 'automatic' }, DONE]
    expect(endings([{ type: 'run_started', run: 1, messageId: 'u1' }, ...held]).found).toEqual([
      ['recovery_ended', 'error', 'broken', 'itself', 1_000],
      ['recovery_ended', 'itself'],
      ['run_completed', 'incident', 'broken', 'healed_by_itself'],
    ])
  })

  it('an incident is open while its run continues after a recovery, and a run without errors ends none', () => {
    expect(endings([...BEGUN, ...recovered('continue_run')]).incident).toMatchObject({ seq: 2, code: 'broken', byPerson: true })
    expect(endings([{ type: 'run_started', run: 1, messageId: 'u1' }, DONE]).found).toEqual([])
  })
})
