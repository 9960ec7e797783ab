// A real pgbouncer in transaction mode: found on PATH, or Debian's package, unpacked once into pawl's cache folder.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, chmod, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { cacheDir, inScratch } from '../../src/local/cache.ts'
import { freePort } from '../../src/local/ports.ts'
import { until } from './until.ts'

const run = promisify(execFile)
/** The package, and the dependencies that a bare machine lacks. */
const PACKAGES = ['pgbouncer', 'libevent-2.1-7', 'libc-ares2']

/** The pgbouncer executable and the environment that it needs. */
export interface Bouncer {
  command: string
  env: NodeJS.ProcessEnv
}

/** Finds or unpacks one; a string says why there is none. */
export async function findBouncer(): Promise<Bouncer | string> {
  const found = await run('sh', ['-c', 'command -v pgbouncer']).catch(() => undefined)
  if (found) return { command: found.stdout.trim(), env: process.env }
  try {
    const home = join(cacheDir(process.env), 'pgbouncer')
    await access(join(home, 'usr/sbin/pgbouncer')).catch(() => unpack(home))
    const lib = join(home, 'usr/lib')
    const folders = (await readdir(lib)).filter((name) => name.includes('linux-gnu'))
    const env = { ...process.env, LD_LIBRARY_PATH: folders.map((name) => join(lib, name)).join(':') }
    const bouncer = { command: join(home, 'usr/sbin/pgbouncer'), env }
    await run(bouncer.command, ['--version'], { env })
    return bouncer
  } catch (error) {
    return `neither on PATH nor to be had as a Debian package (${error instanceof Error ? error.message.split('\n')[0] : String(error)})`
  }
}

async function unpack(home: string): Promise<void> {
  await inScratch(cacheDir(process.env), async (scratch) => {
    await run('apt-get', ['download', ...PACKAGES], { cwd: scratch, timeout: 60_000 })
    for (const file of await readdir(scratch))
      if (file.endsWith('.deb')) await run('dpkg', ['-x', join(scratch, file), join(scratch, 'root')])
    // Another process may have been faster: its copy is as good.
    await rename(join(scratch, 'root'), home).catch(() => undefined)
  })
}

/** Starts it in front of the database, with two connections for all its clients; returns its address and a function that stops it. */
export async function startBouncer({ command, env }: Bouncer, database: string): Promise<{ url: string; stop(): Promise<void> }> {
  const { hostname, port, username, password, pathname } = new URL(database)
  const folder = await mkdtemp(join(tmpdir(), 'pawl-bouncer-'))
  const own = await freePort()
  const target = `host=${hostname} port=${port} dbname=${pathname.slice(1)} user=${username} password=${decodeURIComponent(password)}`
  const lines = [
    '[databases]',
    `pawl = ${target}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${own}`,
    'unix_socket_dir =',
    'auth_type = any',
    'pool_mode = transaction',
    'default_pool_size = 2',
    // It refuses to run as root.
    ...(process.getuid?.() === 0 ? ['user = nobody'] : []),
  ]
  const config = join(folder, 'pgbouncer.ini')
  await writeFile(config, `${lines.join('\n')}\n`)
  await chmod(folder, 0o755)
  const child = spawn(command, [config], { env, stdio: ['ignore', 'ignore', 'pipe'] })
  const said = listenTo(child)
  const url = `postgres://${username}@127.0.0.1:${own}/pawl`
  const stop = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
    await rm(folder, { recursive: true, force: true })
  }
  try {
    await until('pgbouncer answers', async () => {
      return child.exitCode !== null || answers(url)
    })
    if (child.exitCode !== null) throw new Error(`pgbouncer ended: ${said()}`)
  } catch (error) {
    await stop()
    throw error
  }
  return { url, stop }
}

function listenTo(child: ChildProcess): () => string {
  let text = ''
  child.stderr?.setEncoding('utf8').on('data', (more: string) => {
    text += more
  })
  return () => text
}

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client(url)
  try {
    await client.connect()
    await client.query('select 1')
    return true
  } catch {
    return false
  } finally {
    await client.end().catch(() => undefined)
  }
}
