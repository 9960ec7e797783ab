// The plan tools: what a model's call changes in the plan, and what the model is told. The workflow itself answers these calls.
import { type Json, type JsonObject, jsonBytes, isObject } from '../json.ts'
import { numberText } from '../number-text.ts'
import { defined } from '../defined.ts'
import {
  bytesOfPlan,
  changed,
  type NewPlanStep,
  type Plan,
  type PlanChange,
  type PlanState,
  type PlanStep,
  type PlanStepStatus,
} from './plan.ts'
import { argumentsIn, invalid, type CallProblem, Refused, refuse, unlessRefused } from './refused.ts'
import { cutText } from '../protocol/texts.ts'

/** The names of the plan tools, which no other tool may have. */
export const PLAN_TOOLS = ['plan_setup', 'plan_add_step', 'plan_update_step'] as const

/** The name of a plan tool. */
export type PlanTool = (typeof PLAN_TOOLS)[number]

/** Whether a tool of that name is a plan tool. */
export function isPlanTool(name: string): name is PlanTool {
  return (PLAN_TOOLS as readonly string[]).includes(name)
}

/** The statuses that a step can be set to. */
export const STEP_STATUSES: readonly PlanStepStatus[] = ['pending', 'in_progress', 'done', 'blocked']

/** Maximum bytes of JSON of each text of a plan, and maximum number of steps. */
export const PLAN_LIMITS = { id: 66, title: 500, objective: 2_000, postconditions: 2_000, evidence: 2_000, steps: 200 } as const

/** The outcome of a call. Without a `change`, the plan already was as requested. */
export type PlanAnswer = { text: string; change?: PlanChange } | CallProblem

/** The answer to a call of a plan tool. `room`: the bytes of JSON that the plan may have. */
export function answerOnPlan(tool: string, input: Json, state: PlanState | undefined, room: number): PlanAnswer {
  return unlessRefused(() => {
    const plan = state?.current ?? null
    const change = changeFor(tool, argumentsIn(input), plan)
    if (!change) return { text: `Nothing has changed: the step already has that status.\n${plan ? summaryOfPlan(plan) : ''}` }
    const next = changed(plan, (state?.version ?? 0) + 1, change)
    const bytes = bytesOfPlan(next)
    if (bytes > room && bytes > (plan ? bytesOfPlan(plan) : 0)) {
      refuse(
        'plan_too_large',
        `The plan would have ${numberText(bytes)} bytes of JSON, and there is room for ${numberText(room)}: shorten its texts.`,
      )
    }
    return { text: `${SAID[change.do]}\n${summaryOfPlan(next)}`, change }
  })
}

const SAID: Readonly<Record<PlanChange['do'], string>> = {
  setup: 'The plan is recorded.',
  add_step: 'The step is recorded.',
  update_step: 'The change is recorded.',
}

function changeFor(tool: string, given: JsonObject, plan: Plan | null): PlanChange | undefined {
  switch (tool) {
    case 'plan_setup':
      return setup(given, plan)
    case 'plan_add_step':
      return addStep(given, existing(plan))
    default:
      return updateStep(given, existing(plan))
  }
}

function setup({ objective, steps, replace }: JsonObject, plan: Plan | null): PlanChange {
  const isOpen = plan?.steps.some(({ status }) => status !== 'done') ?? false
  const goal = textIn('objective', objective)
  if (!Array.isArray(steps) || steps.length === 0) throw invalid('`steps` must be a list of at least one step.')
  if (steps.length > PLAN_LIMITS.steps)
    throw invalid(`The plan has ${numberText(steps.length)} steps, and the limit is ${PLAN_LIMITS.steps}.`)
  const named = steps.map((step, index) => stepIn(step, `steps[${index}].`))
  const twice = named.find(({ id }, index) => named.findIndex((one) => one.id === id) < index)
  if (twice) throw new Refused('duplicate_step', `Two steps have the id ${quoted(twice.id)}: each step needs an id of its own.`)
  if (plan && isOpen && replace !== true) {
    throw new Refused(
      'plan_unfinished',
      `There is a plan whose steps are not all done. Continue it, or set \`replace\` to true to replace it.\n${summaryOfPlan(plan)}`,
    )
  }
  return { do: 'setup', objective: goal, steps: named }
}

