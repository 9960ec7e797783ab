// Every failed attempt of a model or tool call is one row of `errors` with its number, whether it threw or died, with Postgres up or down.
import { randomUUID } from 'node:crypto'
import type { RunHandle } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { seededRandom } from '../../src/testing/crash/random.ts'
import type { PlainRow } from '../support/projected.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { seed, size, variants } from '../support/sizes.ts'
import { type Course, someSteps, type Step } from './support/courses.ts'
import { type Crew, openYard, type Yard } from './support/crew.ts'

const SESSIONS = size(3, 5)
const TURNS = size(2, 3)
const RESULT_MS = 240_000
const again = `seed ${seed}, again with PAWL_SEED`

let yard: Yard

beforeAll(async () => {
  yard = await openYard()
})
afterAll(() => yard?.close())

function start(crew: Crew, steps: readonly Step[]): Promise<RunHandle> {
  return crew.pawl.session(`attempts-${randomUUID()}`, { agent: 'trying' }).send(JSON.stringify(steps), { isNew: true })
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

/** The course of each model call and tool call of the steps, by call. */
function coursesOf(steps: readonly Step[]): Map<string, Course> {
  return new Map(
    steps.flatMap(({ model, calls }, index) => [
      [`model:1:${index + 1}`, model] as const,
      ...calls.map(({ course }, at) => [`t_1_${index + 1}_${at}`, course] as const),
    ]),
  )
}

/** Turns of one call each, so that no call dies because of another one. In each, attempts throw and die. */
const ONE_BY_ONE: Step[] = [
  { model: ['throw', 'die', 'throw'], calls: [{ tool: 'look', course: ['throw', 'die', 'throw', 'die'] }] },
  { model: ['die'], calls: [{ tool: 'put', course: ['die', 'throw', 'throw', 'die'] }] },
  { model: ['throw'], calls: [{ tool: 'pay', course: ['throw', 'die', 'throw'] }] },
  { model: ['die', 'die'], calls: [{ tool: 'look', course: ['throw'] }] },
]

/** The same with one death, for workers whose deaths take long to notice. */
const ONE_DEATH: Step[] = [
  { model: ['throw', 'die'], calls: [{ tool: 'look', course: [] }] },
  { model: ['die'], calls: [{ tool: 'look', course: ['throw'] }] },
  { model: [], calls: [{ tool: 'put', course: ['throw', 'die'] }] },
  { model: ['throw'], calls: [{ tool: 'pay', course: ['die', 'throw'] }] },
]

const [oneByOne, oneDeath] = [variants(ONE_BY_ONE, 2), variants(ONE_DEATH, 2)]

type During = (work: () => Promise<RunHandle>) => Promise<RunHandle>

/** Plays the steps and expects a row for each failed attempt of each call, of the class that its course implies, and no others. */
async function expectRowPerFailure(crew: Crew, lost: string, during: During, steps: readonly Step[]): Promise<void> {
  const run = await during(async () => {
    const started = await start(crew, steps)
    expect(await started.result({ timeout: RESULT_MS })).toMatchObject({ text: 'done' })
    return started
  })
  const { rows } = await rowsMatchEvents(yard.own, run.sessionId, { timeoutMs: 60_000 })
  const entered = yard.enteredIn(run.sessionId)
  const failed = rowsByCall(rows.errors)
  const lasts = new Map<string, number>()
  for (const [call, course] of coursesOf(steps)) {
    const tried = entered.get(call) ?? []
    const last = tried.at(-1) ?? 0
    lasts.set(call, last)
    // Without a supervisor, the server may hand an attempt to a poll that a dead process left open: it enters no body, but has a row.
    if (lost === 'WorkerDied') expect(tried, `entries of ${call}`).toEqual(upTo(course.length + 1))
    else expect(last, `last entry of ${call}`).toBeGreaterThan(course.length)
    const thrown = call.startsWith('model') ? 'ModelError' : 'Error'
    expect(
      (failed.get(call) ?? []).map(({ attempt, class: of }) => [attempt, of]),
      `rows of ${call}`,
    ).toEqual(
      upTo(last - 1).map((attempt) => {
        if (tried.includes(attempt)) return [attempt, course[attempt - 1] === 'die' ? lost : thrown]
        // Or, with ServiceError, the dead process was the one that had to be asked for the events.
        return [attempt, expect.stringMatching(/^(HeartbeatTimeout|ServiceError)$/)]
      }),
    )
  }
  const finals = rows.tool_calls.map(({ call_id, attempt, status }) => [call_id, attempt, status])
  expect(finals.toSorted()).toEqual(steps.map((_, turn) => [`t_1_${turn + 1}_0`, lasts.get(`t_1_${turn + 1}_0`), 'completed']))
}

const undisturbed = (work: () => Promise<RunHandle>): Promise<RunHandle> => work()

async function withoutPostgres(work: () => Promise<RunHandle>): Promise<RunHandle> {
  await yard.postgres.stop()
  return work().finally(() => yard.postgres.start())
}

describe(`under a supervisor (${again})`, () => {
  let crew: Crew
  beforeAll(async () => {
    crew = await yard.supervised()
  })
  afterAll(() => crew?.close())

  it('each failed attempt has a row, whether it threw or died', () =>
    expectRowPerFailure(crew, 'WorkerDied', undisturbed, size(oneByOne.slice(0, 1), oneByOne)))

  it('each failed attempt has a row even if Postgres was down', () =>
    expectRowPerFailure(crew, 'WorkerDied', withoutPostgres, size(oneByOne.slice(1), oneByOne)))

  it('a tool call that fails permanently has a row for each attempt, including the last', async () => {
    const run = await start(crew, [{ model: [], calls: [{ tool: 'look', course: ['throw', 'throw', 'throw', 'throw', 'throw'] }] }])
    await run.result({ timeout: RESULT_MS })
    const { rows } = await rowsMatchEvents(yard.own, run.sessionId)
    expect(yard.enteredIn(run.sessionId).get('t_1_1_0')).toEqual([1, 2, 3, 4])
    expect(attemptsOf(rowsByCall(rows.errors).get('t_1_1_0'))).toEqual([1, 2, 3, 4])
    expect(rows.tool_calls).toMatchObject([{ status: 'failed', attempt: 4 }])
  })

  it('a model call that fails permanently has a row for each attempt, and the run that it fails has a row without an attempt', async () => {
    const run = await start(crew, [{ model: ['throw', 'die', 'throw', 'throw', 'throw'], calls: [] }])
    expect(await run.settled({ timeout: RESULT_MS })).toMatchObject({ status: 'failed', code: 'was_to_fail' })
    const { rows } = await rowsMatchEvents(yard.own, run.sessionId)
    expect(rows.errors.map(({ context, attempt, class: of }) => [context, attempt, of])).toEqual([
      ['model', 1, 'ModelError'],
      ['model', 2, 'WorkerDied'],
      ['model', 3, 'ModelError'],
      ['model', 4, 'ModelError'],
      ['model', 5, 'ModelError'],
      ['run', null, 'RunFailed'],
    ])
  })

  it(`sessions that lose attempts to one another's deaths number them without gaps or duplicates`, async () => {
    const random = seededRandom(seed)
    const plans = Array.from({ length: SESSIONS }, () => someSteps(random, TURNS))
    await yard.postgres.stop()
    const runs = await Promise.all(plans.map((steps) => start(crew, steps)))
    const half = Math.floor(SESSIONS / 2)
    // Postgres comes back while the others are still running.
    const ended = runs.map((run) => run.settled({ timeout: RESULT_MS }))
    await Promise.race(ended.slice(0, half))
    await yard.postgres.start()
    for (const end of await Promise.all(ended)) expect(end).toMatchObject({ status: 'completed', text: 'done' })
    for (const { sessionId } of runs) {
      const { rows } = await rowsMatchEvents(yard.own, sessionId, { timeoutMs: 60_000 })
      const failed = rowsByCall(rows.errors)
      for (const [call, entered] of yard.enteredIn(sessionId)) {
        // An attempt may be lost before its body is entered; none is made twice.
        expect(entered, `entries of ${call} of ${sessionId}`).toEqual([...new Set(entered)].toSorted((one, other) => one - other))
        expect(attemptsOf(failed.get(call)), `rows of ${call} of ${sessionId}`).toEqual(upTo((entered.at(-1) ?? 1) - 1))
      }
    }
  })
})

describe(`without a supervisor (${again})`, () => {
  let crew: Crew
  beforeAll(async () => {
    crew = await yard.unsupervised(size(1, 2))
  })
  afterAll(() => crew?.close())

  it('each failed attempt has a row, whether it threw or was never heard from again', () =>
    expectRowPerFailure(crew, 'HeartbeatTimeout', undisturbed, size(oneDeath.slice(0, 1), ONE_BY_ONE)))

  it('each failed attempt has a row even if Postgres was down', () =>
    expectRowPerFailure(crew, 'HeartbeatTimeout', withoutPostgres, size(oneDeath.slice(1), ONE_BY_ONE.slice(0, 2))))
})
