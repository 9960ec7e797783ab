// What the crash kit throws when a crash test cannot be carried out; what the test finds is in its result.
import { PawlError } from '../../session/errors.ts'

/**
 * A crash test that cannot be carried out. Codes: `no_crash_test`, `crash_test_failed_to_load`,
 * `workers_failed`, `world_failed`, `no_peace` (the conversation fails even without kills), `not_repeatable` (two
 * runs without kills differ).
 */
export class CrashTestError extends PawlError {
  override readonly name = 'CrashTestError'
}
