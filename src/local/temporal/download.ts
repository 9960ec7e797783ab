// Downloads the `temporal` program from Temporal's CDN, which the SDK's own download also uses.
import { execFile } from 'node:child_process'
import { createWriteStream } from 'node:fs'
import { chmod, mkdir } from 'node:fs/promises'
import { arch } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import type { CliSource } from './cli-source.ts'
import { CLI_RELEASE, PROGRAM } from './release.ts'

/** How long to wait for an answer. Without a network and without Go, this delays the error. */
const ANSWER_MS = 15_000
const DOWNLOAD_MS = 10 * 60_000

const run = promisify(execFile)

/** Downloads the program and unpacks it in `scratch`. */
export async function downloadCli(scratch: string, { downloads }: CliSource, stop: AbortSignal): Promise<string> {
  const response = await open(archiveUrl(downloads), stop)
  const body = response.body
  if (!response.ok || body === null) throw new Error(`HTTP ${response.status} from ${response.url}`)
  const archive = join(scratch, 'archive')
  await pipeline(Readable.fromWeb(body), createWriteStream(archive))
  const unpacked = join(scratch, 'unpacked')
  await mkdir(unpacked)
  await run('tar', ['-xf', archive, '-C', unpacked])
  const program = join(unpacked, PROGRAM)
  await chmod(program, 0o755)
  return program
}

function archiveUrl(downloads: string): URL {
  const url = new URL(`${downloads}/cli/archive/v${CLI_RELEASE}`)
  url.searchParams.set('platform', process.platform === 'win32' ? 'windows' : process.platform)
  url.searchParams.set('arch', arch() === 'x64' ? 'amd64' : arch())
  return url
}

async function open(url: URL, stop: AbortSignal): Promise<Response> {
  const end = new AbortController()
  stop.addEventListener('abort', () => end.abort(stop.reason))
  const timer = setTimeout(() => end.abort(new Error(`no answer from ${url.host} within ${ANSWER_MS / 1_000} s`)), ANSWER_MS)
  try {
    const response = await fetch(url, { signal: end.signal })
    // This does not use AbortSignal.timeout: as a source of AbortSignal.any, it may be garbage-collected before it aborts.
    setTimeout(() => end.abort(new Error(`the download took longer than ${DOWNLOAD_MS / 60_000} min`)), DOWNLOAD_MS).unref()
    return response
  } finally {
    clearTimeout(timer)
  }
}
