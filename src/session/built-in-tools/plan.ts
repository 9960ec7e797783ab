// The plan of a session: its steps, and how a change makes the next version of it.
import { defined } from '../defined.ts'
import { jsonBytes } from '../json.ts'

/** The status of a step of a plan. */
export type PlanStepStatus = 'pending' | 'in_progress' | 'done' | 'blocked'

/** A new step, as the model describes it. */
export interface NewPlanStep {
  /** Unique within the plan. */
  id: string
  /** What is to be done. */
  title: string
  /** How to check that it is done. */
  postconditions?: string
}

/** One step of a plan. */
export interface PlanStep extends NewPlanStep {
  /** The step's status. */
  status: PlanStepStatus
  /** What shows that it is done, or why it is blocked. */
  evidence?: string
}

/** One version of a session's plan. */
export interface Plan {
  /** Number of the version within the session, from 1. */
  version: number
  /** What the plan is for. */
  objective: string
  /** The steps, in order. */
  steps: PlanStep[]
}

/** A change that makes the next version. */
export type PlanChange =
  | { do: 'setup'; objective: string; steps: NewPlanStep[] }
  /** `after`: the id of the step before the new one; absent: the new step comes last. */
  | { do: 'add_step'; step: NewPlanStep; after?: string }
  | { do: 'update_step'; id: string; status: PlanStepStatus; evidence?: string }

/** The plan of a session, and what a rollback or a recovery needs to know about it. */
export interface PlanState {
  /** The newest version; null: the session has gone back to before its first plan. */
  current: Plan | null
  /** The highest version number so far: going back never frees a number. */
  version: number
  /** Bytes of the largest version so far, which going back may bring back. */
  largest: number
}

/** Maximum bytes of JSON of a plan. */
export const PLAN_BYTES = 32_000

/** The next version of a plan. A change that does not match the plan (a correct log has none) changes only the version. */
export function changed(plan: Plan | null, version: number, change: PlanChange): Plan {
  const { objective, steps } = plan ?? { objective: '', steps: [] }
  switch (change.do) {
    case 'setup':
      return { version, objective: change.objective, steps: change.steps.map(pending) }
    case 'add_step': {
      const before = steps.findIndex(({ id }) => id === change.after)
      const at = before < 0 ? steps.length : before + 1
      return { version, objective, steps: steps.toSpliced(at, 0, pending(change.step)) }
    }
    case 'update_step': {
      const { id, status, evidence } = change
      return {
        version,
        objective,
        steps: steps.map((step) => (step.id === id ? { ...step, status, ...defined({ evidence }) } : step)),
      }
    }
  }
}

function pending({ id, title, postconditions }: NewPlanStep): PlanStep {
  return { id, title, status: 'pending', ...defined({ postconditions }) }
}

/** Bytes of JSON of a plan. The status of a step does not affect them. */
export function bytesOfPlan({ objective, steps }: Pick<Plan, 'objective' | 'steps'>): number {
  return jsonBytes({ version: 1e9, objective, steps: steps.map((step) => ({ ...step, status: 'in_progress' })) })
}
