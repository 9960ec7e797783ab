// A Postgres that is already running: found by DATABASE_URL, used as it is.
import { reasonOf, StackError } from '../errors.ts'
import { foundServer } from '../server.ts'
import { shown, withClient } from './client.ts'
import type { PostgresServer } from './server.ts'

/** Checks that the server at DATABASE_URL answers. @throws StackError `postgres_unreachable`. */
export async function foundPostgres(url: string): Promise<PostgresServer> {
  await withClient(url, (client) => client.query('select 1')).catch((cause: unknown) => {
    throw new StackError(
      'postgres_unreachable',
      `Postgres does not answer at DATABASE_URL (${shown(url)}): ${reasonOf(cause)}. Start it, correct the URL, or unset it to start an embedded server.`,
      { cause },
    )
  })
  return { server: foundServer('Postgres'), url }
}
