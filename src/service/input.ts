// A request's path, query, headers and body as a route's schemas read them.
import { z } from 'zod'
import { isObject, isTooDeep, MAX_DEPTH } from '../session/json.ts'
import { numberText } from '../session/number-text.ts'
import { ServiceError, type RefusedPart } from './errors.ts'
import type { RequestMembers } from './route.ts'
import { beginningOf } from '../session/beginning.ts'

/** The value as the schema parses it. @throws ServiceError `invalid_input`. */
export function parsed<S extends z.ZodType>(schema: S, value: unknown, place: string): z.output<S> {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const parts = result.error.issues
    .flatMap((issue) => withinUnion(issue, value))
    .slice(0, MAX_PARTS)
    .map((issue) => partOf(issue, place, value))
  throw new ServiceError('invalid_input', 400, parts.map(({ at, detail }) => `${at}: ${detail}`).join('; '), { parts })
}

const MAX_PARTS = 10
/** Names also come from the request, so they are truncated to this length. */
const MAX_NAME = 100

function partOf(issue: z.core.$ZodIssue, place: string, value: unknown): RefusedPart {
  const path = issue.code === 'unrecognized_keys' ? [...issue.path, issue.keys[0] ?? ''] : issue.path
  return { at: beginningOf([place, ...path.map(String)].join('.'), MAX_NAME), detail: detailOf(issue, value) }
}

/** zod's own texts name what was expected, but do not always say that the value was missing. */
function detailOf(issue: z.core.$ZodIssue, value: unknown): string {
  if (issue.code === 'unrecognized_keys') return 'is not a known member'
  return valueAt(value, issue.path) === undefined ? 'is missing' : issue.message
}

/** Codes of issues which show that a value is not of an alternative's kind at all. */
const OTHER_VALUE = new Set<z.core.$ZodIssue['code']>(['invalid_type', 'invalid_value', 'invalid_union'])

/** What is wrong within a value that nearly matches one of a union's alternatives, instead of saying that it matches none. */
function withinUnion(issue: z.core.$ZodIssue, value: unknown): readonly z.core.$ZodIssue[] {
  if (issue.code !== 'invalid_union' || valueAt(value, issue.path) === undefined) return [issue]
  const near = issue.errors
    .filter((issues) => issues.length > 0 && issues.every(({ path, code }) => path.length > 0 || !OTHER_VALUE.has(code)))
    .toSorted((one, other) => one.length - other.length)[0]
  if (!near) return [issue]
  return near.flatMap((one) => withinUnion({ ...one, path: [...issue.path, ...one.path] }, value))
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>((at, key) => (isObject(at) || Array.isArray(at) ? Reflect.get(at, key) : undefined), value)
}

/**
 * Converts the query for its schema: text to numbers and booleans, and repeated names to lists.
 * @throws ServiceError `invalid_input`.
 */
export function queryOf(search: URLSearchParams, schema: RequestMembers): Record<string, unknown> {
  const values: Record<string, unknown> = {}
  for (const name of new Set(search.keys())) {
    const texts = search.getAll(name)
    const expected = bare(schema.shape[name])
    if (expected instanceof z.ZodArray) values[name] = texts
    else if (texts.length > 1) throw twice(name)
    else Object.defineProperty(values, name, { value: valueOf(texts[0] ?? '', expected), enumerable: true })
  }
  return values
}

function twice(name: string): ServiceError {
  const part = { at: beginningOf(`query.${name}`, MAX_NAME), detail: 'appears more than once' }
  return new ServiceError('invalid_input', 400, `${part.at} ${part.detail}.`, { parts: [part] })
}

/** Converts the members of a path for their schema. */
export function paramsOf(given: Readonly<Record<string, string>>, schema: RequestMembers): Record<string, unknown> {
  return Object.fromEntries(Object.entries(given).map(([name, text]) => [name, valueOf(text, bare(schema.shape[name]))]))
}

const NUMBER = /^-?\d{1,15}(\.\d{1,9})?$/

function valueOf(text: string, expected: unknown): unknown {
  if (expected instanceof z.ZodNumber && NUMBER.test(text)) return Number(text)
  if (expected instanceof z.ZodBoolean && (text === 'true' || text === 'false')) return text === 'true'
  return text
}

function bare(schema: unknown): unknown {
  return schema instanceof z.ZodOptional || schema instanceof z.ZodDefault ? bare(schema.unwrap()) : schema
}

const JSON_TYPE = /^application\/([a-z0-9.+-]+\+)?json\s*(;|$)/i

/**
 * The body as JSON; an empty object if there is none. Reads at most `maxBytes`, whatever length the request declares.
 * @throws ServiceError `body_too_large`, `unsupported_media_type`, `invalid_json`, `body_consumed`.
 */
export async function bodyOf(request: Request, maxBytes: number): Promise<unknown> {
  const bytes = await bytesOf(request, maxBytes)
  if (bytes.length === 0) return {}
  if (!JSON_TYPE.test(request.headers.get('content-type') ?? '')) {
    throw new ServiceError('unsupported_media_type', 415, 'The body must be JSON. Send it with content-type: application/json.')
  }
  const value = jsonOf(bytes)
  if (isTooDeep(value)) throw new ServiceError('invalid_json', 400, `The body is nested deeper than ${MAX_DEPTH} levels. Flatten it.`)
  return value
}

function jsonOf(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch (cause) {
    throw new ServiceError('invalid_json', 400, 'The body is not valid JSON in UTF-8.', { cause })
  }
}

async function bytesOf(request: Request, maxBytes: number): Promise<Uint8Array> {
  if (Number(request.headers.get('content-length') ?? 0) > maxBytes) throw tooLarge(maxBytes)
  if (request.bodyUsed || request.body?.locked) throw bodyConsumed()
  if (!request.body) return new Uint8Array()
  const chunks: Uint8Array[] = []
  let length = 0
  const reader = (request.body as ReadableStream<Uint8Array>).getReader()
  for (;;) {
    const { done, value } = await readFrom(reader)
    if (done) return Buffer.concat(chunks)
    length += value.length
    if (length > maxBytes) {
      await reader.cancel().catch(() => undefined)
      throw tooLarge(maxBytes)
    }
    chunks.push(value)
  }
}

/** A client that disconnects in the middle of its body is not a failure of the server. */
async function readFrom(reader: ReadableStreamDefaultReader<Uint8Array>) {
  try {
    return await reader.read()
  } catch (cause) {
    if (cause instanceof ServiceError && cause.code === 'body_consumed') throw cause
    throw new ServiceError('invalid_json', 400, 'The connection ended before the whole body arrived. Send the request again.', { cause })
  }
}

/** Another part of the application has read the body: the rest would look like a client's mistake. */
export function bodyConsumed(): ServiceError {
  return new ServiceError(
    'body_consumed',
    500,
    'Another part of this server has read the request body before pawl. Mount pawl before body parsers such as express.json(), and do not read the body in authorize.',
  )
}

function tooLarge(maxBytes: number): ServiceError {
  return new ServiceError(
    'body_too_large',
    413,
    `The body exceeds ${numberText(maxBytes)} bytes. Send a smaller one, or store large values elsewhere and send references.`,
  )
}
