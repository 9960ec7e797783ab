// The order of test files: long ones first. In a fresh clone vitest knows no durations and starts with the largest files; a long one that
// starts late keeps running while the rest of the machine is idle.
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** The longest files, most of which wait more than they compute. `npm test` prints the slowest; the order of the others does not matter. */
const LONGEST = [
  'integration/rebuild',
  'integration/opening',
  'integration/queries-cli',
  'integration/store-trouble',
  'integration/local-stack',
  'integration/cli',
  'integration/hold-ups',
  'integration/logs',
  'integration/presumed-dead',
  'integration/serving',
  'integration/large-values',
  'integration/reset',
  'crash/crash-kit-finds',
  'crash/crash-kit',
  'package/package',
  'crash/effects',
  'crash/mcp-faults',
  'crash/mcp-published',
  'crash/failed-attempts',
  'crash/long-calls',
  'crash/reload',
  'crash/own-converter',
  'crash/retail-boundaries',
]

export default class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const others = await super.sort(files)
    const longest = LONGEST.flatMap((name) => others.filter(({ moduleId }) => moduleId.endsWith(`/test/${name}.test.ts`)))
    return [...new Set([...longest, ...others])]
  }
}
