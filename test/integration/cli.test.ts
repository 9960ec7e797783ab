// The built `pawl` command as its users run it: real processes, an embedded stack in a folder of its own.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Pawl } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { seed, variants } from '../support/sizes.ts'
import { userFolder } from './cli/folder.ts'
import { eventsIn, familyOf, leftOver, type PawlProcess, pawl, runPawl } from './cli/processes.ts'

const exec = promisify(execFile)
const START_MS = 60_000

let folder: string
const started: PawlProcess[] = []

function start(args: string[], options: { env?: Record<string, string>; input?: string } = {}): PawlProcess {
  const process = pawl(args, { cwd: folder, ...options })
  started.push(process)
  return process
}

async function stop(...processes: PawlProcess[]): Promise<void> {
  for (const process of processes) process.kill('SIGTERM')
  await Promise.all(processes.map((process) => process.ended))
}

function expectInOrder(output: string, texts: string[]): void {
  let from = 0
  for (const text of texts) {
    const at = output.indexOf(text, from)
    expect(at, `${text} in\n${output}`).toBeGreaterThanOrEqual(from)
    from = at
  }
}

beforeAll(async () => {
  folder = await userFolder()
})
afterAll(async () => {
  await stop(...started)
  await rm(folder, { recursive: true, force: true })
})

