// Every failed attempt of a model call or tool call is one row of `errors`, with its number: thrown, died with its worker, Postgres up or down.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Pawl, type RunHandle } from 'pawl/client'
import { startStack, type Stack } from 'pawl/testing'
import { superviseWorkers } from 'pawl/worker'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { seededRandom } from '../retail/random.ts'
import type { SharedStack } from '../setup/stack.ts'
import type { PlainRow } from '../support/projected.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { SILENT } from '../support/deployment.ts'
import { compile, type Compiled } from './support/build.ts'
import { type Course, type Entered, someSteps, type Step } from './support/courses.ts'

const SESSIONS = 5
const TURNS = 3
const RESULT_MS = 240_000
const seed = Number(process.env.PAWL_SEED ?? Math.floor(Math.random() * 1_000_000))

let stack: Stack
let own: SharedStack
let folder: string
let file: string
let compiled: Compiled

beforeAll(async () => {
  // Stopping and starting Postgres is nobody else's business.
  stack = await startStack({ temporal: ['address'], postgres: ['embedded'] })
  own = { ...inject('stack'), databaseUrl: stack.databaseUrl }
  folder = await mkdtemp(join(tmpdir(), 'pawl-attempts-'))
  file = join(folder, 'entered')
  await writeFile(file, '')
  // Worker processes inherit them.
  Object.assign(process.env, { ATTEMPTS_FILE: file, PAWL_LOG_LEVEL: 'silent' })
  compiled = await compile(['test/crash/fixtures/attempts.ts'])
})
afterAll(async () => {
  await stack?.stop()
  await compiled?.remove()
  if (folder) await rm(folder, { recursive: true })
})

/** Workers on a queue of their own, and a client. */
interface Crew {
  pawl: Pawl
  close(): Promise<void>
}

function connect(taskQueue: string): Promise<Pawl> {
  return Pawl.connect({ temporal: { address: own.temporalAddress, namespace: own.namespace }, postgres: own.databaseUrl, taskQueue })
}

async function supervised(): Promise<Crew> {
  const taskQueue = `attempts-${randomUUID()}`
  const supervisor = await superviseWorkers({
    module: compiled.path('attempts'),
    processes: 2,
    temporal: { address: own.temporalAddress, namespace: own.namespace },
    taskQueue,
    postgres: own.databaseUrl,
    logger: SILENT,
  })
  const pawl = await connect(taskQueue)
  await supervisor.ready()
  return {
    pawl,
    async close() {
      await pawl.close()
      await supervisor.shutdown()
    },
  }
}

/** Two processes that nobody supervises; one that dies is started again by somebody who tells nobody. */
async function unsupervised(): Promise<Crew> {
  const taskQueue = `attempts-${randomUUID()}`
  const { temporalAddress, namespace, databaseUrl } = own
  const where = { TEMPORAL_ADDRESS: temporalAddress, TEMPORAL_NAMESPACE: namespace, DATABASE_URL: databaseUrl }
  const env = { ...process.env, ...where, ATTEMPTS_TASK_QUEUE: taskQueue }
  const running = new Set<ChildProcess>()
  let closing = false
  function start(): void {
    const child = spawn(process.execPath, [compiled.path('attempts')], { env, stdio: ['ignore', 'ignore', 'inherit'] })
    running.add(child)
    child.once('exit', () => {
      running.delete(child)
      if (!closing) start()
    })
  }
  start()
  start()
  const pawl = await connect(taskQueue)
  return {
    pawl,
    async close() {
      closing = true
      await pawl.close()
      await Promise.all(
        [...running].map(async (child) => {
          const ended = once(child, 'exit')
          child.kill('SIGTERM')
          await ended
        }),
      )
    },
  }
}

function start(crew: Crew, steps: readonly Step[]): Promise<RunHandle> {
  return crew.pawl.session(`attempts-${randomUUID()}`, { agent: 'trying' }).send(JSON.stringify(steps), { isNew: true })
}

/** Entries into bodies, by call, in order. */
function enteredIn(session: string): Map<string, number[]> {
  const lines = readFileSync(file, 'utf8').trim().split('\n')
  const mine = lines.map((line) => JSON.parse(line) as Entered).filter((one) => one.session === session)
  const calls = new Map<string, number[]>()
  for (const { call, attempt } of mine) calls.set(call, [...(calls.get(call) ?? []), attempt])
  return calls
}

/** Rows of failed attempts, by call. */
function rowsByCall(errors: readonly PlainRow[]): Map<string, PlainRow[]> {
  const calls = new Map<string, PlainRow[]>()
  for (const row of errors.filter(({ attempt }) => attempt !== null)) {
    const call = row.context === 'model' ? `model:${row.run}:${row.turn}` : String(row.call_id)
    calls.set(call, [...(calls.get(call) ?? []), row])
  }
  return calls
}

const attemptsOf = (rows: readonly PlainRow[] | undefined): unknown[] => (rows ?? []).map(({ attempt }) => attempt)
const upTo = (n: number): number[] => Array.from({ length: n }, (_, index) => index + 1)

/** The course of each call of one-call-a-turn steps, by call. */
function coursesOf(steps: readonly Step[]): Map<string, Course> {
  return new Map(
    steps.flatMap(({ model, calls }, index) => [
      [`model:1:${index + 1}`, model] as const,
      ...calls.map(({ course }, at) => [`t_1_${index + 1}_${at}`, course] as const),
    ]),
  )
}

/** Turns of one call each, so that no call dies for another's sake. */
const ONE_BY_ONE: Step[] = [
  { model: ['throw', 'die', 'throw'], calls: [{ tool: 'look', course: ['throw', 'die', 'throw', 'die'] }] },
  { model: ['die'], calls: [{ tool: 'put', course: ['die', 'throw', 'throw', 'die'] }] },
  { model: ['throw'], calls: [{ tool: 'pay', course: ['throw', 'die', 'throw'] }] },
  { model: ['die', 'die'], calls: [{ tool: 'look', course: [] }] },
]

