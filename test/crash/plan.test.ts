// A planning agent whose worker processes are killed around each step: a step that is done and its checkpoint are both there, or neither.
import type { SessionHandle } from 'pawl/client'
import { type CrashConversation, crashTest, startStack, type Stack } from 'pawl/testing'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Json } from 'pawl'
import { eventsOf } from '../support/events.ts'
import { size } from '../support/sizes.ts'
import { until } from '../support/until.ts'
import { type Compiled, compile } from './support/build.ts'

let fixtures: Compiled
let stack: Stack

beforeAll(async () => {
  fixtures = await compile(['test/crash/fixtures/planners.ts'])
  stack = await startStack({ temporal: ['path', 'cache', 'download', 'go'], postgres: ['embedded'] })
})
afterAll(async () => {
  await stack?.stop()
  await fixtures?.remove()
})

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
  // The time of a workflow task stands still: the last call of turn 2 makes the step done and its checkpoint.
  const [made] = events.filter(({ type }) => type === 'checkpoint_made')
  const [, stepDone] = events.filter(({ type }) => type === 'plan_changed')
  return {
    plan: (await session.plan()) as unknown as Json,
    order,
    together: made?.at === stepDone?.at,
    stored: checkpoints.map(({ version, reason }) => `${version} ${reason}`),
  }
}

it('has each step and its checkpoint once, wherever a process is killed', { timeout: 900_000 }, async () => {
  let seen: Json = null
  const result = await crashTest({
    module: fixtures.path('planners'),
    script: [
      async ({ send, session }: CrashConversation) => {
        await (await send('go')).result({ timeout: '60s' })
        seen = await outcome(session)
      },
    ],
    world: { reset: () => void (seen = null), snapshot: () => seen, effects: () => [] },
    stack,
    random: false,
    ...size({ only: /^(model:1:[23]|tool:t_1_3_1|flush:2|checkpoint:1)\// }, {}),
    log: () => undefined,
  })
  expect(result.ok, result.table).toBe(true)
  expect(result.boundaries.filter(({ verdict }) => verdict === 'ok').length).toBeGreaterThan(5)
  expect(result.peace.world).toEqual({
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
