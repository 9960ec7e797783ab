// Finds a `temporal` program, or gets one: on PATH, in pawl's cache, from Temporal's downloads, or from source.
import { execFile } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import { delimiter, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { cacheDir } from '../cache.ts'
import { reasonOf, StackError } from '../errors.ts'
import type { CliSource } from './cli-source.ts'
import { downloadCli } from './download.ts'
import { buildCli } from './go-install.ts'
import { CLI_RELEASE } from './release.ts'

/**
 * A way to get a Temporal server: `address` uses the one at `TEMPORAL_ADDRESS`; `path` and `cache` run an existing `temporal`
 * program; `download` and `go` put one into pawl's cache first.
 */
export type TemporalWay = 'address' | 'path' | 'cache' | 'download' | 'go'

/** All ways; the first that works is used. */
export const TEMPORAL_WAYS: readonly TemporalWay[] = ['address', 'path', 'cache', 'download', 'go']

const run = promisify(execFile)

/** The path of a `temporal` program that runs here. @throws StackError `temporal_not_found`, which lists the four ways to get one. */
export async function temporalBinary(ways: readonly TemporalWay[], source: CliSource): Promise<string> {
  const reasons = new Map<TemporalWay, string>()
  const causes: unknown[] = []
  for (const way of ways) {
    if (way === 'address') continue
    try {
      const path = await tryWay(way, source)
      await checkRuns(path)
      return path
    } catch (error) {
      reasons.set(way, reasonOf(error))
      causes.push(error)
    }
  }
  throw noTemporal(source.env, reasons, causes)
}

function tryWay(way: Exclude<TemporalWay, 'address'>, source: CliSource): Promise<string> {
  const cached = join(cacheDir(source.env), 'bin', process.platform === 'win32' ? 'temporal.exe' : 'temporal')
  switch (way) {
    case 'path':
      return onPath(source.env)
    case 'cache':
      return executable(cached)
    case 'download':
      return downloadCli(cached, source)
    case 'go':
      return buildCli(cached, source)
  }
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

/** A file of that name may be another program, or one for another machine. */
async function checkRuns(path: string): Promise<void> {
  const { stdout } = await run(path, ['--version'], { timeout: 20_000, env: { PATH: process.env.PATH ?? '' } })
  if (!stdout.startsWith('temporal version')) throw new Error(`${path} is not Temporal's command line`)
}

function noTemporal(env: NodeJS.ProcessEnv, reasons: ReadonlyMap<TemporalWay, string>, causes: unknown[]): StackError {
  const said = (way: TemporalWay) => reasons.get(way) ?? 'not tried'
  const cached = join(cacheDir(env), 'bin', 'temporal')
  const text = [
    'No Temporal server was found, and none could be started. There are four ways to get one:',
    `  1. Run one elsewhere and set TEMPORAL_ADDRESS=host:port (not set).`,
    `  2. Put the temporal command line on PATH (${said('path')}) or at ${cached} (${said('cache')}).`,
    `  3. Let pawl download it: needs https://temporal.download (${said('download')}).`,
    `  4. Let pawl build it: needs Go, for "go install github.com/temporalio/cli/cmd/temporal@v${CLI_RELEASE}" (${said('go')}).`,
    'Do one of these and start again.',
  ]
  return new StackError('temporal_not_found', text.join('\n'), { cause: new AggregateError(causes, 'ways that were tried') })
}