/** Plays the steps and expects a row for each failed attempt of each call, of the class that its course says, and none besides. */
async function eachIsARow(crew: Crew, lost: string, during: (go: () => Promise<RunHandle>) => Promise<RunHandle>): Promise<void> {
  const run = await during(async () => {
    const started = await start(crew, ONE_BY_ONE)
    expect(await started.result({ timeoutMs: RESULT_MS })).toMatchObject({ text: 'done' })
    return started
  })
  const { rows } = await rowsMatchEvents(own, run.sessionId, { timeoutMs: 60_000 })
  const entered = enteredIn(run.sessionId)
  const failed = rowsByCall(rows.errors)
  for (const [call, course] of coursesOf(ONE_BY_ONE)) {
    expect(entered.get(call), `entries of ${call}`).toEqual(upTo(course.length + 1))
    const thrown = call.startsWith('model') ? 'ModelError' : 'Error'
    expect(
      (failed.get(call) ?? []).map(({ attempt, class: of }) => [attempt, of]),
      `rows of ${call}`,
    ).toEqual(course.map((what, index) => [index + 1, what === 'die' ? lost : thrown]))
  }
  const finals = rows.tool_calls.map(({ call_id, attempt, status }) => [call_id, attempt, status])
  expect(finals.toSorted()).toEqual(
    ONE_BY_ONE.map(({ calls }, turn) => [`t_1_${turn + 1}_0`, (calls[0]?.course.length ?? 0) + 1, 'completed']),
  )
}

const inPeace = (go: () => Promise<RunHandle>): Promise<RunHandle> => go()

async function withoutPostgres(go: () => Promise<RunHandle>): Promise<RunHandle> {
  await stack.postgres.stop()
  return go().finally(() => stack.postgres.start())
}

describe('under a supervisor', () => {
  let crew: Crew
  beforeAll(async () => {
    crew = await supervised()
  })
  afterAll(() => crew?.close())

  it('each failed attempt is a row, whether it threw or died', () => eachIsARow(crew, 'WorkerDied', inPeace))

  it('also those made while Postgres was down', () => eachIsARow(crew, 'WorkerDied', withoutPostgres))

  it('a tool call that fails for good has a row for each attempt, the last one too', async () => {
    const run = await start(crew, [{ model: [], calls: [{ tool: 'look', course: ['throw', 'throw', 'throw', 'throw', 'throw'] }] }])
    await run.result({ timeoutMs: RESULT_MS })
    const { rows } = await rowsMatchEvents(own, run.sessionId)
    expect(enteredIn(run.sessionId).get('t_1_1_0')).toEqual([1, 2, 3, 4])
    expect(attemptsOf(rowsByCall(rows.errors).get('t_1_1_0'))).toEqual([1, 2, 3, 4])
    expect(rows.tool_calls).toMatchObject([{ status: 'failed', attempt: 4 }])
  })

  it('a model call that fails for good has one too, and the run it fails has a row without an attempt', async () => {
    const run = await start(crew, [{ model: ['throw', 'die', 'throw', 'throw', 'throw'], calls: [] }])
    expect(await run.settled({ timeoutMs: RESULT_MS })).toMatchObject({ status: 'failed', code: 'was_to_fail' })
    const { rows } = await rowsMatchEvents(own, run.sessionId)
    expect(rows.errors.map(({ context, attempt, class: of }) => [context, attempt, of])).toEqual([
      ['model', 1, 'ModelError'],
      ['model', 2, 'WorkerDied'],
      ['model', 3, 'ModelError'],
      ['model', 4, 'ModelError'],
      ['model', 5, 'ModelError'],
      ['run', null, 'RunFailed'],
    ])
  })

  it(`sessions beside one another, which lose attempts for each other's sake, have theirs numbered without hole or double (seed ${seed})`, async () => {
    const random = seededRandom(seed)
    const plans = Array.from({ length: SESSIONS }, () => someSteps(random, TURNS))
    await stack.postgres.stop()
    const runs = await Promise.all(plans.map((steps) => start(crew, steps)))
    const half = Math.floor(SESSIONS / 2)
    // Postgres comes back while the others are still at it.
    const ended = runs.map((run) => run.settled({ timeoutMs: RESULT_MS }))
    await Promise.race(ended.slice(0, half))
    await stack.postgres.start()
    for (const end of await Promise.all(ended)) expect(end).toMatchObject({ status: 'completed', text: 'done' })
    for (const { sessionId } of runs) {
      const { rows } = await rowsMatchEvents(own, sessionId, { timeoutMs: 60_000 })
      const failed = rowsByCall(rows.errors)
      for (const [call, entered] of enteredIn(sessionId)) {
        // An attempt may be lost before its body was entered; none is made twice.
        expect(entered, `entries of ${call} of ${sessionId}`).toEqual([...new Set(entered)].toSorted((one, other) => one - other))
        expect(attemptsOf(failed.get(call)), `rows of ${call} of ${sessionId}`).toEqual(upTo((entered.at(-1) ?? 1) - 1))
      }
    }
  })
})

describe('without a supervisor', () => {
  let crew: Crew
  beforeAll(async () => {
    crew = await unsupervised()
  })
  afterAll(() => crew?.close())

  it('each failed attempt is a row, whether it threw or was not heard of again', () => eachIsARow(crew, 'HeartbeatTimeout', inPeace))

  it('also those made while Postgres was down', () => eachIsARow(crew, 'HeartbeatTimeout', withoutPostgres))
})
