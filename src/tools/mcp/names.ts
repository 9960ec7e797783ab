// The names of an MCP server's tools, and patterns for them.
import { sha256Hex } from '../../agent/sha256.ts'
import { isToolName } from '../../agent/names.ts'

/** Providers accept names of at most 64 characters. */
const MAX_LENGTH = 64
const HASH_LENGTH = 8

/** pawl's own tool of a server that lists its tools for each user. */
export const SIGN_IN_TOOL = 'user_sign_in'

/** The beginning of the names of a server's tools. */
export const prefixOf = (server: string): string => `${server}__`

/**
 * The name of a server's tool in an agent: `<server>__<tool>`. If providers do not accept that, the characters that they refuse become `_`,
 * and a hash keeps different tools apart.
 */
export function toolNameOf(server: string, tool: string): string {
  const name: string = `${prefixOf(server)}${tool}`
  const isAccepted: boolean = isToolName(name)
  if (isAccepted) return name
  const accepted = name.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, MAX_LENGTH - HASH_LENGTH - 1)
  return `${accepted}_${sha256Hex(name).slice(0, HASH_LENGTH)}`
}

/** Whether the name matches the pattern, in which `*` stands for any characters. */
export function matches(pattern: string, name: string): boolean {
  if (!pattern.includes('*')) return pattern === name
  const parts = pattern.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'))
  return new RegExp(`^${parts.join('.*')}$`, 's').test(name)
}

/** The entry for the name: that of the name itself, otherwise that of the first pattern that matches. */
export function entryFor<V>(entries: Readonly<Record<string, V>>, name: string): { pattern: string; value: V } | undefined {
  const pattern = Object.hasOwn(entries, name) ? name : Object.keys(entries).find((one) => matches(one, name))
  return pattern === undefined ? undefined : { pattern, value: entries[pattern] as V }
}
