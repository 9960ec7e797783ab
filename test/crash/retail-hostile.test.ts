// The retail tasks with content that providers refuse: from users, models and tools, while worker processes are killed. Each provider
// enforces its documented rules, and a filter of its own that no documentation names.
//
// PAWL_RETAIL_TASKS=all|N: how many tasks, those with the most writes first (default: 9; in the soak, 120).
import { Pawl, type SessionHandle } from 'pawl/client'
import { type Stack, startStack } from 'pawl/testing'
import { type Supervisor, superviseWorkers } from 'pawl/worker'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Message, textOf } from '../../src/session/content.ts'
import { chosenTasks, writers, writesOf } from '../retail/chosen-tasks.ts'
import { connectRetail } from '../retail/client.ts'
import { canonicalText, resultHash } from '../retail/database.ts'
import { besideRequest } from '../retail/hostile.ts'
import { type Killer, killByProgress } from '../retail/kills.ts'
import { type RetailProcess, startRetail } from '../retail/process.ts'
import { seededRandom } from '../../src/testing/crash/random.ts'
import { requestFor } from '../retail/script.ts'
import { startStrictProvider, type StrictProvider } from '../retail/strict-provider.ts'
import { hasWorkload, readExpected, readToolSpecs, sharedFolder, type Task } from '../retail/workload.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { seed } from '../support/sizes.ts'
import { until } from '../support/until.ts'
import { type Compiled, compile } from './support/build.ts'

const TASK_QUEUE = 'hostile'
const AGENTS = ['Anthropic', 'OpenAI', 'Google'] as const
const CONCURRENT_SESSIONS = 9
/** A flush may die with its worker a few times in a row, and each time it is retried only after the heartbeat timeout. */
const STORE_MS = 90_000

const tools = new Set(hasWorkload ? readToolSpecs().map(({ name }) => name) : [])

describe.skipIf(!hasWorkload)(
  `the retail workload with content that providers refuse, while worker processes are killed (seed ${seed}, again with PAWL_SEED)`,
  () => {
    let stack: Stack
    let retail: RetailProcess
    let provider: StrictProvider
    let compiled: Compiled
    let supervisor: Supervisor
    let pawl: Pawl
    let killer: Killer

    beforeAll(async () => {
      stack = await startStack()
      retail = await startRetail({ seed, latencyMs: 10 })
      provider = await startStrictProvider({ delayMs: 20 })
      compiled = await compile(['test/retail/hostile-agents.ts'])
      Object.assign(process.env, { RETAIL_URL: retail.url, STRICT_PROVIDER_URL: provider.url, PAWL_SHARED: sharedFolder })
      const temporal = { address: stack.temporalAddress, namespace: stack.namespace }
      const served = { temporal, taskQueue: TASK_QUEUE, postgres: stack.databaseUrl }
      supervisor = await superviseWorkers({ module: compiled.path('hostile-agents'), processes: 2, ...served })
      await supervisor.ready()
      pawl = await Pawl.connect(served)
      killer = killByProgress({ random: seededRandom(seed), pids: () => supervisor.pids(), everyCalls: [12, 30], withinMs: 60 })
      retail.onRequest(() => killer.onCall())
      // Processes also die while pawl looks for the content at fault.
      provider.onFiltered(() => killer.onCall())
    }, 120_000)

    afterAll(async () => {
      killer?.stop()
      await pawl?.close()
      await supervisor?.shutdown()
      await retail?.stop()
      await provider?.stop()
      await stack?.stop()
      await compiled?.remove()
    }, 60_000)

    it('the retail workload with content that providers refuse ends every task as with ordinary content', async () => {
      const tasks = chosenTasks('9', '120')
      const expected = readExpected()
      const client = connectRetail(retail.url)
      const queue = [...tasks.entries()]
      let replaced = 0

      async function carryOut(task: Task, number: number): Promise<void> {
        const agent = AGENTS[(number + seed) % AGENTS.length] ?? 'Anthropic'
        const session = pawl.session(`hostile-${seed}-${task.id}`, { agent, context: { world: task.id } }) as SessionHandle
        const content = [{ type: 'text' as const, text: requestFor(task) }, ...besideRequest(number + seed)]
        const run = await session.send(content, { isNew: true })
        const { text } = await run.result({ timeout: 300_000 })
        const should = expected.get(task.id) ?? expect.fail(`nothing expected of ${task.id}`)
        const became = await client.report(task.id)
        expect(
          {
            text,
            results: (await resultsOf(session)).map(resultHash),
            finalHash: became.finalHash,
            writes: became.executions.filter(({ tool }) => writers.has(tool)).map(({ tool, args }) => `${tool} ${canonicalText(args)}`),
          },
          `${task.id}, ${agent}`,
        ).toEqual({
          text: `Done: ${task.outputs.join(', ')}`,
          results: should.results_canonical,
          finalHash: should.final_hash,
          writes: writesOf(task).map(({ name, kwargs }) => `${name} ${canonicalText(kwargs)}`),
        })
        replaced += ofType(await eventsOf(session), 'content_replaced').length
      }

      const serve = async () => {
        for (let next = queue.shift(); next; next = queue.shift()) await carryOut(next[1], next[0])
      }
      await Promise.all(Array.from({ length: CONCURRENT_SESSIONS }, serve))
      killer.stop()
      console.log(
        `hostile: ${tasks.length} tasks, ${killer.killed().length} kills, ${provider.filtered()} requests refused by the filter, ${replaced} times content was replaced, seed ${seed}`,
      )
      expect(provider.problems).toEqual([])
      expect(provider.filtered()).toBeGreaterThan(0)
      expect(replaced).toBeGreaterThan(0)
      expect(killer.killed().length).toBeGreaterThan(0)
    }, 900_000)

    /** The results of the workload's own calls, in the transcript's order, once the answer is stored. */
    async function resultsOf(session: SessionHandle): Promise<string[]> {
      const messages = await until(
        'the answer is stored',
        async () => {
          const stored = await session.messages()
          const last = stored.at(-1)
          return last?.kind === 'assistant' && !blocksOf(last).some(({ type }) => type === 'tool_use') ? stored : undefined
        },
        STORE_MS,
      )
      const blocks = messages.flatMap(blocksOf)
      const own = new Set(blocks.flatMap((block) => (block.type === 'tool_use' && tools.has(block.name) ? [block.id] : [])))
      return blocks.flatMap((block) => (block.type === 'tool_result' && own.has(block.tool_use_id) ? [textOf(block.content)] : []))
    }
  },
)

function blocksOf({ content }: Pick<Message, 'content'>) {
  return typeof content === 'string' ? [] : content
}
