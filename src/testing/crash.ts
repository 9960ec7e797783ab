// `crashTest`. Its code is loaded on the first call, because worker processes also load `pawl/testing`, for `scripted`.
import type { CrashTestOptions, CrashTestResult } from './crash/types.ts'

/** Tests run one at a time, because a world's address is in the environment of this process. */
let last: Promise<unknown> = Promise.resolve()

function ignore(): void {}

/**
 * Runs a scripted conversation without kills, then once for every boundary with a SIGKILL of the worker process there, then with random
 * kills, pauses, and restarts of Postgres and Temporal. Compares transcript, world and effects with the run without kills.
 *
 * The test finds the boundaries itself: before, during and after each model call, each tool call (during: at each response from outside
 * by fetch, node:http or pg, and when its body has ended), each flush to the side store, and each checkpoint. Workers run supervised, on
 * the test's own Temporal and Postgres; the agent's code runs unchanged. A test takes about two seconds per boundary.
 *
 * It works with any test runner: `expect(result.ok, result.table).toBe(true)`. The model must be deterministic (`scripted`).
 *
 * @throws InvalidOptionError `invalid_option`; WorkerError `module_not_found`; CrashTestError `workers_failed`, `world_failed`,
 * `baseline_failed`, `not_repeatable`; StackError `temporal_not_found`, ….
 */
export function crashTest(options: CrashTestOptions): Promise<CrashTestResult> {
  const result = last.then(async () => {
    const { runCrashTest } = await import('./crash/crash-test.ts')
    return runCrashTest(options)
  })
  last = result.then(ignore, ignore)
  return result
}
