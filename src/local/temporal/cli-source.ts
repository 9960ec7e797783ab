// What the ways to get a `temporal` program work with.
import type { Keeper } from '../keeper/keeper.ts'
import type { Say } from '../progress.ts'

/** What getting a program takes. */
export interface CliSource {
  env: NodeJS.ProcessEnv
  keeper: Keeper
  say: Say
  /** Where output of builds goes. */
  logFile: string
}
