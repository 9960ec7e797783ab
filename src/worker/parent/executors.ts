// Keeps the executors of a worker running. A team of N processes runs the newest code, and each process that dies is replaced.
import { basename } from 'node:path'
import type { SentLine } from '../../log/sending-logger.ts'
import { PawlError } from '../../session/errors.ts'
import { WorkerError } from '../errors.ts'
import { defined } from '../../session/defined.ts'
import type { ProcessDeath } from '../options.ts'
import type { ExecutorProcessOptions, KillReason, LogOptions } from '../protocol.ts'
import { type Backoff, startBackoff } from './backoff.ts'
import { type ExecutorProcess, type ProcessExit, startExecutorProcess } from './executor-process.ts'

/** Pause before a restart, because a starting process takes CPU from the calls that resume. */
const RESPAWN_MS = 150
/** The longest pause between attempts to load a module that fails. */
const MAX_FAILING_PAUSE_MS = 30_000
/** This many consecutive kills during loading count as a failure to load. */
const DEATHS_WHILE_LOADING = 3
/** How long a drained executor keeps its results, in case the orchestrator dies before the server has the last one. */
const LINGER_MS = 2_000
/** How long a process may take to dispose of its services. */
const DISPOSE_MS = 60_000

export interface ExecutorsOptions {
  module: string
  count: number
  memoryMb: number | undefined
  loadTimeoutMs: number
  /** Called for each of the user's files that an executor loads. */
  onFile: ((path: string) => void) | undefined
  log: LogOptions
  /** Absent if there are no spans. */
  traces: ExecutorProcessOptions['traces']
  /** A log line of an executor. */
  onLine(line: SentLine): void
  onStarted(pid: number): void
  /** An executor's death is certain. */
  onExit(executor: { id: number } & Omit<ProcessDeath, 'at'>): void
  /** The module cannot be loaded, or its services cannot be created; pawl retries with growing pauses. */
  onFailed(error: PawlError): void
}

export interface Executors {
  /** Starts the first ones. @throws WorkerError `no_typescript_loader`. */
  start(): void
  /** Sets the newest orchestrator's socket. */
  connectTo(path: string): void
  kill(id: number, why: KillReason): void
  /** The orchestrator vouches for the attempts of these executors. */
  vouchFor(ids: readonly number[]): void
  /** The orchestrator reports that the executor accepts jobs. Returns its pid the first time. */
  ready(id: number): number | undefined
  /**
   * Loads the module in as many new executors. Resolves when they are connected; `retired` then returns the executors to drain. Rejects
   * with the reason why one could not load, or with `reload_superseded` or `worker_stopping`; in these cases, nothing has changed.
   */
  replace(): Promise<void>
  /** Executors that run earlier code. */
  retired(): number[]
  /** Executors that may hold jobs. */
  holders(): number[]
  /** Ends an executor that has no more jobs. */
  release(id: number): void
  /** Starts no more executors, not even to replace dead ones. */
  stopStarting(): void
  /** Ends all executors and starts no more. */
  shutdown(how: 'SIGKILL' | 'released'): void
  pids(): number[]
  size(): number
}

/** Executors that run the same code. A replacement loads the module's current code. */
interface Team {
  backoff: Backoff
  /** How many times in a row the module could not be loaded. */
  failures: number
  /** How many members in a row were killed while they loaded. */
  deathsWhileLoading: number
}

interface ForkedExecutor {
  id: number
  team: Team
  process: ExecutorProcess
  /** Whether it was ended on purpose and must not be replaced. */
  isReleased: boolean
  isReady: boolean
  killedFor?: NonNullable<ProcessDeath['killedFor']>
}

interface ReadyWaiter {
  resolve(): void
  reject(error: unknown): void
}

