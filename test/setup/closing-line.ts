// The line that a test run ends with: `N passed, N failed`, for people in a hurry and for machines.
import { writeSync } from 'node:fs'
import type { Reporter, SerializedError, TestModule } from 'vitest/node'

/** The counts of a run. A file that could not be loaded and an error outside of any test count as failures. */
interface Counts {
  passed: number
  failed: number
  skipped: number
}

export default class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    const counts = count(modules)
    counts.failed += unhandled.length
    // At exit, so that nothing that ends after the tests has the last word.
    process.once('exit', () => writeSync(1, `\n${lineOf(counts)}\n`))
  }
}

function count(modules: readonly TestModule[]): Counts {
  const counts: Counts = { passed: 0, failed: 0, skipped: 0 }
  for (const module of modules) {
    let failedTests = 0
    for (const test of module.children.allTests()) {
      const { state } = test.result()
      if (state === 'failed') failedTests += 1
      else counts[state === 'passed' ? 'passed' : 'skipped'] += 1
    }
    // A hook or an import that failed has failed tests that nobody counts.
    counts.failed += module.state() === 'failed' ? Math.max(failedTests, 1) : failedTests
  }
  return counts
}

function lineOf({ passed, failed, skipped }: Counts): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`
}
