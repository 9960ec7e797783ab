// A Temporal server like that of the compose file: the release that it names, with what its image is configured with and the dynamic
// configuration of docker/, which stores in Postgres. Server and schema tool are built from Go modules, once, into pawl's cache.
import { execFile } from 'node:child_process'
import { access, mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import type { Connection } from '@temporalio/client'
import { msToTs } from '@temporalio/common/lib/time.js'
import { startStack, type Stack } from 'pawl/testing'
import { registerSearchAttributes } from '../../src/connect/search-attributes.ts'
import { cacheDir, inScratch } from '../../src/local/cache.ts'
import { makeDataDir, openState } from '../../src/local/data-dir.ts'
import { startKeeper } from '../../src/local/keeper/keeper.ts'
import { freePort } from '../../src/local/ports.ts'
import { startPostgres } from '../../src/local/postgres/server.ts'
import { probeServer, withConnection } from '../../src/local/temporal/probe.ts'
import { RETENTION_MS } from '../../src/local/temporal/release.ts'
import { until } from './until.ts'

/** A stack whose Temporal server a test can kill and start again. */
export type OwnStack = Pick<Stack, 'temporalAddress' | 'namespace' | 'databaseUrl' | 'env' | 'stop'> & {
  temporal: Pick<Stack['temporal'], 'stop' | 'start'>
}

/** Whether this run takes a Temporal server that stores in Postgres in the place of the embedded one. */
const isOnPostgres = process.env.PAWL_TEMPORAL_STORE === 'postgres'
/** How much longer starting it may take: the first time, it is built. */
export const OWN_STACK_MS = isOnPostgres ? 20 * 60_000 : 0

/** Starts servers for one test. */
export function startOwnStack(): Promise<OwnStack> {
  return isOnPostgres ? startOnPostgres() : startStack({ temporal: ['path', 'cache', 'download', 'go'], postgres: ['embedded'] })
}

/** Starts the servers of a run. */
export function startSharedStack(onProgress: (line: string) => void = () => undefined): Promise<OwnStack> {
  return isOnPostgres ? startOnPostgres(onProgress) : startStack({ onProgress })
}

const run = promisify(execFile)
const ROOT = resolve(import.meta.dirname, '../..')
const PROGRAMS = 'go.temporal.io/server/cmd'
const SERVICES = ['frontend', 'matching', 'history', 'worker'] as const
const NAMESPACE = 'default'

async function startOnPostgres(onProgress?: (line: string) => void): Promise<OwnStack> {
  // A keeper does not keep this process alive, and nothing else may do so yet.
  const timer = setInterval(() => undefined, 1_000)
  return startServers(onProgress).finally(() => clearInterval(timer))
}

async function startServers(onProgress: (line: string) => void = () => undefined): Promise<OwnStack> {
  const { programs, schemas } = await build()
  const dir = await makeDataDir(undefined)
  const keeper = await startKeeper({ lock: join(dir.path, 'keeper.lock'), remove: dir.path })
  const { url } = await startPostgres({ keeper, dir, state: await openState(dir), env: process.env })
  await createSchemas(programs, schemas, new URL(url))
  const port = await configure(dir.path, new URL(url))
  const at = { address: `127.0.0.1:${port}`, namespace: NAMESPACE }

  async function start(): Promise<void> {
    await keeper.start('temporal', {
      command: join(programs, 'server'),
      args: ['--root', dir.path, '--config', 'config', '--allow-no-auth', 'start'],
      cwd: dir.path,
      env: { PATH: process.env.PATH ?? '' },
      logFile: join(dir.path, 'temporal.log'),
      stopSignal: 'SIGTERM',
      marker: dir.path,
    })
    await until(
      'the server serves the namespace',
      async () => {
        await withConnection(at, haveNamespace)
        await probeServer(at)
        return true
      },
      90_000,
    )
  }

  await start()
  const env = { TEMPORAL_ADDRESS: at.address, TEMPORAL_NAMESPACE: NAMESPACE, TEMPORAL_TLS: 'false' }
  // The side store has a server of its own, as in the compose file.
  const store = await startStack({ temporal: ['address'], postgres: ['embedded'], env: { ...process.env, ...env }, onProgress })
  return {
    temporalAddress: at.address,
    namespace: NAMESPACE,
    databaseUrl: store.databaseUrl,
    env: { ...store.env, ...env },
    temporal: { start, stop: (how) => keeper.stop('temporal', how === 'crash' ? 'SIGKILL' : 'SIGTERM') },
    async stop() {
      await store.stop()
      await keeper.close()
    },
  }
}

async function haveNamespace(connection: Connection): Promise<void> {
  await connection.workflowService
    .registerNamespace({ namespace: NAMESPACE, workflowExecutionRetentionPeriod: msToTs(RETENTION_MS) })
    .catch((error: { code?: number }) => {
      if (error.code !== ALREADY_EXISTS) throw error
    })
  // As the embedded server has them.
  await registerSearchAttributes(connection, NAMESPACE)
}

const ALREADY_EXISTS = 6

/** The programs of the release that the compose file names, and the schemas that come with them. */
async function build(): Promise<{ programs: string; schemas: string }> {
  const compose = await readFile(join(ROOT, 'docker-compose.yml'), 'utf8')
  const release = /temporalio\/server:([\d.]+)/.exec(compose)?.[1] ?? ''
  const parent = cacheDir(process.env)
  const programs = join(parent, `temporal-server-${release}`)
  const isBuilt = await access(programs).then(
    () => true,
    () => false,
  )
  if (!isBuilt) {
    await inScratch(parent, async (scratch) => {
      const bin = join(scratch, 'bin')
      await mkdir(bin)
      await writeFile(join(scratch, 'go.mod'), `module pawl/temporal\n\ngo 1.25.0\n\nrequire go.temporal.io/server v${release}\n`)
      const env = { ...process.env, GOBIN: bin, CGO_ENABLED: '0' }
      const go = (...args: string[]) => run('go', args, { cwd: scratch, env, maxBuffer: 100_000_000 })
      await go('install', '-mod=mod', '-ldflags=-s -w', `${PROGRAMS}/server`, `${PROGRAMS}/tools/sql`)
      await rename(bin, programs)
    })
  }
  const { stdout } = await run('go', ['mod', 'download', '-json', `go.temporal.io/server@v${release}`], { cwd: parent })
  return { programs, schemas: join((JSON.parse(stdout) as { Dir: string }).Dir, 'schema/postgresql/v12') }
}

/** As docker/temporal-schema.sh. */
async function createSchemas(programs: string, schemas: string, { hostname, port, username, password }: URL): Promise<void> {
  const place = { SQL_PLUGIN: 'postgres12', SQL_HOST: hostname, SQL_PORT: port, SQL_USER: username, SQL_PASSWORD: password }
  for (const [database, schema] of Object.entries(DATABASES)) {
    const tool = (...args: string[]) => run(join(programs, 'sql'), ['--db', database, ...args], { env: { ...process.env, ...place } })
    await tool('create')
    await tool('setup-schema', '-v', '0.0')
    await tool('update-schema', '-d', join(schemas, schema, 'versioned'))
  }
}

const DATABASES = { temporal: 'temporal', temporal_visibility: 'visibility' }

/**
 * What the image's template (docker/config_template.yaml of the server) makes of the compose file's environment, apart from ports, addresses and
 * the level of the log. Returns the port of the frontend.
 */
async function configure(dir: string, { host, username, password }: URL): Promise<number> {
  const ports: number[] = []
  while (ports.length < 2 * SERVICES.length + 1) ports.push(await freePort().then((port) => (ports.includes(port) ? freePort() : port)))
  const [frontend = 0, http] = [ports[0], ports.at(-1)]
  const store = (databaseName: string, maxConns: number) => {
    const sql = { pluginName: 'postgres12', databaseName, connectAddr: host, connectProtocol: 'tcp', user: username, password }
    return { sql: { ...sql, maxConns, maxIdleConns: maxConns, maxConnLifetime: '1h' } }
  }
  const provider = { filestore: { fileMode: '0666', dirMode: '0766' } }
  const archive = { state: 'enabled', enableRead: true, provider }
  const config = {
    log: { stdout: true, level: 'warn' },
    persistence: {
      numHistoryShards: 4,
      defaultStore: 'default',
      visibilityStore: 'visibility',
      datastores: { default: store('temporal', 20), visibility: store('temporal_visibility', 10) },
    },
    global: { membership: { maxJoinDuration: '30s', broadcastAddress: '127.0.0.1' } },
    services: Object.fromEntries(
      SERVICES.map((name, n) => {
        const [grpcPort, membershipPort] = [ports[2 * n], ports[2 * n + 1]]
        return [name, { rpc: { grpcPort, membershipPort, bindOnIP: '127.0.0.1', ...(name === 'frontend' && { httpPort: http }) } }]
      }),
    ),
    clusterMetadata: {
      enableGlobalNamespace: false,
      failoverVersionIncrement: 10,
      masterClusterName: 'active',
      currentClusterName: 'active',
      clusterInformation: {
        active: {
          enabled: true,
          initialFailoverVersion: 1,
          rpcName: 'frontend',
          rpcAddress: `127.0.0.1:${frontend}`,
          httpAddress: `127.0.0.1:${http}`,
        },
      },
    },
    dcRedirectionPolicy: { policy: 'noop' },
    archival: { history: archive, visibility: archive },
    namespaceDefaults: {
      archival: {
        history: { state: 'disabled', URI: `file://${dir}/archival` },
        visibility: { state: 'disabled', URI: `file://${dir}/vis-archival` },
      },
    },
    dynamicConfigClient: { filepath: join(ROOT, 'docker/temporal-dynamic-config.yaml'), pollInterval: '60s' },
  }
  await mkdir(join(dir, 'config'))
  // JSON is YAML.
  await writeFile(join(dir, 'config/development.yaml'), JSON.stringify(config, null, 2))
  return frontend
}
