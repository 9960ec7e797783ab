// `npm run build`: dist/ from src/. Built in a folder of its own and then moved into place file by file, so that whatever runs
// from dist/ never finds it half built, and simultaneous builds do no harm.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bundleWorkflowCode } from '@temporalio/worker'
import { buildConsole } from './console.js'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const DIST = join(ROOT, 'dist')
const require = createRequire(import.meta.url)

// Next to dist/ and at the same depth, because source maps refer to their sources by relative paths.
const made = mkdtempSync(join(ROOT, '.dist-'))
const remove = () => rmSync(made, { recursive: true, force: true })
process.once('exit', remove)
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => process.exit(1))

run(process.execPath, ['scripts/schemas.js'])
run(join(ROOT, 'node_modules/.bin/tsc'), ['-p', 'tsconfig.build.json', '--outDir', made])
cpSync(join(ROOT, 'src/store/postgres/migrations'), join(made, 'store/postgres/migrations'), { recursive: true })
await bundle()
await buildConsole({ root: ROOT, made, before: join(DIST, 'console') })
chmodSync(join(made, 'cli/main.js'), 0o755)
moveIntoPlace(made, DIST)

function run(program, args) {
  try {
    execFileSync(program, args, { cwd: ROOT, stdio: 'inherit' })
  } catch {
    // It has printed the errors.
    process.exit(1)
  }
}

/** The workflow bundle, and which SDK made it: no other version of the SDK accepts it. */
async function bundle() {
  const { joinModules } = await import(join(made, 'worker/orchestrator/temporal/joined-modules.js'))
  const { code } = await bundleWorkflowCode({
    workflowsPath: join(made, 'workflows/index.js'),
    payloadConverterPath: join(made, 'workflows/payload-converter.js'),
    preloadModules: [join(made, 'workflows/preloaded.js')],
    workflowInterceptorModules: ['resets', 'current-details'].map((name) => join(made, `workflows/${name}.js`)),
    webpackConfigHook: (config) => joinModules(portable(config)),
    logger: { log: ignore, trace: ignore, debug: ignore, info: ignore, warn: console.warn, error: console.error },
  })
  // For bundlers, package.json lists the only modules with side effects.
  if (!code.includes('stackTraceLimit')) throw new Error('The bundle lacks workflows/preloaded.js: see "sideEffects" in package.json.')
  const { version: sdk } = require('@temporalio/worker/package.json')
  const { version } = require('../package.json')
  writeFileSync(join(made, 'workflow-bundle.js'), code)
  writeFileSync(join(made, 'workflow-bundle.json'), `${JSON.stringify({ sdk, version, digest: digestOf(code) })}\n`)
}

/** Short: people compare it. */
function digestOf(code) {
  return createHash('sha256').update(code).digest('hex').slice(0, 8)
}

/** Names modules and sources by paths that are the same wherever the package is built. */
function portable(config) {
  return { ...config, context: made, output: { ...config.output, devtoolModuleFilenameTemplate: 'pawl:///[resource-path]' } }
}

/** Makes `to` equal to `from`: leaves files that are already the same, and replaces every other one atomically. */
function moveIntoPlace(from, to) {
  const files = filesIn(from)
  for (const file of files) {
    const [source, target] = [join(from, file), join(to, file)]
    if (existsSync(target) && readFileSync(source).equals(readFileSync(target))) continue
    mkdirSync(dirname(target), { recursive: true })
    renameSync(source, target)
  }
  const wanted = new Set(files)
  for (const file of filesIn(to)) if (!wanted.has(file)) rmSync(join(to, file), { force: true })
}

function filesIn(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
}

function ignore() {}
