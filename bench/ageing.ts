// `npm run bench -- ageing`: what a worker holds after many runs, and what a session costs once it has many events and messages.
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Pawl, type RunHandle, type SessionHandle } from 'pawl/client'
import { startStack } from 'pawl/testing'
import { quantile } from './statistics.ts'
import { look, say } from './worker/look.ts'
import { type BenchWorker, startWorker } from './worker/start.ts'

const TASK_QUEUE = 'bench-ageing'
const AGENT = 'ageing'
const SETTLE_MS = 3_000
/** Concurrent runs, each in a session of its own that has many of them. */
const AT_ONCE = 20
/** Turns of a run in the long session, so that its pace is seen ten times or more. */
const TURNS_OF_A_RUN = 250
/** Messages that are answered one by one before the next pace is printed. */
const MESSAGES_OF_A_STEP = 1_000

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
      runs: { type: 'string', default: '2000' },
      events: { type: 'string', default: '100000' },
      messages: { type: 'string', default: '10000' },
    },
  })
  const stack = await startStack()
  try {
    const { temporalAddress: address, namespace, databaseUrl } = stack
    const place = { address, namespace, databaseUrl }
    await withWorker(place, (worker, pawl) => manyRuns(worker, pawl, place, Number(values.runs)))
    await withWorker(place, (worker, pawl) => manyEvents(worker, pawl, place, Number(values.events)))
    await withWorker(place, (worker, pawl) => manyMessages(worker, pawl, place, Number(values.messages)))
    console.log(`load average ${loadavg()[0]?.toFixed(1)}`)
  } finally {
    await stack.stop()
  }
}

async function withWorker(place: Place, use: (worker: BenchWorker, pawl: Pawl) => Promise<void>): Promise<void> {
  const { address, namespace, databaseUrl: postgres } = place
  const common = { temporal: { address, namespace }, taskQueue: TASK_QUEUE, postgres }
  const worker = await startWorker({ ...common, module: fileURLToPath(new URL('ageing/agent.mjs', import.meta.url)), processes: 2 })
  const pawl = await Pawl.connect(common)
  try {
    await use(worker, pawl)
  } finally {
    await pawl.close()
    await worker.stop()
  }
}

async function manyRuns(worker: BenchWorker, pawl: Pawl, place: Place, runs: number): Promise<void> {
  if (runs === 0) return
  const sessions = Array.from({ length: AT_ONCE }, () => pawl.session(undefined, { agent: AGENT, context: { turns: 1 } }))
  const more = async (count: number): Promise<void> => {
    let left = count
    const lane = async (session: SessionHandle): Promise<void> => {
      while (left-- > 0) await (await session.send('go')).result()
    }
    await Promise.all(sessions.map(lane))
    await sleep(SETTLE_MS)
  }
  const tenth = Math.ceil(runs / 10)
  await more(tenth)
  say(`after ${tenth} runs`, await look(worker, place))
  await more(4 * tenth)
  say(`after ${5 * tenth} runs`, await look(worker, place))
  await more(5 * tenth)
  say(`after ${10 * tenth} runs`, await look(worker, place))
}

async function manyEvents(worker: BenchWorker, pawl: Pawl, place: Place, events: number): Promise<void> {
  if (events === 0) return
  const session = pawl.session(undefined, { agent: AGENT, context: { turns: TURNS_OF_A_RUN } })
  let seq = 0
  let next = 0
  while (seq < events) {
    const at = performance.now()
    await (await session.send('go')).result({ timeout: 600_000 })
    const msPerTurn = (performance.now() - at) / TURNS_OF_A_RUN
    seq = (await session.state()).seq
    if (seq < next && seq < events) continue
    const asked = performance.now()
    await session.state()
    const state = performance.now() - asked
    say(`a session with ${seq} events: ${msPerTurn.toFixed(1)} ms for a turn, state() ${state.toFixed(0)} ms`, await look(worker, place))
    next = seq + events / 5
  }
}

async function manyMessages(worker: BenchWorker, pawl: Pawl, place: Place, messages: number): Promise<void> {
  if (messages === 0) return
  const session = pawl.session(undefined, { agent: AGENT, context: { turns: 0 } })
  for (let done = 0; done < messages; ) {
    const ms: number[] = []
    const answered: number[] = []
    const upTo = Math.min(messages, done + MESSAGES_OF_A_STEP)
    for (; done < upTo; done++) {
      const at = performance.now()
      const handle: RunHandle = await session.send('go')
      ms.push(performance.now() - at)
      await handle.result()
      answered.push(performance.now() - at)
    }
    const p50 = (of: number[]): string => `p50 ${quantile(of, 0.5).toFixed(1)}, p99 ${quantile(of, 0.99).toFixed(1)} ms`
    say(`a session with ${done} messages: accepted after ${p50(ms)}; answered after ${p50(answered)}`, await look(worker, place))
  }
}
