// Checks of values for the tables: each returns the value itself if its column can hold it, otherwise the nearest possible value.
import { isObject, type Json } from '../../session/json.ts'
import { jsonText } from '../postgres/sanitise.ts'
import { beginningOf } from '../../session/beginning.ts'

/** A member whose stored value differs from the event's. */
export interface Adjustment {
  /** Its path, such as `usage.input_tokens`; empty if no rows could be made from the event at all, for the reason in `problem`. */
  member: string
  /** The beginning of its JSON text; empty if the member is missing. */
  was: string
  /** The beginning of the stored value's JSON text. */
  stored: string
  problem?: string
}

/** Checks a value, and notes adjustments. */
export type ValueCheck = (value: unknown, member: string, adjusted: Adjustment[]) => unknown

/** The checks of a record's members; other members are left unchanged. */
export type MemberChecks = Readonly<Record<string, ValueCheck>>

const MAX_PREVIEW = 200
/** Limits the notes, because lists may be of any length. */
const MAX_ADJUSTMENTS = 20

const MAX_INTEGER = 2_147_483_647
/** With this limit, a session's sum stays within `bigint`. */
const MAX_TOKENS = 1e12
/** Postgres parses only four-digit years in ISO text. */
const MAX_TIME = Date.UTC(9999, 11, 31)

/** For columns of type `integer`: numbers of runs, turns and attempts. */
export const count: ValueCheck = whole(MAX_INTEGER)
/** For columns of type `bigint`: numbers of events, and bytes. */
export const large: ValueCheck = whole(Number.MAX_SAFE_INTEGER)
/** Tokens of one model call. */
export const tokens: ValueCheck = whole(MAX_TOKENS)
/** Milliseconds, which may have a fraction. */
export const duration: ValueCheck = within(Number.MAX_SAFE_INTEGER, (value) => value)
/** Milliseconds since 1970. */
export const time: ValueCheck = within(MAX_TIME, (value) => value)

/** Text; any other value becomes its JSON text. */
export const text: ValueCheck = (value, member, adjusted) =>
  typeof value === 'string' ? value : note(adjusted, member, value, value == null ? '' : jsonText(value as Json))

/** A boolean; any other value becomes false. */
export const flag: ValueCheck = (value, member, adjusted) => (typeof value === 'boolean' ? value : note(adjusted, member, value, false))

/** Any JSON. */
export const json: ValueCheck = (value, member, adjusted) => (value === undefined ? note(adjusted, member, value, null) : value)

/** Members that need no check. */
export const anything: ValueCheck = (value) => value

/** Text, or a list of blocks. */
export const content: ValueCheck = (value, member, adjusted) =>
  Array.isArray(value) ? blocks(value, member, adjusted) : text(value, member, adjusted)

/** One of a few texts; any other value becomes the first. */
export function oneOf(...values: readonly [string, ...string[]]): ValueCheck {
  return (value, member, adjusted) => (values.some((one) => one === value) ? value : note(adjusted, member, value, values[0]))
}

/** A member that may be missing. */
export function optional(check: ValueCheck): ValueCheck {
  return (value, member, adjusted) => {
    if (value === undefined) return value
    return value === null ? note(adjusted, member, value, undefined) : check(value, member, adjusted)
  }
}

/** A list of such values. */
export function list(check: ValueCheck): ValueCheck {
  return (value, member, adjusted) => {
    if (!Array.isArray(value)) return note(adjusted, member, value, [])
    const sound = value.map((item, index) => check(item, `${member}.${index}`, adjusted))
    return sound.some((item, index) => item !== value[index]) ? sound : value
  }
}

/** A record with such members. */
export function record(members: MemberChecks): ValueCheck {
  return (value, member, adjusted) => {
    if (isObject(value)) return soundMembers(value, members, member === '' ? '' : `${member}.`, adjusted)
    // A missing record is noted as a whole.
    return note(adjusted, member, value, soundMembers({}, members, '', []))
  }
}

/** The blocks of a message. */
export const blocks: ValueCheck = list(record({}))

/** The record with valid members: the same object if they are valid already. */
export function soundMembers(
  held: Record<string, unknown>,
  members: MemberChecks,
  path: string,
  adjusted: Adjustment[],
): Record<string, unknown> {
  let sound = held
  for (const [name, check] of Object.entries(members)) {
    const was = Object.hasOwn(held, name) ? held[name] : undefined
    const is = check(was, `${path}${name}`, adjusted)
    if (is === was) continue
    if (sound === held) sound = { ...held }
    sound[name] = is
  }
  return sound
}

/** The nearest whole number from 0 to `max`; 0 for anything but a number. */
function whole(max: number): ValueCheck {
  return within(max, Math.round)
}

function within(max: number, round: (value: number) => number): ValueCheck {
  return (value, member, adjusted) => {
    const nearest = typeof value === 'number' ? Math.min(Math.max(round(value), 0), max) : 0
    return nearest === value ? value : note(adjusted, member, value, nearest)
  }
}

function note<T>(adjusted: Adjustment[], member: string, was: unknown, stored: T): T {
  if (adjusted.length < MAX_ADJUSTMENTS) adjusted.push({ member, was: previewOf(was), stored: previewOf(stored) })
  return stored
}

function previewOf(value: unknown): string {
  return value === undefined ? '' : beginningOf(jsonText(value as Json), MAX_PREVIEW)
}
