// The worker processes of a crash test. They are supervised as in production, and serve the user's module in a wrapper that watches it.
import { rmSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { CrashTestError } from './errors.ts'
import { type MarkReader, markReader } from './marks.ts'
import { type KeptSupervisor, keepSupervisor } from './supervisor.ts'
import { until } from './until.ts'

/** Running worker processes. */
export interface CrashWorkers {
  marks: MarkReader
  /** The processes that run now: the supervisor, unless it has just died, and its worker processes. */
  group(): { supervisor: number | undefined; workers: number[] }
  /** Resolves when all processes serve. @throws CrashTestError `workers_failed`. */
  complete(): Promise<void>
  stop(): Promise<void>
}

/** What the workers serve, and where. */
export interface CrashWorkersOptions {
  module: string
  processes: number
  temporal: { address: string; namespace: string }
  postgres: string
  taskQueue: string
}

const BOOT_MS = 60_000

/** Starts them; resolves when all serve. @throws CrashTestError `workers_failed`, with the module's error. */
export async function startWorkers({ module, ...options }: CrashWorkersOptions): Promise<CrashWorkers> {
  const folder = await mkdtemp(join(tmpdir(), 'pawl-crash-'))
  const supervisor = keepSupervisor({ options: { ...options, module: await writeWrapper(folder, module) }, folder })
  const abandon = (): void => {
    supervisor.abandon()
    rmSync(folder, { recursive: true, force: true })
  }
  process.once('exit', abandon)
  const stop = async (): Promise<void> => {
    await supervisor.stop()
    process.off('exit', abandon)
    // Processes that outlived a supervisor exit once the folder has been removed.
    await rm(folder, { recursive: true, force: true, maxRetries: 5 })
  }
  const complete = (): Promise<void> => allServe(supervisor, options.processes)
  try {
    await complete()
  } catch (error) {
    await stop()
    throw error
  }
  return { marks: markReader(folder), group: () => ({ supervisor: supervisor.pid(), workers: supervisor.workers() }), complete, stop }
}

async function allServe(supervisor: KeptSupervisor, processes: number): Promise<void> {
  const cause: unknown = await until(() => supervisor.failure() !== undefined || supervisor.serving() >= processes, BOOT_MS).then(
    () => undefined,
    (error: unknown) => error,
  )
  const failure = supervisor.failure()
  if (failure !== undefined) throw new CrashTestError('workers_failed', `The worker processes did not start: ${failure}`)
  if (cause === undefined) return
  throw new CrashTestError('workers_failed', `The worker processes are not ready after ${BOOT_MS / 1_000} s. See their output.`, {
    cause,
  })
}

/** The module that the processes load. As with the user's own, its name shows whether it needs a TypeScript loader. */
async function writeWrapper(folder: string, module: string): Promise<string> {
  const served = new URL(`./worker/served${extname(import.meta.url)}`, import.meta.url).href
  const path = join(folder, /\.[mc]?tsx?$/.test(module) ? 'worker.mts' : 'worker.mjs')
  const options = { module, folder, test: process.pid }
  const text = `import { served } from ${JSON.stringify(served)}\nexport default await served(${JSON.stringify(options)})\n`
  await writeFile(path, text)
  return path
}
