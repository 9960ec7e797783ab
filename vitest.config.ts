// The tests, by what they need: nothing (unit, replay), a stack (integration, crash), the packed package (package).
import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config'

const MINUTE = 60_000

/** How the files of one folder of test/ run. Folders go one after another: beside crashing workers nothing else keeps its time. */
interface Folder {
  timeoutMs: number
  needs?: 'stack'
  /** Files at a time. Default 2: the machines this must pass on have two cores. */
  files?: number
}

const FOLDERS: Record<string, Folder> = {
  unit: { timeoutMs: MINUTE },
  replay: { timeoutMs: MINUTE },
  integration: { timeoutMs: 2 * MINUTE, needs: 'stack' },
  crash: { timeoutMs: 5 * MINUTE, needs: 'stack', files: 1 },
  package: { timeoutMs: 5 * MINUTE, needs: 'stack', files: 1 },
}

function project([name, { timeoutMs, needs, files = 2 }]: [string, Folder], order: number): TestProjectInlineConfiguration {
  return {
    test: {
      name,
      include: [`test/${name}/**/*.test.ts`],
      pool: 'forks',
      maxWorkers: files,
      sequence: { groupOrder: order },
      testTimeout: timeoutMs,
      hookTimeout: timeoutMs,
      ...(needs === 'stack' ? { globalSetup: './test/setup/stack.ts' } : {}),
      // The built package runs as it would at a user's: by Node itself.
      server: { deps: { external: [/\/dist\//] } },
    },
  }
}

export default defineConfig({
  test: {
    projects: Object.entries(FOLDERS).map(project),
    reporters: ['default', './test/setup/closing-line.ts'],
    teardownTimeout: MINUTE,
  },
})
