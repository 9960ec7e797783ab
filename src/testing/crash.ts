// `crashTest`, whose machinery is loaded when it is called: worker processes load `pawl/testing` too, for `scripted`.
import type { CrashTestOptions, CrashTestResult } from './crash/types.ts'

/** A world's address stands in the environment of this process: one test after another. */
let last: Promise<unknown> = Promise.resolve()

function ignore(): void {}

/**
 * Runs a scripted conversation once in peace, then once for every boundary of it with a real SIGKILL of the worker process there, then
 * with random kills, pauses, and restarts of Postgres and Temporal, and compares transcript, world and effects with the peaceful run.
 *
 * The boundaries are found, not listed: before, during and after each model call, each tool call (during: whenever the outside has
 * answered it, by fetch, node:http or pg, and when its body has ended), each flush to the side store, and each checkpoint. Workers run
 * supervised, on a Temporal and a Postgres of the test's own; the agent's code does not know. Takes about two seconds a boundary.
 *
 * For any test runner: `expect(result.ok, result.table).toBe(true)`. The model must be deterministic (`scripted`).
 *
 * @throws InvalidOption `invalid_option`; WorkerError `module_not_found`; CrashTestError `workers_failed`, `world_failed`, `no_peace`, `not_repeatable`; StackError `temporal_not_found`, ….
 */
export function crashTest(options: CrashTestOptions): Promise<CrashTestResult> {
  const result = last.then(async () => {
    const { runCrashTest } = await import('./crash/crash-test.ts')
    return runCrashTest(options)
  })
  last = result.then(ignore, ignore)
  return result
}
