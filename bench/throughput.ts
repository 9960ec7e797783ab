// `npm run bench -- throughput`: turns per second of many sessions at once, against the bare loop of `bench -- turn` on as many processes.
import { loadavg } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Client, Connection } from '@temporalio/client'
import { Pawl } from 'pawl/client'
import { startStack } from 'pawl/testing'
import { superviseWorkers } from 'pawl/worker'
import { cpuByPart } from './proc.ts'
import { type Sample, sampleOf } from './statistics.ts'
import { bundleFloor } from './turn/floor-bundle.ts'
import { AGENT, TASK_QUEUE } from './turn/work.ts'
import { startWorkers, type WorkerSetting } from './turn/workers.ts'

/** Turns before anything is measured: they compile code, fill caches, and prove that the tool is quick. */
const WARM_UP_TURNS = 30

/** One side at work. */
interface Side {
  runTurns(turns: number): Promise<unknown>
  stop(): Promise<unknown>
}

/** A round of one side. */
interface Round {
  perSecond: number
  /** Milliseconds of CPU that a turn took, by process. */
  cpu: Map<string, number>
}

/** Runs the benchmark. */
export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      sessions: { type: 'string', default: '100' },
      turns: { type: 'string', default: '20' },
      rounds: { type: 'string', default: '3' },
      executors: { type: 'string', default: '2' },
      bytes: { type: 'string', default: '1000' },
      effect: { type: 'string', default: 'read,idempotent' },
      json: { type: 'boolean', default: false },
    },
  })
  // With --json, the machine-readable line is the only one on standard output.
  const say = (line: string) => void (values.json ? process.stderr : process.stdout).write(`${line}\n`)
  const [turns, rounds, executors] = [Number(values.turns), Number(values.rounds), Number(values.executors)]
  process.env.BENCH_RESULT_BYTES = values.bytes
  const stack = await startStack()
  const connection = await Connection.connect({ address: stack.temporalAddress })
  const client = new Client({ connection, namespace: stack.namespace })
  const bundles = await bundleFloor()
  const { temporalAddress: address, namespace, databaseUrl } = stack
  const floor = await startFloor(client, executors + 1, { address, namespace, databaseUrl, eager: 'on', floorBundle: bundles.on })
  const ratios: Record<string, number> = {}
  try {
    await floor.runTurns(WARM_UP_TURNS)
    for (const effect of values.effect.split(',')) {
      say(`a tool with the effect ${effect}`)
      process.env.BENCH_EFFECT = effect
      const pawl = await startPawl(client, executors, { address, namespace, databaseUrl })
      try {
        await Promise.all(Array.from({ length: 2 * executors }, () => pawl.runTurns(WARM_UP_TURNS)))
        for (const sessions of values.sessions.split(',').map(Number)) {
          const [ofFloor, ofPawl]: [Round[], Round[]] = [[], []]
          for (let round = 0; round < rounds; round++) {
            ofFloor.push(await measure(floor, sessions, turns))
            ofPawl.push(await measure(pawl, sessions, turns))
          }
          const ratio = sampleOf(ofPawl.map(({ perSecond }, round) => perSecond / (ofFloor[round]?.perSecond ?? Number.NaN)))
          ratios[effect] = Number(ratio.median.toFixed(3))
          for (const line of linesOf(sessions, ofFloor, ofPawl, ratio)) say(line)
        }
      } finally {
        await pawl.stop()
      }
    }
    say(`${executors} executors and their orchestrator against ${executors + 1} bare workers; load average ${loadavg()[0]?.toFixed(1)}`)
    // Of the last number of sessions.
    if (values.json) process.stdout.write(`${JSON.stringify({ ratios })}\n`)
  } finally {
    await floor.stop()
    await bundles.remove()
    await connection.close()
    await stack.stop()
  }
}

/** All sessions begin at once; the round ends with the last one. */
async function measure({ runTurns }: Side, sessions: number, turns: number): Promise<Round> {
  const before = await cpuByPart()
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: sessions }, () => runTurns(turns)))
  const seconds = (performance.now() - startedAt) / 1_000
  const all = sessions * turns
  const after = await cpuByPart()
  return { perSecond: all / seconds, cpu: new Map([...after].map(([part, ms]) => [part, (ms - (before.get(part) ?? 0)) / all])) }
}

async function startFloor(client: Client, processes: number, setting: WorkerSetting): Promise<Side> {
  const stop = await startWorkers('floor', processes, setting)
  const runTurns = (turns: number): Promise<unknown> => {
    const workflowId = `floor-${crypto.randomUUID()}`
    return client.workflow.execute('floor', { workflowId, taskQueue: TASK_QUEUE.floor, args: [workflowId, turns] })
  }
  return { runTurns, stop }
}

async function startPawl(
  client: Client,
  processes: number,
  place: Pick<WorkerSetting, 'address' | 'namespace' | 'databaseUrl'>,
): Promise<Side> {
  const { address, namespace, databaseUrl } = place
  const supervisor = await superviseWorkers({
    module: fileURLToPath(new URL('turn/agent.ts', import.meta.url)),
    processes,
    temporal: { address, namespace },
    taskQueue: TASK_QUEUE.pawl,
    postgres: databaseUrl,
  })
  await supervisor.ready()
  const pawl = await Pawl.connect({ temporal: client, taskQueue: TASK_QUEUE.pawl, postgres: databaseUrl })
  return {
    runTurns: async (turns) => (await pawl.session(undefined, { agent: AGENT }).send(String(turns))).result(),
    async stop() {
      await pawl.close()
      await supervisor.shutdown()
    },
  }
}

function linesOf(sessions: number, floor: readonly Round[], pawl: readonly Round[], ratio: Sample): string[] {
  const text = (side: readonly Round[]): string => `${sampleOf(side.map(({ perSecond }) => perSecond)).median.toFixed(0)} turns/s`
  return [
    `${String(sessions).padStart(4)} sessions: floor ${text(floor)}, pawl ${text(pawl)}, ratio ${ratio.median.toFixed(2)} ± ${ratio.noise.toFixed(2)}`,
    cpuLine('floor', floor),
    cpuLine('pawl', pawl),
  ]
}

function cpuLine(side: string, rounds: readonly Round[]): string {
  const parts = new Set(rounds.flatMap(({ cpu }) => [...cpu.keys()]))
  const medians = [...parts].map((part) => ({ part, ms: sampleOf(rounds.map(({ cpu }) => cpu.get(part) ?? 0)).median }))
  const shown = medians.filter(({ ms }) => ms >= 0.1).map(({ part, ms }) => `${part} ${ms.toFixed(1)}`)
  return `     ${side.padEnd(5)}  ms of CPU per turn: ${shown.join(', ')}`
}
