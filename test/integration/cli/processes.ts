// Real `pawl` processes for tests: started in a folder of their own, listened to, and searched for after they end.
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** The built command. */
export const MAIN = fileURLToPath(new URL('../../../dist/cli/main.js', import.meta.url))

/** How a process ended. */
export interface Ended {
  code: number | null
  signal: string | null
  stdout: string
  /** Without the lines that say what kept the process waiting. */
  stderr: string
}

/** What a command prints about a server that takes longer than two seconds. Whether one does depends on how busy the machine is. */
const WAITS = /^waiting for .* \(\d+ s\)\n/gm

/** Standard error without the lines that say what kept the process waiting. */
export const withoutWaits = (stderr: string): string => stderr.replaceAll(WAITS, '')

/** A line of `--json`. */
export interface PawlEvent extends Record<string, string | number | string[] | null | undefined> {
  event: string
  pid?: number
}

/** A `pawl` process. */
export interface PawlProcess {
  readonly pid: number
  stdout(): string
  /** All of it. */
  stderr(): string
  /** Resolves when standard output matches; rejects if the process ends first. */
  says(what: RegExp): Promise<RegExpMatchArray>
  /** The JSON line of an event, the `nth` of its kind (from 1). */
  event(name: string, nth?: number): Promise<PawlEvent>
  type(text: string): void
  endInput(): void
  kill(signal: NodeJS.Signals): void
  readonly ended: Promise<Ended>
}

/** Where a command runs. */
interface Place {
  cwd: string
  env?: Record<string, string>
}

/** The environment of the tests, without what would point a command at another stack. */
function environment({ env }: Place): NodeJS.ProcessEnv {
  const { TEMPORAL_ADDRESS: _t, DATABASE_URL: _d, TEMPORAL_NAMESPACE: _n, NODE_OPTIONS: _o, ...inherited } = process.env
  return { ...inherited, ...env }
}

const HOST = fileURLToPath(new URL('../fixtures/cli-host.mjs', import.meta.url))
/** Processes that have run a command and can run the next one. All files of a test process share them. */
const idle: ChildProcess[] = ((globalThis as { idleHosts?: ChildProcess[] }).idleHosts ??= [])

/**
 * Runs a command that reads no input and ends by itself, in a process that has run others: most of a command's cost is loading its modules.
 * Tests about processes (signals, pipes, what is loaded) start `pawl` itself.
 */
export async function runPawl(args: string[], place: Place): Promise<Ended> {
  const host = idle.pop() ?? fork(HOST, [], { execArgv: [], env: environment({ cwd: '/' }), stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  const { code, stdout, stderr } = await new Promise<Omit<Ended, 'signal'>>((resolve, reject) => {
    const ended = () => reject(new Error(`the process of pawl ${args.join(' ')} has ended`))
    host.once('exit', ended)
    host.once('message', (answer: Omit<Ended, 'signal'>) => {
      host.off('exit', ended)
      resolve(answer)
    })
    host.send({ args, cwd: place.cwd, env: environment(place) })
  })
  // An idle process does not keep the test process alive, and ends with it.
  host.unref()
  host.channel?.unref()
  idle.push(host)
  return { code, signal: null, stdout, stderr: withoutWaits(stderr) }
}

/** Starts `pawl`. */
export function pawl(args: string[], options: Place & { input?: string }): PawlProcess {
  const child = spawn(process.execPath, [MAIN, ...args], { cwd: options.cwd, env: environment(options), stdio: 'pipe' })
  const output = { stdout: '', stderr: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output.stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    output.stderr += text
  })
  // A process that ends early does not read all of its input.
  child.stdin.on('error', () => {})
  if (options.input !== undefined) child.stdin.end(options.input)
  const ended = endOf(child, output)
  const says = (what: RegExp) => waitFor(child, output, () => output.stdout.match(what), `${what}`)
  return {
    pid: child.pid as number,
    stdout: () => output.stdout,
    stderr: () => output.stderr,
    says,
    event: (name, nth = 1) =>
      waitFor(child, output, () => eventsIn(output.stdout).filter(({ event }) => event === name)[nth - 1], `${nth}. ${name}`),
    type: (text) => void child.stdin.write(text),
    endInput: () => void child.stdin.end(),
    kill: (signal) => void child.kill(signal),
    ended,
  }
}

/** The JSON lines of an output; throws if a whole line is anything else. */
export function eventsIn(stdout: string): PawlEvent[] {
  return stdout
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as PawlEvent)
}

/** Pids of the process and all of its descendants. */
export function familyOf(pid: number): number[] {
  const parents = new Map(processes().map((other) => [other.pid, other.parent]))
  const descends = (one: number | undefined): boolean => one !== undefined && one > 1 && (one === pid || descends(parents.get(one)))
  return [...parents.keys()].filter(descends)
}

/** Command lines of living processes that are among the pids, or that name the folder. */
export function leftOver(pids: readonly number[], folder: string): string[] {
  return processes()
    .filter((one) => pids.includes(one.pid) || one.command.includes(folder))
    .map((one) => `${one.pid} ${one.command}`)
}

function processes(): { pid: number; parent: number; command: string }[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return []
    try {
      const [, state = '', parent = ''] = /\) (\S) (\d+)/.exec(readFileSync(`/proc/${name}/stat`, 'utf8')) ?? []
      const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ')
      return state === 'Z' ? [] : [{ pid: Number(name), parent: Number(parent), command }]
    } catch {
      return [] // It ended while we looked.
    }
  })
}

async function endOf(child: ChildProcess, output: { stdout: string; stderr: string }): Promise<Ended> {
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
  return { code, signal, stdout: output.stdout, stderr: withoutWaits(output.stderr) }
}

function waitFor<T>(
  child: ChildProcess,
  output: { stdout: string; stderr: string },
  find: () => T | null | undefined,
  what: string,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const look = () => {
      const found = find()
      if (found === null || found === undefined) return
      stop()
      resolve(found)
    }
    const onClose = () => {
      stop()
      reject(new Error(`pawl ended before it said ${what}\n--- stdout\n${output.stdout}\n--- stderr\n${output.stderr}`))
    }
    const stop = () => {
      child.stdout?.off('data', look)
      child.off('close', onClose)
    }
    child.stdout?.on('data', look)
    child.once('close', onClose)
    look()
  })
}
