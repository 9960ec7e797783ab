// A deployment to look at in the console: kills, approvals, unknown outcomes, errors, budgets, a tree of agents, schedules.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Pawl } from 'pawl/client'
import { type Supervisor, superviseWorkers } from 'pawl/worker'
import { type Office, startOffice } from './office.ts'
import { playScenes } from './scenes.ts'

export interface ShowcaseOptions {
  /** Where Temporal and Postgres are, as `startStack` says. */
  stack: { temporalAddress: string; namespace: string; databaseUrl: string }
  taskQueue?: string
  schema?: string
  /** Comes before the ids of sessions and schedules. Default: nothing. */
  prefix?: string
  /** Port of `pawl serve`. Default: any free one. */
  port?: number
  onScene?(title: string): void
}

export interface Showcase {
  pawl: Pawl
  /** Two executors and an orchestrator, as processes that anyone may kill. */
  workers: Supervisor
  office: Office
  /** Of `pawl serve`. */
  url: string
  /** An API key with all scopes. */
  key: string
  /** Opens the console, signed in. */
  consoleUrl: string
  /** Ends the server at once, and starts it again at the same address. */
  restartServer(): Promise<void>
  stop(): Promise<void>
}

const SCOPES = ['read', 'send', 'approve', 'operate'] as const

/** Starts everything, and plays the scenes. */
export async function startShowcase(options: ShowcaseOptions): Promise<Showcase> {
  const { stack, taskQueue = 'showcase', schema = 'pawl', prefix = '', onScene = () => undefined } = options
  const endings: (() => Promise<unknown>)[] = []
  const stop = async (): Promise<void> => {
    for (let ending = endings.pop(); ending; ending = endings.pop()) await ending()
  }
  try {
    const office = await startOffice()
    endings.push(() => office.stop())
    // The workers inherit the environment.
    process.env.OFFICE_URL = office.url
    const temporal = { address: stack.temporalAddress, namespace: stack.namespace }
    const common = { temporal, postgres: stack.databaseUrl, taskQueue, schema }
    const module = fileURLToPath(new URL('worker.ts', import.meta.url))
    const workers = await superviseWorkers({ ...common, module, processes: 2, spare: false })
    endings.push(() => workers.shutdown())
    await workers.ready()
    const pawl = await Pawl.connect(common)
    endings.push(() => pawl.close())
    await playScenes({ pawl, prefix, onScene })
    onScene('schedules and shared budgets are set')
    await setRules(pawl, prefix)
    endings.push(() => removeSchedules(pawl, prefix))
    const { key } = await pawl.apiKeys.create({ name: 'ann', scopes: [...SCOPES], roles: ['finance'] })
    const env = { TEMPORAL_ADDRESS: temporal.address, TEMPORAL_NAMESPACE: temporal.namespace, DATABASE_URL: stack.databaseUrl }
    let server = await serve({ env, port: options.port ?? 0, schema, taskQueue })
    endings.push(() => server.stop())
    return {
      pawl,
      workers,
      office,
      url: server.url,
      key,
      consoleUrl: `${server.url}/console/#/sign-in?key=${key}`,
      async restartServer() {
        await server.stop()
        server = await serve({ env, port: Number(new URL(server.url).port), schema, taskQueue })
      },
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

async function setRules(pawl: Pawl, prefix: string): Promise<void> {
  await pawl.schedules.create({
    id: `${prefix}weekly-report`,
    agent: 'accounting',
    message: 'Write the report of last week.',
    cron: '0 9 * * MON',
    timeZone: 'Europe/Berlin',
  })
  await pawl.schedules.create({
    id: `${prefix}stock-count`,
    agent: 'logistics',
    message: 'Check the stock of all warehouses.',
    cron: '0 3 * * *',
  })
  await pawl.schedules.pause(`${prefix}stock-count`, { reason: 'inventory is being taken by hand' })
  await pawl.budgets.set({ agent: 'research', maxUsd: 40, per: 'month', by: 'ann' })
  await pawl.budgets.set({ tag: 'experiment', maxUsd: 0.5, per: 'day', by: 'ann' })
}

/** Schedules belong to Temporal, which may outlive the showcase. */
async function removeSchedules(pawl: Pawl, prefix: string): Promise<void> {
  for (const id of ['weekly-report', 'stock-count']) await pawl.schedules.delete(`${prefix}${id}`).catch(() => undefined)
}

interface Served {
  url: string
  stop(): Promise<void>
}

/** `pawl serve`, as one would run it. */
async function serve(at: { env: Record<string, string>; port: number; schema: string; taskQueue: string }): Promise<Served> {
  const cli = fileURLToPath(new URL('cli/main.js', import.meta.resolve('pawl')))
  const args = ['serve', '--port', String(at.port), '--json', '--rate-limit', '0', '--schema', at.schema, '--task-queue', at.taskQueue]
  const child: ChildProcess = spawn(process.execPath, [cli, ...args], {
    env: { ...process.env, ...at.env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit')
  const kill = (): void => void child.kill('SIGKILL')
  process.once('exit', kill)
  const lines = child.stdout ? createInterface({ input: child.stdout }) : []
  for await (const line of lines) {
    const { event, url } = JSON.parse(line) as { event: string; url: string }
    if (event !== 'serving') continue
    return {
      url,
      async stop() {
        process.off('exit', kill)
        kill()
        await ended
      },
    }
  }
  throw new Error('pawl serve has ended before it served: see its messages above.')
}
