// New code replaces old code: calls that the old code holds end there, once; a module that cannot be loaded changes nothing; deaths in
// between do not matter.
import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { seed, variants } from '../support/sizes.ts'
import { until } from '../support/until.ts'
import { startVersions, type Version, type Versions } from './support/versions.ts'

const LONG_MS = 60_000

let its: Versions
let version = 1

/** Why the first module was refused, and what a run answered that had been sent before the next one was written. */
let refused: { why: unknown; text: string }

beforeAll(async () => {
  its = await startVersions({ loadTimeout: 30_000 }, { services: "throw new Error('no database')" })
  const why = await its.supervisor.ready().catch((error: unknown) => error)
  const run = await its.say('hello')
  await its.write(`v${++version}`)
  refused = { why, text: (await run.result()).text }
  await served()
})
afterAll(() => its.close())

const textOf = async (text: string) => (await (await its.say(text)).result()).text
const served = () =>
  until('both executors serve', () => its.supervisor.pids().length === 2 && its.supervisor.pids().every(isReady), LONG_MS)
const isReady = (pid: number) => its.events.some((event) => event.event === 'worker_ready' && event.pid === pid)
const diedOf = (pid: number) => its.events.filter((event) => event.event === 'worker_died' && event.pid === pid)
const gone = (pids: number[]) => until('the old ones are gone', () => pids.every((pid) => diedOf(pid).length > 0), LONG_MS)

