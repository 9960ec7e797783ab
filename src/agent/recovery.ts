// When pawl recovers a failed run automatically: an agent's options, checked and completed.
import type { z } from 'zod'
import { duration, integer, options, where } from '../options/check.ts'
import type { AutomaticStrategy, RecoveryPolicy } from '../session/agent-facts.ts'
import { AUTOMATIC, DEFAULT_RECOVERY } from '../session/recovery/recovery.ts'

/** The values that `recovery` accepts. */
export const RECOVERY = options({
  automatic: where<readonly AutomaticStrategy[]>(
    (value) => Array.isArray(value) && value.every((one) => AUTOMATIC.includes(one)),
    `a list of some of ${AUTOMATIC.map((strategy) => `'${strategy}'`).join(', ')}`,
  ).optional(),
  maxAttempts: integer(1, 1_000).optional(),
  baseDelay: duration({ example: '5s' }).optional(),
  maxDelay: duration({ example: '10m' }).optional(),
  perHour: integer(1, 100).optional(),
})

/** The options, completed. */
export function recoveryPolicy(given: z.output<typeof RECOVERY> = {}): RecoveryPolicy {
  const { automatic, maxAttempts, baseDelayMs, maxDelayMs, perHour } = DEFAULT_RECOVERY
  return {
    automatic: [...(given.automatic ?? automatic)],
    maxAttempts: given.maxAttempts ?? maxAttempts,
    baseDelayMs: given.baseDelay ?? baseDelayMs,
    maxDelayMs: given.maxDelay ?? maxDelayMs,
    perHour: given.perHour ?? perHour,
  }
}
