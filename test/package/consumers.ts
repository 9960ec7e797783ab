// User projects: the packed package, installed by npm into an empty folder.
import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const SOURCES = fileURLToPath(new URL('./consumer', import.meta.url))

/** How a command ended. */
export interface Outcome {
  code: number
  stdout: string
  stderr: string
}

/** A project that has the packed package installed, and the files of `consumer/`. */
export interface Consumer {
  readonly folder: string
  /** The packed package. */
  readonly tarball: string
  /** What npm printed when it installed the package. */
  readonly npmSaid: string
  /** Runs Node in the project, by default the one that ran npm. */
  node(args: string[], options?: { node?: string; env?: Record<string, string> }): Promise<Outcome>
  /** Installs packages into a folder beside this project's own, which they leave as it is. @returns the folder. @throws if npm fails. */
  installBeside(...packages: string[]): Promise<string>
  /** Installs other versions of Temporal's packages in place of those that pawl asks for. @throws if npm fails. */
  replaceSdk(version: string): Promise<void>
  remove(): Promise<void>
}

const SDK_PACKAGES = ['activity', 'client', 'common', 'envconfig', 'nexus', 'proto', 'worker', 'workflow']

const INSTALL = ['install', '--prefer-offline', '--no-audit', '--no-fund']

/** Makes such a project: without the optional dependencies, which a production install may leave out. `node` runs npm. */
export async function makeConsumer(node = process.execPath): Promise<Consumer> {
  const folder = await mkdtemp(join(tmpdir(), 'pawl-consumer-'))
  const remove = () => rm(folder, { recursive: true, force: true })
  const npm = async (args: string[], cwd = folder): Promise<Outcome> => {
    const ran = await run('npm', args, { cwd, env: { PATH: pathWith(node) } })
    if (ran.code !== 0) throw new Error(`npm ${args.join(' ')} failed:\n${ran.stdout}${ran.stderr}`)
    return ran
  }
  try {
    // The tests build before they begin; building again here would change dist/ under tests that run in parallel.
    const packed = await npm(['pack', '--silent', '--ignore-scripts', '--pack-destination', folder], ROOT)
    const tarball = packed.stdout.trim()
    await writeFile(join(folder, 'package.json'), JSON.stringify({ name: 'consumer', private: true }))
    await cp(SOURCES, folder, { recursive: true })
    const installed = await npm([...INSTALL, '--omit=optional', join(folder, tarball), 'zod@4'])
    return {
      folder,
      tarball: join(folder, tarball),
      npmSaid: installed.stdout + installed.stderr,
      node: (args, { node: other = node, env = {} } = {}) => run(other, args, { cwd: folder, env }),
      async installBeside(...packages) {
        const beside = join(folder, 'beside')
        await mkdir(beside, { recursive: true })
        await npm([...INSTALL, '--prefix', beside, ...packages], beside)
        return beside
      },
      async replaceSdk(version) {
        const path = join(folder, 'package.json')
        const overrides = Object.fromEntries(SDK_PACKAGES.map((name) => [`@temporalio/${name}`, version]))
        await writeFile(path, JSON.stringify({ ...JSON.parse(await readFile(path, 'utf8')), overrides }))
        // npm ignores overrides of what is locked or installed; what else is locked it need not look up again.
        for (const lock of ['package-lock.json', 'node_modules/.package-lock.json']) await forgetSdk(join(folder, lock))
        await rm(join(folder, 'node_modules/@temporalio'), { recursive: true })
        await npm([...INSTALL, '--omit=optional'])
      },
      remove,
    }
  } catch (error) {
    await remove()
    throw error
  }
}

/** What npm prints when `node` runs `npm ci` in this repository, without installing anything. @throws if npm refuses. */
export async function wouldInstall(node: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'pawl-clone-'))
  try {
    for (const file of ['package.json', 'package-lock.json', '.npmrc']) await cp(join(ROOT, file), join(folder, file))
    const ran = await run('npm', ['ci', '--dry-run'], { cwd: folder, env: { PATH: pathWith(node) } })
    if (ran.code !== 0) throw new Error(`npm ci failed:\n${ran.stdout}${ran.stderr}`)
    return ran.stdout + ran.stderr
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** The search path with which npm runs under `node`. */
function pathWith(node: string): string {
  return dirname(node) + delimiter + process.env.PATH
}

/** Removes Temporal's packages from a lock file. */
async function forgetSdk(path: string): Promise<void> {
  const lock = JSON.parse(await readFile(path, 'utf8')) as { packages: Record<string, unknown> }
  const others = Object.entries(lock.packages).filter(([place]) => !place.includes('@temporalio/'))
  await writeFile(path, JSON.stringify({ ...lock, packages: Object.fromEntries(others) }))
}

/** The last line that a program printed, parsed as JSON. @throws if the program failed. */
export function answerOf<T>({ code, stdout, stderr }: Outcome): T {
  if (code !== 0) throw new Error(`It ended with ${code}:\n${stdout}${stderr}`)
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as T
}

/** Runs a command to its end. */
export function run(command: string, args: string[], { cwd, env = {} }: { cwd: string; env?: Record<string, string> }): Promise<Outcome> {
  return new Promise((resolve) => {
    execFile(command, args, { cwd, env: { ...process.env, ...env }, maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
      resolve({ code: error ? Number(error.code ?? 1) : 0, stdout, stderr })
    })
  })
}
