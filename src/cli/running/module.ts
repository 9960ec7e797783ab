// Finds the worker module before anything is started.
import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { WorkerError } from '../../worker/errors.ts'

const EXTENSIONS = ['.ts', '.mts', '.js', '.mjs', '.cts', '.cjs']

/**
 * The module's absolute path. The worker processes check whether it loads and what it exports.
 * @throws WorkerError `module_not_found`.
 */
export async function findModule(given: string, exporting = 'your agents'): Promise<string> {
  const path = resolve(given)
  const kind = await kindOf(path)
  if (kind === 'file') return path
  const candidate = await withExtension(given)
  const advice = candidate ? `did you mean ${candidate}?` : `pass the path of the TypeScript or JavaScript file that exports ${exporting}.`
  throw new WorkerError('module_not_found', `${path} ${kind === 'none' ? 'does not exist' : 'is not a file'}: ${advice}`)
}

async function kindOf(path: string): Promise<'file' | 'other' | 'none'> {
  try {
    return (await stat(path)).isFile() ? 'file' : 'other'
  } catch {
    return 'none'
  }
}

async function withExtension(given: string): Promise<string | undefined> {
  const bare = given.replace(/\.[cm]?[jt]s$/, '')
  for (const extension of EXTENSIONS) {
    if ((await kindOf(resolve(bare + extension))) === 'file') return bare + extension
  }
  return undefined
}
