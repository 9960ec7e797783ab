// What `pawl dev` watches, and what it does and says when something is saved.
import { appendFileSync, mkdirSync, mkdtempSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { announceAsText, type Announcer } from '../../src/cli/running/announce.ts'
import { type FileWatch, type SavedFile, watchFiles } from '../../src/cli/running/file-watch.ts'
import { type ReloadOnSave, reloadOnSave } from '../../src/cli/running/reload-on-save.ts'
import { WorkerError } from '../../src/worker/errors.ts'
import { startBackoff } from '../../src/worker/parent/backoff.ts'

let folder: string
const path = (name: string) => join(folder, name)

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'pawl-watching-'))
})
afterEach(() => {
  rmSync(folder, { recursive: true, force: true })
  vi.restoreAllMocks()
})

describe('a watch over files', () => {
  let watch: FileWatch
  let told: SavedFile[][]
  const next = async (act: () => void): Promise<SavedFile[]> => {
    const before = told.length
    act()
    await expect.poll(() => told.length).toBeGreaterThan(before)
    return told[before] ?? []
  }

  beforeEach(() => {
    told = []
    watch = watchFiles((files) => told.push(files))
    writeFileSync(path('a.ts'), 'one')
    writeFileSync(path('b.ts'), 'one')
    for (const name of ['a.ts', 'b.ts']) watch.add(path(name), Date.now())
  })
  afterEach(() => watch.close())

  it('a watch over files reports files that are saved together once, however often they are saved', async () => {
    const saved = await next(() => {
      for (let i = 0; i < 20; i++) writeFileSync(path('a.ts'), `${i}`)
      writeFileSync(path('b.ts'), 'two')
    })
    expect(saved).toEqual([
      { path: path('a.ts'), isNew: true },
      { path: path('b.ts'), isNew: true },
    ])
    expect(told).toHaveLength(1)
  })

  it('a watch over files distinguishes a file that is saved unchanged from one with new content', async () => {
    expect(await next(() => utimesSync(path('a.ts'), new Date(), new Date()))).toEqual([{ path: path('a.ts'), isNew: false }])
    expect(
      await next(() => {
        writeFileSync(path('a.ts'), '')
        writeFileSync(path('a.ts'), 'one')
      }),
    ).toEqual([{ path: path('a.ts'), isNew: false }])
    expect(await next(() => appendFileSync(path('a.ts'), '!'))).toEqual([{ path: path('a.ts'), isNew: true }])
  })

  it('a watch over files follows a file or a folder that is replaced, or deleted and written again', async () => {
    for (const text of ['two', 'three']) {
      writeFileSync(path('a.tmp'), text)
      expect(await next(() => renameSync(path('a.tmp'), path('a.ts')))).toEqual([{ path: path('a.ts'), isNew: true }])
    }
    expect(await next(() => rmSync(path('a.ts')))).toEqual([{ path: path('a.ts'), isNew: true }])
    expect(await next(() => writeFileSync(path('a.ts'), 'four'))).toEqual([{ path: path('a.ts'), isNew: true }])
    mkdirSync(path('lib'))
    writeFileSync(path('lib/c.ts'), 'one')
    watch.add(path('lib/c.ts'), Date.now())
    await next(() => rmSync(path('lib'), { recursive: true }))
    await next(() => {
      mkdirSync(path('lib'))
      writeFileSync(path('lib/c.ts'), 'two')
    })
    expect(await next(() => writeFileSync(path('lib/c.ts'), 'three'))).toEqual([{ path: path('lib/c.ts'), isNew: true }])
  })

  it('a watch over files reports what was saved before the file was known, and a file that was missing', async () => {
    const since = Date.now() - 60_000
    writeFileSync(path('late.ts'), 'one')
    expect(await next(() => watch.add(path('late.ts'), since))).toEqual([{ path: path('late.ts'), isNew: true }])
    watch.add(path('later'), Date.now())
    expect(await next(() => mkdirSync(path('later')))).toEqual([{ path: path('later'), isNew: true }])
    expect(await next(() => writeFileSync(path('later/found.ts'), ''))).toEqual([{ path: path('later'), isNew: true }])
  })

  it('a watch over files forgets files that it does not have to keep', async () => {
    watch.keepOnly(new Set([path('b.ts')]))
    writeFileSync(path('a.ts'), 'two')
    expect(await next(() => writeFileSync(path('b.ts'), 'two'))).toEqual([{ path: path('b.ts'), isNew: true }])
  })
})

