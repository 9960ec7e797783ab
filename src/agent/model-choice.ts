// Which model pawl calls: one given by name, one given as an object, or one chosen at every call.
import type { Model } from './model.ts'
import type { AgentContext } from './tool.ts'

/** A Claude model's name, a `Model`, or a function that chooses one at every model call. */
// oxlint-disable-next-line typescript/no-explicit-any -- a choice for any context fits where any is accepted
export type ModelChoice<C = any, S = any, L = any> =
  | string
  | Model
  | ((ctx: AgentContext<C, S, L>) => string | Model | Promise<string | Model>)

/** Whether the value is a valid choice of model. */
export function isModelChoice(value: unknown): boolean {
  if (typeof value === 'string') return value !== ''
  return typeof value === 'function' || typeof (value as { generate?: unknown } | null | undefined)?.generate === 'function'
}
