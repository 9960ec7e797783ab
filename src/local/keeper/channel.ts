// Requests to a keeper process and their replies. An idle channel does not keep this process alive; an open request does.
import { spawn, type ChildProcess } from 'node:child_process'
import { createRequire } from 'node:module'
import { Socket } from 'node:net'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { lineReader, type KeeperArguments, type KeeperReply, type KeeperRequest } from './protocol.ts'

type WithoutId<T> = T extends unknown ? Omit<T, 'id'> : never

/** A channel to a keeper process. */
export interface KeeperChannel {
  /** Resolves to the pid of the started process, if any. Rejects with the keeper's message, or when the keeper has exited. */
  ask(request: WithoutId<KeeperRequest>): Promise<number>
  /** Resolves when the keeper is ready. `heldBy`: the pid of another live keeper that has the data directory. */
  ready: Promise<{ heldBy?: number }>
  /** Resolves when the keeper has exited, with its output on stderr. */
  closed: Promise<string>
  /** Releases the keeper, which then stops everything; resolves when the keeper has exited. */
  close(): Promise<void>
}

/** Starts a keeper process and connects to it. `onExit` is called for processes that ended. */
export function openChannel(args: KeeperArguments, onExit: (exit: KeeperReply & { event: 'exited' }) => void): KeeperChannel {
  const child = spawnKeeper(args)
  const open = new Map<number, { resolve(pid: number): void; reject(error: Error): void }>()
  let lastId = 0
  let said = ''
  let holds = 0

  function hold<T>(work: Promise<T>): Promise<T> {
    if (holds++ === 0) setReferenced(child, 'ref')
    return work.finally(() => {
      if (--holds === 0) setReferenced(child, 'unref')
    })
  }

  const closed = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message))
    child.once('close', () => resolve(said))
  })
  const ready = new Promise<{ heldBy?: number }>((resolve, reject) => {
    const take = (reply: KeeperReply) => {
      if (reply.event === 'ready') return resolve({})
      if (reply.event === 'refused') return resolve({ heldBy: reply.pid })
      if (reply.event === 'exited') return onExit(reply)
      const request = open.get(reply.id)
      open.delete(reply.id)
      if (reply.event === 'failed') request?.reject(new Error(reply.message))
      else request?.resolve(reply.pid ?? 0)
    }
    child.stdout?.setEncoding('utf8').on(
      'data',
      lineReader((line) => take(JSON.parse(line) as KeeperReply)),
    )
    void closed.then((text) => reject(new Error(text || 'it exited before it was ready')))
  })
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => (said = (said + chunk).slice(-4_000)))
  child.stdin?.on('error', () => {})
  void closed.then(() => {
    for (const { reject } of open.values()) reject(new Error('the keeper process has exited'))
    open.clear()
  })

  function ask(request: WithoutId<KeeperRequest>): Promise<number> {
    const id = ++lastId
    return hold(
      new Promise((resolve, reject) => {
        if (child.exitCode !== null || child.signalCode !== null) return reject(new Error('the keeper process has exited'))
        open.set(id, { resolve, reject })
        child.stdin?.write(`${JSON.stringify({ id, ...request })}\n`)
      }),
    )
  }

  function close(): Promise<void> {
    child.stdin?.end()
    return hold(closed.then(() => {}))
  }

  return { ask, ready: hold(ready), closed, close }
}

function spawnKeeper(args: KeeperArguments): ChildProcess {
  const main = fileURLToPath(new URL(import.meta.url.endsWith('.ts') ? './main.ts' : './main.js', import.meta.url))
  const { NODE_OPTIONS: _options, NODE_CHANNEL_FD: _channel, ...env } = process.env
  return spawn(process.execPath, [...typescriptLoader(main), main, JSON.stringify(args)], {
    detached: true,
    cwd: '/',
    env,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
}

/** Node's options for running one of pawl's files, which may be TypeScript source. */
function typescriptLoader(file: string): string[] {
  if (!file.endsWith('.ts')) return []
  return ['--import', pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href]
}

function setReferenced(child: ChildProcess, how: 'ref' | 'unref'): void {
  child[how]()
  for (const stream of [child.stdin, child.stdout, child.stderr]) if (stream instanceof Socket) stream[how]()
}
