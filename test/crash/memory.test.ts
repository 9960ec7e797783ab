// An agent that writes its memory, whose worker processes are killed around each append: no text is stored twice, and none is missing.
import type { Json } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { expect, it } from 'vitest'
import { eventsOf } from '../support/events.ts'
import { sameMindAfterKills } from './support/mind.ts'

/** What became of the memory, and what the model was told, without what differs between sessions. */
async function outcome(session: SessionHandle): Promise<Json> {
  const told = (await eventsOf(session)).flatMap((event) => {
    if (event.type === 'memory_changed') return [`version ${event.version}`]
    return event.type === 'tool_completed' && event.tool === 'memory_append' ? [(event.value as { status: string }).status] : []
  })
  return { memory: (await session.memory()) as unknown as Json, told }
}

it('a memory has each text once, wherever a process is killed', { timeout: 900_000 }, async () => {
  const mind = await sameMindAfterKills('keepers', /^(model:1:[23]|tool:t_1_[12]_\d)\//, outcome)
  expect(mind).toEqual({
    memory: [{ block: 'notes', content: 'The first part is done, and the second.\nAll is well.', maxChars: 500 }],
    told: ['version 1', 'success', 'version 2', 'resumed_partial', 'version 3', 'success', 'already_present'],
  })
})
