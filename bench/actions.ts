// `npm run bench -- actions`: what Temporal Cloud would bill, in actions: for starting a session, for a turn, and for an idle day. What counts
// as an action follows Temporal's documentation (https://docs.temporal.io/evaluate/cloud/actions), read in November 2026.
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Client, Connection } from '@temporalio/client'
import { Pawl } from 'pawl/client'
import { startStack } from 'pawl/testing'
import { startWorker } from './worker/start.ts'
import { type CountingProxy, startCountingProxy } from './actions/counting-proxy.ts'

const TASK_QUEUE = 'bench-actions'
/** Reads ride once the newest bodies of their tool were quick. */
const WARM_UP_TURNS = 30
const DAY_MS = 24 * 3_600_000

const KINDS = ['start', 'signal', 'activity', 'heartbeat', 'timer', 'update', 'query', 'continue-as-new', 'search attributes'] as const
type Kind = (typeof KINDS)[number]
type Actions = Record<Kind, number>

/** What each request costs besides what its history shows. */
const REQUESTS: Readonly<Record<string, Kind>> = {
  RecordActivityTaskHeartbeat: 'heartbeat',
  RecordActivityTaskHeartbeatById: 'heartbeat',
  QueryWorkflow: 'query',
}

interface Row {
  what: string
  actions: Actions
}

/** Runs the benchmark. */
export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      turns: { type: 'string', default: '4' },
      'model-ms': { type: 'string', default: '2000,30000' },
      'idle-ms': { type: 'string', default: '60000' },
      json: { type: 'boolean', default: false },
    },
  })
  const rows = await withBench(async (bench) => {
    await bench.play({ turns: WARM_UP_TURNS, ms: 0, tool: 'read' })
    const all: Row[] = []
    for (const ms of values['model-ms'].split(',').map(Number)) {
      for (const tool of ['read', 'idempotent', 'external']) {
        const [short, long] = [await bench.play({ turns: 1, ms, tool }), await bench.play({ turns: 1 + Number(values.turns), ms, tool })]
        if (all.length === 0)
          all.push({
            what: 'a new session, its first message and an answer without tools',
            actions: minus(short, perTurn(short, long, values.turns)),
          })
        all.push({
          what: `a turn: a model call of ${ms / 1_000} s and a tool with the effect ${tool}`,
          actions: perTurn(short, long, values.turns),
        })
      }
    }
    all.push({ what: 'a day of an open session that waits for a message', actions: await bench.idle(Number(values['idle-ms'])) })
    return all
  })
  if (values.json) return console.log(JSON.stringify({ bench: 'actions', rows }))
  for (const { what, actions } of rows) console.log(`${what}: ${shown(actions)}`)
}

interface Bench {
  /** The actions of a session with one run. */
  play(scene: { turns: number; ms: number; tool: string }): Promise<Actions>
  /** The actions of a day, from what an idle session costs in this time. */
  idle(ms: number): Promise<Actions>
}

async function withBench<T>(use: (bench: Bench) => Promise<T>): Promise<T> {
  const stack = await startStack()
  const proxy = await startCountingProxy(stack.temporalAddress)
  const temporal = { address: proxy.address, namespace: stack.namespace }
  const module = fileURLToPath(new URL('actions/agent.mjs', import.meta.url))
  const worker = await startWorker({ module, processes: 2, temporal, taskQueue: TASK_QUEUE, postgres: stack.databaseUrl })
  // Its own requests are not those of pawl.
  const connection = await Connection.connect({ address: stack.temporalAddress })
  const client = new Client({ connection, namespace: stack.namespace })
  const pawl = await Pawl.connect({ temporal, postgres: stack.databaseUrl, taskQueue: TASK_QUEUE })
  try {
    await worker.serving()
    return await use({
      async play(scene) {
        const before = requestsOf(proxy)
        const session = pawl.session(undefined, { agent: 'bench' })
        await (await session.send(JSON.stringify(scene))).result({ timeout: 600_000 })
        return plus(minus(requestsOf(proxy), before), await historyOf(client, `pawl:${session.id}`))
      },
      async idle(ms) {
        const session = pawl.session(undefined, { agent: 'bench' })
        await (await session.send(JSON.stringify({ turns: 0, ms: 0, tool: 'read' }))).result()
        // Its last flush is over by then.
        await sleep(2_000)
        const whole = async () => plus(requestsOf(proxy), await historyOf(client, `pawl:${session.id}`))
        const before = await whole()
        await sleep(ms)
        return times(minus(await whole(), before), DAY_MS / ms)
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

function requestsOf(proxy: CountingProxy): Actions {
  const actions = none()
  for (const [method, count] of proxy.counts()) {
    const kind = REQUESTS[method]
    if (kind) actions[kind] += count
  }
  return actions
}

/** What the histories of a session's executions show. Each attempt of an activity is an action. */
async function historyOf(client: Client, workflowId: string): Promise<Actions> {
  const actions = none()
  for await (const { runId } of client.workflow.list({ query: `WorkflowId = '${workflowId}'` })) {
    const { events } = await client.workflow.getHandle(workflowId, runId).fetchHistory()
    for (const event of events ?? []) {
      const { workflowExecutionStartedEventAttributes: started, activityTaskStartedEventAttributes: activity } = event
      if (started) actions[started.continuedExecutionRunId ? 'continue-as-new' : 'start'] += 1
      if (activity) actions.activity += activity.attempt ?? 1
      if (event.workflowExecutionSignaledEventAttributes) actions.signal += 1
      if (event.timerStartedEventAttributes) actions.timer += 1
      if (event.workflowExecutionUpdateAcceptedEventAttributes) actions.update += 1
      if (event.upsertWorkflowSearchAttributesEventAttributes) actions['search attributes'] += 1
    }
  }
  return actions
}

const none = (): Actions => Object.fromEntries(KINDS.map((kind) => [kind, 0])) as Actions
const each = (make: (kind: Kind) => number): Actions => Object.fromEntries(KINDS.map((kind) => [kind, make(kind)])) as Actions
const plus = (one: Actions, other: Actions): Actions => each((kind) => one[kind] + other[kind])
const minus = (one: Actions, other: Actions): Actions => each((kind) => one[kind] - other[kind])
const times = (actions: Actions, factor: number): Actions => each((kind) => actions[kind] * factor)
const perTurn = (short: Actions, long: Actions, turns: string): Actions => times(minus(long, short), 1 / Number(turns))

function shown(actions: Actions): string {
  const total = KINDS.reduce((sum, kind) => sum + actions[kind], 0)
  const parts = KINDS.filter((kind) => actions[kind] > 0).map((kind) => `${kind} ${Number(actions[kind].toFixed(2))}`)
  return `${Number(total.toFixed(2))} actions${parts.length > 0 ? ` (${parts.join(', ')})` : ''}`
}
