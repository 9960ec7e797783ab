// The only user code that an orchestrator loads, by module path: a data converter and interceptors.
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { DataConverter } from '@temporalio/common'
import type { WorkerInterceptors } from '@temporalio/worker'
import { WorkerError } from '../../errors.ts'

/**
 * Loads the data converter that a module exports as `dataConverter` or by default.
 * @throws WorkerError `module_not_found`, `module_failed`.
 */
export async function loadDataConverter(path: string): Promise<DataConverter> {
  return (await load(path, 'dataConverter')) as DataConverter
}

/** Loads the interceptors that a module exports as `interceptors` or by default. @throws as `loadDataConverter`. */
export async function loadInterceptors(path: string): Promise<WorkerInterceptors> {
  return (await load(path, 'interceptors')) as WorkerInterceptors
}

async function load(path: string, name: 'dataConverter' | 'interceptors'): Promise<object> {
  const file = resolve(path)
  if (!existsSync(file))
    throw new WorkerError('module_not_found', `The option ${name} names ${file}, which does not exist. Correct the path.`)
  let exported: Record<string, unknown>
  try {
    exported = (await import(pathToFileURL(file).href)) as Record<string, unknown>
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new WorkerError('module_failed', `${file} could not be loaded: ${reason}. Fix the module that the option ${name} names.`, {
      cause,
    })
  }
  const inner = exported.default as Record<string, unknown> | undefined
  const found = exported[name] ?? inner?.[name] ?? inner
  if (found !== null && typeof found === 'object') return found
  throw new WorkerError('module_failed', `${file} exports neither \`${name}\` nor a default. Export the object that the option names.`)
}
