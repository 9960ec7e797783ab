// Downloads the `temporal` program from Temporal's CDN, which the SDK's own download also uses.
import { execFile } from 'node:child_process'
import { createWriteStream } from 'node:fs'
import { chmod, mkdir, rename } from 'node:fs/promises'
import { arch } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { inScratch } from '../cache.ts'
import { printIfSlow } from '../progress.ts'
import type { CliSource } from './cli-source.ts'
import { CLI_RELEASE } from './release.ts'

/** How long to wait for an answer. Without a network, this delays the next way. */
const ANSWER_MS = 5_000
const DOWNLOAD_MS = 10 * 60_000

const run = promisify(execFile)

/** Downloads the program to `target`, whole or not at all. */
export async function downloadCli(target: string, { keeper, say }: CliSource): Promise<string> {
  const response = await open(archiveUrl())
  const body = response.body
  if (!response.ok || body === null) throw new Error(`HTTP ${response.status} from ${response.url}`)
  await inScratch(dirname(target), async (scratch) => {
    await keeper.discard(scratch)
    const archive = join(scratch, 'archive')
    await printIfSlow(say, 'downloading the Temporal server', pipeline(Readable.fromWeb(body), createWriteStream(archive)))
    const unpacked = join(scratch, 'unpacked')
    await mkdir(unpacked)
    await run('tar', ['-xf', archive, '-C', unpacked])
    const program = join(unpacked, basename(target))
    await chmod(program, 0o755)
    await rename(program, target)
  })
  return target
}

function archiveUrl(): URL {
  const url = new URL(`https://temporal.download/cli/archive/v${CLI_RELEASE}`)
  url.searchParams.set('platform', process.platform === 'win32' ? 'windows' : process.platform)
  url.searchParams.set('arch', arch() === 'x64' ? 'amd64' : arch())
  return url
}

async function open(url: URL): Promise<Response> {
  const stop = new AbortController()
  const timer = setTimeout(() => stop.abort(new Error(`no answer from ${url.host} within ${ANSWER_MS / 1_000} s`)), ANSWER_MS)
  try {
    const response = await fetch(url, { signal: stop.signal })
    // Not AbortSignal.timeout: as a source of AbortSignal.any, it may be collected before it aborts.
    setTimeout(() => stop.abort(new Error(`the download took longer than ${DOWNLOAD_MS / 60_000} min`)), DOWNLOAD_MS).unref()
    return response
  } finally {
    clearTimeout(timer)
  }
}
