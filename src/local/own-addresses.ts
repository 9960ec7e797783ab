// Addresses in the environment that name a folder's own servers: users export what `pawl dev` prints, and variables outlive the servers.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { StackState } from './data-dir.ts'
import { lockOwner } from './keeper/lock.ts'
import { accepts } from './ports.ts'
import type { Say } from './progress.ts'

/** This is longer than a keeper takes to stop its servers. */
const PATIENCE_MS = 15_000

/**
 * The environment without the addresses of this folder's own servers that are not running, because these must be started. While another
 * process runs them, the addresses stay, and the servers are found like any others.
 */
export async function withoutOwnAddresses(env: NodeJS.ProcessEnv, dataDir: string, say: Say): Promise<NodeJS.ProcessEnv> {
  const known = await readState(dataDir)
  if (!known || (await isRun(dataDir))) return env
  const { TEMPORAL_ADDRESS: temporal, DATABASE_URL: postgres, ...rest } = env
  // Another server may have the port by now. The password belongs to this folder only.
  const ownTemporal = isOwnTemporal(temporal, known) && !(await accepts(known.temporalPort ?? 0))
  const ownPostgres = isOwnPostgres(postgres, known)
  const own = [...(ownTemporal ? ['TEMPORAL_ADDRESS'] : []), ...(ownPostgres ? ['DATABASE_URL'] : [])]
  if (own.length === 0) return env
  say(`${own.join(' and ')} ${own.length > 1 ? 'name' : 'names'} a server of ${dataDir} that is not running: starting it`)
  return {
    ...rest,
    ...(temporal !== undefined && !ownTemporal && { TEMPORAL_ADDRESS: temporal }),
    ...(postgres !== undefined && !ownPostgres && { DATABASE_URL: postgres }),
  }
}

function isOwnTemporal(address: string | undefined, { temporalPort }: Partial<StackState>): boolean {
  return temporalPort !== undefined && (address === `127.0.0.1:${temporalPort}` || address === `localhost:${temporalPort}`)
}

function isOwnPostgres(url: string | undefined, { password }: Partial<StackState>): boolean {
  return url !== undefined && password !== undefined && URL.canParse(url) && new URL(url).password === password
}

/** Whether another process runs a stack with this folder; waits for one that is stopping. */
async function isRun(dataDir: string): Promise<boolean> {
  const until = Date.now() + PATIENCE_MS
  for (;;) {
    const owner = await lockOwner(join(dataDir, 'keeper.lock'))
    if (owner !== 'ending' || Date.now() > until) return owner !== undefined
    await sleep(100)
  }
}

async function readState(dataDir: string): Promise<Partial<StackState> | undefined> {
  try {
    return JSON.parse(await readFile(join(dataDir, 'stack.json'), 'utf8')) as Partial<StackState>
  } catch {
    return undefined
  }
}