describe('pawl dev', () => {
  let dev: PawlProcess

  async function startDev(args: string[], env: Record<string, string> = {}): Promise<void> {
    dev = start(['dev', ...args, '--json'], { env })
    await dev.event('ready')
  }
  /** For what does not depend on how many workers there are. */
  const ONE = ['agents.mjs', '--processes', '1']

  /** Says something in a session, without a chat. */
  async function say(session: string, text: string, agent = 'echo'): Promise<void> {
    const { temporalAddress, namespace, databaseUrl } = await dev.event('ready')
    const temporal = { address: String(temporalAddress), namespace: String(namespace) }
    const client = await Pawl.connect({ temporal, postgres: String(databaseUrl), taskQueue: 'pawl' })
    try {
      await (await client.session(session, { agent }).send(text)).result({ timeout: 30_000 })
    } finally {
      await client.close()
    }
  }

  beforeAll(() => startDev(['agents.mjs']), START_MS)
  afterAll(() => stop(dev), START_MS)

  it('pawl dev has a console, whose address contains the only key that opens it', async () => {
    const { console: address } = await dev.event('ready')
    const url = new URL(String(address))
    expect(url.hostname).toBe('127.0.0.1')
    const key = new URLSearchParams(url.hash.split('?')[1]).get('key')
    expect((await fetch(url)).headers.get('content-type')).toContain('text/html')
    const callerAs = async (given: string | null) =>
      (await fetch(new URL('/v1/caller', url), { headers: { authorization: `Bearer ${given}` } })).status
    expect([await callerAs(key), await callerAs(`${key}x`), await callerAs('pawl_key')]).toEqual([200, 401, 401])
  })

  it('pawl dev says which processes it started, then where everything is, and nothing else', () => {
    const events = eventsIn(dev.stdout())
    const of = (kind: string) => events.filter(({ event }) => event === kind)
    const [orchestrator] = of('orchestrator_started')
    expect(of('worker_started')).toEqual(Array(2).fill({ event: 'worker_started', pid: expect.any(Number) }))
    expect(of('orchestrator_started')).toEqual([{ event: 'orchestrator_started', pid: expect.any(Number) }])
    expect(of('ready')).toEqual([
      {
        event: 'ready',
        temporalAddress: expect.stringMatching(/:\d+$/),
        temporalUi: expect.stringMatching(/^http:/),
        namespace: 'default',
        taskQueue: 'pawl',
        databaseUrl: expect.stringMatching(/^postgres/),
        console: expect.stringMatching(/^http:.*key=/),
        orchestratorPid: orchestrator?.pid,
      },
    ])
    const readyPids = of('worker_ready').map(({ pid }) => pid)
    expect(of('worker_started').map(({ pid }) => pid)).toEqual(expect.arrayContaining(readyPids))
    expect(events.length).toBe(4 + readyPids.length)
    expect(events.findIndex(({ event }) => event === 'ready')).toBeGreaterThanOrEqual(4)
  })

  it('pawl dev answers every line that is piped into a chat, the last one before the chat ends', async () => {
    const chat = await start(['chat', 'echo'], { input: 'hello\n\nlook up gnu for 1 ms\nbye\n' }).ended
    expect(chat).toMatchObject({ code: 0, stderr: '' })
    expect(chat.stdout).toMatch(/^session \S+ with echo/)
    const shown = ['echo › message 1: hello', '→ look_up {"word":"gnu","ms":1}', '← look_up gnu is in the book', 'found:', 'message 3: bye']
    expectInOrder(chat.stdout, shown)
  }, 60_000)

  it('pawl dev replaces a worker that is killed in the middle of a call, and the answer still arrives', async () => {
    const before = eventsIn(dev.stdout()).filter(({ event }) => event === 'worker_started')
    const chat = start(['chat', 'echo'], { input: 'look up yak for 1500 ms\n' })
    await chat.says(/→ look_up/)
    for (const { pid } of before) process.kill(Number(pid), 'SIGKILL')
    const deaths = [await dev.event('worker_died', 1), await dev.event('worker_died', 2)]
    expect(deaths.map(({ pid, signal }) => `${pid} ${signal}`).sort()).toEqual(before.map(({ pid }) => `${pid} SIGKILL`).sort())
    expect(await chat.ended).toMatchObject({ code: 0, stdout: expect.stringContaining('yak is in the book') })
    await dev.event('worker_started', before.length + 2)
  }, 60_000)

  it('pawl dev is found by a backend in a subfolder that names neither Temporal nor Postgres', async () => {
    const below = join(folder, 'backend', 'src')
    await mkdir(below, { recursive: true })
    const { TEMPORAL_ADDRESS: _t, DATABASE_URL: _d, TEMPORAL_NAMESPACE: _n, ...env } = process.env
    const script = `
      import { Pawl } from 'pawl/client'
      const pawl = await Pawl.connect()
      const session = pawl.session('from-below', { agent: 'echo' })
      console.log((await (await session.send('hello')).result({ timeout: 30_000 })).text, (await session.messages()).length)
      await pawl.close()`
    const { stdout, stderr } = await exec(process.execPath, ['--input-type=module', '-e', script], { cwd: below, env })
    expect({ stdout, stderr }).toEqual({ stdout: 'message 1: hello 2\n', stderr: '' })
    expect(await runPawl(['show', 'from-below'], { cwd: below })).toMatchObject({ code: 0, stdout: expect.stringContaining('idle') })
  }, 60_000)

  it('pawl dev treats Ctrl-C in a chat as an interrupt of the current run', async () => {
    const chat = start(['chat', 'echo'])
    chat.type('look up emu for 60000 ms\n')
    await chat.says(/→ look_up/)
    chat.kill('SIGINT')
    await chat.says(/\(interrupted/)
    chat.type('still there?\n')
    await chat.says(/message 2: still there\?/)
    chat.endInput()
    expect(await chat.ended).toMatchObject({ code: 0 })
  }, 60_000)

  it('pawl dev says in a chat that no worker serves the agent, so a misspelt name does not wait for a deployment', async () => {
    const chat = start(['chat', 'ecko'])
    chat.type('hello\n')
    await chat.says(/agent_not_served.*"ecko"/)
    chat.kill('SIGTERM')
    await chat.ended
  }, 60_000)

  it('pawl dev shows the state of a session, and refuses to resume one that does not exist or belongs to another agent', async () => {
    const chat = await start(['chat', 'echo', '--session', 'walk-in'], { input: 'hello\n/state\n/resume nowhere\n' }).ended
    expect(chat.stdout).toMatch(/status +idle/)
    expect(chat.stdout).toContain('session_not_found')
    expect(chat.code).toBe(1)
    expect(await runPawl(['chat', 'other', '--resume', 'walk-in'], { cwd: folder })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('invalid_usage: Session walk-in belongs to the agent "echo"'),
    })
    expect(await runPawl(['chat', 'echo', '--resume', 'nowhere'], { cwd: folder })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('session_not_found'),
    })
  }, 60_000)

  it('pawl dev switches to another session in the middle of a chat, shows what was said there, and continues it', async () => {
    await say('first', 'said in the first')
    const chat = start(['chat', 'echo', '--session', 'second'])
    chat.type('said in the second\n')
    await chat.says(/message 1: said in the second/)
    chat.type('/resume first\n')
    await chat.says(/session first with echo, idle/)
    await chat.says(/message 1: said in the first/)
    chat.type('and again\n')
    await chat.says(/message 2: and again/)
    chat.endInput()
    expect(await chat.ended).toMatchObject({ code: 0 })
    const rows = (await runPawl(['messages', 'first', '--json'], { cwd: folder })).stdout.trim().split('\n')
    expect(rows.map((row) => (JSON.parse(row) as { role: string }).role)).toEqual(['user', 'assistant', 'user', 'assistant'])
  }, 60_000)

  it('pawl dev continues another agent’s session from a chat, and speaks to that agent', async () => {
    await say('theirs', 'said to the other', 'other')
    const chat = await start(['chat', 'echo', '--session', 'mine'], { input: 'hello\n/resume theirs\nand again\n' }).ended
    expectInOrder(chat.stdout, ['echo › message 1: hello', 'session theirs with other, idle', 'other › message 2: and again'])
    expect(chat.code).toBe(0)
  }, 60_000)

  it('pawl dev approves, denies and answers calls in a chat', async () => {
    const input = [
      'refund A1',
      '/approve',
      'refund B2',
      '/deny too much',
      'pick',
      '/answer blue',
      'refund C3 and refund D4',
      '/approve',
      '/approve t_4_1_0 {"order":"C3","cents":400}',
      '/deny t_4_1_1',
      '/deny',
    ]
    const chat = await start(['chat', 'echo', '--session', 'deciding', '--tag', 'vip,eu'], { input: `${input.join('\n')}\n` }).ended
    expectInOrder(chat.stdout, [
      'refund waits for approval (/approve t_1_1_0 or /deny t_1_1_0)',
      't_1_1_0 is approved',
      'found: "A1: 500 cents"',
      't_2_1_0 is denied',
      'too much',
      'pick waits for an answer (/answer t_3_1_0 <answer>)',
      't_3_1_0 is answered',
      'found: "blue"',
      '2 calls are waiting. Name one: /approve t_4_1_0 (refund) or /approve t_4_1_1 (refund).',
      't_4_1_0 is approved with other arguments',
      't_4_1_1 is denied',
      'No call waits for approval.',
    ])
    expect(chat.stdout).toContain('C3: 400 cents')
    const approvals = (await runPawl(['events', 'deciding', '--json'], { cwd: folder })).stdout
    expect(approvals).toContain('"type":"approval_decided"')
    expect((await runPawl(['sessions', '--tag', 'vip,eu'], { cwd: folder })).stdout).toContain('deciding')
  }, 90_000)

  it('pawl dev shows what waits when a chat resumes a session, and sends with context and tags', async () => {
    const sent = await runPawl(['send', 'from-send', 'refund E5', '--agent', 'echo', '--context', '{"shop":"x"}', '--tag', 'a,b'], {
      cwd: folder,
    })
    expect(sent).toMatchObject({ code: 0 })
    const listed = async () => (await runPawl(['pending', 'from-send', '--json'], { cwd: folder })).stdout
    await expect.poll(listed).toContain('t_1_1_0')
    const chat = await start(['chat', '--resume', 'from-send'], { input: '/state\n/approve\n' }).ended
    expectInOrder(chat.stdout, [
      'refund {"order":"E5","cents":500} waits for approval: /approve t_1_1_0 or /deny t_1_1_0',
      'context     {"shop":"x"}',
      'tags        a, b',
      't_1_1_0 is approved',
      'E5: 500 cents',
    ])
  }, 60_000)

  it('pawl dev runs alongside a worker of another task queue, which drains when it is asked to stop', async () => {
    const { temporalAddress, databaseUrl } = await dev.event('ready')
    const env = { TEMPORAL_ADDRESS: String(temporalAddress), DATABASE_URL: String(databaseUrl) }
    const worker = start(['worker', 'agents.mjs', '--json', '--task-queue', 'other', '--processes', '1'], { env })
    const ready = await worker.event('ready')
    expect(ready).toMatchObject({ event: 'ready', temporalAddress, namespace: 'default', taskQueue: 'other' })
    expect(ready).not.toHaveProperty('temporalUi')
    expect(String(ready.databaseUrl)).not.toContain(new URL(String(databaseUrl)).password)
    const chat = start(['chat', 'echo', '--task-queue', 'other', '--session', 'drained'], { env, input: 'look up auk for 2000 ms\n' })
    await chat.says(/→ look_up/)
    const family = familyOf(worker.pid)
    worker.kill('SIGTERM')
    expect(await worker.ended).toMatchObject({ code: 0 })
    expect(leftOver(family, '(no folder)')).toEqual([])
    const next = start(['worker', 'agents.mjs', '--json', '--task-queue', 'other', '--processes', '1'], { env })
    const answered = await chat.ended
    expect(answered.stdout).toContain('auk is in the book')
    // The worker that was asked to stop finished the call: one attempt.
    expect(answered.stdout).not.toContain('attempt')
    await stop(next)
  }, 60_000)

  it(
    'a worker that runs alongside pawl dev exits with one error if its module cannot be loaded: its service manager may restart it',
    async () => {
      const { temporalAddress, databaseUrl } = await dev.event('ready')
      const env = { TEMPORAL_ADDRESS: String(temporalAddress), DATABASE_URL: String(databaseUrl) }
      const ended = await start(['worker', 'broken.mjs', '--task-queue', 'broken'], { env }).ended
      expect(ended).toMatchObject({ code: 1, stderr: expect.stringMatching(/^module_failed: .*does-not-exist\.mjs.*\n$/) })
    },
    START_MS,
  )

  it('pawl dev leaves no process behind when it is stopped, and --resume shows the conversation after a restart', async () => {
    const { temporalAddress, databaseUrl } = await dev.event('ready')
    await say('kept', 'hello')
    await say('kept', 'look up ape for 1 ms')
    const family = familyOf(dev.pid)
    expect(family.length).toBeGreaterThan(2)
    dev.kill('SIGTERM')
    expect(await dev.ended).toMatchObject({ code: 0, signal: null })
    expect(leftOver(family, folder)).toEqual([])

    // As in a shell into which the user has pasted the settings that it printed.
    await startDev(ONE, { TEMPORAL_ADDRESS: String(temporalAddress), DATABASE_URL: String(databaseUrl) })
    const second = await start(['chat', 'echo', '--resume', 'kept'], { input: 'and now?\n' }).ended
    expect(second.code).toBe(0)
    const soFar = [
      'you › hello',
      'echo › message 1: hello',
      'you › look up ape',
      '→ look_up',
      '← look_up ape is in the book',
      'echo › found:',
      'message 3: and now?',
    ]
    expectInOrder(second.stdout, soFar)
  }, 120_000)

  it('pawl dev leaves no process behind even when it is killed with SIGKILL, and its sessions survive', async () => {
    await say('survives', 'hello')
    const family = familyOf(dev.pid)
    dev.kill('SIGKILL')
    await dev.ended
    await expect.poll(() => leftOver(family, folder), { timeout: 40_000, interval: 200 }).toEqual([])
    await startDev(ONE)
    const chat = await start(['chat', 'echo', '--resume', 'survives'], { input: 'still?\n' }).ended
    expect(chat.stdout).toContain('message 2: still?')
  }, 120_000)
})