describe('reloading on a save', () => {
  let reloads: ReloadOnSave
  let outcomes: { resolve(): void; reject(error: unknown): void }[]
  let said: string[]
  const reload = () => new Promise<void>((resolve, reject) => outcomes.push({ resolve, reject }))
  const reloading = (count: number) => expect.poll(() => outcomes.length).toBe(count)
  const announcer = {
    reloading: () => undefined,
    progress: () => undefined,
    reloaded: ({ files }) => said.push(`reloaded ${files.map((file) => file.split('/').at(-1)).join(' ')}`),
    reloadFailed: ({ code }) => said.push(`failed ${code}`),
  } as Partial<Announcer> as Announcer

  beforeEach(() => {
    outcomes = []
    said = []
    writeFileSync(path('agents.ts'), 'one')
    writeFileSync(path('tools.ts'), 'one')
    reloads = reloadOnSave(path('agents.ts'), announcer)
    reloads.onFile(path('tools.ts'))
  })
  afterEach(() => reloads.end())

  it('a reload reports the saved files once the new code serves, even if a later save has begun another reload', async () => {
    reloads.begin({ reload })
    writeFileSync(path('agents.ts'), 'two')
    await reloading(1)
    writeFileSync(path('tools.ts'), 'two')
    await reloading(2)
    outcomes[0]?.reject(new WorkerError('reload_superseded', 'Another one.'))
    outcomes[1]?.resolve()
    await expect.poll(() => said).toEqual(['reloaded agents.ts tools.ts'])
  })

  it('reloading on a save takes account of what is saved while the workers start', async () => {
    writeFileSync(path('agents.ts'), 'two')
    await new Promise((resolve) => setTimeout(resolve, 500))
    expect(outcomes).toHaveLength(0)
    reloads.begin({ reload })
    await reloading(1)
  })

  it('a file that is saved unchanged does not cause a reload, unless the module failed', async () => {
    reloads.begin({ reload })
    writeFileSync(path('tools.ts'), 'one')
    writeFileSync(path('agents.ts'), 'two')
    await reloading(1)
    outcomes[0]?.reject(new WorkerError('services_failed', 'No database.'))
    await expect.poll(() => said).toEqual(['failed services_failed'])
    writeFileSync(path('tools.ts'), 'one')
    await reloading(2)
    outcomes[1]?.resolve()
    await expect.poll(() => said).toEqual(['failed services_failed', 'reloaded tools.ts'])
  })
})

describe('what a person is told', () => {
  it('the message about a death says whether pawl killed the process, and why', () => {
    const written: string[] = []
    vi.spyOn(process.stdout, 'write').mockImplementation((chunk) => written.push(String(chunk)) > 0)
    const announcer = announceAsText(() => [])
    const killed = { code: null, signal: 'SIGKILL', at: 0 }
    announcer.worker({ event: 'orchestrator_died', pid: 1, ...killed, killedFor: 'frozen' })
    announcer.worker({ event: 'orchestrator_died', pid: 2, ...killed })
    expect(written).toEqual([
      'orchestrator 1 was killed by pawl: it was silent for a minute (SIGKILL)\n',
      'orchestrator 2 died (SIGKILL)\n',
    ])
  })

  it('the message about a reload is one line, not a line for each process that starts or ends', () => {
    const written: string[] = []
    vi.spyOn(process.stdout, 'write').mockImplementation((chunk) => written.push(String(chunk)) > 0)
    const announcer = announceAsText(() => [])
    const died = (pid: number, code: number | null, calls: { sessionId: string; call: string }[] = []) =>
      announcer.worker({ event: 'worker_died', pid, code, signal: code === null ? 'SIGKILL' : null, at: 0, calls })
    announcer.worker({ event: 'worker_started', pid: 1 })
    announcer.reloading()
    announcer.worker({ event: 'worker_started', pid: 2 })
    announcer.worker({ event: 'worker_ready', pid: 2 })
    announcer.reloaded({ module: 'agents.ts', files: ['tools.ts'], ms: 612 })
    died(1, 0)
    announcer.reloading()
    announcer.worker({ event: 'worker_started', pid: 3 })
    announcer.reloadFailed({ module: 'agents.ts', files: [], ms: 5, code: 'module_failed', message: 'x is not defined. Fix the module.' })
    died(3, null)
    died(2, null, [{ sessionId: 's', call: 'c' }])
    died(4, 0, [{ sessionId: 's', call: 'c' }])
    expect(written).toEqual([
      'executor 1 started\n',
      'reloaded agents.ts in 0.6 s\n',
      'agents.ts was not reloaded: x is not defined. Fix the module. The previous code stays in use.\n',
      'executor 2 died (SIGKILL) during: s c\n',
      'executor 4 died (exit code 0) during: s c\n',
    ])
  })
})

describe('the pauses before a process is restarted', () => {
  it('the pauses before a process is restarted double with each process in a row that did not serve, up to the given limit', () => {
    const backoff = startBackoff(150)
    expect(Array.from({ length: 7 }, () => backoff.next())).toEqual([150, 300, 600, 1_200, 2_400, 4_800, 5_000])
    expect(backoff.next(30_000)).toBe(19_200)
    expect(backoff.next(30_000)).toBe(30_000)
    backoff.served()
    expect(backoff.next()).toBe(150)
  })
})
