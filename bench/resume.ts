// `npm run bench -- resume`: from the SIGKILL of an executor, the orchestrator or a whole worker to its work running again.
import { loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { type ResumeBench, withResumeBench } from './resume/rig.ts'
import { quantile } from './statistics.ts'

/** Turns before the call that is killed, of some twelve history events each. */
const TURNS = [24, 74, 416]
/** Active sessions when the orchestrator is killed. */
const SESSIONS = 20

interface Measured {
  what: string
  ms: number[]
}

interface Result {
  what: string
  kills: number
  p50: number
  p99: number
}

/** Runs the benchmark. Each group of figures is printed as soon as it is measured. */
export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      kills: { type: 'string', default: '30' },
      'orchestrator-kills': { type: 'string', default: '10' },
      'worker-kills': { type: 'string', default: '3' },
      turns: { type: 'string', default: TURNS.join(',') },
      json: { type: 'boolean', default: false },
    },
  })
  const turns = values.turns.split(',').map(Number)
  const results: Result[] = []
  const note = (measured: readonly Measured[]): void => {
    for (const { what, ms } of measured.filter((one) => one.ms.length > 0)) {
      const result = { what, kills: ms.length, p50: Math.round(quantile(ms, 0.5)), p99: Math.round(quantile(ms, 0.99)) }
      results.push(result)
      if (!values.json) console.log(`${what.padEnd(60)} p50 ${result.p50} ms, p99 ${result.p99} ms of ${result.kills}`)
    }
  }
  await withResumeBench(async (bench) => {
    note(await ofExecutors(bench, turns, Number(values.kills)))
    note(await ofOrchestrators(bench, Number(values['orchestrator-kills'])))
    note([{ what: 'whole worker killed beside a second one', ms: await times(Number(values['worker-kills']), () => bench.killWorker()) }])
  })
  if (values.json) console.log(JSON.stringify({ bench: 'resume', results }))
  else console.log(`load average ${loadavg()[0]?.toFixed(1)}`)
}

/** Kills an executor during a tool call, and during a model call, which its successor begins by folding the session. */
async function ofExecutors(bench: ResumeBench, turns: readonly number[], kills: number): Promise<Measured[]> {
  const cases = turns.flatMap((count) => (['tool', 'model'] as const).map((end) => ({ count, end, ms: [] as number[], events: 0 })))
  // In turn, so that other load on the machine affects all of them equally.
  for (let kill = 0; kill < kills; kill++) {
    for (const one of cases) {
      const { ms, events } = await bench.killExecutor(one.count, one.end)
      one.ms.push(ms)
      one.events = Math.max(one.events, events)
    }
  }
  const nameOf = { tool: 'executor killed', model: 'executor killed, model call on a fresh one' }
  return cases.map(({ count, end, ms, events }) => ({ what: `${nameOf[end]}: ${count} turns, ${events} events`, ms }))
}

/** Kills the orchestrator beside one session, beside many, and while it holds a workflow task. */
async function ofOrchestrators(bench: ResumeBench, kills: number): Promise<Measured[]> {
  const one = await times(kills, () => bench.killOrchestrator(1))
  const many = await times(kills, () => bench.killOrchestrator(SESSIONS))
  const withTask = await times(kills, () => bench.killOrchestratorWithTask())
  return [
    { what: 'orchestrator killed: its successor polls', ms: [...one, ...many, ...withTask].map(({ readyMs }) => readyMs) },
    { what: 'orchestrator killed: the only session', ms: one.flatMap(({ sessionMs }) => sessionMs) },
    { what: `orchestrator killed: each of ${SESSIONS} sessions`, ms: many.flatMap(({ sessionMs }) => sessionMs) },
    { what: `orchestrator killed: the last of ${SESSIONS} sessions`, ms: many.map(({ sessionMs }) => Math.max(...sessionMs)) },
    { what: 'orchestrator killed: a session whose task it held', ms: withTask.flatMap(({ sessionMs }) => sessionMs) },
  ]
}

async function times<T>(count: number, measure: () => Promise<T>): Promise<T[]> {
  const all: T[] = []
  while (all.length < count) all.push(await measure())
  return all
}
