// Other versions of Node, whose executables npm's packages contain: installed into pawl's cache, once per version.
import { execFile } from 'node:child_process'
import { access, mkdir, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { cacheDir, inScratch } from '../../src/local/cache.ts'

const run = promisify(execFile)
const INSTALL_MS = 240_000

/** Finds or installs the executable of a version; undefined if npm has none for this machine, or cannot be reached. */
export async function findNode(version: string): Promise<string | undefined> {
  const name = `node-${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`
  const folder = join(cacheDir(process.env), 'node', `${name}-${version}`)
  const executable = join(folder, 'node_modules', name, 'bin', process.platform === 'win32' ? 'node.exe' : 'node')
  try {
    await access(executable).catch(() => install(`${name}@${version}`, folder))
    await access(executable)
    return executable
  } catch (error) {
    console.warn(`Skipped: npm brings no Node ${version} here (${error instanceof Error ? error.message.split('\n')[0] : error}).`)
    return undefined
  }
}

async function install(spec: string, folder: string): Promise<void> {
  await inScratch(cacheDir(process.env), async (scratch) => {
    const made = join(scratch, 'made')
    await mkdir(made)
    // The package of the platform has no install script; the package `node` fetches it by one, which npm may refuse to run.
    await run('npm', ['install', '--prefix', made, '--no-audit', '--no-fund', spec], { cwd: made, timeout: INSTALL_MS })
    await mkdir(dirname(folder), { recursive: true })
    // Another process may have been faster: its copy is as good.
    await rename(made, folder).catch(() => access(folder))
  })
}
