// A peer's program, as the benchmark runs it: started, told what to do, killed with all its processes.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { join } from 'node:path'
import { descendantsOf } from '../proc.ts'
import { NO_TELEMETRY } from './install.ts'
import type { Conversation, Done, Mark, Setting } from './setting.ts'

const READY_WITHIN_MS = 60_000
const STOP_WITHIN_MS = 15_000
const LOOK_EVERY_MS = 5

/** A running program. */
export interface Program {
  /** Resolves when it serves. @throws if it ends before that. */
  ready(): Promise<void>
  /** Has a conversation. */
  converse(conversation: Conversation): Promise<Done>
  /** Begins a conversation that nobody waits for. */
  begin(conversation: Conversation): void
  /** Whether its first process runs. */
  isAlive(): boolean
  /** Kills all its processes. */
  kill(): Promise<void>
  stop(): Promise<void>
}

/** Whether the peer has a service that must run beside its program, such as a server of its own. */
export const hasService = (peer: string): boolean => existsSync(scriptOf(peer, 'service'))

/** Starts a peer's program, or its service, with this Node. */
export function startProgram(node: string, peer: string, script: 'main' | 'service', setting: Setting): Program {
  const child = spawn(node, [scriptOf(peer, script)], {
    env: { ...process.env, ...NO_TELEMETRY, BENCH_SETTING: JSON.stringify(setting) },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const exited = once(child, 'exit')
  const errors = tailOf(child)
  const ended = exited.then((): never => {
    throw new Error(`Its program ended (${child.signalCode ?? `exit code ${child.exitCode}`}): ${errors()}`)
  })
  // Nobody may be waiting for it.
  ended.catch(() => {})
  let isReady = (): void => {}
  const ready = new Promise<void>((resolve) => void (isReady = resolve))
  const waiting = new Map<string, (done: Done) => void>()
  createInterface({ input: child.stdout }).on('line', (line) => {
    const message = parsed(line)
    if (message?.ready) isReady()
    if (message?.done !== undefined) waiting.get(message.done)?.(message as Done)
  })
  const isAlive = () => child.exitCode === null && child.signalCode === null
  const begin = (conversation: Conversation) => void child.stdin.write(`${JSON.stringify(conversation)}\n`)
  return {
    ready: () => within(READY_WITHIN_MS, Promise.race([ready, ended]), () => `Its program does not serve: ${errors()}`),
    converse(conversation) {
      const done = new Promise<Done>((resolve) => void waiting.set(conversation.id, resolve))
      begin(conversation)
      return Promise.race([done, ended])
    },
    begin,
    isAlive,
    async kill() {
      const { pid } = child
      if (pid === undefined || !isAlive()) return
      for (const one of [pid, ...(await descendantsOf(pid))]) killIfAlive(one)
      await exited
    },
    async stop() {
      child.stdin.end()
      const isStopped = await Promise.race([exited.then(() => true), sleep(STOP_WITHIN_MS, false, { ref: false })])
      if (!isStopped) await this.kill()
    },
  }
}

/** What happened in a conversation so far. */
export async function marksOf({ folder }: Setting, id: string): Promise<Mark[]> {
  const lines = (await readFile(join(folder, `${id}.marks`), 'utf8').catch(() => '')).split('\n').slice(0, -1)
  return lines.map((line) => JSON.parse(line) as Mark)
}

/** Waits until something has happened in a conversation, for at most this long; undefined if it has not. */
export async function awaitMark<T>(
  setting: Setting,
  id: string,
  find: (marks: readonly Mark[]) => T | undefined,
  withinMs: number,
): Promise<T | undefined> {
  const deadline = Date.now() + withinMs
  while (Date.now() < deadline) {
    const found = find(await marksOf(setting, id))
    if (found !== undefined) return found
    await sleep(LOOK_EVERY_MS)
  }
  return undefined
}

const scriptOf = (peer: string, script: string): string => fileURLToPath(new URL(`./${peer}/${script}.mjs`, import.meta.url))

/** The last lines of what it writes to its standard error. */
function tailOf(child: ChildProcess): () => string {
  let tail = ''
  child.stderr?.on('data', (data: Buffer) => void (tail = `${tail}${data.toString()}`.slice(-4_000)))
  return () => tail.trim() || 'it says nothing'
}

function parsed(line: string): { ready?: boolean; done?: string } | undefined {
  try {
    return JSON.parse(line) as { ready?: boolean; done?: string }
  } catch {
    // Packages print, too.
    return undefined
  }
}

async function within<T>(ms: number, work: Promise<T>, problem: () => string): Promise<T> {
  const timer = new AbortController()
  const late = sleep(ms, undefined, { signal: timer.signal }).then((): never => {
    throw new Error(problem())
  })
  try {
    return await Promise.race([work, late])
  } finally {
    late.catch(() => {})
    timer.abort()
  }
}

function killIfAlive(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
