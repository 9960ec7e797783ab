// Expects a call to have happened as if its processes had never been paused.
import type { RunHandle } from 'pawl/client'
import { expect } from 'vitest'
import { eventsOf, ofType } from '../../support/events.ts'
import { finalAnswer } from './plan.ts'
import type { Rig } from './rig.ts'

/** The body of the run's only call was entered once and had its effect once; neither verify nor a person was asked. */
export async function onceOnly(rig: Rig, { tool, run }: { tool: string; run: RunHandle }): Promise<void> {
  expect((await run.result()).text).toBe(finalAnswer([[{ tool, input: { name: 'a' } }]]))
  const marks = rig.ledger.marks({ session: run.sessionId, what: tool })
  const count = (stage: string): number => marks.filter((mark) => mark.stage === stage).length
  expect([count('entered'), count('applied'), count('verify')], tool).toEqual([1, 1, 0])
  const events = await eventsOf(rig.pawl.session(run.sessionId))
  expect(ofType(events, 'tool_unknown')).toEqual([])
  expect(ofType(events, 'tool_completed')).toHaveLength(1)
}
