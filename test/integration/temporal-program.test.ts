// A `temporal` program for a machine without one: a download that hangs, is slow or fails, and the build beside it.
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { access, chmod, mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, describe, expect, it } from 'vitest'
import { startKeeper } from '../../src/local/keeper/keeper.ts'
import { isRunning } from '../../src/local/keeper/processes.ts'
import { inCache, temporalBinary } from '../../src/local/temporal/binary.ts'
import { SQLITE_DRIVER_RELEASE } from '../../src/local/temporal/release.ts'

const MINUTE = 60_000

const cleanUps: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp()
})

/** A program that says that it is `temporal`, and who made it. */
const programOf = (maker: string) => `#!/bin/sh\necho "temporal version 0.0.0 (${maker})"\n`

async function script(path: string, text: string): Promise<string> {
  await writeFile(path, text)
  await chmod(path, 0o755)
  return path
}

/** What the fake `go` does after it has started a compiler and written its pid to `compiler.pid`. */
const GO = {
  builds: `grep -q 'modernc.org/sqlite v${SQLITE_DRIVER_RELEASE}' go.mod && printf '${programOf('built').replaceAll('\n', '\\n')}' > "$GOBIN/temporal" && chmod +x "$GOBIN/temporal" && kill $!`,
  fails: 'kill $!; echo "no such module" >&2; exit 1',
  hangs: 'wait',
}

/** What the fake server answers. */
type Answer = (response: ServerResponse, archive: Buffer, goStarted: () => Promise<void>) => Promise<unknown>

