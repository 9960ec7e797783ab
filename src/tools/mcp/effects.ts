// Which effect a tool of an MCP server has, and which rule says so.
import type { Effect } from '../../session/call-facts.ts'
import { defined } from '../../session/defined.ts'
import type { McpRules } from './options.ts'
import { entryFor } from './names.ts'

/** What a server says about a tool. */
export interface ListedTool {
  name: string
  title?: string | undefined
  description?: string | undefined
  inputSchema: unknown
  /** Some servers refuse a call of such a tool after it has run, because its result does not match. */
  outputSchema?: unknown
  annotations?: { title?: string | undefined; readOnlyHint?: boolean | undefined; idempotentHint?: boolean | undefined } | undefined
}

/** The effect of a tool. */
export interface RuledEffect {
  effect: Effect
  /** Which rule decided, for people. */
  rule: string
  /** Further options for `defineTool`. */
  options: Readonly<Record<string, unknown>>
}

/** Decides the tool's effect. A tool that no rule names may do anything, so a person must approve its calls. */
export function effectOf({ effects }: Pick<McpRules, 'effects'>, { name, annotations = {} }: ListedTool): RuledEffect {
  const entry = entryFor(effects, name)
  if (!entry) return { effect: 'external', rule: 'no rule', options: { approval: true } }
  const { pattern, value } = entry
  if (value !== 'annotations') {
    const { effect, ...options } = typeof value === 'string' ? { effect: value } : value
    return { effect, rule: `effects: ${pattern}`, options: defined(options) }
  }
  const { readOnlyHint, idempotentHint } = annotations
  const ruled = (effect: Effect, hint: string): RuledEffect => ({ effect, rule: `annotations: ${hint}`, options: {} })
  if (readOnlyHint === true) return ruled('read', 'readOnlyHint')
  if (idempotentHint === true) return ruled('idempotent', 'idempotentHint')
  if (readOnlyHint === false || idempotentHint === false) return ruled('external', 'no hint is true')
  return { effect: 'external', rule: 'annotations: none', options: { approval: true } }
}
