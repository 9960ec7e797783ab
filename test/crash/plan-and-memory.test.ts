// An agent that plans and remembers, whose worker processes are killed around each step: a finished step and its checkpoint are both
// recorded, or neither is, and no text is stored twice, or missing.
import type { Json } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { type CrashConversation, crashTest, startStack } from 'pawl/testing'
import { beforeAll, expect, it } from 'vitest'
import { eventsOf } from '../support/events.ts'
import { seed, size, variants } from '../support/sizes.ts'
import { until } from '../support/until.ts'
import { compile } from './support/build.ts'

/** What became of the plan and the memory, without what differs between sessions. */
interface Mind {
  plan: unknown
  memory: unknown
}

let mind: Mind

/** Two of the three stages of a place of each kind; in the soak, a kill at every boundary. */
const stages = variants(['before', 'during|end', 'after'], 2).join('|')
const places = [
  variants(['model:1:2', 'model:1:3'], 1),
  variants(['tool:t_1_1_2', 'tool:t_1_2_0', 'tool:t_1_3_3'], 1),
  'flush:2',
  'checkpoint:1',
]
const some = new RegExp(`^(${places.flat().join('|')})/(${stages})$`)

beforeAll(async () => {
  const compiled = await compile(['test/crash/fixtures/planners.ts'])
  const seen: { mind?: Mind } = {}
  try {
    const result = await crashTest({
      module: compiled.path('planners'),
      script: [
        async ({ send, session }: CrashConversation) => {
          await (await send('go')).result({ timeout: '60s' })
          seen.mind = { plan: await planOf(session), memory: await memoryOf(session) }
        },
      ],
      world: { reset: () => void delete seen.mind, snapshot: () => (seen.mind ?? null) as Json, effects: () => [] },
      stack: await startStack(),
      random: false,
      ...size({ only: some }, {}),
      log: () => undefined,
    })
    expect(result.ok, result.table).toBe(true)
    expect(result.boundaries.filter(({ verdict }) => verdict === 'ok').length).toBeGreaterThan(5)
    mind = result.baseline.world as unknown as Mind
  } finally {
    await compiled.remove()
  }
}, 1_800_000)

async function planOf(session: SessionHandle): Promise<unknown> {
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
    plan: await session.plan(),
    order,
    together: made?.at === stepDone?.at,
    stored: checkpoints.map(({ version, reason }) => `${version} ${reason}`),
  }
}

async function memoryOf(session: SessionHandle): Promise<unknown> {
  const told = (await eventsOf(session)).flatMap((event) => {
    if (event.type === 'memory_changed') return [`version ${event.version}`]
    return event.type === 'tool_completed' && event.tool === 'memory_append' ? [(event.value as { status: string }).status] : []
  })
  return { memory: await session.memory(), told }
}

it(`a plan has each step and its checkpoint once, wherever a process is killed (seed ${seed}, again with PAWL_SEED)`, () => {
  expect(mind.plan).toEqual({
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

it(`a memory has each text once, wherever a process is killed (seed ${seed}, again with PAWL_SEED)`, () => {
  expect(mind.memory).toEqual({
    memory: [{ block: 'notes', content: 'The first part is done, and the second.\nAll is well.', maxChars: 500 }],
    told: ['version 1', 'success', 'version 2', 'resumed_partial', 'version 3', 'success', 'already_present'],
  })
})
