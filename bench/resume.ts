// `npm run bench -- resume`: from SIGKILL of the process that holds a call to the call running again, with one spare process.
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Client, Connection } from '@temporalio/client'
import { Pawl } from 'pawl/client'
import { startStack } from 'pawl/testing'
import { superviseWorkers } from 'pawl/worker'
import { AGENT } from './resume/agent.ts'
import { quantile } from './statistics.ts'

/** Turns before the call that is killed, of some twelve history events each. */
const TURNS = [24, 74] as const
const QUIET_MS = 1_000
const TASK_QUEUE = 'bench-resume'

interface Entered {
  sessionId: string
  attempt: number
  pid: number
  at: number
}

interface Measured {
  events: number
  ms: number
}

/** Runs the benchmark. */
export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { kills: { type: 'string', default: '30' }, json: { type: 'boolean', default: false } } })
  const kills = Number(values.kills)
  const measured = await withWorkers(async (killOnce) => {
    const byTurns = new Map<number, Measured[]>(TURNS.map((turns) => [turns, []]))
    // In turn, so that what else the machine does meets both alike.
    for (let kill = 0; kill < kills; kill++) for (const turns of TURNS) byTurns.get(turns)?.push(await killOnce(turns))
    return [...byTurns.values()]
  })
  const results = measured.map((list) => {
    const ms = list.map((one) => one.ms)
    return { events: Math.max(...list.map((one) => one.events)), kills: ms.length, p50: quantile(ms, 0.5), p99: quantile(ms, 0.99) }
  })
  if (values.json) return console.log(JSON.stringify({ resumeMs: results }))
  for (const { events, kills: count, p50, p99 } of results) {
    console.log(`${String(events).padStart(5)} events: p50 ${p50.toFixed(0)} ms, p99 ${p99.toFixed(0)} ms of ${count} kills`)
  }
  console.log(`load average ${loadavg()[0]?.toFixed(1)}`)
}

async function withWorkers<T>(use: (killOnce: (turns: number) => Promise<Measured>) => Promise<T>): Promise<T> {
  const stack = await startStack()
  const folder = await mkdtemp(join(tmpdir(), 'pawl-bench-'))
  const file = join(folder, 'entered')
  process.env.BENCH_ENTERED = file
  const temporal = { address: stack.temporalAddress, namespace: stack.namespace }
  const connection = await Connection.connect({ address: temporal.address })
  const client = new Client({ connection, namespace: temporal.namespace })
  const pawl = await Pawl.connect({ temporal, postgres: stack.databaseUrl, taskQueue: TASK_QUEUE })
  const ready = new Set<number>()
  const supervisor = await superviseWorkers({
    module: fileURLToPath(new URL('resume/agent.ts', import.meta.url)),
    processes: 2,
    temporal,
    taskQueue: TASK_QUEUE,
    postgres: stack.databaseUrl,
    onEvent: (event) => event.event === 'worker_ready' && ready.add(event.pid),
  })

  async function entered(sessionId: string, attempt: number): Promise<Entered> {
    const lines = (await readFile(file, 'utf8').catch(() => '')).split('\n').slice(0, -1)
    const found = lines.map((line) => JSON.parse(line) as Entered).find((one) => one.sessionId === sessionId && one.attempt === attempt)
    if (found) return found
    await sleep(10)
    return entered(sessionId, attempt)
  }

  async function killOnce(turns: number): Promise<Measured> {
    while (supervisor.pids().filter((pid) => ready.has(pid)).length < 2) await sleep(50)
    await sleep(QUIET_MS)
    const session = pawl.session(undefined, { agent: AGENT })
    const handle = await session.send(String(turns))
    const { pid } = await entered(session.id, 1)
    const { historyLength } = await client.workflow.getHandle(`pawl:${session.id}`).describe()
    const at = Date.now()
    process.kill(pid, 'SIGKILL')
    const again = await entered(session.id, 2)
    await handle.result()
    return { events: historyLength, ms: again.at - at }
  }

  try {
    return await use(killOnce)
  } finally {
    await supervisor.shutdown()
    await pawl.close()
    await connection.close()
    await stack.stop()
    await rm(folder, { recursive: true })
  }
}
