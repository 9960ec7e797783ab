// The settings that the ways to get a `temporal` program share.
import type { Keeper } from '../keeper/keeper.ts'
import type { Say } from '../progress.ts'

/** What is needed to get a program. */
export interface CliSource {
  env: NodeJS.ProcessEnv
  keeper: Keeper
  say: Say
  /** The file for the output of builds. */
  logFile: string
  /** The server to download from. */
  downloads: string
  /** How long a download runs before the next way, usually a build, starts beside it. */
  headStartMs: number
}

/** Where the program is downloaded from, and for how long before a build starts. */
export const DOWNLOADS: Pick<CliSource, 'downloads' | 'headStartMs'> = { downloads: 'https://temporal.download', headStartMs: 15_000 }
