// Installs what a peer needs in its folder, on demand, and finds the Node that runs the programs.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Row } from './rows.ts'

/** The oldest Node that all peers run with. */
const OLDEST_NODE = [22, 19]
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const folderOf = (name: string): string => fileURLToPath(new URL(`./${name}`, import.meta.url))

/** The packages' own reports to their makers: none, neither when they are installed nor when they run. */
export const NO_TELEMETRY = { DO_NOT_TRACK: '1', SCARF_ANALYTICS: 'false', MASTRA_TELEMETRY_DISABLED: '1' }

/** The path of a Node that all peers run with: this one, or a newer one that is installed. */
export async function findNode(): Promise<string> {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  const [oldestMajor = 0, oldestMinor = 0] = OLDEST_NODE
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) return process.execPath
  await install('node', process.execPath)
  const require = createRequire(join(folderOf('node'), 'package.json'))
  return join(dirname(require.resolve(`node-${process.platform}-${process.arch}/package.json`)), 'bin', 'node')
}

/** Installs a peer's packages if they are missing or older than its lock file, and builds its program if that has a build. */
export async function prepare(peer: string, node: string): Promise<void> {
  const file = join(folderOf(peer), 'package.json')
  if (!existsSync(file)) return
  await install(peer, node)
  const { scripts } = JSON.parse(await readFile(file, 'utf8')) as { scripts?: { build?: string } }
  if (scripts?.build) await run('npm', ['run', 'build'], folderOf(peer), node)
}

/** The versions of the packages that a row names. */
export async function versionsOf({ peer, packages, installed }: Row): Promise<string[]> {
  const versionIn = async (path: string) => (JSON.parse(await readFile(path, 'utf8')) as { version: string }).version
  const from = installed === 'root' ? ROOT : folderOf(peer)
  return Promise.all(
    packages.map(async (name) => {
      const path = name === 'pawl' ? join(ROOT, 'package.json') : join(from, 'node_modules', name, 'package.json')
      return `${name} ${await versionIn(path)}`
    }),
  )
}

const install = (name: string, node: string): Promise<void> => run('node', ['scripts/install.js', folderOf(name)], ROOT, node)

async function run(program: string, args: string[], cwd: string, node: string): Promise<void> {
  const PATH = `${dirname(node)}${delimiter}${process.env.PATH}`
  try {
    await promisify(execFile)(program, args, { cwd, env: { ...process.env, ...NO_TELEMETRY, PATH }, maxBuffer: 64 * 1_024 * 1_024 })
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string }
    throw new Error(`\`${program} ${args.join(' ')}\` failed: ${stderr || message}`, { cause: error })
  }
}