/** A machine with a cache folder, a server to download from, and perhaps Go. */
async function machine({ answer, go, headStartMs }: { answer: Answer; go?: keyof typeof GO; headStartMs: number }) {
  const home = await mkdtemp(join(tmpdir(), 'pawl-test-'))
  cleanUps.push(() => rm(home, { recursive: true, force: true }))
  const tools = join(home, 'tools')
  await mkdir(tools)
  const pidFile = join(home, 'compiler.pid')
  if (go)
    await script(join(tools, 'go'), `#!/bin/sh\nsleep 600 &\necho $! > "${pidFile}.new" && mv "${pidFile}.new" "${pidFile}"\n${GO[go]}\n`)
  await script(join(home, 'temporal'), programOf('downloaded'))
  await promisify(execFile)('tar', ['-czf', join(home, 'archive'), '-C', home, 'temporal'])
  const archive = await readFile(join(home, 'archive'))
  const exists = (path: string) =>
    access(path).then(
      () => true,
      () => false,
    )
  const goStarted = () => expect.poll(() => exists(pidFile)).toBe(true)

  let connections = 0
  const server = createServer((request, response) => {
    connections++
    request.socket.once('close', () => connections--)
    response.shouldKeepAlive = false
    void answer(response, archive, goStarted)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  cleanUps.push(async () => server.close())
  const keeper = await startKeeper({ lock: join(home, 'keeper.lock') })
  cleanUps.push(() => keeper.close())
  const cache = join(home, 'cache')
  const said: string[] = []
  const find = () =>
    temporalBinary(['cache', 'download', 'go'], {
      env: { ...process.env, PATH: [tools, ...(go ? [process.env.PATH] : [])].join(delimiter), PAWL_CACHE_DIR: cache },
      keeper,
      say: (line) => said.push(line),
      logFile: join(home, 'go-install.log'),
      downloads: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      headStartMs,
    })
  return {
    said,
    /** Who made the program that was found. */
    maker: async () => (await promisify(execFile)(await find())).stdout.trim(),
    find,
    goStarted: () => exists(pidFile),
    /** What the ways left: files of the cache, connections to the server, the compiler. */
    left: async () => ({
      files: await readdir(dirname(inCache({ PAWL_CACHE_DIR: cache }))),
      connections,
      compiles: (await exists(pidFile)) && (await isRunning(Number(await readFile(pidFile, 'utf8')), 'sleep')),
    }),
  }
}

const HANGS: Answer = async () => {}
const STALLS: Answer = async (response, archive) => response.writeHead(200).write(archive.subarray(0, 100))
const FAILS: Answer = async (response) => response.writeHead(503).end()
const AT_ONCE: Answer = async (response, archive) => response.end(archive)
const AFTER_GO_STARTED: Answer = async (response, archive, goStarted) => {
  response.writeHead(200).write(archive.subarray(0, 100))
  await goStarted()
  response.end(archive.subarray(100))
}
const NOTHING = { connections: 0, compiles: false }

describe('a machine without a temporal program', () => {
  it.for([
    ['does not answer', HANGS],
    ['stalls', STALLS],
  ] as const)(
    'a machine without a temporal program builds one while the download %s, and stops the download',
    { timeout: MINUTE },
    async ([, answer]) => {
      const { maker, left, said } = await machine({ answer, go: 'builds', headStartMs: 100 })
      expect(await maker()).toBe('temporal version 0.0.0 (built)')
      await expect.poll(left).toEqual({ ...NOTHING, files: ['temporal'] })
      expect(said).toEqual([expect.stringContaining('building the Temporal server from source')])
    },
  )

  it('a slow download that is ready before the build is used, and the build stops with its compilers', { timeout: MINUTE }, async () => {
    const { maker, left } = await machine({ answer: AFTER_GO_STARTED, go: 'hangs', headStartMs: 100 })
    expect(await maker()).toBe('temporal version 0.0.0 (downloaded)')
    await expect.poll(left).toEqual({ ...NOTHING, files: ['temporal'] })
  })

  it('a machine without a temporal program does not build while the download has its head start', { timeout: MINUTE }, async () => {
    const { maker, goStarted } = await machine({ answer: AT_ONCE, go: 'builds', headStartMs: MINUTE })
    expect(await maker()).toBe('temporal version 0.0.0 (downloaded)')
    expect(await goStarted()).toBe(false)
  })

  it('a machine without a temporal program builds at once if the download fails', { timeout: MINUTE }, async () => {
    const { maker } = await machine({ answer: FAILS, go: 'builds', headStartMs: 10 * MINUTE })
    expect(await maker()).toBe('temporal version 0.0.0 (built)')
  })

  it('a machine without a temporal program waits for the download if the build fails', { timeout: MINUTE }, async () => {
    const { maker, left } = await machine({ answer: AFTER_GO_STARTED, go: 'fails', headStartMs: 100 })
    expect(await maker()).toBe('temporal version 0.0.0 (downloaded)')
    await expect.poll(left).toEqual({ ...NOTHING, files: ['temporal'] })
  })

  it('without a temporal program and without Go, the stack waits for the download', { timeout: MINUTE }, async () => {
    const slowly: Answer = async (response, archive) => setTimeout(() => response.end(archive), 300)
    const { maker } = await machine({ answer: slowly, headStartMs: 50 })
    expect(await maker()).toBe('temporal version 0.0.0 (downloaded)')
  })

  it('a machine without a temporal program says why each way failed, and leaves nothing in the cache', { timeout: MINUTE }, async () => {
    const { find, left } = await machine({ answer: FAILS, go: 'fails', headStartMs: MINUTE })
    const failure = await find().catch((error: unknown) => error as Error)
    expect(failure).toMatchObject({ code: 'temporal_not_found' })
    expect(String(failure)).toMatch(/download it: .*\(HTTP 503 from http.*\).*build it: .*\(go install failed: no such module\)/s)
    await expect.poll(left).toEqual({ ...NOTHING, files: [] })
  })

  it('a machine without a temporal program caches nothing from a broken archive', { timeout: MINUTE }, async () => {
    const broken: Answer = async (response) => response.end('not an archive')
    const { find, left } = await machine({ answer: broken, headStartMs: MINUTE })
    await expect(find()).rejects.toMatchObject({ code: 'temporal_not_found' })
    await expect.poll(left).toEqual({ ...NOTHING, files: [] })
  })
})
