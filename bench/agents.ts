// `npm run bench -- agents`: what a tree of agents costs in time, against bare turns and single children of the same run. How long from a parent's
// call to the child's first model call; how long ten children in parallel take against one; whether a parent that waits for 20 children
// costs anything; and how soon a decision deep in a tree reaches its tool.
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Client, Connection } from '@temporalio/client'
import { Pawl, type SessionHandle } from 'pawl/client'
import { startStack } from 'pawl/testing'
import type { Scene } from './agents/agents.ts'
import { type CountingProxy, startCountingProxy } from './actions/counting-proxy.ts'
import { type Sample, sampleOf } from './statistics.ts'
import { startWorker } from './worker/start.ts'

const TASK_QUEUE = 'bench-agents'
/** Turns of the floor: the first ones compile code. */
const FLOOR_TURNS = 60
const WARM_UP_TURNS = 20
/** What one child's model takes where several are compared. */
const CHILD_MS = 1_000
const CHILDREN = 10
const WAITING_CHILDREN = 20
const WAITED_MS = 20_000
const PATIENCE_MS = 120_000

/** Runs the benchmark. */
export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { rounds: { type: 'string', default: '9' }, json: { type: 'boolean', default: false } } })
  const rounds = Number(values.rounds)
  const figures = await withBench(async (bench) => {
    // The first conversations compile the code of parents and children.
    for (let n = 0; n < 3; n++) await bench.play({ calls: 1, ms: 0 })
    const [floor, first, one, ten, decided]: number[][] = [[], [], [], [], []]
    for (let round = 0; round < rounds; round++) {
      floor?.push(await bareTurnMs(bench))
      first?.push(await firstCallMs(bench))
      // They take turns at going first.
      for (const calls of round % 2 === 0 ? [1, CHILDREN] : [CHILDREN, 1]) (calls === 1 ? one : ten)?.push(await answeredMs(bench, calls))
      decided?.push(await decisionMs(bench))
    }
    const samples = { floor: sampleOf(floor ?? []), first: sampleOf(first ?? []), one: sampleOf(one ?? []), ten: sampleOf(ten ?? []) }
    return { ...samples, decided: sampleOf(decided ?? []), waiting: await waitingCost(bench) }
  })
  if (values.json) return console.log(JSON.stringify({ bench: 'agents', rounds, ...figures, load: loadavg()[0] }))
  const ms = ({ median, noise }: Sample): string => `${median.toFixed(1)} ms ± ${(100 * noise).toFixed(0)} %`
  const { floor, first, one, ten, decided, waiting } = figures
  console.log(`a bare turn (the floor): ${ms(floor)}`)
  console.log(`from a call to the child's first model call: ${ms(first)}, ${(first.median / floor.median).toFixed(1)} bare turns (goal 3)`)
  console.log(`one child whose model takes ${CHILD_MS} ms: ${ms(one)}`)
  console.log(
    `${CHILDREN} such children in parallel: ${ms(ten)}, ${(ten.median / one.median).toFixed(2)} of one (goal 1.3, and what the cores allow)`,
  )
  console.log(
    `a parent that waits ${WAITED_MS / 1_000} s for ${WAITING_CHILDREN} children: ${waiting.events} events of history, ${waiting.queries} queries`,
  )
  console.log(
    `  requests to Temporal in that time, besides heartbeats of the children's models: ${waiting.requests} (${waiting.idleRequests} if nothing runs)`,
  )
  console.log(`from a decision two levels down to its tool: ${ms(decided)} (goal 150)`)
  console.log(`${rounds} rounds; load average ${loadavg()[0]?.toFixed(1)}`)
}

interface Bench {
  pawl: Pawl
  client: Client
  proxy: CountingProxy
  /** A session with this scene, after its first run. */
  play(scene: Scene): Promise<SessionHandle>
  start(scene: Scene): Promise<SessionHandle>
}

async function withBench<T>(use: (bench: Bench) => Promise<T>): Promise<T> {
  const stack = await startStack()
  const proxy = await startCountingProxy(stack.temporalAddress)
  const temporal = { address: proxy.address, namespace: stack.namespace }
  const module = fileURLToPath(new URL('./agents/agents.ts', import.meta.url))
  const worker = await startWorker({ module, processes: 2, temporal, taskQueue: TASK_QUEUE, postgres: stack.databaseUrl })
  // Its own requests are not those of pawl.
  const connection = await Connection.connect({ address: stack.temporalAddress })
  const direct = { address: stack.temporalAddress, namespace: stack.namespace }
  const pawl = await Pawl.connect({ temporal: direct, postgres: stack.databaseUrl, taskQueue: TASK_QUEUE })
  const start = async (scene: Scene): Promise<SessionHandle> => {
    const session = pawl.session(undefined, { agent: 'root' }) as SessionHandle
    await session.send(JSON.stringify(scene), { messageId: 'scene' })
    return session
  }
  try {
    await worker.serving()
    return await use({
      pawl,
      client: new Client({ connection, namespace: stack.namespace }),
      proxy,
      start,
      async play(scene) {
        const session = await start(scene)
        await session.run('scene').result({ timeout: PATIENCE_MS })
        return session
      },
    })
  } finally {
    await worker.stop()
    await pawl.close()
    await connection.close()
    await proxy.stop()
    await stack.stop()
  }
}

