// What a running `pawl dev` writes down, who finds it, and what pawl says if nothing is found.
import { spawn } from 'node:child_process'
import { chown, mkdir, mkdtemp, readdir, realpath, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { DATA_FOLDER, findDevDeployment, findRunning, findStarting, noteRunning, noteStarting } from '../../../src/connect/dev-stack.ts'
import { connectOptions } from '../../../src/cli/connecting.ts'
import { defineAgent } from '../../../src/agent/define-agent.ts'
import type { ConnectOptions } from '../../../src/client/connect-options.ts'
import { doctor } from '../../../src/client/doctor/doctor.ts'
import { Pawl } from '../../../src/client/pawl.ts'
import { connectClient, configuredTemporal } from '../../../src/connect/temporal.ts'
import { scripted } from '../../../src/testing/scripted.ts'
import { createWorker } from '../../../src/worker/one-process/index.ts'
import { connectNative } from '../../../src/worker/orchestrator/temporal/connection.ts'
import { preflight } from '../../../src/worker/preflight/index.ts'

const stack = { temporalAddress: '127.0.0.1:7243', namespace: 'default', taskQueue: 'mine', databaseUrl: 'postgres://u:p@127.0.0.1/pawl' }
const before = process.cwd()
let folder: string

beforeEach(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'pawl-dev-')))
  for (const name of ['TEMPORAL_ADDRESS', 'TEMPORAL_NAMESPACE', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE', 'DATABASE_URL'])
    vi.stubEnv(name, undefined)
})
afterEach(async () => {
  process.chdir(before)
  vi.restoreAllMocks()
  vi.useRealTimers()
  vi.unstubAllEnvs()
  await rm(folder, { recursive: true, force: true })
})

describe('the note of a running stack', () => {
  it('the note of a running stack exists while its process lives, readable only by its owner', async () => {
    const data = join(folder, '.pawl')
    const forget = await noteRunning(data, stack)
    expect(await findRunning(data)).toEqual({ pid: process.pid, ...stack })
    expect((await stat(join(data, 'dev.json'))).mode & 0o777).toBe(0o600)
    await forget()
    expect(await readdir(data)).toEqual([])
  })

  it('the note of a stack whose process was killed is ignored', async () => {
    const child = spawn(process.execPath, ['-e', ''])
    await new Promise((resolve) => child.once('exit', resolve))
    await writeFile(join(folder, 'dev.json'), JSON.stringify({ pid: child.pid, ...stack }))
    expect(await findRunning(folder)).toBeNull()
  })

  it('the note of a running stack is not found if it is cut off or missing', async () => {
    expect(await findRunning(folder)).toBeNull()
    await writeFile(join(folder, 'dev.json'), '{"pid": 1')
    expect(await findRunning(folder)).toBeNull()
  })
})

describe('the note of a stack that starts', () => {
  it('the note of a stack that starts is found in its folder and below, while its process lives', async () => {
    const data = join(folder, '.pawl')
    await mkdir(join(folder, 'src'))
    process.chdir(join(folder, 'src'))
    expect(await findStarting()).toBeUndefined()
    const forget = await noteStarting(data)
    expect([await findStarting(), await findStarting(data)]).toEqual([data, data])
    expect(await findDevDeployment()).toEqual({})
    await forget()
    expect([await findStarting(), await findStarting(data)]).toEqual([undefined, undefined])
    const child = spawn(process.execPath, ['-e', ''])
    await new Promise((resolve) => child.once('exit', resolve))
    await writeFile(join(data, 'starting.json'), JSON.stringify({ pid: child.pid }))
    expect(await findStarting()).toBeUndefined()
  })

  it('a command stops waiting for a stack that starts after 15 s, and says where to look', async () => {
    const [data, work] = [join(folder, '.pawl'), join(folder, 'src')]
    await mkdir(work)
    process.chdir(work)
    await noteStarting(data)
    for (const [option, dataDir] of [
      [DATA_FOLDER, undefined],
      [data, data],
    ] as const) {
      vi.useFakeTimers({ toFake: ['Date'] })
      const printed = new Promise<string>((resolve) => {
        vi.spyOn(process.stderr, 'write').mockImplementationOnce((text) => (resolve(String(text)), true))
      })
      const waits = connectOptions({ data: option })
      expect(await printed).toBe(`waiting for \`pawl dev <module>\`, which is starting in ${folder}\n`)
      vi.setSystemTime(Date.now() + 15_001)
      await expect(waits).rejects.toMatchObject({
        name: 'CliError',
        code: 'dev_starting',
        message: `\`pawl dev <module>\` in ${folder} is still starting. Its terminal says what it waits for. Try again when it is ready.`,
      })
      expect(await findStarting(dataDir)).toBe(data)
      vi.useRealTimers()
    }
  })
})

