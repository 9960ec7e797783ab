// `defineHook`: checks the declaration of a hook, and names the hooks of an agent.
import { checkOptions, duration, fn, oneOf, options, warnOfBareLimits, where } from '../options/check.ts'
import { defined } from '../session/defined.ts'
import { HOOK_EVENTS, type HookEvent } from '../session/hooks/hooks.ts'
import { DeclarationError } from './errors.ts'
import type { Hook, HookOptions, NamedHook } from './hook.ts'
import { isToolName, NAMED } from './names.ts'
import type { ContextTypes, NeedsOf } from './tool.ts'

const DEFAULT_TIMEOUT_MS = 30_000
const MAX_TIMEOUT_MS = 600_000

/** Declares a hook; see `HookOptions` for its options. */
export interface DefineHook<T extends ContextTypes> {
  /**
   * Declares a hook.
   * @throws DeclarationError `invalid_hook` for an option that is unknown, missing or not allowed: an unknown event, a bad pattern.
   */
  <const E extends HookEvent>(options: HookOptions<E, T>): Hook<NeedsOf<T>>
  /** The same function, for hooks whose `ctx.services`, `ctx.context` and `ctx.slices` have these types. */
  withTypes<U extends ContextTypes>(): DefineHook<U>
}

const PATTERNS = 'the name of a tool, a regular expression without the flags g and y, or a list of these'

const OPTIONS = options({
  on: oneOf(...HOOK_EVENTS),
  name: NAMED.optional(),
  tools: where<string | RegExp | readonly (string | RegExp)[]>(
    (given) => (Array.isArray(given) ? given.length > 0 && given.every(isPattern) : isPattern(given)),
    PATTERNS,
  ).optional(),
  timeout: duration({ max: MAX_TIMEOUT_MS, limits: 'above 0 and at most 10 minutes', example: '10s' }).optional(),
  onError: oneOf('ask', 'skip').optional(),
  run: fn<Hook['run']>('a function of the input and the context'),
})

/**
 * Declares a hook: a function of yours that pawl calls at a certain point of a run, and whose answer it records.
 * `defineHook.withTypes<{ services; context; slices }>()` returns the same function for hooks with typed `ctx`.
 * @throws DeclarationError `invalid_hook` for an option that is unknown, missing or not allowed: an unknown event, a bad pattern.
 */
export const defineHook: DefineHook<object> = Object.assign(declare as unknown as DefineHook<object>, {
  withTypes: <U extends ContextTypes>() => defineHook as unknown as DefineHook<U>,
})

function declare(given: unknown): Hook {
  const { name: called, on: event } = (given ?? {}) as { name?: unknown; on?: unknown }
  const named = typeof called === 'string' ? ` "${called}"` : typeof event === 'string' ? ` (${event})` : ''
  const bad = (problem: string): DeclarationError =>
    new DeclarationError('invalid_hook', named === '' ? `A hook: ${problem}` : `Hook${named}: ${problem}`)
  const { on, name, tools, timeout, onError, run } = checkOptions(OPTIONS, given, bad)
  if (tools !== undefined && !isCallEvent(on)) throw bad(`tools applies only to hooks of calls, not to '${on}'. Omit it.`)
  if (onError !== undefined && on !== 'preToolUse') throw bad(`onError applies only to 'preToolUse', not to '${on}'. Omit it.`)
  warnOfBareLimits(`Hook${named}`, { timeout: (given as { timeout?: unknown }).timeout })
  return {
    on,
    ...defined({ name }),
    tools: tools === undefined ? [] : [tools].flat(),
    timeoutMs: timeout ?? DEFAULT_TIMEOUT_MS,
    onError: onError ?? 'ask',
    run,
  }
}

function isCallEvent(on: HookEvent): boolean {
  return on === 'preToolUse' || on === 'postToolUse' || on === 'postToolUseFailure'
}

/** An expression that keeps state (`lastIndex`) would match only every other call. */
function isPattern(given: unknown): given is string | RegExp {
  return isToolName(given) || (given instanceof RegExp && !given.global && !given.sticky)
}

/** Whether `defineHook` made the value. */
function isHook(value: unknown): value is Hook {
  const { on, timeoutMs, run, tools } = (value ?? {}) as Partial<Hook>
  return on !== undefined && typeof timeoutMs === 'number' && typeof run === 'function' && Array.isArray(tools)
}

/**
 * The hooks of an agent with their names. `hasTool`: whether the agent has the tool.
 * @throws DeclarationError `duplicate_hook`, or from `bad`.
 */
export function hooksOf(
  agent: string,
  given: readonly unknown[],
  hasTool: (name: string) => boolean,
  bad: (problem: string) => DeclarationError,
): NamedHook[] {
  const hooks: NamedHook[] = []
  for (const [index, hook] of given.entries()) {
    if (!isHook(hook)) throw bad(`hooks[${index}] is not a hook. Create it with defineHook.`)
    const nth = hooks.filter(({ on }) => on === hook.on).length + 1
    const name = hook.name ?? (nth === 1 ? hook.on : `${hook.on}_${nth}`)
    if (hooks.some((other) => other.name === name)) {
      throw new DeclarationError('duplicate_hook', `Agent "${agent}" has two hooks named "${name}". Rename one.`)
    }
    const missing = hook.tools.find((pattern) => typeof pattern === 'string' && !hasTool(pattern))
    if (missing !== undefined)
      throw bad(`its hook "${name}" names the tool "${String(missing)}", which the agent does not have. Correct the name, or add the tool.`)
    hooks.push({ ...hook, name })
  }
  return hooks
}

/** Whether the hook runs for calls of this tool. */
export function isFor({ tools }: Hook, tool: string): boolean {
  return tools.length === 0 || tools.some((pattern) => (typeof pattern === 'string' ? pattern === tool : pattern.test(tool)))
}
