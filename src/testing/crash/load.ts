// Loads a crash test from its own module, for `pawl crash-test`.
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { WorkerError } from '../../worker/index.ts'
import { loadTypescript } from '../../worker/typescript-loader.ts'
import { CrashTestError } from './errors.ts'
import type { CrashTestOptions } from './types.ts'

/**
 * The options that the module exports as default, or that its exported function returns.
 * @throws WorkerError `module_not_found`, `no_typescript_loader`; CrashTestError `no_crash_test`, `crash_test_failed_to_load`.
 */
export async function loadCrashTest(path: string): Promise<CrashTestOptions> {
  const file = resolve(path)
  if (!existsSync(file)) throw new WorkerError('module_not_found', `The module ${file} does not exist. Pass the path of your crash test.`)
  const given = await importModule(file)
  if (typeof given === 'object' && given !== null && 'script' in given && 'world' in given) return given as CrashTestOptions
  throw new CrashTestError(
    'no_crash_test',
    `${file} exports no crash test. Export default { module, script, world } (\`CrashTestOptions\` of pawl/testing), or a function that returns it.`,
  )
}

async function importModule(file: string): Promise<unknown> {
  await loadTypescript(file)
  try {
    const { default: exported } = (await import(pathToFileURL(file).href)) as { default?: unknown }
    return typeof exported === 'function' ? await exported() : exported
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause)
    throw new CrashTestError('crash_test_failed_to_load', `${file} could not be loaded: ${message}. Fix the module.`, { cause })
  }
}
