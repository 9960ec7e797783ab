// Texts and limits of a request, checked before it is sent: the session would truncate text that is too long.
import type { Budget } from '../../session/spending/spend.ts'
import { textProblem } from '../../session/protocol/texts.ts'
import { RequestRefusedError } from '../errors.ts'

/** Returns the request unchanged. @throws RequestRefusedError `invalid_request` for a `by`, `reason` or `note` that is too long. */
export function checkTexts<R extends { by?: unknown; reason?: unknown; note?: unknown }>(request: R): R {
  for (const kind of ['by', 'reason', 'note'] as const) {
    const problem = textProblem(request[kind], kind)
    if (problem !== undefined) throw new RequestRefusedError('invalid_request', problem)
  }
  return request
}

/**
 * Returns the limits of a `raise`. JSON cannot express NaN, so the session could not say what is wrong.
 * @throws RequestRefusedError `invalid_raise`.
 */
export function checkRaise<R extends Budget>(limits: R): R {
  const { maxUsd, maxTotalTokens } = limits
  const wrong = Object.entries({ maxUsd, maxTotalTokens }).find(
    ([, value]) => value !== undefined && !(typeof value === 'number' && value > 0),
  )
  if (wrong) throw new RequestRefusedError('invalid_raise', `${wrong[0]} is ${String(wrong[1])}. Pass a number above 0.`)
  return limits
}
