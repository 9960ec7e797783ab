// Builds the `temporal` program from source with the Go toolchain. This works even if only package registries are reachable.
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { defined } from '../../session/defined.ts'
import { logTail } from '../log-tail.ts'
import type { CliSource } from './cli-source.ts'
import { CLI_RELEASE, PROGRAM, SQLITE_DRIVER_RELEASE } from './release.ts'

/** A build takes three to six minutes on two cores; with a slow proxy, it may take longer. */
const BUILD_MS = 30 * 60_000

/** The keeper's name for the build. */
const NAME = 'go install'

/** A module that requires the program, because `go install …@version` would not let us choose the SQLite driver. */
const GO_MOD = `module pawl/temporal

go 1.25.0

require (
	github.com/temporalio/cli v${CLI_RELEASE}
	modernc.org/sqlite v${SQLITE_DRIVER_RELEASE}
)
`

/** Builds the program in `scratch`. The build ends if the process that started it ends. */
export async function buildCli(scratch: string, { env, keeper, say, logFile }: CliSource, stop: AbortSignal): Promise<string> {
  const bin = join(scratch, 'bin')
  await mkdir(bin)
  await writeFile(join(scratch, 'go.mod'), GO_MOD)
  stop.throwIfAborted()
  const build = await keeper
    .start(NAME, {
      command: 'go',
      args: ['install', '-mod=mod', '-ldflags=-s -w', 'github.com/temporalio/cli/cmd/temporal'],
      cwd: scratch,
      // Without cgo it needs no C compiler; without symbols it is a third smaller. Its temporary files are removed with `scratch`.
      env: { ...defined(env), GOBIN: bin, GOTMPDIR: scratch, CGO_ENABLED: '0' },
      logFile,
      stopSignal: 'SIGTERM',
      // Otherwise, its compilers would outlive it and write to `scratch`.
      signals: 'group',
      marker: 'github.com/temporalio/cli',
    })
    .catch((cause: NodeJS.ErrnoException) => {
      throw cause.message.includes('ENOENT') ? new Error('Go is not on the PATH') : cause
    })
  say(
    'building the Temporal server from source, once: three to six minutes on two cores. ' +
      'To skip it, put `temporal` on PATH or set TEMPORAL_ADDRESS.',
  )
  // If the keeper has exited, so has the build.
  const end = () => void keeper.stop(NAME, 'SIGTERM').catch(() => {})
  const timer = setTimeout(end, BUILD_MS)
  stop.addEventListener('abort', end)
  if (stop.aborted) end()
  const { code } = await build.exited
  clearTimeout(timer)
  stop.throwIfAborted()
  if (code !== 0) throw new Error(`go install failed: ${await logTail(logFile)}`)
  return join(bin, PROGRAM)
}
