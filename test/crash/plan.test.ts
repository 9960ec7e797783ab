// A planning agent whose worker processes are killed around each step: a finished step and its checkpoint are both recorded, or neither is.
import type { Json } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { expect, it } from 'vitest'
import { eventsOf } from '../support/events.ts'
import { until } from '../support/until.ts'
import { sameMindAfterKills } from './support/mind.ts'

/** What became of the plan, without what differs between sessions. */
async function outcome(session: SessionHandle): Promise<Json> {
  const checkpoints = await until('both checkpoints are stored', async () => {
    const stored = await session.checkpoints()
    return stored.length === 2 && stored
  })
  const events = await eventsOf(session)
  const order = events.flatMap((event) => {
    if (event.type === 'plan_changed') return [`${event.version} ${event.change.do}`]
    return event.type === 'checkpoint_made' ? [`checkpoint ${event.version} of turn ${event.turn}: ${event.reason}`] : []
  })
  // Time does not advance within a workflow task: the last call of turn 2 finishes the step and makes its checkpoint.
  const [made] = events.filter(({ type }) => type === 'checkpoint_made')
  const [, stepDone] = events.filter(({ type }) => type === 'plan_changed')
  return {
    plan: (await session.plan()) as unknown as Json,
    order,
    together: made?.at === stepDone?.at,
    stored: checkpoints.map(({ version, reason }) => `${version} ${reason}`),
  }
}

it('a plan has each step and its checkpoint once, wherever a process is killed', { timeout: 900_000 }, async () => {
  const mind = await sameMindAfterKills('planners', /^(model:1:[23]|tool:t_1_3_1|flush:2|checkpoint:1)\//, outcome)
  expect(mind).toEqual({
    plan: {
      version: 3,
      objective: 'All parts',
      steps: [
        { id: 'one', title: 'The first part', status: 'done', evidence: 'did one' },
        { id: 'two', title: 'The second part', status: 'done', evidence: 'did two' },
      ],
    },
    order: ['1 setup', '2 update_step', 'checkpoint 1 of turn 2: step_done', '3 update_step', 'checkpoint 2 of turn 3: step_done'],
    together: true,
    stored: ['2 step_done', '1 step_done'],
  })
})