describe('a module that cannot be served', () => {
  /** The module, the code of the error, and whether a stack is started before it is noticed. */
  type UnservedModule = [module: string, code: string, startsStack: boolean]
  it.each<UnservedModule>([
    ['missing.ts', 'module_not_found', false],
    ...variants<UnservedModule>(
      [
        ['nobody.mjs', 'no_agents', true],
        ['broken.mjs', 'module_failed', true],
      ],
      1,
    ),
  ])(
    `a module that cannot be served (%s) is reported as %s with exit code 1, and nothing is left running (seed ${seed}, again with PAWL_SEED)`,
    async (module, code, startsStack) => {
      const data = `data-of-${module}`
      const dev = start(['dev', module, '--json', '--data', data])
      const ended = await dev.ended
      expect(ended.code).toBe(1)
      expect(ended.stderr).toMatch(new RegExp(`(^|\\n)${code}: `))
      expect(ended.stderr).not.toMatch(/\n\s+at /)
      expect(eventsIn(ended.stdout).filter(({ event }) => event === 'ready')).toEqual([])
      expect(existsSync(join(folder, data))).toBe(startsStack)
      expect(leftOver([], folder)).toEqual([])
    },
    START_MS,
  )

  it('a module that cannot be served is reported with a suggestion if the file exists with another extension', async () => {
    expect((await start(['dev', 'agents.js']).ended).stderr).toContain('did you mean agents.ts?')
  }, 20_000)
})

describe('the command line', () => {
  it('the command line loads neither the SDK nor a Postgres client before a command needs them', async () => {
    const program = new URL('../../dist/cli/program.js', import.meta.url).href
    const script = `import(${JSON.stringify(program)}).then(({ createProgram }) => { createProgram(); console.log(JSON.stringify(Object.keys(require.cache))) })`
    const { stdout } = await exec(process.execPath, ['-e', script])
    const packages = (JSON.parse(stdout) as string[]).map((path) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? path)
    expect([...new Set(packages)]).toEqual(['commander'])
  }, 20_000)

  it('the command line prints its version and its help, and refuses what it does not know', async () => {
    expect((await start(['--version']).ended).stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
    expect((await runPawl(['dev', '--help'], { cwd: folder })).stdout).toContain('--task-queue')
    expect(await runPawl(['dev', 'agents.ts', '--processes', 'many'], { cwd: folder })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('from 1 to'),
    })
    expect(await runPawl(['dve'], { cwd: folder })).toMatchObject({ code: 1, stderr: expect.stringContaining('Did you mean dev?') })
    expect(await runPawl(['chat', 'echo', '--context', '{'], { cwd: folder })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('Use JSON'),
    })
  }, 20_000)
})
