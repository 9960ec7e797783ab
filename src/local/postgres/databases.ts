// New databases in the stack's Postgres, for example one per test.
import { randomBytes } from 'node:crypto'
import { reasonOf, StackError } from '../errors.ts'
import { shown, urlOf, withClient } from './client.ts'

/** Creates an empty database and returns its URL. @throws StackError `database_failed`. */
export async function createDatabase(stackUrl: string, name = `pawl_${randomBytes(6).toString('hex')}`): Promise<string> {
  await withClient(stackUrl, (client) => client.query(`create database ${client.escapeIdentifier(name)} template template0`)).catch(
    failed('create', name),
  )
  return urlOf(stackUrl, name)
}

/**
 * Drops a database that `createDatabase` created, and closes its connections. A missing database is not an error.
 * @throws StackError `database_failed`.
 */
export async function dropDatabase(stackUrl: string, url: string): Promise<void> {
  const name = databaseName(url)
  if (name === databaseName(stackUrl)) {
    throw new StackError('database_failed', `${shown(url)} is the stack's own database. Drop only databases that createDatabase created.`)
  }
  await withClient(stackUrl, (client) => client.query(`drop database if exists ${client.escapeIdentifier(name)} with (force)`)).catch(
    failed('drop', name),
  )
}

function databaseName(url: string): string {
  return decodeURIComponent(new URL(url).pathname.slice(1))
}

function failed(verb: string, name: string): (cause: unknown) => never {
  return (cause) => {
    throw new StackError(
      'database_failed',
      `Could not ${verb} the database "${name}": ${reasonOf(cause)}. Choose another name, or allow the user of DATABASE_URL to create databases.`,
      { cause },
    )
  }
}
