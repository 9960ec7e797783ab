// Workers whose attempts follow courses, on a Postgres of their own that may be stopped: supervised, or each on its own.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Pawl } from 'pawl/client'
import { startStack, type Stack } from 'pawl/testing'
import { superviseWorkers } from 'pawl/worker'
import { inject } from 'vitest'
import type { SharedStack } from '../../setup/stack.ts'
import { SILENT } from '../../support/deployment.ts'
import { compile } from './build.ts'
import type { Entered } from './courses.ts'

/** Workers on a queue of their own, and a client. */
export interface Crew {
  pawl: Pawl
  /** Processes that are serving. */
  pids(): number[]
  close(): Promise<void>
}

/** What the crews of one test file share. */
export interface Yard {
  /** The shared Temporal, and a Postgres that can be stopped without affecting other tests. */
  own: SharedStack
  postgres: Stack['postgres']
  supervised(processes?: number): Promise<Crew>
  /** Processes without a supervisor; one that dies is started again, but its death is not reported. */
  unsupervised(processes: number): Promise<Crew>
  /** Attempts that entered a body, in order, by call. */
  enteredIn(session: string): Map<string, number[]>
  close(): Promise<void>
}

/** Sets up a yard. Close its crews before it. */
export async function openYard(): Promise<Yard> {
  const stack = await startStack({ temporal: ['address'], postgres: ['embedded'] })
  const own = { ...inject('stack'), databaseUrl: stack.databaseUrl }
  const folder = await mkdtemp(join(tmpdir(), 'pawl-attempts-'))
  const file = join(folder, 'entered')
  await writeFile(file, '')
  // Worker processes inherit them.
  Object.assign(process.env, { ATTEMPTS_FILE: file, PAWL_LOG_LEVEL: 'silent' })
  const compiled = await compile(['test/crash/fixtures/attempts.ts'])
  const module = compiled.path('attempts')

  return {
    own,
    postgres: stack.postgres,
    supervised: (processes = 2) => supervised(own, module, processes),
    unsupervised: (processes) => unsupervised(own, module, processes),
    enteredIn(session) {
      const calls = new Map<string, number[]>()
      for (const line of readFileSync(file, 'utf8').split('\n').filter(Boolean)) {
        const entered = JSON.parse(line) as Entered
        if (entered.session === session) calls.set(entered.call, [...(calls.get(entered.call) ?? []), entered.attempt])
      }
      return calls
    },
    async close() {
      await stack.stop()
      await compiled.remove()
      await rm(folder, { recursive: true })
    },
  }
}

function connect({ temporalAddress: address, namespace, databaseUrl: postgres }: SharedStack, taskQueue: string): Promise<Pawl> {
  return Pawl.connect({ temporal: { address, namespace }, postgres, taskQueue })
}

async function supervised(own: SharedStack, module: string, processes: number): Promise<Crew> {
  const taskQueue = `attempts-${randomUUID()}`
  const supervisor = await superviseWorkers({
    module,
    processes,
    temporal: { address: own.temporalAddress, namespace: own.namespace },
    taskQueue,
    postgres: own.databaseUrl,
    logger: SILENT,
  })
  const pawl = await connect(own, taskQueue)
  await supervisor.ready()
  return {
    pawl,
    pids: () => supervisor.pids(),
    async close() {
      await pawl.close()
      await supervisor.shutdown()
    },
  }
}

async function unsupervised(own: SharedStack, module: string, processes: number): Promise<Crew> {
  const taskQueue = `attempts-${randomUUID()}`
  const { temporalAddress, namespace, databaseUrl } = own
  const where = { TEMPORAL_ADDRESS: temporalAddress, TEMPORAL_NAMESPACE: namespace, DATABASE_URL: databaseUrl }
  const env = { ...process.env, ...where, ATTEMPTS_TASK_QUEUE: taskQueue }
  const running = new Set<ChildProcess>()
  let closing = false
  function start(): void {
    const child = spawn(process.execPath, [module], { env, stdio: ['ignore', 'ignore', 'inherit'] })
    running.add(child)
    child.once('exit', () => {
      running.delete(child)
      if (!closing) start()
    })
  }
  for (let started = 0; started < processes; started++) start()
  const pawl = await connect(own, taskQueue)
  return {
    pawl,
    pids: () => [...running].flatMap(({ pid }) => pid ?? []),
    async close() {
      closing = true
      await pawl.close()
      await Promise.all(
        [...running].map(async (child) => {
          const ended = once(child, 'exit')
          child.kill('SIGTERM')
          await ended
        }),
      )
    },
  }
}
