// `npm run bench -- footprint`: memory, connections and idle CPU of a worker's processes, and how long they take to serve.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Pawl } from 'pawl/client'
import { startStack } from 'pawl/testing'
import { cpuMsOf, memoryOf } from './proc.ts'
import { quantile } from './statistics.ts'
import { bundleFloor } from './turn/floor-bundle.ts'
import { everyPid, look, say, textOf } from './worker/look.ts'
import { type BenchWorker, startWorker } from './worker/start.ts'

const TASK_QUEUE = 'bench-footprint'
const AGENT = 'footprint'
const SETTLE_MS = 3_000
/** Concurrent runs while sessions are opened. */
const AT_ONCE = 50

const here = (name: string): string => fileURLToPath(new URL(`footprint/${name}`, import.meta.url))

interface Place {
  address: string
  namespace: string
  databaseUrl: string
}

/** Runs the benchmark. */
export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      sessions: { type: 'string', default: '1000' },
      executors: { type: 'string', default: '2' },
      'idle-seconds': { type: 'string', default: '20' },
      starts: { type: 'string', default: '5' },
    },
  })
  const executors = Number(values.executors)
  const stack = await startStack()
  try {
    const { temporalAddress: address, namespace, databaseUrl } = stack
    const place = { address, namespace, databaseUrl }
    await printTimes(place, executors, Number(values.starts))
    await printFloor(place)
    await printWorker(place, { executors, sessions: Number(values.sessions), idleMs: Number(values['idle-seconds']) * 1_000 })
    console.log(`load average ${loadavg()[0]?.toFixed(1)}`)
  } finally {
    await stack.stop()
  }
}

function start({ address, namespace, databaseUrl }: Place, processes: number): Promise<BenchWorker> {
  const temporal = { address, namespace }
  return startWorker({ module: here('agent.mjs'), processes, temporal, taskQueue: TASK_QUEUE, postgres: databaseUrl })
}

/** From the parent's start to serving, and from an executor's start to its readiness. */
async function printTimes(place: Place, executors: number, starts: number): Promise<void> {
  const serving: number[] = []
  const ready: number[] = []
  for (let n = 0; n < starts; n++) {
    const worker = await start(place, executors)
    const { events, startedAt } = worker
    serving.push((events.find(({ event }) => event === 'serving')?.at ?? Number.NaN) - startedAt)
    // A replacement starts alone.
    const [victim = 0] = worker.pids().executors
    process.kill(victim, 'SIGKILL')
    while (worker.pids().executors.includes(victim)) await sleep(20)
    await worker.serving()
    const last = events.findLast(({ event }) => event === 'worker_ready')
    const forked = events.findLast(({ event }) => event === 'worker_started')
    ready.push((last?.at ?? Number.NaN) - (forked?.at ?? Number.NaN))
    await worker.stop()
  }
  console.log(
    `from start to serving: p50 ${Math.round(quantile(serving, 0.5))} ms; an executor from fork to ready: p50 ${Math.round(quantile(ready, 0.5))} ms`,
  )
}

async function printFloor({ address, namespace }: Place): Promise<void> {
  const bundles = await bundleFloor()
  const bare = fork(here('bare-worker.mjs'), [], { execArgv: [] })
  bare.send({ address, namespace, bundle: bundles.on })
  await once(bare, 'message')
  await sleep(SETTLE_MS)
  console.log(`\nthe floor, a bare worker of the SDK: ${textOf(await memoryOf(bare.pid ?? 0))}`)
  bare.disconnect()
  await once(bare, 'exit')
  await bundles.remove()
}

async function printWorker(
  place: Place,
  { executors, sessions, idleMs }: { executors: number; sessions: number; idleMs: number },
): Promise<void> {
  const worker = await start(place, executors)
  const pawl = await Pawl.connect({
    temporal: { address: place.address, namespace: place.namespace },
    postgres: place.databaseUrl,
    taskQueue: TASK_QUEUE,
  })
  try {
    await sleep(SETTLE_MS)
    say('just started', await look(worker, place))
    await openSessions(pawl, sessions)
    await sleep(SETTLE_MS)
    say(`with ${sessions} open sessions, idle`, await look(worker, place))
    const pids = everyPid(worker)
    const before = await Promise.all(pids.map(([, pid]) => cpuMsOf(pid)))
    await sleep(idleMs)
    const after = await Promise.all(pids.map(([, pid]) => cpuMsOf(pid)))
    const parts = pids.map(([who], index) => `${who} ${((((after[index] ?? 0) - (before[index] ?? 0)) / idleMs) * 100).toFixed(1)} %`)
    console.log(`CPU of the idle worker over ${idleMs / 1_000} s, of one core: ${parts.join(', ')}`)
  } finally {
    await pawl.close()
    await worker.stop()
  }
}

async function openSessions(pawl: Pawl, count: number): Promise<void> {
  let left = count
  const lane = async (): Promise<void> => {
    while (left-- > 0) {
      const handle = await pawl.session(undefined, { agent: AGENT }).send('hello')
      await handle.result()
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane))
}
