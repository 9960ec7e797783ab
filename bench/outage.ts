// `npm run bench -- outage`: how soon sessions with long histories answer when all workers were away and one comes back.
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Client, Connection } from '@temporalio/client'
import { Pawl, type RunHandle, type SessionHandle } from 'pawl/client'
import { startStack } from 'pawl/testing'
import { quantile } from './statistics.ts'
import { historyLengthOf, timedOutTasksOf } from './turn/history.ts'
import { startWorker } from './worker/start.ts'

const TASK_QUEUE = 'bench-outage'
/** Sessions that are filled at once. */
const AT_ONCE = 20
/** The server forgets a dead worker's sticky queue after 10 s, and a call's heartbeat timeout is as long. */
const AWAY_MS = 12_000

/** Runs the benchmark. */
export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      sessions: { type: 'string', default: '48,300' },
      turns: { type: 'string', default: '24' },
      json: { type: 'boolean', default: false },
    },
  })
  const results = []
  for (const count of values.sessions.split(',').map(Number)) results.push(await measure(count, values.turns))
  if (values.json) return console.log(JSON.stringify({ bench: 'outage', results }))
  for (const { sessions, events, pollsMs, firstMs, p50Ms, lastMs, timedOut } of results) {
    console.log(
      `${sessions} sessions of ${events} events: the worker polls after ${pollsMs} ms; the first answers after ${firstMs} ms, half after ${p50Ms} ms, the last after ${lastMs} ms; ${timedOut} workflow tasks timed out`,
    )
  }
  console.log(`load average ${loadavg()[0]?.toFixed(1)}`)
}

async function measure(count: number, turns: string) {
  const stack = await startStack()
  const here = {
    temporal: { address: stack.temporalAddress, namespace: stack.namespace },
    postgres: stack.databaseUrl,
    taskQueue: TASK_QUEUE,
  }
  const connection = await Connection.connect({ address: here.temporal.address })
  const client = new Client({ connection, namespace: here.temporal.namespace })
  const pawl = await Pawl.connect(here)
  const module = fileURLToPath(new URL('outage/agent.mjs', import.meta.url))
  const start = () => startWorker({ ...here, module, processes: 2 })
  try {
    const before = await start()
    const sessions = Array.from({ length: count }, () => pawl.session(undefined, { agent: 'outage' }))
    const unfilled = [...sessions]
    await Promise.all(Array.from({ length: AT_ONCE }, () => fill(unfilled, turns)))
    before.kill()
    await sleep(AWAY_MS)
    const waiting: RunHandle[] = []
    for (const session of sessions) waiting.push(await session.send('0'))

    const at = Date.now()
    const after = await start()
    const pollsMs = Date.now() - at
    const ms = await Promise.all(waiting.map((handle) => handle.result().then(() => Date.now() - at)))
    const timedOut = await Promise.all(sessions.map(({ id }) => timedOutTasksOf(client, `pawl:${id}`)))
    const events = await historyLengthOf(client, `pawl:${sessions[0]?.id}`)
    await after.stop()
    const round = (q: number): number => Math.round(quantile(ms, q))
    return {
      sessions: count,
      events,
      pollsMs,
      firstMs: round(0),
      p50Ms: round(0.5),
      lastMs: round(1),
      timedOut: timedOut.reduce((sum, some) => sum + some, 0),
    }
  } finally {
    await pawl.close()
    await connection.close()
    await stack.stop()
  }
}

/** Lets sessions work one after another until none is left. */
async function fill(sessions: SessionHandle[], turns: string): Promise<void> {
  for (let session = sessions.pop(); session; session = sessions.pop()) await (await session.send(turns)).result()
}
