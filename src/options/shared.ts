// Options that several entry points accept: where Temporal and Postgres are, and the logger.
import { z } from 'zod'
import { object, oneOf, options, text, where } from './check.ts'

/** Where Temporal is, as plain data. */
export const TEMPORAL_ADDRESS = options({
  address: text("a Temporal server's address, such as '127.0.0.1:7233'").optional(),
  namespace: text("a namespace's name").optional(),
  apiKey: where<string | (() => string)>(
    (value) => typeof value === 'string' || typeof value === 'function',
    'text, or a function that returns it',
  ).optional(),
  tls: z.unknown().optional(),
})

/** A URL of Postgres, or a pool. */
export function postgres<T>(): z.ZodCustom<T, T> {
  return where((value) => typeof value === 'string' || isPool(value), 'a URL such as postgres://user@host/database, or a pg.Pool')
}

/** Whether the value is a `pg.Pool`, or works as one. */
export function isPool(value: unknown): boolean {
  return typeof value === 'object' && value !== null && typeof (value as { connect?: unknown }).connect === 'function'
}

/** The deployment options of both kinds of worker. */
export const DEPLOYMENT = {
  taskQueue: text("a task queue's name").optional(),
  schema: text('the name of a Postgres schema').optional(),
  migrate: oneOf('auto', 'check', 'off').optional(),
}

/** A pino-compatible logger. */
export function logger<T>(): z.ZodCustom<T, T> {
  return object('a logger with debug, info, warn and error, such as pino', 'debug', 'info', 'warn', 'error')
}
