// What the ways to get a `temporal` program need.
import type { Keeper } from '../keeper/keeper.ts'
import type { Say } from '../progress.ts'

/** What is needed to get a program. */
export interface CliSource {
  env: NodeJS.ProcessEnv
  keeper: Keeper
  say: Say
  /** The file for the output of builds. */
  logFile: string
}
