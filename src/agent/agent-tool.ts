// `agentTool`: declares a tool whose calls another agent answers, in a session of its own.
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { z } from 'zod'
import { checkOptions, flag, fn, options, text, where } from '../options/check.ts'
import { defined } from '../session/defined.ts'
import type { Json } from '../session/json.ts'
import { isAgentName } from '../session/protocol/protocol.ts'
import type { Budget } from '../session/spending/spend.ts'
import type { Agent, ContextOf, OutputOf } from './agent.ts'
import { BUDGET } from './budget.ts'
import { defineTool } from './define-tool.ts'
import { DeclarationError } from './errors.ts'
import { isToolName } from './names.ts'
import type { AgentContext, Tool } from './tool.ts'

/** Options of `agentTool`. `A`: the agent that answers. */
export interface AgentToolOptions<A extends Agent = Agent, S extends StandardSchemaV1 = StandardSchemaV1> {
  /** The tool's name: 1 to 64 of `[A-Za-z0-9_-]`. Default: the agent's name, with `_` for each dot. */
  name?: string
  /** What the agent does, for the model that calls it. Default: that it takes a task and returns an answer. */
  description?: string
  /**
   * Schema of the call's arguments, like a tool's `input`. The agent receives them as JSON, or as they are if they are one text named
   * `message`. Default: `{ message: string }`.
   */
  input?: S
  /**
   * The context of the session that answers: a function of the arguments and of the caller's context. At most 16,000 bytes of JSON. Default:
   * the caller's context.
   */
  context?: (input: StandardSchemaV1.InferOutput<S>, ctx: AgentContext) => NoInfer<ContextOf<A>> | Promise<NoInfer<ContextOf<A>>>
  /**
   * The most that one answer may cost, including what agents that this one calls spend. Never more than the caller has left. Default: what
   * the caller has left, divided by the agent calls of its turn.
   */
  budget?: Budget
  /** The task queue of the workers that serve the agent. Default: that of the caller's session. */
  taskQueue?: string
  /**
   * Whether the model continues while the agent works: the call completes with the id of the session, `{ session, status: 'started' }`, and the
   * answer arrives as a message from `agent:<name>`, in a later run if this one has ended. Default false: the call waits for the answer.
   */
  background?: boolean
}

const OPTIONS = options({
  name: where<string>(isToolName, '1 to 64 characters of [A-Za-z0-9_-]').optional(),
  description: text('a non-empty string that says what the agent does').optional(),
  input: z.unknown().optional(),
  context: fn<(input: unknown, ctx: AgentContext) => unknown>('a function of the input and ctx').optional(),
  budget: options(BUDGET, 'an object with maxUsd, maxTotalTokens or both').optional(),
  taskQueue: text('the name of a task queue').optional(),
  background: flag().optional(),
})

const QUESTION = z.object({
  message: z
    .string()
    .regex(/\S/, 'Say what the agent is to do.')
    .describe('The task, with everything that the agent needs to know: it sees nothing of this conversation.'),
})

/**
 * Declares a tool whose calls another agent answers. Each call has a session of its own, `<session>/<part of its key>`, and the model
 * receives the answer of that session's run: its text, or its `output` if the agent has one. A crash repeats neither the question nor
 * anything that the agent has done.
 * @throws DeclarationError `invalid_tool`, `no_json_schema`.
 */
export function agentTool<A extends Agent, S extends StandardSchemaV1 = typeof QUESTION>(
  agent: A,
  given: AgentToolOptions<A, S> & { context: NonNullable<AgentToolOptions<A, S>['context']> },
): Tool<{ context: unknown; services: unknown; slices: unknown }, OutputOf<A>>
export function agentTool<A extends Agent, S extends StandardSchemaV1 = typeof QUESTION>(
  agent: A,
  given?: Omit<AgentToolOptions<A, S>, 'context'>,
): Tool<{ context: ContextOf<A>; services: unknown; slices: unknown }, OutputOf<A>>
export function agentTool(agent: Agent, given: object = {}): Tool {
  const bad = (problem: string): DeclarationError => new DeclarationError('invalid_tool', `agentTool: ${problem}`)
  const called: unknown = (agent as Partial<Agent> | undefined)?.name
  if (!isAgentName(called) || !(agent.tools instanceof Map)) throw bad('the first argument must be an agent. Declare it with defineAgent.')
  const {
    name = called.replaceAll('.', '_').slice(0, 64),
    description,
    input,
    context,
    budget,
    taskQueue,
    background,
  } = checkOptions(OPTIONS, given, bad)
  const tool = defineTool({
    name,
    description: description ?? `Gives a task to the agent "${called}" and ${background ? BACKGROUND : 'returns its answer'}.`,
    input: (input ?? QUESTION) as StandardSchemaV1,
    effect: 'idempotent',
    execute: 'client',
  })
  return {
    ...tool,
    agent: {
      name: called,
      ...defined({ context: context as ContextOfChild | undefined, budget: budget as Budget | undefined, taskQueue }),
      ...(background && { background }),
    },
  }
}

const BACKGROUND = 'returns at once; its answer arrives later, as a message'

type ContextOfChild = (input: unknown, ctx: AgentContext) => Json | Promise<Json>
