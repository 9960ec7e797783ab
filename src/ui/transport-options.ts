// The options of the chat transport, and their checks. They do not use zod, which is too large for a page.
import { InvalidOptionError } from '../options/errors.ts'
import type { UiShow } from './protocol.ts'

/** Options of `PawlChatTransport`. */
export interface PawlChatTransportOptions {
  /** The path or URL at which the web handler is mounted. Default: `/api/pawl`. */
  api?: string
  /** The agent for starting new sessions and reopening closed ones. Default: none; sessions must then be open. */
  agent?: string
  /** The context of new sessions. It cannot override members that the server sets. Default: none. */
  context?: unknown
  /** The tags of new sessions. Default: none. */
  tags?: readonly string[]
  /** The headers of each request, or a function that is called before each request to get them. Default: none. */
  headers?: Record<string, string> | (() => Record<string, string> | Promise<Record<string, string>>)
  /** Whether cookies are sent, as with `fetch`. Default: `same-origin`. */
  credentials?: 'omit' | 'same-origin' | 'include'
  /** The function that sends requests. Default: the global `fetch`. */
  fetch?: typeof globalThis.fetch
  /** `pieces`: answers as the model writes them, for `ai` 7 and later. `steps`: only finished answers, for `ai` 6. Default: `pieces`. */
  show?: UiShow
  /**
   * What a chat's `stop()` does. `interrupt`: stops the run, with its model call and tools. `leave`: only this page stops following it.
   * `useChat` also stops a chat when its component is unmounted. Default: `interrupt`.
   */
  onStop?: 'interrupt' | 'leave'
}

type Check = [is: (value: unknown) => boolean, expected: string]

const isFunction = (value: unknown): boolean => typeof value === 'function'
const isText = (value: unknown): boolean => typeof value === 'string'
const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null && !Array.isArray(value)

function shown(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value)
  return isFunction(value) || (typeof value === 'object' && value !== null) ? `of type ${typeof value}` : String(value)
}

function oneOf(...values: string[]): Check {
  const shown = values.map((value) => `'${value}'`)
  return [(value) => values.includes(value as string), `${shown.slice(0, -1).join(', ')} or ${shown.at(-1)}`]
}

const CHECKS: Record<keyof PawlChatTransportOptions, Check> = {
  api: [isText, 'a path or a URL'],
  agent: [isText, 'the name of an agent'],
  context: [() => true, 'JSON'],
  tags: [(value) => Array.isArray(value) && value.every(isText), 'a list of strings'],
  headers: [(value) => isObject(value) || isFunction(value), 'an object, or a function that returns one'],
  credentials: oneOf('omit', 'same-origin', 'include'),
  fetch: [isFunction, 'a function'],
  show: oneOf('pieces', 'steps'),
  onStop: oneOf('interrupt', 'leave'),
}

/** Checks the options. @throws InvalidOptionError. */
export function checkTransport(given: unknown): void {
  if (!isObject(given)) throw new InvalidOptionError(`The options must be an object, not ${shown(given)}.`)
  for (const [name, value] of Object.entries(given as object)) {
    if (!Object.hasOwn(CHECKS, name))
      throw new InvalidOptionError(`There is no option ${name}: the options are ${Object.keys(CHECKS).join(', ')}.`)
    const [is, expected] = CHECKS[name as keyof PawlChatTransportOptions]
    if (value !== undefined && !is(value)) throw new InvalidOptionError(`\`${name}\` must be ${expected}, not ${shown(value)}.`)
  }
}
