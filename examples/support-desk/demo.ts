// `npm run demo`: a shop, a desk of agents, customers' tickets, and worker processes that are killed all the while.
import { fileURLToPath } from 'node:url'
import { Client, Connection } from '@temporalio/client'
import type { SessionEvent } from 'pawl'
import { Pawl } from 'pawl/client'
import { startStack } from 'pawl/testing'
import type { SupervisorEvent } from 'pawl/worker'
import { superviseWorkers } from 'pawl/worker'
import type { Worked } from './demo/desk.ts'
import { workOnTickets } from './demo/desk.ts'
import { historyBytes } from './demo/history.ts'
import type { Killer } from './demo/killer.ts'
import { startKiller } from './demo/killer.ts'
import type { Live } from './demo/live.ts'
import { createLive } from './demo/live.ts'
import type { DemoOptions } from './demo/options.ts'
import { readOptions } from './demo/options.ts'
import { createPacing } from './demo/pacing.ts'
import type { FullReport } from './demo/report.ts'
import { makeReport, reportLines } from './demo/report.ts'
import { startShop } from './demo/shop-process.ts'
import type { World } from './world/tickets.ts'
import { makeWorld } from './world/tickets.ts'

const PROCESSES = 2
const TASK_QUEUE = `support-desk-${Date.now().toString(36)}`

/** What to shut down at the end, the newest first. */
type Endings = (() => Promise<unknown>)[]

const options = readOptions(process.argv.slice(2))
// It ends the process.
if (options.console) await import('../console/main.ts')
const out = options.output === 'json' ? process.stderr : process.stdout
// Unique, because this Temporal may have run demos before
const sessionPrefix = `${TASK_QUEUE}-`
const live = createLive(out, (sessionId) => sessionId.replace(sessionPrefix, ''))
const endings: Endings = []
const end = async (): Promise<void> => {
  for (let ending = endings.pop(); ending; ending = endings.pop()) await ending()
}
process.once('SIGINT', () => void end().finally(() => process.exit(130)))
process.once('SIGTERM', () => void end().finally(() => process.exit(143)))

try {
  const full = await runDemo(options, makeWorld(options.seed, options.tickets), live)
  for (const line of ['', ...reportLines(full)]) out.write(`${line}\n`)
  if (options.output === 'json') process.stdout.write(`${JSON.stringify(full.report)}\n`)
  process.exitCode = full.verdict === 'passed' ? 0 : 1
} catch (error) {
  console.error(error)
  process.exitCode = 1
} finally {
  await end()
}

async function runDemo(asked: DemoOptions, world: World, shown: Live): Promise<FullReport> {
  shown.line(`${asked.tickets} tickets, ${asked.kills} kills, seed ${asked.seed}, model ${asked.model ?? 'scripted'}`)
  const stack = await startStack()
  endings.push(() => stack.stop())
  const shopDatabase = await stack.createDatabase()
  endings.push(() => stack.dropDatabase(shopDatabase))
  const shop = await startShop({ databaseUrl: shopDatabase, records: world.records, seed: world.seed })
  endings.push(() => shop.stop())

  // The worker processes inherit the environment: where the shop is, and which model to use
  Object.assign(process.env, stack.env, { SHOP_URL: shop.url, SUPPORT_DESK_MODEL: asked.model ?? '' })
  // Each kill would log a warning.
  process.env.PAWL_LOG_LEVEL ??= 'error'
  const resumeMs: number[] = []
  const listeners: ((event: SupervisorEvent) => void)[] = [
    (event) => shown.supervisor(event),
    (event) => void (event.event === 'call_resumed' && resumeMs.push(event.ms)),
  ]
  const early: SupervisorEvent[] = []
  const temporal = { address: stack.temporalAddress, namespace: stack.namespace }
  const supervisor = await superviseWorkers({
    module: fileURLToPath(new URL('./worker.ts', import.meta.url)),
    processes: PROCESSES,
    temporal,
    taskQueue: TASK_QUEUE,
    postgres: stack.databaseUrl,
    onEvent(event) {
      early.push(event)
      for (const listener of listeners) listener(event)
    },
  })
  endings.push(() => supervisor.shutdown())
  await supervisor.ready()

  const pawl = await Pawl.connect({ temporal, taskQueue: TASK_QUEUE, postgres: stack.databaseUrl })
  endings.push(() => pawl.close())
  const pacing = createPacing(world.tickets, asked.kills, world.seed)
  const killer = await startKiller({
    kills: asked.kills,
    seed: world.seed,
    supervisor,
    processes: PROCESSES,
    shop,
    pacing,
    onKill: (kill) => shown.kill(kill),
  })
  endings.push(() => killer.stop())
  for (const event of early) killer.onSupervisor(event)
  listeners.push((event) => killer.onSupervisor(event))

  const started = Date.now()
  const worked = await workOnTickets({
    pawl,
    tickets: world.tickets,
    sessionIdOf: (ticket) => sessionPrefix + ticket.id,
    onStart: (ticket) => pacing.started(ticket),
    onEvent(ticket, event) {
      if (event.type === 'turn_started') pacing.turn(ticket)
      printEnd(killer, sessionPrefix + ticket.id, event)
      shown.event(ticket, event)
    },
    onWorked(one) {
      pacing.finished(one.ticket)
      killer.sessionEnded(one.sessionId)
      shown.worked(one)
    },
  })
  await killer.stop()
  const seconds = (Date.now() - started) / 1000
  return makeReport({
    world,
    worked,
    kills: { asked: asked.kills, made: killer.made() },
    resumeMs,
    historyBytes: await allHistoryBytes(temporal, worked),
    seconds,
    shop: shop.pool,
  })
}

function printEnd(killer: Killer, sessionId: string, event: SessionEvent): void {
  if (event.type === 'model_completed') killer.callEnded(sessionId, `model:${event.run}:${event.turn}`)
  if (event.type === 'tool_completed' || event.type === 'tool_failed' || event.type === 'tool_unknown') {
    killer.callEnded(sessionId, event.callId)
  }
}

async function allHistoryBytes(temporal: { address: string; namespace: string }, worked: readonly Worked[]): Promise<number> {
  const connection = await Connection.connect({ address: temporal.address })
  try {
    const client = new Client({ connection, namespace: temporal.namespace })
    let bytes = 0
    for (const { sessionId } of worked) bytes += await historyBytes(client, sessionId)
    return bytes
  } finally {
    await connection.close()
  }
}
