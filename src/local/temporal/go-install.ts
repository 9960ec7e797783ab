// Builds the `temporal` program from source with the Go toolchain. This works even if only package registries are reachable.
import { mkdir, rename } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { defined } from '../../session/defined.ts'
import { inScratch } from '../cache.ts'
import { logTail } from '../log-tail.ts'
import { printIfSlow } from '../progress.ts'
import type { CliSource } from './cli-source.ts'
import { CLI_RELEASE } from './release.ts'

/** A build takes three to six minutes on two cores; with a slow proxy, it may take longer. */
const BUILD_MS = 30 * 60_000

/** Builds the program to `target`, whole or not at all. The build ends if the process that started it ends. */
export async function buildCli(target: string, { env, keeper, say, logFile }: CliSource): Promise<string> {
  await inScratch(dirname(target), async (scratch) => {
    await keeper.discard(scratch)
    const bin = join(scratch, 'bin')
    await mkdir(bin)
    const build = await keeper
      .start('go install', {
        command: 'go',
        args: ['install', '-ldflags=-s -w', `github.com/temporalio/cli/cmd/temporal@v${CLI_RELEASE}`],
        cwd: scratch,
        // Without cgo it needs no C compiler; without symbols it is a third smaller.
        env: { ...defined(env), GOBIN: bin, CGO_ENABLED: '0' },
        logFile,
        stopSignal: 'SIGTERM',
        marker: 'github.com/temporalio/cli',
      })
      .catch((cause: NodeJS.ErrnoException) => {
        throw cause.message.includes('ENOENT') ? new Error('Go is not on the PATH') : cause
      })
    say(
      'building the Temporal server from source, once: three to six minutes on two cores. ' +
        'To skip it, put `temporal` on PATH or set TEMPORAL_ADDRESS.',
    )
    const timer = setTimeout(() => void keeper.stop('go install', 'SIGTERM'), BUILD_MS)
    const { code } = await printIfSlow(say, 'building the Temporal server', build.exited)
    clearTimeout(timer)
    if (code !== 0) throw new Error(`go install failed: ${await logTail(logFile)}`)
    await rename(join(bin, basename(target)), target)
  })
  return target
}
