// The tests, by what they need: nothing (unit, replay), a stack (integration, crash), the packed package (package).
import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config'
import { useFolderInMemory } from './test/setup/folder-in-memory.ts'
import LongFirst from './test/setup/long-first.ts'

useFolderInMemory()

const MINUTE = 60_000

/** Folders whose files run side by side, and how many files at a time, on two cores. Groups go one after another. */
const GROUPS = {
  // Half of what the integration tests do is wait: for timeouts, for processes to start, for servers. More files at a time end no earlier,
  // because they need the two cores, and tests of what happens in time fail.
  quick: { order: 0, files: 5 },
  // Processes that are killed must come back in time.
  crash: { order: 1, files: 3 },
} as const

/**
 * For processes that live for seconds: optimise only what runs often, and let the first garbage grow. Processes that a test forks
 * inherit them.
 */
const V8_FLAGS = ['--interrupt-budget=600000', '--min-semi-space-size=16']

/** How the files of one folder of test/ run. */
interface Folder {
  timeoutMs: number
  group: keyof typeof GROUPS
  needs?: 'stack'
  /** A process for each file. Default: one process runs many files, one after another, which saves loading the SDK for each. */
  isolate?: true
}

const FOLDERS: Record<string, Folder> = {
  unit: { group: 'quick', timeoutMs: MINUTE },
  replay: { group: 'quick', timeoutMs: MINUTE },
  integration: { group: 'quick', timeoutMs: 2 * MINUTE, needs: 'stack' },
  crash: { group: 'crash', timeoutMs: 5 * MINUTE, needs: 'stack' },
  package: { group: 'crash', timeoutMs: 5 * MINUTE, needs: 'stack', isolate: true },
}

function project(name: string, folder: Folder, isSoak: boolean): TestProjectInlineConfiguration {
  const { timeoutMs, group, needs, isolate = false } = folder
  const { order, files } = GROUPS[group]
  return {
    test: {
      name,
      include: [`test/${name}/**/*.test.ts`],
      pool: 'forks',
      execArgv: V8_FLAGS,
      isolate,
      maxWorkers: files,
      sequence: { groupOrder: order },
      testTimeout: isSoak ? 10 * timeoutMs : timeoutMs,
      // Many tests break something on purpose: PAWL_LOG_LEVEL=debug shows what the workers log.
      env: { PAWL_SOAK: isSoak ? '1' : '', PAWL_LOG_LEVEL: process.env.PAWL_LOG_LEVEL ?? 'silent' },
      hookTimeout: timeoutMs,
      // As long as `until` waits. The default is a second, which a busy machine may need for anything.
      expect: { poll: { timeout: 20_000 } },
      setupFiles: ['./test/setup/cpu.ts', './test/setup/seed.ts', './test/setup/environment.ts'],
      globalSetup: ['./test/setup/packages.ts', ...(needs === 'stack' ? ['./test/setup/stack.ts'] : [])],
      // The built package runs as it would at a user's: by Node itself.
      server: { deps: { external: [/\/dist\//] } },
    },
  }
}

/** `--mode soak`: those tests in full that are small by default. */
export default defineConfig(({ mode }) => ({
  test: {
    projects: Object.entries(FOLDERS).map(([name, folder]) => project(name, folder, mode === 'soak')),
    reporters: ['default', './test/setup/closing-line.ts'],
    sequence: { sequencer: LongFirst },
    teardownTimeout: MINUTE,
  },
}))
