// Lets this process import a user's TypeScript module. Worker processes are started with the loader instead.
import { WorkerError } from './errors.ts'

/** Does nothing for JavaScript, or if Node itself supports TypeScript. @throws WorkerError `no_typescript_loader`. */
export async function loadTypescript(module: string): Promise<void> {
  if (!/\.[mc]?tsx?$/.test(module) || (process.features as { typescript?: unknown }).typescript) return
  const loader = 'tsx'
  try {
    await import(loader)
  } catch (cause) {
    throw noTypescriptLoader(module, cause)
  }
  await import('./executor/typescript.ts')
}

/** The optional package tsx is missing. */
export function noTypescriptLoader(module: string, cause: unknown): WorkerError {
  const text = `${module} is TypeScript, but the optional package tsx is not installed. Run \`npm install tsx\`, or use a compiled module.`
  return new WorkerError('no_typescript_loader', text, { cause })
}
