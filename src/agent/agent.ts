// What a user declares an agent with.
import type { z } from 'zod'
import { type Duration, milliseconds } from '../session/duration.ts'
import type { CheckpointPolicy } from '../session/events.ts'
import type { SessionState } from '../session/state.ts'
import { AGENT_NAME, isAgentName } from '../session/protocol.ts'
import { DeclarationError } from './errors.ts'
import type { Model } from './model.ts'
import { type RetryOptions, type RetryPolicy, retryPolicy } from './retry.ts'
import type { AgentContext, Tool } from './tool.ts'
import { defined } from '../session/defined.ts'

/** Bounds of a run. */
export interface AgentLimits {
  /** Model calls a run may make; the run then fails with `max_turns`. Default 50. */
  maxTurns?: number
  /** How long a run may take from its first message; it then fails with `deadline_exceeded`. Default: none. */
  deadline?: Duration
}

/** What `defineAgent` takes. */
export interface AgentOptions<C extends z.ZodType = z.ZodType> {
  /** 1 to 100 of `[A-Za-z0-9._-]`. */
  name: string
  /** The system prompt: text, or a function of the session's state, rendered at every model call and never stored. */
  instructions: string | ((state: SessionState, ctx: AgentContext) => string | Promise<string>)
  /** A Claude model's name, a `Model`, or a function that chooses one. */
  model: string | Model | ((ctx: AgentContext) => string | Model | Promise<string | Model>)
  tools?: readonly Tool[]
  /** Of model calls. */
  retry?: RetryOptions
  limits?: AgentLimits
  /**
   * When checkpoints are made: after every turn (default), every tool call, every n turns, when so many milliseconds have passed (looked at
   * after each turn), or when an event of a type comes (of one tool, or a milestone). `session.checkpoint(reason)` makes one at any time.
   */
  checkpoint?: CheckpointPolicy
  /** What a session's `context` must be. */
  context?: C
}

/** A declared agent: the options, checked and completed. Make it with `defineAgent`. */
export interface Agent<C = unknown> {
  readonly name: string
  readonly instructions: AgentOptions['instructions']
  readonly model: AgentOptions['model']
  readonly tools: ReadonlyMap<string, Tool>
  readonly retry: RetryPolicy
  readonly limits: { readonly maxTurns: number; readonly deadlineMs?: number }
  readonly checkpoint: CheckpointPolicy
  readonly context?: z.ZodType<C>
}

const DEFAULT_MAX_TURNS = 50

/**
 * Declares an agent.
 * @throws DeclarationError `invalid_agent`; `duplicate_tool` for two tools of one name.
 */
export function defineAgent<C extends z.ZodType = z.ZodType<undefined>>(options: AgentOptions<C>): Agent<z.input<C>> {
  const { name } = options
  if (!isAgentName(name)) {
    throw new DeclarationError('invalid_agent', `The agent name ${JSON.stringify(name)} does not match ${AGENT_NAME}: rename the agent.`)
  }
  const bad = (what: string): never => {
    throw new DeclarationError('invalid_agent', `Agent "${name}": ${what}`)
  }
  if (typeof options.instructions !== 'string' && typeof options.instructions !== 'function') {
    bad('instructions must be a string or a function of the state.')
  }
  const modelIsOne =
    typeof options.model === 'string'
      ? options.model !== ''
      : typeof options.model === 'function' || typeof options.model?.generate === 'function'
  if (!modelIsOne) bad("model must be a Claude model's name, an object with generate(), or a function that returns one.")
  const { maxTurns = DEFAULT_MAX_TURNS, deadline } = options.limits ?? {}
  if (!(Number.isInteger(maxTurns) && maxTurns > 0)) bad('limits.maxTurns must be a positive integer.')
  const deadlineMs = milliseconds(deadline)
  if (deadline !== undefined && deadlineMs === undefined) {
    bad("limits.deadline must be a positive number of milliseconds, or text like '10m', up to 24 days.")
  }
  const retry = retryPolicy(options.retry, bad)
  const { checkpoint = 'turn' } = options
  if (!isPolicy(checkpoint)) {
    bad("checkpoint must be 'turn', 'tool_call', { everyTurns: n }, { everyMs: n } or { on: [{ type, tool?, milestone? }] }.")
  }
  const tools = new Map<string, Tool>()
  for (const [index, tool] of (options.tools ?? []).entries()) {
    if (tool?.schemaDigest === undefined) bad(`tools[${index}] is no tool: make it with defineTool.`)
    if (tools.has(tool.name)) {
      throw new DeclarationError('duplicate_tool', `Agent "${name}" has two tools named "${tool.name}": rename one.`)
    }
    tools.set(tool.name, tool)
  }
  return {
    name,
    instructions: options.instructions,
    model: options.model,
    tools,
    retry,
    limits: { maxTurns, ...defined({ deadlineMs }) },
    checkpoint,
    ...(options.context && { context: options.context as unknown as z.ZodType<z.input<C>> }),
  }
}

function isPolicy(policy: unknown): policy is CheckpointPolicy {
  if (policy === 'turn' || policy === 'tool_call') return true
  if (policy === null || typeof policy !== 'object') return false
  const { everyTurns, everyMs, on } = policy as { everyTurns?: unknown; everyMs?: unknown; on?: unknown }
  if (everyTurns !== undefined) return Number.isInteger(everyTurns) && (everyTurns as number) > 0
  if (everyMs !== undefined) return typeof everyMs === 'number' && everyMs > 0
  return Array.isArray(on) && on.length > 0 && on.every((one) => typeof one?.type === 'string' && one.type !== 'checkpoint_made')
}
