// Python programs that tests run: installed from PyPI into pawl's cache, once per lock (<name>.txt) and Python.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { access, mkdir, readFile, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { cacheDir, inScratch } from '../../src/local/cache.ts'

/** What is locked here. */
export type PythonProgram = 'schemathesis' | 'openapi-python-client'

/** Where the packages of a program are. */
export interface PythonPackages {
  packages: string
}

const PYTHON = 'python3'
/** By this name, Hypothesis knows that they are not the code under test, which it would scan for constants, for some 4 s. */
const PACKAGES = 'site-packages'
const INSTALL_MS = 100_000
const run = promisify(execFile)

/** Finds or installs a program; a string says why there is none. */
export async function findPackages(program: PythonProgram): Promise<PythonPackages | string> {
  const python = await pythonHere()
  if (python === undefined) return `it needs Python 3.11 or newer as ${PYTHON}`
  const lock = fileURLToPath(new URL(`${program}.txt`, import.meta.url))
  const digest = createHash('sha256')
    .update(await readFile(lock))
    .digest('hex')
  // Some of its packages are compiled for one Python.
  const folder = join(cacheDir(process.env), program, `${python}-${digest.slice(0, 16)}`)
  try {
    await access(folder).catch(() => install(lock, folder))
    return { packages: join(folder, PACKAGES) }
  } catch (error) {
    return `${PYTHON} -m pip cannot install it (${reasonOf(error)})`
  }
}

/** Names the Python, its system and its processor; undefined if there is none that is new enough. */
async function pythonHere(): Promise<string | undefined> {
  const ask = 'import sys, sysconfig; print(sys.version_info >= (3, 11), sys.implementation.cache_tag, sysconfig.get_platform())'
  const { stdout } = await run(PYTHON, ['-c', ask]).catch(() => ({ stdout: '' }))
  const [isNew, tag, platform] = stdout.trim().split(' ')
  return isNew === 'True' ? `${tag}-${platform}` : undefined
}

async function install(lock: string, folder: string): Promise<void> {
  await inScratch(cacheDir(process.env), async (scratch) => {
    const made = join(scratch, 'made')
    const args = ['--quiet', '--disable-pip-version-check', '--require-hashes', '--only-binary', ':all:', '--target', join(made, PACKAGES)]
    await run(PYTHON, ['-m', 'pip', 'install', ...args, '--requirement', lock], { timeout: INSTALL_MS })
    await mkdir(dirname(folder), { recursive: true })
    // Another process may have been faster: its copy is as good.
    await rename(made, folder).catch(() => access(folder))
  })
}

/** The last line that pip printed, or Node's error. */
function reasonOf(error: unknown): string {
  const said = (error as { stderr?: string }).stderr?.trim().split('\n').at(-1)
  return said || (error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error))
}

/** Where Python runs; `timeout`: in milliseconds, after which it is killed. Default: none. */
export interface PythonRun {
  cwd: string
  env?: Readonly<Record<string, string>>
  timeout?: number
}

/** Runs Python with the packages; resolves with how it ended and what it printed. */
export async function runPython(
  { packages }: PythonPackages,
  args: readonly string[],
  { cwd, env = {}, timeout = 0 }: PythonRun,
): Promise<{ code: number; output: string }> {
  return new Promise((resolve) => {
    execFile(
      PYTHON,
      args,
      { cwd, timeout, killSignal: 'SIGKILL', env: { ...process.env, ...env, PYTHONPATH: packages }, maxBuffer: 1 << 28 },
      (error, stdout, stderr) => resolve({ code: error ? Number(error.code ?? 1) : 0, output: `${stdout}${stderr}` }),
    )
  })
}
