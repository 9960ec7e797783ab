// A stack for tests: the local stack, with a tester's defaults.
import { startStack as startLocalStack, type Stack, type StackOptions } from '../local/index.ts'

export type { PostgresWay, Stack, StackOptions, StackServer, TemporalWay } from '../local/index.ts'
export { StackError } from '../local/index.ts'

/**
 * Starts a real Temporal and a real Postgres for tests (or uses those that TEMPORAL_ADDRESS and DATABASE_URL name), without
 * the web UI, in a temporary folder that is removed at the end. For the global setup of any test runner; with vitest:
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
 * `stack.createDatabase()` gives a test file a database of its own; `stack.postgres.stop()` and `.start()` take Postgres away
 * in the middle of a test and bring it back, and `stack.temporal` does the same. Ready in about two seconds; the first time on
 * a machine that has no Temporal it may be built, which takes about three minutes and is told on stderr.
 *
 * @throws InvalidOption `invalid_option`; StackError `temporal_not_found` (with the four ways to get one), `postgres_not_found`, `temporal_unreachable`, ….
 */
export function startStack(options: StackOptions = {}): Promise<Stack> {
  return startLocalStack({ ui: 'off', ...options })
}
