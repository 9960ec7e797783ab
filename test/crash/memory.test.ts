// An agent that writes its memory, whose worker processes are killed around each append: no text is there twice, and none is missing.
import type { SessionHandle } from 'pawl/client'
import { type CrashConversation, crashTest, startStack, type Stack } from 'pawl/testing'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Json } from 'pawl'
import { eventsOf } from '../support/events.ts'
import { size } from '../support/sizes.ts'
import { type Compiled, compile } from './support/build.ts'

let fixtures: Compiled
let stack: Stack

beforeAll(async () => {
  fixtures = await compile(['test/crash/fixtures/keepers.ts'])
  stack = await startStack({ temporal: ['path', 'cache', 'download', 'go'], postgres: ['embedded'] })
})
afterAll(async () => {
  await stack?.stop()
  await fixtures?.remove()
})

/** What became of the memory, and what the model was told, without what differs between sessions. */
async function outcome(session: SessionHandle): Promise<Json> {
  const told = (await eventsOf(session)).flatMap((event) => {
    if (event.type === 'memory_changed') return [`version ${event.version}`]
    return event.type === 'tool_completed' && event.tool === 'memory_append' ? [(event.value as { status: string }).status] : []
  })
  return { memory: (await session.memory()) as unknown as Json, told }
}

it('has each text once, wherever a process is killed', { timeout: 900_000 }, async () => {
  let seen: Json = null
  const result = await crashTest({
    module: fixtures.path('keepers'),
    script: [
      async ({ send, session }: CrashConversation) => {
        await (await send('go')).result({ timeout: '60s' })
        seen = await outcome(session)
      },
    ],
    world: { reset: () => void (seen = null), snapshot: () => seen, effects: () => [] },
    stack,
    random: false,
    ...size({ only: /^(model:1:[23]|tool:t_1_[12]_\d)\// }, {}),
    log: () => undefined,
  })
  expect(result.ok, result.table).toBe(true)
  expect(result.boundaries.filter(({ verdict }) => verdict === 'ok').length).toBeGreaterThan(5)
  expect(result.peace.world).toEqual({
    memory: [{ block: 'notes', content: 'The first part is done, and the second.\nAll is well.', maxChars: 500 }],
    told: ['version 1', 'success', 'version 2', 'resumed_partial', 'version 3', 'success', 'already_present'],
  })
})
