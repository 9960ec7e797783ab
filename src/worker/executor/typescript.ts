// Lets a user's TypeScript be what it is written as, ES modules, also where the package.json next to it does not say so.
// The loader would make CommonJS of it, and with it of a second copy of pawl, whose error classes the worker does not know.
import nodeModule from 'node:module'
import { isMainThread } from 'node:worker_threads'

interface Resolved {
  url: string
  format?: string | null
}

type Resolve = <T extends Resolved | Promise<Resolved>>(
  specifier: string,
  context: object,
  nextResolve: (specifier: string, context: object) => T,
) => T | Resolved | Promise<Resolved>

/** Newer Nodes run hooks in the thread that imports, and the loader's own there, which come after all that run in another thread. */
const { registerHooks } = nodeModule as { registerHooks?: (hooks: { resolve: Resolve }) => void }

/** The loader marks what it takes for CommonJS with a query, which it escapes. */
const OWN_TYPESCRIPT = /^(file:(?!.*\/node_modules\/).*\.tsx?)((?:\?|%3F).*)?$/

/** Module hook: runs after the loader's own. */
export const resolve: Resolve = (specifier, context, nextResolve) => {
  const resolved = nextResolve(specifier, context)
  return resolved instanceof Promise ? resolved.then(asModule) : asModule(resolved)
}

function asModule(resolved: Resolved): Resolved {
  const [, url] = resolved.format === 'commonjs' ? (OWN_TYPESCRIPT.exec(resolved.url) ?? []) : []
  return url === undefined ? resolved : { ...resolved, url, format: 'module' }
}

if (registerHooks) registerHooks({ resolve })
// In older Nodes hooks live in a thread of their own, which loads this file again.
else if (isMainThread) nodeModule.register(import.meta.url)