/** Prepares the executors, and starts none yet. */
export function keepExecutors(options: ExecutorsOptions): Executors {
  const running = new Map<number, ForkedExecutor>()
  let serving = newTeam()
  /** The team that is loading. It connects to the orchestrator once all its members have loaded. Until then, it can be dropped. */
  let loadingTeam: (ReadyWaiter & { team: Team }) | undefined
  /** Callers that wait for the newest code. */
  let switching: ReadyWaiter[] = []
  let lastId = 0
  let path: string | undefined
  let isStopping = false

  const membersOf = (team: Team): ForkedExecutor[] => [...running.values()].filter((one) => one.team === team && !one.isReleased)
  const isCurrent = (team: Team): boolean => team === serving || team === loadingTeam?.team
  const isWanted = (team: Team): boolean => !isStopping && isCurrent(team)

  function spawn(team: Team): void {
    const { module, memoryMb, onFile, log, traces } = options
    const script = { id: ++lastId, module, memoryMb, reportsFiles: onFile !== undefined, log, traces }
    const { failures } = team
    const process = startExecutorProcess(script, options.loadTimeoutMs, {
      onFile: (file) => onFile?.(file),
      onLine: options.onLine,
      onLoaded: () => loaded(team),
      // Executors that were started together fail for the same reason, which is reported once.
      onFailed: (error) => isWanted(team) && failures === team.failures && failed(team, error),
      onExit: (exit) => exited(one, exit),
    })
    const one: ForkedExecutor = { id: script.id, team, process, isReleased: false, isReady: false }
    running.set(one.id, one)
    if (path !== undefined && team === serving) process.tell({ pawl: 'connect', path })
    if (process.pid !== undefined) options.onStarted(process.pid)
  }

  /** Starts missing members. While the module fails, starts only one, which tests whether it still fails. */
  function fill(team: Team): void {
    if (!isWanted(team)) return
    const members = membersOf(team)
    const isTrying = members.some((one) => !one.process.isLoaded())
    const max = team.failures > 0 ? Number(!isTrying) : options.count
    try {
      for (let lacking = Math.min(options.count - members.length, max); lacking > 0; lacking--) spawn(team)
    } catch (error) {
      failed(team, startError(error))
      fillLater(team)
    }
  }

  function fillLater(team: Team): void {
    setTimeout(() => fill(team), team.backoff.next(team.failures > 0 ? MAX_FAILING_PAUSE_MS : undefined))
  }

  function loaded(team: Team): void {
    team.failures = 0
    team.deathsWhileLoading = 0
    fill(team)
    if (loadingTeam?.team === team && membersOf(team).filter((one) => one.process.isLoaded()).length >= options.count) switchTo(loadingTeam)
  }

  function switchTo({ team, resolve, reject }: NonNullable<typeof loadingTeam>): void {
    loadingTeam = undefined
    serving = team
    switching.push({ resolve, reject })
    if (path === undefined) return
    for (const { process } of membersOf(team)) process.tell({ pawl: 'connect', path })
  }

  function failed(team: Team, error: PawlError): void {
    if (team === loadingTeam?.team) return drop(loadingTeam, error)
    team.failures += 1
    team.deathsWhileLoading = 0
    options.onFailed(error)
  }

  /** Ends new executors that cannot be used. They have no jobs yet. */
  function drop({ team, reject }: NonNullable<typeof loadingTeam>, error: PawlError): void {
    loadingTeam = undefined
    for (const one of membersOf(team)) end(one)
    reject(error)
  }

  function exited(one: ForkedExecutor, { code, signal }: ProcessExit): void {
    const { id, team, process } = one
    running.delete(id)
    if (process.pid !== undefined) options.onExit({ id, pid: process.pid, code, signal, ...defined({ killedFor: one.killedFor }) })
    if (one.isReleased || !isWanted(team)) return
    if (!process.isLoaded() && signal !== null && ++team.deathsWhileLoading >= DEATHS_WHILE_LOADING) {
      failed(team, diesLoading(options, team.deathsWhileLoading, signal))
    }
    fillLater(team)
  }

  function end(one: ForkedExecutor): void {
    one.isReleased = true
    kill(one, 'stopped')
  }

  function kill(one: ForkedExecutor, why: NonNullable<ProcessDeath['killedFor']>): void {
    one.killedFor ??= why
    one.process.kill()
  }

  function release(one: ForkedExecutor): void {
    one.isReleased = true
    one.process.tell({ pawl: 'shutdown' })
    setTimeout(() => one.process.kill(), DISPOSE_MS).unref()
  }

  function stopStarting(): void {
    isStopping = true
    if (loadingTeam) drop(loadingTeam, stopping())
    for (const { reject } of switching.splice(0)) reject(stopping())
  }

  return {
    start() {
      for (let i = 0; i < options.count; i++) spawn(serving)
    },
    connectTo(newest) {
      path = newest
      for (const { team, process } of running.values()) if (team !== loadingTeam?.team) process.tell({ pawl: 'connect', path: newest })
    },
    kill(id, why) {
      const one = running.get(id)
      if (one) kill(one, why)
    },
    vouchFor(ids) {
      for (const id of ids) running.get(id)?.process.vouch()
    },
    ready(id) {
      const one = running.get(id)
      if (!one) return undefined
      one.team.backoff.served()
      const isNew = !one.isReady
      one.isReady = true
      if (one.team === serving) for (const { resolve } of switching.splice(0)) resolve()
      return isNew ? one.process.pid : undefined
    },
    replace() {
      if (isStopping) return Promise.reject(stopping())
      if (loadingTeam) drop(loadingTeam, new WorkerError('reload_superseded', 'Another reload began before this one finished.'))
      return new Promise((resolve, reject) => {
        const team = newTeam()
        loadingTeam = { team, resolve, reject }
        fill(team)
      })
    },
    retired: () => [...running.values()].filter(({ team, isReleased }) => !isReleased && !isCurrent(team)).map(({ id }) => id),
    release(id) {
      const one = running.get(id)
      if (one) setTimeout(() => release(one), LINGER_MS)
    },
    holders: () => [...running.values()].filter(({ isReady }) => isReady).map(({ id }) => id),
    stopStarting,
    shutdown(how) {
      stopStarting()
      for (const one of running.values()) {
        // A loading executor has no jobs.
        if (how === 'released' && one.process.isLoaded()) release(one)
        else end(one)
      }
    },
    pids: () => [...running.values()].flatMap(({ process: { pid } }) => pid ?? []),
    size: () => running.size,
  }
}

const newTeam = (): Team => ({ backoff: startBackoff(RESPAWN_MS), failures: 0, deathsWhileLoading: 0 })

const stopping = (): WorkerError => new WorkerError('worker_stopping', 'The worker is shutting down. Start another one.')

function diesLoading({ module, memoryMb }: ExecutorsOptions, times: number, signal: string): WorkerError {
  const advice = memoryMb === undefined ? '' : ` It may need more than the ${memoryMb} MB of executorMemory.`
  const text = `${basename(module)} crashed its process (${signal}) while loading, ${times} times in a row. See its error output.${advice}`
  return new WorkerError('module_dies', text)
}

function startError(error: unknown): PawlError {
  if (error instanceof PawlError) return error
  const message = error instanceof Error ? error.message : String(error)
  return new WorkerError('worker_start_failed', `An executor could not be started: ${message}. pawl retries it.`, { cause: error })
}
