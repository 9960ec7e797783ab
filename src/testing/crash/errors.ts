// The error of a crash test that cannot be carried out. The test's findings are in its result.
import { PawlError } from '../../session/errors.ts'

/**
 * A crash test cannot be carried out. Codes: `no_crash_test`, `crash_test_failed_to_load`,
 * `workers_failed`, `world_failed`, `baseline_failed` (the conversation fails even without kills), `not_repeatable` (two
 * runs without kills differ).
 */
export class CrashTestError extends PawlError {
  override readonly name = 'CrashTestError'
}
