// Converts the fields of a log line to plain data: bounded, the same in every process and for every logger, and without secrets.
import { defined } from '../session/defined.ts'
import type { IsSecret } from './secrets.ts'
import { beginningOf } from '../session/beginning.ts'

const REDACTED = '[redacted]'
const LEFT_OUT = '[…]'
const UNREADABLE = '[unreadable]'
/** Limits of one line: a tool's arguments can be megabytes long. */
const MAX_VALUES = 1_000
const MAX_CHARACTERS = 4_000
const DEEPEST = 10

/** The walk through the fields of one line. */
interface Walk {
  isSecret: IsSecret
  /** How many more values the line may contain. */
  left: number
  /** The objects that contain the current value. */
  around: Set<object>
}

/** A copy of the fields for the line. Never throws, whatever the fields are. */
export function plainFields(fields: object, isSecret: IsSecret): Record<string, unknown> {
  try {
    return membersOf(fields, [], { isSecret, left: MAX_VALUES, around: new Set([fields]) })
  } catch {
    return { fields: UNREADABLE }
  }
}

function membersOf(given: object, path: readonly string[], walk: Walk): Record<string, unknown> {
  const copy: Record<string, unknown> = {}
  for (const name of Object.keys(given)) {
    const here = [...path, name]
    const value = read(() => (given as Record<string, unknown>)[name])
    if (value !== undefined) copy[name] = walk.isSecret(here) ? REDACTED : copyOf(value, here, walk)
  }
  return copy
}

function copyOf(value: unknown, path: readonly string[], walk: Walk): unknown {
  if (typeof value === 'string') return cut(value)
  if (typeof value === 'number' || typeof value === 'boolean' || value === null || value === undefined) return value
  if (typeof value !== 'object') return typeof value === 'bigint' ? String(value) : `[${typeof value}]`
  if (walk.around.has(value)) return '[circular]'
  if (walk.left <= 0 || walk.around.size >= DEEPEST) return LEFT_OUT
  walk.left -= 1
  walk.around.add(value)
  try {
    return objectCopy(value, path, walk)
  } catch {
    return UNREADABLE
  } finally {
    walk.around.delete(value)
  }
}

function objectCopy(value: object, path: readonly string[], walk: Walk): unknown {
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return `[${value.byteLength} bytes]`
  if (value instanceof Error) return errorCopy(value, path, walk)
  if (value instanceof Map) return membersOf(Object.fromEntries(value), path, walk)
  const list = value instanceof Set ? [...value] : value
  if (Array.isArray(list)) {
    const kept = list.slice(0, Math.max(0, walk.left))
    walk.left -= kept.length
    return [...kept.map((one) => copyOf(one, path, walk)), ...(kept.length < list.length ? [LEFT_OUT] : [])]
  }
  const toJson = read(() => (value as { toJSON?: unknown }).toJSON)
  if (typeof toJson === 'function')
    return copyOf(
      read(() => toJson.call(value) as unknown),
      path,
      walk,
    )
  return membersOf(value, path, walk)
}

/** The format in which pino writes errors, without their other members: errors of HTTP clients contain requests with their headers. */
function errorCopy(error: Error, path: readonly string[], walk: Walk): object {
  const [code, stack, cause] = [read(() => (error as { code?: unknown }).code), read(() => error.stack), read(() => error.cause)]
  return {
    type: cut(String(read(() => String(error.name)))),
    message: cut(String(read(() => String(error.message)))),
    ...((typeof code === 'string' || typeof code === 'number') && { code }),
    ...(typeof stack === 'string' && { stack: cut(stack) }),
    ...defined({ cause: copyOf(cause, path, walk) }),
  }
}

/** A getter, a proxy or a `toJSON` may throw. */
function read(look: () => unknown): unknown {
  try {
    return look()
  } catch {
    return UNREADABLE
  }
}

function cut(text: string): string {
  return text.length <= MAX_CHARACTERS ? text : `${beginningOf(text, MAX_CHARACTERS)}…`
}
