// Finds a `temporal` program, or gets one: on PATH, in pawl's cache, from Temporal's downloads, or from source.
import { execFile } from 'node:child_process'
import { access, constants, rename } from 'node:fs/promises'
import { delimiter, dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { cacheDir, inScratch } from '../cache.ts'
import { reasonOf, StackError } from '../errors.ts'
import { firstToWork, type Way } from '../first-to-work.ts'
import { printIfSlow } from '../progress.ts'
import type { CliSource } from './cli-source.ts'
import { downloadCli } from './download.ts'
import { buildCli } from './go-install.ts'
import { CLI_RELEASE, PROGRAM } from './release.ts'

/**
 * A way to get a Temporal server: `address` uses the one at `TEMPORAL_ADDRESS`; `path` and `cache` run an existing `temporal`
 * program; `download` and `go` put one into pawl's cache first.
 */
export type TemporalWay = 'address' | 'path' | 'cache' | 'download' | 'go'

/** All ways, in the order in which they are tried. */
export const TEMPORAL_WAYS: readonly TemporalWay[] = ['address', 'path', 'cache', 'download', 'go']

const run = promisify(execFile)

/** Where pawl's cache has the program: a folder for each release, so that a newer pawl gets the release that it was tested with. */
export const inCache = (env: NodeJS.ProcessEnv): string => join(cacheDir(env), `temporal-${CLI_RELEASE}`, PROGRAM)

/** The path of a `temporal` program that runs here. @throws StackError `temporal_not_found`, which lists the four ways to get one. */
export async function temporalBinary(ways: readonly TemporalWay[], source: CliSource): Promise<string> {
  const tried = ways.filter((way) => way !== 'address')
  const cached = inCache(source.env)
  const active = new Set<string>()
  const what = () => (active.size === 0 ? 'looking for a Temporal server' : `${[...active].join(' and ')} the Temporal server`)
  const getting = (doing: string, get: ProgramSource) => async (stop: AbortSignal) => {
    active.add(doing)
    try {
      return await intoCache(cached, get, source, stop)
    } catch (error) {
      active.delete(doing)
      throw error
    }
  }
  const all: Record<(typeof tried)[number], Way<string>> = {
    path: { run: () => onPath(source.env).then(checked) },
    cache: { run: () => executable(cached).then(checked) },
    download: { run: getting('downloading', downloadCli), headStartMs: source.headStartMs },
    go: { run: getting('building', buildCli) },
  }
  return printIfSlow(source.say, what, firstToWork(tried.map((way) => all[way]))).catch((error: unknown) => {
    if (!(error instanceof AggregateError)) throw error
    throw noTemporal(source.env, new Map(tried.map((way, at) => [way, reasonOf(error.errors[at])])), error)
  })
}

async function onPath(env: NodeJS.ProcessEnv): Promise<string> {
  for (const folder of (env.PATH ?? '').split(delimiter)) {
    if (folder === '') continue
    const found = await executable(resolve(folder, 'temporal')).catch(() => undefined)
    if (found !== undefined) return found
  }
  throw new Error('not found')
}

async function executable(path: string): Promise<string> {
  await access(path, constants.X_OK).catch((cause: NodeJS.ErrnoException) => {
    throw cause.code === 'ENOENT' ? new Error(`${path} does not exist`) : cause
  })
  return path
}

/** Puts a program into a scratch folder and returns its path there. Ends early if `stop` aborts. */
type ProgramSource = (scratch: string, source: CliSource, stop: AbortSignal) => Promise<string>

/** Installs the program that `get` returns at `target`, completely or not at all, if it runs on this machine. */
async function intoCache(target: string, get: ProgramSource, source: CliSource, stop: AbortSignal): Promise<string> {
  await inScratch(dirname(target), async (scratch) => {
    await source.keeper.discard(scratch)
    const program = await checked(await get(scratch, source, stop))
    stop.throwIfAborted()
    await rename(program, target)
  })
  return target
}

/** A file with that name may be another program, or a build for another machine. */
async function checked(path: string): Promise<string> {
  const { stdout } = await run(path, ['--version'], { timeout: 20_000, env: { PATH: process.env.PATH ?? '' } })
  if (!stdout.startsWith('temporal version')) throw new Error(`${path} is not Temporal's command line`)
  return path
}

function noTemporal(env: NodeJS.ProcessEnv, reasons: ReadonlyMap<TemporalWay, string>, cause: AggregateError): StackError {
  const said = (way: TemporalWay) => reasons.get(way) ?? 'not tried'
  const text = [
    'No Temporal server was found, and none could be started. There are four ways to get one:',
    `  1. Run one elsewhere and set TEMPORAL_ADDRESS=host:port (not set).`,
    `  2. Put the temporal command line on PATH (${said('path')}) or at ${inCache(env)} (${said('cache')}).`,
    `  3. Let pawl download it: needs https://temporal.download (${said('download')}).`,
    `  4. Let pawl build it: needs Go, for "go install github.com/temporalio/cli/cmd/temporal@v${CLI_RELEASE}" (${said('go')}).`,
    'Do one of these and start again.',
  ]
  return new StackError('temporal_not_found', text.join('\n'), { cause })
}
