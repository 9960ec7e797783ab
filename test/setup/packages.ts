// The packages that are not among the root's dependencies, for `npx vitest`: `npm test` installs them before it builds.
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export default function setup(): void {
  const options = { cwd: fileURLToPath(new URL('../..', import.meta.url)), stdio: 'inherit' } as const
  execFileSync(process.execPath, ['scripts/install.js', 'test/ai-sdk-7'], options)
}
