// Arguments of signals, updates and starts from untrusted clients, converted to plain JSON so that reading a member cannot throw.
import type { Target } from '../events.ts'
import { isObject, isTooDeep, type Json } from '../json.ts'
import { type ForkRequest, UPDATES } from './protocol.ts'
import { Undecodable } from './undecodable.ts'

/** Maximum characters of a message id. */
export const MAX_MESSAGE_ID = 200

/**
 * An outside value, in the form that parsing its JSON text would return; undefined if it has no JSON form or is nested too deep. For
 * example, the number 1e999 parses to Infinity, which an event's text would turn into null, and a user's own payload converter may return
 * anything.
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
 * The argument of a request; an empty object if it is not an object. `T` is what a sender should send, but each member must still be
 * checked.
 */
export function requestOf<T extends object>(raw: unknown): T {
  const plain = plainOf(raw)
  return (isObject(plain) ? plain : {}) as T
}

/** The message for an invalid target. */
export const TARGET_REQUIRED = 'Name one target: { checkpoint: version }, { message: messageId } or { run: number }.'

/** The target that a value names; undefined if it names none, or several. */
export function targetIn(raw: unknown): Target | undefined {
  const { checkpoint, message, run } = (isObject(raw) ? raw : {}) as Record<string, unknown>
  const given = [checkpoint, message, run].filter((one) => one !== undefined)
  if (given.length !== 1) return undefined
  if (isOrdinal(checkpoint)) return { checkpoint }
  if (isOrdinal(run)) return { run }
  return typeof message === 'string' && message !== '' && message.length <= MAX_MESSAGE_ID ? { message } : undefined
}

/** Whether the value is a positive integer. */
export function isOrdinal(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0
}

/**
 * Whether an update that an execution has accepted changes neither the runs of its session nor their messages and calls, whenever it is
 * carried out. A fork does unless it leaves a run in progress alone.
 */
export function changesNoRun({ name, details }: { name: string; details: unknown }): boolean {
  if (name === UPDATES.fork) return requestOf<Partial<ForkRequest>>(details).interrupt === false
  return name === UPDATES.checkpoint || name === UPDATES.raise || name === UPDATES.unschedule
}