describe('the deployment of the folder', () => {
  const found = {
    // Without the key and the certificates that the environment may hold for another server.
    temporal: { address: stack.temporalAddress, namespace: 'default', tls: false, apiKey: '' },
    taskQueue: 'mine',
    postgres: stack.databaseUrl,
  }

  async function below(...folders: string[]): Promise<void> {
    const path = join(folder, ...folders)
    await mkdir(path, { recursive: true })
    process.chdir(path)
  }

  it('the deployment of the folder is that of the nearest pawl dev that runs here or in a folder above', async () => {
    await noteRunning(join(folder, '.pawl'), { ...stack, taskQueue: 'outer' })
    await noteRunning(join(folder, 'project', '.pawl'), stack)
    await below('project', 'src', 'deep')
    expect(await findDevDeployment()).toEqual(found)
    await below('elsewhere')
    expect(await findDevDeployment()).toMatchObject({ taskQueue: 'outer' })
  })

  it('the folder’s deployment is not used if the environment names another Temporal, nor does it replace its Postgres', async () => {
    await noteRunning(join(folder, '.pawl'), stack)
    await below('src')
    vi.stubEnv('TEMPORAL_ADDRESS', 'temporal.internal:7233')
    expect(await findDevDeployment()).toEqual({})
    vi.stubEnv('TEMPORAL_ADDRESS', stack.temporalAddress)
    vi.stubEnv('DATABASE_URL', 'postgres://mine')
    expect(await findDevDeployment()).toEqual({ temporal: found.temporal, taskQueue: 'mine' })
  })

  it('the deployment of the folder is ignored if another user wrote the note', async ({ skip }) => {
    if (process.getuid?.() !== 0) return skip('only root can make a file another user’s')
    await noteRunning(join(folder, '.pawl'), stack)
    await chown(join(folder, '.pawl', 'dev.json'), 65_534, 65_534)
    await below('src')
    expect(await findDevDeployment()).toEqual({})
  })
})

it('the error for a Temporal that does not answer advises `pawl dev` only if its own is not running', async () => {
  process.chdir(folder)
  const dead = '127.0.0.1:1'
  const says = async () => (await connectClient({ address: dead }).catch((error: Error) => error.message)) as string
  expect(await says()).toMatch(/^No Temporal server answers at 127\.0\.0\.1:1\. Check that it runs.*`pawl dev <module>` starts a server/)
  const forget = await noteRunning(join(folder, '.pawl'), { ...stack, temporalAddress: dead })
  try {
    expect(await says()).toMatch(/this folder.s `pawl dev <module>`, to which it belongs, is running\. Try again/)
  } finally {
    await forget()
  }
}, 60_000)

describe('a Temporal server that nothing names', () => {
  beforeEach(() => {
    process.chdir(folder)
    for (const name of Object.keys(process.env)) if (name.startsWith('TEMPORAL_')) vi.stubEnv(name, undefined)
    vi.stubEnv('XDG_CONFIG_HOME', folder)
    vi.stubEnv('HOME', folder)
  })

  const refused = {
    name: 'ConnectError',
    code: 'not_configured',
    message: expect.stringMatching(/TEMPORAL_ADDRESS.*\{ temporal: \{ address \} \}.*TEMPORAL_PROFILE.*`pawl dev/) as string,
  }

  it('a client without an address refuses to connect, even if a server listens on the usual port', async () => {
    const given: ConnectOptions[] = [{}, { namespace: 'default' }, { temporal: { namespace: 'n', apiKey: 'k' } }, { postgres: false }]
    for (const options of given) await expect(Pawl.connect(options)).rejects.toMatchObject(refused)
  })

  it('workers of either kind, a preflight and the heartbeat thread do not guess a Temporal server that nothing names', async () => {
    const worker = {
      agents: [defineAgent({ name: 'a', model: scripted(() => 'ok'), instructions: 'Answer.' })],
      postgres: 'postgres://127.0.0.1/none',
    }
    await expect(createWorker(worker)).rejects.toMatchObject(refused)
    await expect(connectNative({ namespace: 'n' })).rejects.toMatchObject(refused)
    await expect(preflight({ postgres: '' })).rejects.toMatchObject(refused)
    await expect(connectClient({})).rejects.toMatchObject(refused)
  })

  it('the doctor reports that no Temporal server is configured', async () => {
    const { ok, checks } = await doctor({ postgres: false })
    expect(ok).toBe(false)
    expect(checks[0]).toMatchObject({ check: 'temporal', level: 'fail', measured: expect.stringContaining('not_configured') as string })
  })

  it('the error for a missing Temporal address names the variables that say how to connect but not where', () => {
    vi.stubEnv('TEMPORAL_NAMESPACE', 'prod')
    vi.stubEnv('TEMPORAL_API_KEY', 'k')
    vi.stubEnv('TEMPORAL_ADDRESS', '')
    expect(() => configuredTemporal()).toThrow('(TEMPORAL_NAMESPACE and TEMPORAL_API_KEY do not name an address)')
  })

  it('a Temporal server is configured by an option, a variable, or the profile file', async () => {
    expect(configuredTemporal({ address: 'a:7233' })).toMatchObject({ address: 'a:7233', namespace: 'default' })
    vi.stubEnv('TEMPORAL_ADDRESS', 'b:7233')
    expect(configuredTemporal({ namespace: 'n' })).toMatchObject({ address: 'b:7233', namespace: 'n' })
    vi.stubEnv('TEMPORAL_ADDRESS', undefined)
    vi.stubEnv('TEMPORAL_CONFIG_FILE', join(folder, 'temporal.toml'))
    await writeFile(join(folder, 'temporal.toml'), '[profile.default]\naddress = "c:7233"\nnamespace = "profiled"\n')
    expect(configuredTemporal()).toMatchObject({ address: 'c:7233', namespace: 'profiled' })
  })
})