/** Modules that cannot be loaded, and the error's code and reason. */
const BROKEN: [string, Version, string, RegExp][] = [
  ['throws', { top: "throw new Error('no luck')" }, 'module_failed', /no luck \(at .*agents\.mjs:\d+/],
  ['throws in services', { services: "throw new Error('no database')" }, 'services_failed', /no database \(at .*agents\.mjs:\d+/],
  ['ends its process', { top: 'process.exit(0)' }, 'module_exited', /exit code 0/],
  ['takes its process down', { top: "process.kill(process.pid, 'SIGKILL')" }, 'module_dies', /SIGKILL/],
]

describe('a reload', () => {
  it('a reload lets calls end, once, on the executors that hold them, and runs new calls on the new code', async () => {
    const old = its.supervisor.pids()
    const tools = ['look', 'put', 'charge']
    const [thinker, ...users] = [randomUUID(), ...tools.map(() => randomUUID())]
    const holds = [
      its.ledger.holdNext({ stage: 'model', session: thinker }),
      ...tools.map((what) => its.ledger.holdNext({ stage: 'entered', what })),
    ]
    const runs = [await its.say('think', thinker), ...(await Promise.all(tools.map((tool, i) => its.say(`use ${tool}`, users[i]))))]
    const held = await Promise.all(holds)
    const before = `v${version}`
    await its.write(`v${++version}`)
    await its.supervisor.reload()
    expect(await textOf('hello')).toBe(`v${version}: hello`)
    expect(its.supervisor.pids()).toEqual(expect.arrayContaining(old))
    for (const mark of held) mark.release()
    const texts = await Promise.all(runs.map(async (run) => (await run.result()).text))
    expect(texts).toEqual([`${before}: think`, ...tools.map((tool) => `v${version}: ${tool} by ${before}`)])
    for (const session of users) expect(its.ledger.marks({ session, stage: 'entered' })).toHaveLength(1)
    expect(its.ledger.marks({ session: thinker })).toHaveLength(1)
    await gone(old)
    expect(old.flatMap(diedOf)).toMatchObject(old.map(() => ({ code: 0, calls: [] })))
    await served()
  })

  it('a reload lets calls end on the executors that hold them even if the orchestrator dies meanwhile', async () => {
    const old = its.supervisor.pids()
    const hold = its.ledger.holdNext({ stage: 'entered', what: 'charge' })
    const run = await its.say('use charge')
    const mark = await hold
    await its.write(`v${++version}`)
    await its.supervisor.reload()
    const orchestrator = its.supervisor.orchestratorPid() ?? expect.fail('no orchestrator')
    const from = its.events.length
    process.kill(orchestrator, 'SIGKILL')
    await until('another one serves', () => its.events.slice(from).some(({ event }) => event === 'orchestrator_ready'), LONG_MS)
    // Only new code answers, although the old executors have connected to the new orchestrator.
    for (let i = 0; i < 4; i++) expect(await textOf('hello')).toBe(`v${version}: hello`)
    mark.release()
    expect((await run.result()).text).toBe(`v${version}: charge by v${version - 1}`)
    expect(its.ledger.marks({ session: run.sessionId, stage: 'entered' })).toHaveLength(1)
    await gone(old)
    await served()
  })

  it('a reload succeeds while an executor is being replaced after a death, and when one dies while it loads', async () => {
    const old = its.supervisor.pids()
    const [first, second] = old
    process.kill(first ?? 0, 'SIGKILL')
    await gone([first ?? 0])
    await its.write(`v${++version}`, { top: `while (!existsSync(${JSON.stringify(its.path('gate'))})) await sleep(20)` })
    const before = its.events.length
    const reloading = its.supervisor.reload()
    const started = () => its.events.slice(before).flatMap((event) => (event.event === 'worker_started' ? event.pid : []))
    await until('the new ones load', () => started().length >= 2)
    process.kill(started()[0] ?? 0, 'SIGKILL')
    expect(await textOf('hello')).toBe(`v${version - 1}: hello`)
    await writeFile(its.path('gate'), '')
    await reloading
    expect(await textOf('hello')).toBe(`v${version}: hello`)
    await gone([second ?? 0])
    await served()
    expect(its.supervisor.pids()).not.toContain(second)
    expect(started().filter((pid) => diedOf(pid).length > 1)).toEqual([])
  })

  it('a reload that begins before another one is done supersedes it', async () => {
    await its.write('never', { top: 'await new Promise(() => setInterval(() => {}, 1000))' })
    const refusal = its.supervisor.reload().catch((error: unknown) => error)
    await its.write(`v${++version}`)
    await its.supervisor.reload()
    expect(await refusal).toMatchObject({ name: 'WorkerError', code: 'reload_superseded' })
    expect(await textOf('hello')).toBe(`v${version}: hello`)
    await served()
  })

  const broken = `of a module that %s changes nothing, and says why (seed ${seed}, again with PAWL_SEED)`
  it.each(variants(BROKEN, 1))(broken, async (_, made, code, why) => {
    const old = await until('two serve', () => its.supervisor.pids().length === 2 && its.supervisor.pids())
    await its.write('broken', made)
    await expect(its.supervisor.reload()).rejects.toMatchObject({ name: 'WorkerError', code, message: expect.stringMatching(why) })
    await until('the new ones are gone', () => its.supervisor.pids().length === 2, LONG_MS)
    expect(its.supervisor.pids()).toEqual(old)
    expect(await textOf('hello')).toBe(`v${version}: hello`)
    await its.write(`v${version}`)
  })

  it('a failed reload has no lasting effect: executors that die are replaced as soon as the module loads', async () => {
    const errorsBefore = its.errors.length
    await its.write('broken', { top: "throw new Error('still no luck')" })
    await expect(its.supervisor.reload()).rejects.toMatchObject({ code: 'module_failed' })
    process.kill(its.supervisor.pids()[0] ?? 0, 'SIGKILL')
    await until('its successor cannot load', () => its.errors.length > errorsBefore, LONG_MS)
    expect(its.errors.at(-1)).toMatchObject({ code: 'module_failed', message: expect.stringContaining('still no luck') })
    expect(await textOf('hello')).toBe(`v${version}: hello`)
    await its.write(`v${++version}`)
    await served()
    await its.supervisor.reload()
    expect(await textOf('hello')).toBe(`v${version}: hello`)
  })
})

describe('a module that cannot be loaded', () => {
  it('a module that cannot be loaded at the start makes ready() reject; pawl keeps trying, and serves once it can', () => {
    expect(refused.why).toMatchObject({ code: 'services_failed', message: expect.stringContaining('no database') })
    expect(refused.text).toBe('v2: hello')
  })

  it('a module that cannot be loaded is abandoned after its timeout if it hangs, and the previous code keeps serving', async () => {
    await its.write('hangs', { services: 'await new Promise(() => setInterval(() => {}, 1000))' })
    const refusal = its.supervisor.reload().catch((error: unknown) => error)
    expect(await textOf('hello')).toBe(`v${version}: hello`)
    expect(await refusal).toMatchObject({ code: 'module_hangs', message: expect.stringContaining('30 s') })
    expect(await textOf('hello')).toBe(`v${version}: hello`)
    await its.write(`v${version}`)
    await served()
  })

  it('a served module that no longer loads leaves the orchestrator up: nothing begins, and each failure logs one error', async () => {
    const orchestrator = its.supervisor.orchestratorPid()
    const [event, error] = [its.events.length, its.errors.length]
    const errors = () => its.errors.slice(error)
    await its.write('broken', { top: "throw new Error('no luck')" })
    for (const pid of its.supervisor.pids()) process.kill(pid, 'SIGKILL')
    await until('three attempts to load it', () => errors().length >= 3, LONG_MS)
    const run = await its.say('use charge')
    await until('two more', () => errors().length >= 5, LONG_MS)
    const starts = its.events.slice(event).filter((one) => one.event === 'worker_started').length
    // After the deaths, at most two at once, then one at a time. Each of these logged an error or is still loading.
    expect(starts).toBeLessThanOrEqual(errors().length + 2)
    for (const one of errors()) expect(one).toMatchObject({ code: 'module_failed', message: expect.stringContaining('no luck') })
    await its.write(`v${++version}`)
    expect((await run.result()).text).toBe(`v${version}: charge by v${version}`)
    expect(its.ledger.marks({ session: run.sessionId }).map(({ stage, attempt }) => `${stage} ${attempt}`)).toEqual([
      'model 1',
      'entered 1',
      'model 1',
    ])
    expect(await its.pawl.session(run.sessionId).errors()).toEqual([])
    expect(its.supervisor.orchestratorPid()).toBe(orchestrator)
    const pidsOf = (name: string) => its.events.flatMap((one) => (one.event === name ? one.pid : [])).sort()
    const alive = its.supervisor.pids()
    expect(pidsOf('worker_died')).toEqual(pidsOf('worker_started').filter((pid) => !alive.includes(pid)))
  })
})

describe('workers that are shutting down', () => {
  it('workers that are shutting down reject a reload', async () => {
    const ended = its.supervisor.shutdown()
    await expect(its.supervisor.reload()).rejects.toMatchObject({ code: 'worker_stopping' })
    await ended
    expect(its.supervisor.pids()).toEqual([])
  })
})
