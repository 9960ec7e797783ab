// The versions of what all peers run on.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Client } from '@temporalio/client'
import { Client as Postgres } from 'pg'
import type { Stack } from 'pawl/testing'

/** Names and versions of Node, Temporal and Postgres. */
export async function serverVersions({ node, client, stack }: { node: string; client: Client; stack: Stack }): Promise<string[]> {
  const { stdout } = await promisify(execFile)(node, ['--version'])
  const { serverVersion } = await client.connection.workflowService.getSystemInfo({})
  const postgres = new Postgres({ connectionString: stack.databaseUrl })
  await postgres.connect()
  try {
    const { rows } = await postgres.query<{ server_version: string }>('SHOW server_version')
    return [`Node ${stdout.trim().slice(1)}`, `Temporal ${serverVersion}`, `Postgres ${rows[0]?.server_version}`]
  } finally {
    await postgres.end()
  }
}
