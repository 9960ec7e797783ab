// Checks the options of a crash test before anything starts.
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import type { Stack } from '../../local/index.ts'
import { checkOptions, duration, fn, integer, options, text, where } from '../../options/check.ts'
import { WorkerError } from '../../worker/index.ts'
import type { CrashTestOptions, TroubleKind } from './types.ts'

const TROUBLES = ['kill', 'pause', 'supervisor', 'pause_supervisor', 'both', 'postgres', 'temporal'] as const satisfies TroubleKind[]
const DEFAULT_ROUNDS = TROUBLES.length
const DEFAULT_TIMEOUT_MS = 60_000

/** The options, completed with defaults. */
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

const method = fn<() => unknown>('a function; see CrashWorld for what it must return')

const OPTIONS = options({
  module: where<string | URL>(
    (value) => pathOf(value) !== undefined,
    "the path or file URL of the worker module, such as new URL('./agents.ts', import.meta.url)",
  ),
  agent: text("the agent's name").optional(),
  context: z.unknown().optional(),
  tags: where<string[]>(Array.isArray, 'a list of strings').optional(),
  script: where<CrashTestOptions['script']>((value) => Array.isArray(value) && value.length > 0, 'a list of at least one user message'),
  world: z.looseObject({ reset: method, snapshot: method, effects: method }, { error: 'a CrashWorld' }),
  only: where<NonNullable<CrashTestOptions['only']>>(
    (value) => value instanceof RegExp || typeof value === 'function',
    'a regular expression, or a function of the boundary',
  ).optional(),
  random: z.unknown().optional(),
  processes: integer(1, 64).default(2),
  timeout: duration({ example: '60s' }).default(DEFAULT_TIMEOUT_MS),
  stack: where<Stack>((value) => typeof value === 'object' && value !== null, 'a stack that startStack returned').optional(),
  log: fn<(line: string) => void>().default(() => printToStderr),
})

const RANDOM = options({
  random: options({
    seed: integer(0).optional(),
    rounds: integer(0).optional(),
    kinds: z.array(z.enum(TROUBLES, { error: `one of ${TROUBLES.join(', ')}` }), { error: 'a list of kinds' }).optional(),
  }).default({}),
})

/** Completes the options. @throws InvalidOptionError; WorkerError `module_not_found`. */
export function checkCrashTest(given: CrashTestOptions): CrashTestSettings {
  const { processes, timeout: timeoutMs, log } = checkOptions(OPTIONS, given)
  const { random } = checkOptions(RANDOM, { random: given.random === false ? { rounds: 0 } : given.random })
  const module = pathOf(given.module) ?? ''
  if (!existsSync(module)) {
    throw new WorkerError(
      'module_not_found',
      `The module ${module} does not exist. Pass the path of the worker module that serves the agent.`,
    )
  }
  const { seed = Math.floor(Math.random() * 1_000_000), rounds = DEFAULT_ROUNDS, kinds = TROUBLES } = random
  return { ...given, module, processes, timeoutMs, log, seed, rounds: kinds.length > 0 ? rounds : 0, kinds }
}

function pathOf(module: unknown): string | undefined {
  if (module instanceof URL ? module.protocol === 'file:' : typeof module === 'string' && module.startsWith('file:')) {
    return fileURLToPath(module as string | URL)
  }
  return typeof module === 'string' && module !== '' ? resolve(module) : undefined
}

function printToStderr(line: string): void {
  process.stderr.write(`${line}\n`)
}