function addStep({ after, ...step }: JsonObject, plan: Plan): PlanChange {
  const added = stepIn(step, '')
  if (plan.steps.some(({ id }) => id === added.id)) {
    throw new Refused('duplicate_step', `The plan already has a step ${quoted(added.id)}: choose another id, or update that step.`)
  }
  if (plan.steps.length === PLAN_LIMITS.steps)
    throw new Refused('plan_too_large', `The plan already has ${PLAN_LIMITS.steps} steps, which is the limit.`)
  if (after === undefined || after === null) return { do: 'add_step', step: added }
  return { do: 'add_step', step: added, after: stepNamed(plan, textIn('after', after, 'id')).id }
}

function updateStep({ id, status, evidence }: JsonObject, plan: Plan): PlanChange | undefined {
  const step = stepNamed(plan, textIn('id', id))
  const to = STEP_STATUSES.find((one) => one === status)
  if (!to) throw invalid(`\`status\` must be one of ${STEP_STATUSES.join(', ')}.`)
  if (step.status === 'done' && to !== 'done') {
    throw new Refused('step_done', `Step ${quoted(step.id)} is done and cannot be reopened: add a step for what remains (plan_add_step).`)
  }
  const shown = optional('evidence', evidence)
  if (to === 'done' && step.postconditions !== undefined && shown === undefined && step.evidence === undefined) {
    throw new Refused(
      'evidence_required',
      `Step ${quoted(step.id)} has postconditions: check them, and say in \`evidence\` what shows that they hold. They are: ${cutText(step.postconditions, TITLE_BYTES)}`,
    )
  }
  if (step.status === to && (shown === undefined || shown === step.evidence)) return undefined
  return { do: 'update_step', id: step.id, status: to, ...(shown !== undefined && { evidence: shown }) }
}

function existing(plan: Plan | null): Plan {
  return plan ?? refuse('no_plan', 'There is no plan yet: call plan_setup first.')
}

function stepNamed(plan: Plan, id: string): PlanStep {
  const ids = plan.steps.slice(0, IDS_NAMED).map((step) => step.id)
  const more = plan.steps.length > IDS_NAMED ? ', …' : ''
  return (
    plan.steps.find((step) => step.id === id) ??
    refuse('unknown_step', `The plan has no step ${quoted(id)}. Its steps are: ${ids.join(', ')}${more}.`)
  )
}

const IDS_NAMED = 50

function stepIn(given: Json, path: string): NewPlanStep {
  if (!isObject(given)) throw invalid(`\`${path.slice(0, -1)}\` must be an object.`)
  const postconditions = optional('postconditions', given.postconditions, path)
  return {
    id: textIn('id', given.id, 'id', path),
    title: textIn('title', given.title, 'title', path),
    ...defined({ postconditions }),
  }
}

type Kind = Exclude<keyof typeof PLAN_LIMITS, 'steps'>

function textIn(name: Kind | 'after', value: Json | undefined, kind: Kind = name as Kind, path = ''): string {
  if (typeof value !== 'string' || value.trim() === '') throw invalid(`\`${path}${name}\` must be a string that is not empty.`)
  const bytes = jsonBytes(value)
  if (bytes <= PLAN_LIMITS[kind]) return value
  throw invalid(`\`${path}${name}\` has ${numberText(bytes)} bytes of JSON, and the limit is ${numberText(PLAN_LIMITS[kind])}: shorten it.`)
}

/** Models send null and empty strings for members that they mean to omit. */
function optional(kind: Kind, value: Json | undefined, path = ''): string | undefined {
  return value === undefined || value === null || value === '' ? undefined : textIn(kind, value, kind, path)
}

const quoted = (id: string): string => JSON.stringify(id)

const NAMED = 5
const TITLE_BYTES = 120

/** The progress of the plan, in a few lines. */
function summaryOfPlan({ steps }: Pick<Plan, 'steps'>): string {
  const of = (status: PlanStepStatus): PlanStep[] => steps.filter((step) => step.status === status)
  const done = of('done').length
  if (done === steps.length) return `All ${steps.length} steps of the plan are done.`
  return [
    `${done} of ${steps.length} steps of the plan are done.`,
    ...named('In progress', of('in_progress')),
    ...named('Blocked', of('blocked')),
    ...named('Next', of('pending')),
  ].join('\n')
}

function named(what: string, steps: readonly PlanStep[]): string[] {
  if (steps.length === 0) return []
  const more = steps.length > NAMED ? `; and ${steps.length - NAMED} more` : ''
  return [
    `${what}: ${steps
      .slice(0, NAMED)
      .map((step) => `${step.id} (${cutText(step.title, TITLE_BYTES)})`)
      .join('; ')}${more}`,
  ]
}
