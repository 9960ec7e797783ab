// Treats a user's TypeScript as ES modules even without `"type": "module"` in its package.json. The loader would turn it into CommonJS,
// which would load a second copy of pawl, whose error classes the worker does not recognize.
import nodeModule from 'node:module'
import { isMainThread } from 'node:worker_threads'

interface ResolvedModule {
  url: string
  format?: string | null
}

type Resolve = <T extends ResolvedModule | Promise<ResolvedModule>>(
  specifier: string,
  context: object,
  nextResolve: (specifier: string, context: object) => T,
) => T | ResolvedModule | Promise<ResolvedModule>

/** Newer Node versions run hooks, including the loader's own, in the importing thread, after all hooks of another thread. */
const { registerHooks } = nodeModule as { registerHooks?: (hooks: { resolve: Resolve }) => void }

/** The loader marks files that it treats as CommonJS with an escaped query. */
const OWN_TYPESCRIPT = /^(file:(?!.*\/node_modules\/).*\.tsx?)((?:\?|%3F).*)?$/

/** Module hook: runs after the loader's own. */
export const resolve: Resolve = (specifier, context, nextResolve) => {
  const resolved = nextResolve(specifier, context)
  return resolved instanceof Promise ? resolved.then(asModule) : asModule(resolved)
}

function asModule(resolved: ResolvedModule): ResolvedModule {
  const [, url] = resolved.format === 'commonjs' ? (OWN_TYPESCRIPT.exec(resolved.url) ?? []) : []
  return url === undefined ? resolved : { ...resolved, url, format: 'module' }
}

if (registerHooks) registerHooks({ resolve })
// In older Node versions, hooks run in a separate thread, which loads this file again.
else if (isMainThread) nodeModule.register(import.meta.url)
