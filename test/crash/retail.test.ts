// The retail workload under SIGKILL: every result, every final database, and every write exactly once, whichever processes die meanwhile.
//
// PAWL_RETAIL_TASKS=all|N: how many tasks, those with the most writes first (default: 16, or 6 over HTTP or MCP; in the soak, all).
import { Pawl } from 'pawl/client'
import { type Stack, startStack } from 'pawl/testing'
import { type Supervisor, type SupervisorEvent, superviseWorkers } from 'pawl/worker'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { chosenTasks, writers, writesOf } from '../retail/chosen-tasks.ts'
import { connectRetail } from '../retail/client.ts'
import { canonicalText, resultHash } from '../retail/database.ts'
import { type Outcome, carryOutTasks } from '../retail/drive.ts'
import { type Killer, killByProgress } from '../retail/kills.ts'
import type { Execution, WorldReport } from '../retail/ledger.ts'
import { startRetailMcp } from '../retail/mcp-http.ts'
import { type RetailProcess, startRetail } from '../retail/process.ts'
import { type RetailProvider, startRetailProvider } from '../retail/provider.ts'
import { seededRandom } from '../../src/testing/crash/random.ts'
import { type Action, readExpected, sharedFolder, hasWorkload } from '../retail/workload.ts'
import { seed, variants } from '../support/sizes.ts'
import { type Compiled, compile } from './support/build.ts'

const TASK_QUEUE = 'retail'
/** A killed process holds some of them up for seconds; the others use the time. */
const CONCURRENT_SESSIONS = 12

const callText = (name: string, args: Action['kwargs']) => `${name} ${canonicalText(args)}`
const actionText = ({ name, kwargs }: Action) => callText(name, kwargs)
const executionText = ({ tool, args }: Execution) => callText(tool, args)

/**
 * A model in the agent's process; one behind a provider's API, whose streams are cut now and then; and the tools of MCP servers. The seed
 * draws two of them.
 */
const AGENTS: { what: string; module: string; usual: string; everyCalls: readonly [number, number] }[] = [
  { what: 'a scripted model', module: 'agent', usual: '16', everyCalls: [10, 25] },
  { what: 'an AI SDK model over HTTP', module: 'agent-over-http', usual: '6', everyCalls: [5, 12] },
  { what: 'tools of MCP servers', module: 'agent-over-mcp', usual: '6', everyCalls: [5, 12] },
]

describe.skipIf(!hasWorkload).each(variants(AGENTS, 2))(
  `the retail workload with $what, while worker processes are killed (seed ${seed}, again with PAWL_SEED)`,
  ({ module, usual, everyCalls }) => {
    const deaths: Extract<SupervisorEvent, { event: 'worker_died' }>[] = []
    let stack: Stack
    let retail: RetailProcess
    let supervisor: Supervisor
    let pawl: Pawl
    let killer: Killer
    let compiled: Compiled
    let provider: RetailProvider
    let servers: Awaited<ReturnType<typeof startRetailMcp>>

    beforeAll(async () => {
      console.log(`retail: seed ${seed} (again with PAWL_SEED=${seed})`)
      stack = await startStack()
      retail = await startRetail({ seed })
      provider = await startRetailProvider()
      servers = await startRetailMcp(retail.url)
      compiled = await compile([`test/retail/${module}.ts`, 'test/retail/mcp-stdio.ts'])
      Object.assign(process.env, {
        RETAIL_URL: retail.url,
        RETAIL_PROVIDER_URL: provider.url,
        RETAIL_MCP_URL: servers.url,
        PAWL_SHARED: sharedFolder,
        PAWL_QUICK_CALLS: 'always',
      })
      const temporal = { address: stack.temporalAddress, namespace: stack.namespace }
      supervisor = await superviseWorkers({
        module: compiled.path(module),
        processes: 2,
        temporal,
        taskQueue: TASK_QUEUE,
        postgres: stack.databaseUrl,
        onEvent: (event) => event.event === 'worker_died' && deaths.push(event),
      })
      await supervisor.ready()
      pawl = await Pawl.connect({ temporal, taskQueue: TASK_QUEUE, postgres: stack.databaseUrl })
      const random = seededRandom(seed)
      killer = killByProgress({ random, pids: () => supervisor.pids(), everyCalls, withinMs: 120 })
      retail.onRequest(() => killer.onCall())
    }, 120_000)

    afterAll(async () => {
      killer?.stop()
      await pawl?.close()
      await supervisor?.shutdown()
      await retail?.stop()
      await provider?.stop()
      await servers?.stop()
      await stack?.stop()
      await compiled?.remove()
    }, 60_000)

    it('the retail workload ends every task as it would without kills, with every write executed once', async () => {
      const tasks = chosenTasks(usual, 'all')
      const expected = readExpected()
      const outcomes = await carryOutTasks(tasks, CONCURRENT_SESSIONS, (task) =>
        pawl.session(`retail-${module}-${seed}-${task.id}`, { agent: 'retail', context: { world: task.id } }),
      )
      killer.stop()
      const client = connectRetail(retail.url)
      for (const outcome of outcomes) {
        const { id } = outcome.task
        const should = expected.get(id) ?? expect.fail(`nothing expected of ${id}`)
        const became = await client.report(id)
        expect(asSeen(outcome, became), id).toEqual({
          results: should.results_canonical,
          answer: `Done: ${outcome.task.outputs.join(', ')}`,
          finalHash: should.final_hash,
          writes: writesOf(outcome.task).map(actionText),
          neverRead: [],
        })
      }
      printKills(outcomes.length)
      expect(killer.killed().length).toBeGreaterThanOrEqual(Math.floor(tasks.flatMap((task) => task.actions).length / 40))
      if (tasks.length >= 16) expect(deaths.flatMap((death) => death.calls).length, 'calls that died with their process').toBeGreaterThan(0)
      if (module === 'agent-over-http') expect(provider.answered()).toBeGreaterThan(tasks.flatMap((task) => task.actions).length)
    }, 900_000)

    /** A task's outcome according to its transcript and the outside process. Reads may be repeated, but not left out. */
    function asSeen({ task, answer, results }: Outcome, { finalHash, executions }: WorldReport) {
      const executed = new Set(executions.map(executionText))
      return {
        results: results.map(resultHash),
        answer,
        finalHash,
        writes: executions.filter((execution) => writers.has(execution.tool)).map(executionText),
        neverRead: task.actions.map(actionText).filter((action) => !executed.has(action)),
      }
    }

    function printKills(tasks: number) {
      const lost = deaths.flatMap((death) => death.calls)
      const tools = lost.filter((call) => call.tool !== undefined).length
      console.log(
        `retail: ${tasks} tasks, ${killer.killed().length} kills, ${lost.length} calls died half way (${tools} tool calls), seed ${seed}`,
      )
    }
  },
)
