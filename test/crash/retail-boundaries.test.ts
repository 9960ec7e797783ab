// A task of the retail workload, with a SIGKILL at boundaries of tool calls and of another kind, which the seed draws; in the soak, at every
// boundary.
import { crashTest, startStack } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { resultHash } from '../retail/database.ts'
import { retailCrashWorld } from '../retail/crash-world.ts'
import { effectOf } from '../retail/effects.ts'
import { requestFor } from '../retail/script.ts'
import { hasWorkload, readExpected, readTasks, sharedFolder, type Task } from '../retail/workload.ts'
import { seed, size, variants } from '../support/sizes.ts'
import { type Compiled, compile } from './support/build.ts'
import { kindOf, kindsOf, someBoundaries } from './support/some-boundaries.ts'

const KINDS = [...kindsOf('tool'), ...variants(kindsOf('model', 'flush'), 1)]

/** Of the tasks that make writes of both kinds, the first one with the fewest calls. */
function sample(): Task {
  const writes = (task: Task) => new Set(task.actions.map(({ name }) => effectOf(name)))
  const both = readTasks().filter((task) => writes(task).has('idempotent') && writes(task).has('external'))
  return both.toSorted((a, b) => a.actions.length - b.actions.length)[0] ?? expect.fail('no task makes both kinds of writes')
}

describe.skipIf(!hasWorkload)('a task of the retail workload', () => {
  let compiled: Compiled
  beforeAll(async () => {
    compiled = await compile(['test/retail/agent.ts'])
    process.env.PAWL_SHARED = sharedFolder
  })
  afterAll(() => compiled?.remove())

  it(`a retail task executes every write once wherever its worker is killed (seed ${seed}, again with PAWL_SEED)`, async () => {
    const task = sample()
    const should = readExpected().get(task.id) ?? expect.fail(`nothing expected of ${task.id}`)
    const result = await crashTest({
      module: compiled.path('agent'),
      agent: 'retail',
      context: { world: task.id },
      script: [requestFor(task)],
      world: retailCrashWorld(task.id),
      stack: await startStack(),
      random: false,
      ...size({ only: someBoundaries(seed, KINDS) }, {}),
    })
    expect(result.ok, result.table).toBe(true)
    expect(result.baseline.world).toBe(should.final_hash)
    expect(result.baseline.effects.map((effect) => (effect as { tool: string }).tool)).toEqual(
      task.actions.map(({ name }) => name).filter((name) => effectOf(name) !== 'read'),
    )
    expect(resultsIn(result.baseline.transcript).map(resultHash)).toEqual(should.results_canonical)
    expect(result.boundaries.map(({ boundary }) => kindOf(boundary))).toEqual(expect.arrayContaining(KINDS))
    const tools = result.boundaries.filter(({ boundary }) => boundary.what === 'tool')
    expect(tools.map(({ verdict }) => verdict)).toEqual(tools.map(() => 'ok'))
    expect(tools.length).toBeGreaterThanOrEqual(size(3, 4 * task.actions.length))
  }, 600_000)
})

function resultsIn(transcript: readonly unknown[]): string[] {
  const messages = transcript as { content: string | { type: string; content: string }[] }[]
  return messages.flatMap(({ content }) =>
    typeof content === 'string' ? [] : content.flatMap((block) => (block.type === 'tool_result' ? [block.content] : [])),
  )
}
