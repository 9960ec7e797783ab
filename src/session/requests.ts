// The arguments of signals, updates and starts as anyone may send them: made plain JSON, so that looking at a member cannot throw.
import type { Target } from './events.ts'
import { isTooDeep, type Json } from './json.ts'
import { Undecodable } from './undecodable.ts'

/** Characters of a message's id. */
export const MAX_MESSAGE_ID = 200

/**
 * A value from outside as its JSON text would give it; undefined for what has none, or is nested too deep. What JSON calls 1e999 is
 * Infinity here and null in an event's text, and a user's own payload converter may decode to anything.
 */
export function plainOf(raw: unknown): Json | undefined {
  if (raw instanceof Undecodable || ArrayBuffer.isView(raw) || isTooDeep(raw)) return undefined
  try {
    const text = JSON.stringify(raw)
    return text === undefined ? undefined : (JSON.parse(text) as Json)
  } catch {
    return undefined
  }
}

/**
 * The one argument of a request, with the members that it should have; an empty object if it is not an object. `T` is what a sender
 * was asked for: each member is still to be checked.
 */
export function requestOf<T extends object>(raw: unknown): T {
  const plain = plainOf(raw)
  return (isObject(plain) ? plain : {}) as T
}

/** What a sender is told whose target is not one. */
export const SAY_WHERE_TO = 'Say where to: { checkpoint: version }, { message: messageId } or { run: number }.'

/** The target that a value names; undefined if it names none, or several. */
export function targetIn(raw: unknown): Target | undefined {
  const { checkpoint, message, run } = (isObject(raw) ? raw : {}) as Record<string, unknown>
  const given = [checkpoint, message, run].filter((one) => one !== undefined)
  if (given.length !== 1) return undefined
  if (isOrdinal(checkpoint)) return { checkpoint }
  if (isOrdinal(run)) return { run }
  return typeof message === 'string' && message !== '' && message.length <= MAX_MESSAGE_ID ? { message } : undefined
}

/** Whether it counts something from 1. */
export function isOrdinal(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0
}

/** Whether it is an object, and not a list. */
export function isObject(value: unknown): value is object {
  return value !== null && typeof value === 'object' && !Array.isArray(value)
}
