// The plan option of an agent: the definitions of the plan tools, and the guidance on how to work with a plan.
import type { JsonObject } from '../session/json.ts'
import { PLAN_LIMITS, type PlanTool, STEP_STATUSES } from '../session/built-in-tools/plan-tools.ts'
import type { ToolDefinition } from './model.ts'

/** Whether the agent keeps a plan: its model has the plan tools. */
export type PlanOption =
  | true
  /** `guidance`: what the system prompt says about working with a plan; `true`: pawl's own text. Default: nothing. */
  | { guidance?: boolean | string }

/** The plan option, completed. */
export interface PlanPolicy {
  /** What is added to the system prompt. */
  readonly guidance?: string
}

/** The policy for an agent's option; undefined if the value is not valid. */
export function planPolicy(given: unknown): PlanPolicy | undefined {
  if (given === true) return {}
  if (given === null || typeof given !== 'object' || Object.keys(given).some((name) => name !== 'guidance')) return undefined
  const { guidance } = given as { guidance?: unknown }
  if (guidance === undefined || guidance === false) return {}
  if (guidance === true) return { guidance: PLAN_GUIDANCE }
  return typeof guidance === 'string' && guidance.trim() !== '' ? { guidance } : undefined
}

/** The guidance of `plan: { guidance: true }`. */
export const PLAN_GUIDANCE = `Work by a plan.
- Before you act, call plan_setup with the objective and with discrete steps that can be checked. Give each step postconditions that say how to check it.
- Set a step to in_progress when you begin it, and to done as soon as its postconditions hold, with the evidence. Do not wait until several steps are done.
- If the run is interrupted, the steps that are done are saved. Progress that is not planned cannot be saved.
- Files on the machine on which a tool runs do not survive. Keep what later steps need in the evidence, or in the systems that the tools write to.
- If something is missing, add a step with plan_add_step. If a step cannot be done, set it to blocked and say why in its evidence.`

const text = (description: string, maxLength: number): JsonObject => ({ type: 'string', description, minLength: 1, maxLength })
const object = (properties: JsonObject, required: string[]): JsonObject => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
})

const STEP: JsonObject = {
  id: text('A short id, unique within the plan, such as "book-flight".', PLAN_LIMITS.id - 2),
  title: text('What is to be done.', PLAN_LIMITS.title - 2),
  postconditions: text('How to check that the step is done. The step then needs evidence to become done.', PLAN_LIMITS.postconditions - 2),
}

const DEFINITIONS: Readonly<Record<PlanTool, Omit<ToolDefinition, 'name'>>> = {
  plan_setup: {
    description:
      'Records the plan of this conversation: its objective, and discrete steps that can be checked. All steps begin as pending. A plan whose steps are not all done is replaced only with `replace`.',
    input_schema: object(
      {
        objective: text('What the plan is for.', PLAN_LIMITS.objective - 2),
        steps: { type: 'array', items: object(STEP, ['id', 'title']), minItems: 1, maxItems: PLAN_LIMITS.steps },
        replace: { type: 'boolean', description: 'Replace a plan that is not finished.' },
      },
      ['objective', 'steps'],
    ),
  },
  plan_add_step: {
    description: 'Adds a step to the plan, as pending.',
    input_schema: object(
      { ...STEP, after: text('The id of the step that it comes after. Default: it becomes the last one.', PLAN_LIMITS.id - 2) },
      ['id', 'title'],
    ),
  },
  plan_update_step: {
    description:
      'Changes the status of a step, with evidence. A step with postconditions becomes done only with evidence. A step that is done is saved, and cannot be reopened.',
    input_schema: object(
      {
        id: text('The id of the step.', PLAN_LIMITS.id - 2),
        status: { type: 'string', enum: [...STEP_STATUSES] },
        evidence: text('What shows that the step is done, or why it is blocked.', PLAN_LIMITS.evidence - 2),
      },
      ['id', 'status'],
    ),
  },
}

/** The plan tools as the model receives them. */
export const PLAN_DEFINITIONS: readonly ToolDefinition[] = Object.entries(DEFINITIONS).map(([name, tool]) => ({ name, ...tool }))