/** Milliseconds of a turn of the root alone, with one quick call of a tool. */
async function bareTurnMs({ play }: Bench): Promise<number> {
  const begins = await timesOf(await play({ turns: FLOOR_TURNS, calls: 0, ms: 0 }), 'turn_started')
  const [first, last] = [begins[WARM_UP_TURNS], begins.at(-1)]
  return ((last ?? Number.NaN) - (first ?? Number.NaN)) / (begins.length - 1 - WARM_UP_TURNS)
}

/** Milliseconds from the parent's call to the moment when the child's first model call begins, by the model's own clock. */
async function firstCallMs({ pawl, play }: Bench): Promise<number> {
  const session = await play({ calls: 1, ms: 0 })
  const [asked] = await timesOf(session, 'tool_issued')
  const [child = ''] = await childrenOf(session)
  const messages = await pawl.session(child).messages()
  const answer = messages.find(({ role }) => role === 'assistant')
  return Number(JSON.stringify(answer?.content).match(/began at (\d+)/)?.[1]) - (asked ?? Number.NaN)
}

/** Milliseconds from the parent's calls until it has all answers. */
async function answeredMs({ play }: Bench, calls: number): Promise<number> {
  const session = await play({ calls, ms: CHILD_MS })
  const [asked] = await timesOf(session, 'tool_issued')
  return ((await timesOf(session, 'tool_completed')).at(-1) ?? Number.NaN) - (asked ?? Number.NaN)
}

/** Milliseconds from an approval two levels down to the moment when the tool begins, by its own clock. */
async function decisionMs({ pawl, start }: Bench): Promise<number> {
  const session = await start({ calls: 1, ms: 0, approval: true })
  const call = await found(async () => (await session.pending({ tree: true }))[0])
  await sleep(300)
  const at = Date.now()
  await pawl.session(call.sessionId).approve(call.callId, { digest: call.digest ?? '', by: 'bench' })
  await session.run('scene').result({ timeout: PATIENCE_MS })
  const [done] = await pawl.session(call.sessionId).toolCalls({ tool: 'sign' })
  return Number(done?.result) - at
}

/** What a parent costs that waits for children whose models take long, and what the same time costs if nothing is in progress. */
async function waitingCost({ client, proxy, start }: Bench) {
  const idle = await requestsIn(proxy, WAITED_MS)
  const session = await start({ calls: WAITING_CHILDREN, ms: WAITED_MS + 30_000 })
  await found(async () => ((await childrenOf(session)).length === WAITING_CHILDREN ? true : undefined))
  await sleep(5_000)
  const lengthOf = async () => Number((await client.workflow.getHandle(`pawl:${session.id}`).describe()).historyLength)
  const before = await lengthOf()
  const waited = await requestsIn(proxy, WAITED_MS)
  const events = (await lengthOf()) - before
  await session.interrupt()
  return { events, queries: waited.queries, requests: waited.all, idleRequests: idle.all }
}

async function requestsIn(proxy: CountingProxy, ms: number): Promise<{ all: number; queries: number }> {
  const count = () => [...proxy.counts()].filter(([method]) => !/^Poll|Heartbeat/.test(method))
  const sum = (of: ReturnType<typeof count>, only?: string) =>
    of.reduce((total, [method, times]) => total + (only === undefined || method === only ? times : 0), 0)
  const before = count()
  await sleep(ms)
  const after = count()
  return { all: sum(after) - sum(before), queries: sum(after, 'QueryWorkflow') - sum(before, 'QueryWorkflow') }
}

async function timesOf(session: SessionHandle, type: string): Promise<number[]> {
  const times: number[] = []
  for await (const event of session.events()) if (event.type === type) times.push(event.at)
  return times
}

async function childrenOf(session: SessionHandle): Promise<string[]> {
  const children: string[] = []
  for await (const event of session.events()) if (event.type === 'answer_requested' && event.child) children.push(event.child.session)
  return children
}

async function found<T>(look: () => Promise<T | undefined>): Promise<T> {
  for (const until = Date.now() + PATIENCE_MS; Date.now() < until; await sleep(50)) {
    const seen = await look().catch(() => undefined)
    if (seen !== undefined) return seen
  }
  throw new Error('What the benchmark waits for did not happen.')
}
