// The option `checkpoint` of an agent: its check, and its recorded form.
import { z } from 'zod'
import { checkOptions, duration, integer, options, text, where } from '../options/check.ts'
import { EVENT_TYPES } from '../session/event-types.ts'
import type { CheckpointPolicy, CheckpointTrigger } from '../session/agent-facts.ts'
import type { EventType } from '../session/events.ts'
import type { AgentOptions } from './agent.ts'

type PolicyOption = NonNullable<AgentOptions['checkpoint']>

const TRIGGER = options({
  type: where<string>(
    (type) => EVENT_TYPES.includes(type as EventType) && type !== 'checkpoint_made',
    'the type of an event, such as tool_completed',
  ),
  tool: text('the name of a tool').optional(),
  milestone: text('the name of a milestone').optional(),
  name: text('the name of a custom event').optional(),
})

const KINDS = options({
  everyTurns: integer(1).optional(),
  every: duration({ example: '60s' }).optional(),
  on: z
    .array(TRIGGER, { error: 'a list of { type, tool?, milestone?, name? }' })
    .min(1, { error: 'a list of at least one { type, tool?, milestone?, name? }' })
    .optional(),
})

/** The values that `checkpoint` accepts; `checkpointPolicy` checks their members. */
export const CHECKPOINT = where<PolicyOption>(
  (value) => value === 'turn' || value === 'tool_call' || isOneKind(value),
  "'turn', 'tool_call', { everyTurns }, { every } or { on }",
)

function isOneKind(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const names = Object.keys(value)
  return names.length === 1 && names[0] !== undefined && names[0] in KINDS.shape
}

/**
 * The policy in its recorded form. `hasTool`: whether the agent has the tool. @throws the error that `refuse` makes for an invalid member.
 */
export function checkpointPolicy(
  given: PolicyOption | undefined,
  hasTool: (name: string) => boolean,
  refuse: (problem: string) => Error,
): CheckpointPolicy {
  if (given === undefined) return 'turn'
  if (typeof given === 'string') return given
  const { everyTurns, every: everyMs, on } = checkOptions(options({ checkpoint: KINDS }), { checkpoint: given }, refuse).checkpoint
  if (everyTurns !== undefined) return { everyTurns }
  if (everyMs !== undefined) return { everyMs }
  const triggers = (on ?? []) as CheckpointTrigger[]
  for (const [index, { type, tool, milestone, name }] of triggers.entries()) {
    if (tool !== undefined && !hasTool(tool)) {
      throw refuse(`checkpoint.on[${index}] names the tool "${tool}", which the agent does not have. Correct the name, or add the tool.`)
    }
    const member = milestone !== undefined && type !== 'milestone_reached' ? 'milestone' : 'name'
    if (member === 'name' && (name === undefined || type === 'emitted')) continue
    const needed = member === 'milestone' ? 'milestone_reached' : 'emitted'
    throw refuse(`checkpoint.on[${index}].${member} is for '${needed}', but this trigger is for '${type}'. Omit it.`)
  }
  return { on: triggers }
}
