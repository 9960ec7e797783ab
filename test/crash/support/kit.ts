// The crash kit as its tests use it: agents of a fixture module that pay through the bank.
import { crashTest, type CrashTestOptions, type CrashTestResult, startStack, type Stack } from 'pawl/testing'
import { bank } from './bank.ts'
import { buildFixtures } from './build.ts'

/** What crash tests of the fixture's agents share. */
export interface Kit {
  /** Path of the module with the agents. */
  readonly module: string
  readonly stack: Stack
  /** Runs a crash test of one agent with one message; on the shared stack and without random rounds, unless `more` says otherwise. */
  test(agent: string, script: string, more?: Partial<CrashTestOptions>): Promise<CrashTestResult>
  close(): Promise<void>
}

/** Builds the fixtures. `always`: options of every test. */
export async function openKit(always: Pick<CrashTestOptions, 'processes'> = {}): Promise<Kit> {
  const fixtures = await buildFixtures()
  const module = fixtures.path('payers')
  const stack = await startStack()
  return {
    module,
    stack,
    test: (agent, script, more = {}) =>
      crashTest({ module, agent, script: [script], world: bank(), stack, random: false, log: () => undefined, ...always, ...more }),
    async close() {
      await stack.stop()
      await fixtures.remove()
    },
  }
}
