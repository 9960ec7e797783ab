// `npm run check`: every check of the code that does not run it. Reports all problems, not only the first one.
// `npm run check -- lint types` runs some of the checks.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'pawl-check-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))

/** `build` comes first: tests and examples use types of the built package, and `api` and `package-shape` check the built package. */
const CHECKS = {
  build: ['node scripts/build.js'],
  types: ['tsc -p tsconfig.json', 'tsc -p test/ai-sdk-7/tsconfig.page.json', 'tsc -p console/tsconfig.json'],
  lint: ['oxlint -c oxlint.config.js'],
  format: ['biome format'],
  api: ['node scripts/api.js --check'],
  docs: ['node scripts/docs.js --check', 'node scripts/llms.js --check'],
  'dead-code': ['knip --no-progress --no-config-hints'],
  'package-shape': [
    `npm pack --silent --ignore-scripts --pack-destination ${folder}`,
    `publint --strict ${folder}/*.tgz`,
    // The package is ESM, which CommonJS callers require directly.
    `attw --profile esm-only --format table-flipped ${folder}/*.tgz`,
  ],
}

const asked = process.argv.slice(2)
const unknown = asked.filter((name) => !(name in CHECKS))
if (unknown.length > 0) {
  console.error(`There is no check "${unknown[0]}": choose from ${Object.keys(CHECKS).join(', ')}.`)
  process.exit(2)
}

const env = { ...process.env, PATH: join(ROOT, 'node_modules/.bin') + delimiter + process.env.PATH }
const failed = []
for (const [name, commands] of Object.entries(CHECKS)) {
  if (asked.length > 0 && !asked.includes(name)) continue
  const started = Date.now()
  const ok = commands.every(
    (command) => spawnSync(command, { cwd: ROOT, env, shell: true, stdio: ['ignore', 'inherit', 'inherit'] }).status === 0,
  )
  console.log(`${ok ? 'ok    ' : 'FAILED'} ${name} (${((Date.now() - started) / 1000).toFixed(1)} s)`)
  if (!ok) failed.push(name)
  // Without a new build, the other checks would examine an old one.
  if (name === 'build' && !ok) break
}
if (failed.length > 0) {
  console.error(`check failed: ${failed.join(', ')}`)
  process.exitCode = 1
}
