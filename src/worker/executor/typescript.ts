// Lets a user's TypeScript be what it is written as, ES modules, also where the package.json next to it does not say so.
// The loader would make CommonJS of it, and with it of a second copy of pawl, whose error classes the worker does not know.
import { register } from 'node:module'
import { isMainThread } from 'node:worker_threads'

interface Resolved {
  url: string
  format?: string | null
}

const OWN_TYPESCRIPT = /^file:(?!.*\/node_modules\/).*\.tsx?(\?|$)/

/** Module hook: runs after the loader's own. */
export async function resolve(
  specifier: string,
  context: object,
  nextResolve: (specifier: string, context: object) => Promise<Resolved>,
): Promise<Resolved> {
  const resolved = await nextResolve(specifier, context)
  return resolved.format === 'commonjs' && OWN_TYPESCRIPT.test(resolved.url) ? { ...resolved, format: 'module' } : resolved
}

// Hooks live in a thread of their own, which loads this file again.
if (isMainThread) register(import.meta.url)
