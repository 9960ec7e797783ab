// The tests, by what they need: nothing (unit, replay), a stack (integration, crash), the packed package (package).
import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config'
import LongFirst from './test/setup/long-first.ts'

const MINUTE = 60_000

/** How the files of one folder of test/ run. Folders go one after another. */
interface Folder {
  timeoutMs: number
  needs?: 'stack'
  /** Files at a time. Default 2: the machines this must pass on have two cores. */
  files?: number
  /** A process for each file. Default: one process runs many files, one after another, which saves loading the SDK for each. */
  isolate?: true
}

const FOLDERS: Record<string, Folder> = {
  unit: { timeoutMs: MINUTE },
  replay: { timeoutMs: MINUTE },
  // Most of what these do is wait: for timeouts, for processes to start, for servers.
  integration: { timeoutMs: 2 * MINUTE, needs: 'stack', files: 6 },
  // What these set in their environment is for the processes that they start.
  crash: { timeoutMs: 5 * MINUTE, needs: 'stack', files: 4, isolate: true },
  package: { timeoutMs: 5 * MINUTE, needs: 'stack', files: 1, isolate: true },
}

function project(name: string, folder: Folder, order: number, isSoak: boolean): TestProjectInlineConfiguration {
  const { timeoutMs, needs, files = 2, isolate = false } = folder
  return {
    test: {
      name,
      include: [`test/${name}/**/*.test.ts`],
      pool: 'forks',
      isolate,
      maxWorkers: files,
      sequence: { groupOrder: order },
      testTimeout: isSoak ? 10 * timeoutMs : timeoutMs,
      // Many tests break something on purpose: PAWL_LOG_LEVEL=debug shows what the workers log.
      env: { PAWL_SOAK: isSoak ? '1' : '', PAWL_LOG_LEVEL: process.env.PAWL_LOG_LEVEL ?? 'silent' },
      hookTimeout: timeoutMs,
      // As long as `until` waits. The default is a second, which a busy machine may need for anything.
      expect: { poll: { timeout: 20_000 } },
      setupFiles: './test/setup/seed.ts',
      ...(needs === 'stack' ? { globalSetup: './test/setup/stack.ts' } : {}),
      // The built package runs as it would at a user's: by Node itself.
      server: { deps: { external: [/\/dist\//] } },
    },
  }
}

/** `--mode soak`: those tests in full that are small by default. */
export default defineConfig(({ mode }) => ({
  test: {
    projects: Object.entries(FOLDERS).map(([name, folder], order) => project(name, folder, order, mode === 'soak')),
    reporters: ['default', './test/setup/closing-line.ts'],
    sequence: { sequencer: LongFirst },
    teardownTimeout: MINUTE,
  },
}))
