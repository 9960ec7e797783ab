// How far a session's work has progressed, read from its plan and its calls, so that a resumed session reports the same.
import { hasEnded } from '../past/call-status.ts'
import type { PlanStep } from '../built-in-tools/plan.ts'
import type { CallState, SessionState } from '../state.ts'

/** Work that is planned or begun but not finished. */
export type IncompleteWork =
  /** A step of the plan that is not done. */
  | { kind: 'step'; id: string; title: string; status: Exclude<PlanStep['status'], 'done'> }
  /** A call that has no result, or that may or may not have taken effect. */
  | { kind: 'call'; callId: string; tool: string; status: CallState['status'] }

/** How far a session's work has progressed. */
export interface Progress {
  /** The steps of the plan that are done; 0 without a plan. */
  done: number
  /** All steps of the plan; 0 without a plan. */
  steps: number
  /** The steps that are not done, in the plan's order, then calls. */
  incomplete: IncompleteWork[]
}

export function workOf({ plan, current, unknown }: Pick<SessionState, 'plan' | 'current' | 'unknown'>): Progress {
  const steps = plan?.current?.steps ?? []
  const open = (current?.calls ?? []).filter((call) => !hasEnded(call))
  const unclear = Object.entries(unknown).filter(([callId]) => !open.some((call) => call.callId === callId))
  return {
    done: steps.filter(({ status }) => status === 'done').length,
    steps: steps.length,
    incomplete: [
      ...steps.flatMap(({ id, title, status }) => (status === 'done' ? [] : [{ kind: 'step' as const, id, title, status }])),
      ...open.map(({ callId, status, resolution }) => ({ kind: 'call' as const, callId, tool: resolution.tool, status })),
      ...unclear.map(([callId, { resolution }]) => ({ kind: 'call' as const, callId, tool: resolution.tool, status: 'unknown' as const })),
    ],
  }
}
