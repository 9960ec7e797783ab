// One Temporal and one Postgres for all the tests of a run that need them.
import type { TestProject } from 'vitest/node'
import { type OwnStack, startSharedStack } from '../support/temporal-on-postgres.ts'

/** Where the shared stack is: `inject('stack')`. */
export interface SharedStack {
  temporalAddress: string
  namespace: string
  databaseUrl: string
}

declare module 'vitest' {
  export interface ProvidedContext {
    stack: SharedStack
  }
}

/** What the servers reported, with times. */
const reports = globalThis as { pawlTestReports?: string[] }

/** The stack of this run and how many projects use it. vitest loads this file once per project, so they share it through a global. */
const shared = globalThis as { pawlTestStack?: { starting: Promise<OwnStack>; users: number } }

/** Prints what the servers report. The closing line repeats it: a server that restarted in the middle of a run explains what failed then. */
function note(line: string, isPassing = false): void {
  process.stderr.write(`pawl: ${line}\n`)
  if (!isPassing) (reports.pawlTestReports ??= []).push(`${new Date().toISOString().slice(11, 19)} ${line}`)
}

/**
 * Starts the stack for the first project that needs it and stops it after the last. Tests find it by `inject('stack')` or, like
 * anything that reads TEMPORAL_ADDRESS and DATABASE_URL, in the environment: `startStack()` in a test attaches to it, and
 * `startStack({ temporal: ['path', 'cache', 'download', 'go'], postgres: ['embedded'] })` starts servers for that test alone. With
 * `PAWL_TEMPORAL_STORE=postgres`, Temporal is a server like that of the compose file.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const use = (shared.pawlTestStack ??= { starting: startSharedStack(note), users: 0 })
  use.users += 1
  const stack = await use.starting
  Object.assign(process.env, stack.env)
  const { temporalAddress, namespace, databaseUrl } = stack
  project.provide('stack', { temporalAddress, namespace, databaseUrl })
  return async () => {
    use.users -= 1
    if (use.users === 0) await stack.stop()
  }
}
