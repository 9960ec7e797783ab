// Options that several entry points accept: where Temporal and Postgres are, and the logger.
import type { z } from 'zod'
import { object, oneOf, options, text, where } from './check.ts'

/** Where Temporal is, as plain data. */
export const TEMPORAL_ADDRESS = options(
  {
    address: text("a Temporal server's address, such as '127.0.0.1:7233'").optional(),
    namespace: text("a namespace's name").optional(),
    apiKey: where<string | (() => string)>(
      (value) => typeof value === 'string' || typeof value === 'function',
      'a string, or a function that returns one',
    ).optional(),
    tls: where<unknown>(
      isTls,
      'true, false or an object { serverNameOverride?, serverRootCACertificate?, clientCertPair? } with certificates as bytes',
    ).optional(),
  },
  "an object such as { address: '127.0.0.1:7233' }",
)

/** Null is the same as false for Temporal's client. */
function isTls(value: unknown): boolean {
  if (typeof value === 'boolean' || value === null) return true
  if (!isObject(value)) return false
  const { serverNameOverride: name, serverRootCACertificate: ca, clientCertPair: pair } = value
  if (name != null && typeof name !== 'string') return false
  if (ca != null && !ArrayBuffer.isView(ca)) return false
  return pair == null || (isObject(pair) && ArrayBuffer.isView(pair.crt) && ArrayBuffer.isView(pair.key))
}

/** A DataConverter of Temporal; Temporal itself checks what its modules and codecs do. */
export function isDataConverter(value: unknown): boolean {
  if (!isObject(value)) return false
  const { payloadConverterPath, failureConverterPath, payloadCodecs } = value
  const paths = [payloadConverterPath, failureConverterPath]
  return paths.every((path) => path == null || typeof path === 'string') && (payloadCodecs == null || Array.isArray(payloadCodecs))
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A URL of Postgres, or a pool. */
export function postgres<T>(): z.ZodCustom<T, T> {
  return where((value) => typeof value === 'string' || isPool(value), 'a URL such as postgres://user@host/database, or a pg.Pool')
}

/** Whether the value is a `pg.Pool`, or has the same methods. */
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

/** A check for the name of a time zone. Offsets such as `+02:00` are refused: Postgres and Temporal read them differently, or not at all. */
export function ianaTimeZone() {
  return where<string>(isTimeZone, "an IANA time zone such as 'Europe/Berlin'")
}

function isTimeZone(name: unknown): boolean {
  if (typeof name !== 'string' || !/^[A-Za-z]/.test(name)) return false
  try {
    new Intl.DateTimeFormat('en', { timeZone: name }).format(0)
    return true
  } catch {
    return false
  }
}
