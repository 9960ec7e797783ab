// Checks what a crash test is given, before anything is started for it.
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { CrashTestError } from './errors.ts'
import type { CrashTestOptions, TroubleKind } from './types.ts'

const TROUBLES: readonly TroubleKind[] = ['kill', 'pause', 'supervisor', 'pause_supervisor', 'both', 'postgres', 'temporal']
const DEFAULT_ROUNDS = TROUBLES.length
const DEFAULT_TIMEOUT_MS = 60_000

/** The options, complete. */
export interface CrashTestSettings extends CrashTestOptions {
  /** Absolute path. */
  module: string
  processes: number
  timeoutMs: number
  log: (line: string) => void
  seed: number
  rounds: number
  kinds: readonly TroubleKind[]
}

/** Completes the options. @throws CrashTestError `invalid_option`, `module_not_found`. */
export function checkOptions(options: CrashTestOptions): CrashTestSettings {
  const { script, world, processes = 2, timeoutMs = DEFAULT_TIMEOUT_MS, random = {} } = options
  const module = pathOf(options.module)
  if (!existsSync(module)) {
    throw new CrashTestError(
      'module_not_found',
      `The module ${module} does not exist: pass the path of the worker module that serves the agent.`,
    )
  }
  if (!Array.isArray(script) || script.length === 0) throw invalid('script', 'is empty: include at least one user message.')
  for (const part of ['reset', 'snapshot', 'effects'] as const) {
    if (typeof world?.[part] !== 'function')
      throw invalid(`world.${part}`, 'is not a function: see `CrashWorld` for the functions of a world.')
  }
  const { seed = Math.floor(Math.random() * 1_000_000), rounds = DEFAULT_ROUNDS, kinds = TROUBLES } = random || { rounds: 0 }
  if (!isCount(processes, 1)) throw invalid('processes', `is ${processes}: give an integer from 1.`)
  if (!isCount(timeoutMs, 1)) throw invalid('timeoutMs', `is ${timeoutMs}: give milliseconds, an integer from 1.`)
  if (!isCount(rounds, 0)) throw invalid('random.rounds', `is ${rounds}: give an integer from 0.`)
  if (!isCount(seed, 0)) throw invalid('random.seed', `is ${seed}: give an integer from 0.`)
  const stranger = kinds.find((kind) => !TROUBLES.includes(kind))
  if (stranger !== undefined) throw invalid('random.kinds', `has ${JSON.stringify(stranger)}: choose of ${TROUBLES.join(', ')}.`)
  return { ...options, module, processes, timeoutMs, log: options.log ?? sayOnStderr, seed, rounds: kinds.length > 0 ? rounds : 0, kinds }
}

/** @throws CrashTestError `invalid_option`. */
function pathOf(module: unknown): string {
  if (module instanceof URL ? module.protocol === 'file:' : typeof module === 'string' && module.startsWith('file:')) {
    return fileURLToPath(module as string | URL)
  }
  if (typeof module === 'string' && module !== '') return resolve(module)
  throw invalid(
    'module',
    'is neither a path nor a file URL: use that of the worker module, such as new URL("./agents.ts", import.meta.url).',
  )
}

function invalid(option: string, what: string): CrashTestError {
  return new CrashTestError('invalid_option', `\`${option}\` ${what}`)
}

const isCount = (value: unknown, least: number): boolean => Number.isSafeInteger(value) && (value as number) >= least

function sayOnStderr(line: string): void {
  process.stderr.write(`${line}\n`)
}
