// A stack for tests: the local stack with defaults for tests. Its code is loaded on the first call, because worker processes also load
// `pawl/testing`, for `scripted`, and start twice as fast without it.
import type { Stack, StackOptions } from '../local/index.ts'

export type { Stack, StackOptions } from '../local/index.ts'
export { StackError } from '../local/errors.ts'

/**
 * Starts a real Temporal and a real Postgres for tests (or uses those that TEMPORAL_ADDRESS and DATABASE_URL name), without
 * the web UI, in a temporary folder that is removed at the end. Call it in the global setup of a test runner; with Vitest:
 *
 * ```ts
 * // vitest.config.ts: test: { globalSetup: './test/stack.ts' }
 * // test/stack.ts
 * import { startStack } from 'pawl/testing'
 *
 * export default async function setup() {
 *   const stack = await startStack()
 *   Object.assign(process.env, stack.env)   // TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, DATABASE_URL: what Pawl.connect() reads
 *   return () => stack.stop()
 * }
 * ```
 *
 * `stack.createDatabase()` creates a database for a test file. `stack.postgres.stop()` and `.start()` simulate an outage of Postgres
 * during a test, and `stack.temporal` does the same. Ready in about two seconds; on a machine without Temporal, the first start may
 * build it, which takes three to six minutes and is reported on stderr.
 *
 * @throws InvalidOptionError `invalid_option`; StackError `temporal_not_found` (with the four ways to get one), `postgres_not_found`,
 * `temporal_unreachable`, ….
 */
export async function startStack(options: StackOptions = {}): Promise<Stack> {
  const { startStack: startLocalStack } = await import('../local/index.ts')
  return startLocalStack({ ui: 'off', ...options })
}
