// The keeper: a separate process that owns the servers and stops them when the process that started it has ended, for any reason.
// It runs in its own session, so that a terminal's Ctrl-C reaches neither it nor its servers.
import { spawn, type ChildProcess } from 'node:child_process'
import { closeSync, fstatSync, ftruncateSync, openSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { takeLock, writeLock } from './lock.ts'
import { endProcess } from './processes.ts'
import { lineReader, type KeeperArguments, type KeeperReply, type KeeperRequest, type ProcessSpec } from './protocol.ts'

/** How long a server may take to stop before it is killed. */
const STOP_GRACE_MS = 10_000
/** A log that is longer than this is truncated when its server starts. */
const LOG_LIMIT = 16 * 1024 * 1024

interface OwnedProcess {
  child: ChildProcess
  spec: ProcessSpec
  exited: Promise<void>
}

const given = JSON.parse(process.argv[2] ?? '{}') as KeeperArguments
const kept = new Map<string, OwnedProcess>()
const discards = new Set<string>()
let lockWrites = Promise.resolve()
let ending = false

function reply(message: KeeperReply): void {
  process.stdout.write(`${JSON.stringify(message)}\n`)
}

function start(name: string, spec: ProcessSpec): Promise<number> {
  if (ending) throw new Error('the stack is being stopped')
  if (kept.has(name)) throw new Error(`${name} is already running`)
  const log = openLog(spec.logFile)
  const { command, args, cwd, env, uid, gid } = spec
  const child = spawn(command, args, {
    cwd,
    env,
    stdio: ['ignore', log, log],
    // With `group`, the process leads a process group of its own.
    detached: spec.signals === 'group',
    ...(uid === undefined ? {} : { uid }),
    ...(gid === undefined ? {} : { gid }),
  })
  closeSync(log)
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('spawn', () => {
      const exited = new Promise<void>((done) => {
        child.once('exit', (code, signal) => {
          kept.delete(name)
          rememberInLock()
          reply({ event: 'exited', name, pid: child.pid ?? 0, code, signal })
          done()
        })
      })
      kept.set(name, { child, spec, exited })
      rememberInLock()
      resolve(child.pid ?? 0)
    })
  })
}

function openLog(path: string): number {
  const fd = openSync(path, 'a', 0o600)
  if (fstatSync(fd).size > LOG_LIMIT) ftruncateSync(fd)
  return fd
}

function sendSignal({ child, spec }: OwnedProcess, signal: NodeJS.Signals): void {
  if (spec.signals !== 'group' || process.platform === 'win32' || child.pid === undefined) child.kill(signal)
  else process.kill(-child.pid, signal)
}

async function stop(name: string, signal: NodeJS.Signals): Promise<void> {
  const entry = kept.get(name)
  if (!entry) return
  sendSignal(entry, signal)
  const inTime = new AbortController()
  const late = sleep(STOP_GRACE_MS, undefined, { signal: inTime.signal }).then(
    () => sendSignal(entry, 'SIGKILL'),
    () => {},
  )
  await entry.exited
  inTime.abort()
  await late
}

function rememberInLock(): void {
  const processes = [...kept.values()].map(({ child, spec }) => ({
    pid: child.pid ?? 0,
    marker: spec.marker,
    stopSignal: spec.stopSignal,
  }))
  // The lock only speeds up the clean-up after a crash; a full disk must not stop the keeper.
  lockWrites = lockWrites.then(() => writeLock(given.lock, ending ? 'ending' : 'keeping', processes)).catch(() => {})
}

async function end(): Promise<void> {
  if (ending) return
  ending = true
  rememberInLock()
  await Promise.all([...kept].map(([name, { spec }]) => stop(name, spec.stopSignal)))
  await lockWrites
  const folders = [...discards, ...(given.remove === undefined ? [] : [given.remove])]
  await Promise.allSettled(folders.map((path) => rm(path, { recursive: true, force: true, maxRetries: 5 })))
  await rm(given.lock, { force: true })
  process.exit(0)
}

async function carryOut(request: KeeperRequest): Promise<void> {
  const { id } = request
  try {
    if (request.op === 'start') return reply({ event: 'done', id, pid: await start(request.name, request.spec) })
    if (request.op === 'stop') await stop(request.name, request.signal)
    else discards.add(request.path)
    reply({ event: 'done', id })
  } catch (error) {
    reply({ event: 'failed', id, message: error instanceof Error ? error.message : String(error) })
  }
}

async function main(): Promise<void> {
  process.stdout.on('error', () => {})
  process.stdin.on('error', () => void end())
  for (const signal of ['SIGINT', 'SIGHUP'] as const) process.on(signal, () => {})
  process.on('SIGTERM', () => void end())
  const lock = await takeLock(given.lock)
  if ('heldBy' in lock) {
    reply({ event: 'refused', pid: lock.heldBy })
    process.exitCode = 1
    return
  }
  await Promise.all(lock.left.map(({ pid, marker, stopSignal }) => endProcess(pid, marker, stopSignal, STOP_GRACE_MS)))
  process.stdin.setEncoding('utf8')
  process.stdin.on(
    'data',
    lineReader((line) => void carryOut(JSON.parse(line) as KeeperRequest)),
  )
  process.stdin.on('end', () => void end())
  reply({ event: 'ready' })
}

void main()
