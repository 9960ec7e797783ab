// What ends a run before its answer: limits, deadlines and models that fail; and how the session continues from there.
import { ModelError } from 'pawl'
import { RunFailedError } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openStore, type Store } from '../../src/store/index.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { answersIn, inOrder, saidIn, type Stage, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'
import { errorsOf } from '../support/errors-of.ts'

let here: Deployment
let player: Stage
let short: Stage
let hasty: Stage
let patient: Stage
let store: Store

beforeAll(async () => {
  here = await deploy()
  player = stage({ limits: { maxTurns: 3 }, recovery: { automatic: [] } })
  // On a quick machine, the default of 50 turns would be reached first.
  short = stage({ name: 'short', limits: { deadline: '1.5s', maxTurns: 10_000 } })
  hasty = stage({ name: 'hasty', retry: { maxRetries: 2, baseDelay: 10, maxRetryAfter: '500ms' } })
  patient = stage({ name: 'patient', limits: { maxRepeats: 3 } })
  store = openStore({ postgres: here.stack.databaseUrl })
  await here.startWorker({ agents: [player.agent, short.agent, hasty.agent, patient.agent] })
})
afterAll(async () => {
  await store?.close()
  await here?.stop()
})

const forever = [use('look', 'once more')]

describe('maxTurns', () => {
  it('maxTurns fails a run that would make another turn; the next message starts a new run that sees the earlier turns', async () => {
    const { session, requests } = player.play(here.pawl, { model: (request) => (saidIn(request).length > 1 ? 'enough' : forever) })
    const run = await session.send('go')
    const failed = await run.result({ timeout: 20_000 }).catch((error: unknown) => error)
    expect(failed).toBeInstanceOf(RunFailedError)
    expect(failed).toMatchObject({ code: 'max_turns', run: 1, strategy: 'continue_run' })
    expect(requests).toHaveLength(3)
    expect(await session.state()).toMatchObject({ status: 'error', error: { code: 'max_turns', run: 1 } })
    expect(await (await session.send('stop it')).result({ timeout: 20_000 })).toMatchObject({ run: 2, text: 'enough' })
    expect(answersIn(requests.at(-1)!)).toBe(3)
    expect((await session.state()).status).toBe('idle')
  })

  it('maxTurns lets a run that answers in its last turn complete', async () => {
    const { session } = player.play(here.pawl, { model: inOrder(forever, forever, 'just in time') })
    expect(await (await session.send('go')).result({ timeout: 20_000 })).toMatchObject({ text: 'just in time' })
  })

  it('maxTurns leaves a message that no turn has taken to the next run', async () => {
    const door = gate()
    const { session } = player.play(here.pawl, {
      model: (request) => (saidIn(request).length > 1 ? 'enough' : forever),
      look: (_input, ctx) => (ctx.turn === 3 ? door.pass(ctx.signal) : 'ok'),
    })
    const first = await session.send('go')
    await door.reached
    const second = await session.send('stop it')
    door.open()
    expect(await first.settled({ timeout: 20_000 })).toMatchObject({ status: 'failed', code: 'max_turns', run: 1 })
    expect(await second.result({ timeout: 20_000 })).toMatchObject({ run: 2, text: 'enough' })
  })
})

describe('maxRepeats', () => {
  it('maxRepeats fails a run that repeats a call with the same result, and a person may let it continue', async () => {
    const { session, requests, count } = patient.play(here.pawl, {
      model: (request) => (answersIn(request) < 5 ? forever : 'found it'),
    })
    const run = await session.send('go')
    const reason = 'The run made the same call of look 3 times in a row, each with the same result (limits.maxRepeats).'
    expect(await run.settled({ timeout: 20_000 })).toMatchObject({
      status: 'failed',
      code: 'no_progress',
      reason,
      strategy: 'continue_run',
    })
    expect([requests.length, count('look')]).toEqual([3, 3])
    await session.recover({ by: 'ann' })
    await until('the run has completed', async () => (await session.state()).status === 'idle')
    expect([requests.length, count('look')]).toEqual([6, 5])
    expect((await session.messages()).at(-1)).toMatchObject({ role: 'assistant', content: [{ text: 'found it' }] })
  })

  it('maxRepeats does not stop a run whose results differ', async () => {
    let looks = 0
    const { session } = patient.play(here.pawl, {
      model: (request) => (answersIn(request) < 6 ? forever : 'found it'),
      look: () => `seen ${Math.floor(looks++ / 2)}`,
    })
    expect(await (await session.send('go')).result({ timeout: 20_000 })).toMatchObject({ text: 'found it' })
  })
})

describe.concurrent('a deadline', () => {
  it('a deadline ends a run whose model hangs and ignores its signal', async () => {
    const { session } = short.play(here.pawl, { model: () => new Promise(() => undefined) })
    await expect((await session.send('go')).result({ timeout: 20_000 })).rejects.toMatchObject({ code: 'deadline_exceeded' })
  })

  it('a deadline ends a run whose tool hangs, and aborts the tool’s signal', async () => {
    const told = gate()
    const { session } = short.play(here.pawl, {
      model: inOrder(forever),
      look: (_input, ctx) => new Promise((_, reject) => ctx.signal.addEventListener('abort', () => reject(told.open()))),
    })
    await expect((await session.send('go')).result({ timeout: 20_000 })).rejects.toMatchObject({ code: 'deadline_exceeded', run: 1 })
    await told.pass()
  })

  it('a deadline ends a run whose tool never ends and ignores its signal', async () => {
    const { session } = short.play(here.pawl, { model: inOrder(forever), look: () => new Promise(() => undefined) })
    await expect((await session.send('go')).result({ timeout: 30_000 })).rejects.toMatchObject({ code: 'deadline_exceeded', run: 1 })
  })

  it('a deadline ends a run that makes one turn after another', async () => {
    const { session } = short.play(here.pawl, { model: () => forever })
    await expect((await session.send('go')).result({ timeout: 20_000 })).rejects.toMatchObject({ code: 'deadline_exceeded' })
  })

  it('a deadline ends a run that waits for its next attempt', async () => {
    const { session } = short.play(here.pawl, {
      model() {
        throw new ModelError('overloaded', 'come back later', { retryable: true, retryAfter: 600_000 })
      },
    })
    await expect((await session.send('go')).result({ timeout: 20_000 })).rejects.toMatchObject({ code: 'deadline_exceeded' })
  })

  it('a deadline applies to each run separately', async () => {
    const { session, requests } = short.play(here.pawl, {
      model: (request) => (saidIn(request).length === 1 ? new Promise<never>(() => undefined) : 'quick'),
    })
    await expect((await session.send('slow')).result({ timeout: 20_000 })).rejects.toMatchObject({ code: 'deadline_exceeded' })
    expect(await (await session.send('quick')).result({ timeout: 20_000 })).toMatchObject({ run: 2, text: 'quick' })
    expect(requests).toHaveLength(2)
  })
})

describe.concurrent('a model that fails', () => {
  it('a model that fails with an error that is not retryable ends the run at once, with its code', async () => {
    const { session, id } = player.play(here.pawl, {
      model() {
        throw new ModelError('invalid_request_error', 'no such model', { retryable: false, status: 400 })
      },
    })
    await expect((await session.send('go')).result({ timeout: 20_000 })).rejects.toMatchObject({
      code: 'invalid_request_error',
      reason: 'no such model',
    })
    const errors = await until('the errors are stored', async () => {
      const rows = await errorsOf(store, id)
      return rows.length === 2 && rows
    })
    expect(errors).toMatchObject([
      { context: 'model', run: 1, turn: 1, attempt: 1, class: 'ModelError', code: 'invalid_request_error', retryable: false },
      { context: 'run', run: 1, attempt: null, code: 'invalid_request_error' },
    ])
  })

  it('a model that fails for a while is retried; each failed attempt is a row in errors with its number', async () => {
    const { session, id, requests } = player.play(here.pawl, {
      model(_request, ctx) {
        // Two lines: what one line throws twice is a fault of the code.
        if (ctx.attempt === 1) throw new Error('the first failure')
        if (ctx.attempt === 2) throw new Error('another failure')
        return `attempt ${ctx.attempt}`
      },
    })
    expect(await (await session.send('go')).result({ timeout: 20_000 })).toMatchObject({ text: 'attempt 3' })
    expect(requests).toHaveLength(3)
    const errors = await until('the errors are stored', async () => {
      const rows = await errorsOf(store, id)
      return rows.length === 2 && rows
    })
    expect(errors).toMatchObject([
      { context: 'model', attempt: 1, message: 'the first failure', retryable: true, worker: expect.stringContaining(`:${process.pid}`) },
      { context: 'model', attempt: 2, message: 'another failure', retryable: true },
    ])
  })

  it('a model that fails until its retries are used up ends the run; every attempt is recorded', async () => {
    const { session } = player.play(here.pawl, {
      model() {
        throw Object.assign(new Error('the network is down'), { code: 'ECONNREFUSED' })
      },
    })
    await expect((await session.send('go')).result({ timeout: 20_000 })).rejects.toMatchObject({
      code: 'model_call_failed',
      reason: 'the network is down',
    })
    const attempts = ofType(await eventsOf(session), 'model_attempt_failed').map(({ error }) => [error.attempt, error.retryable])
    expect(attempts).toEqual([
      [1, true],
      [2, true],
      [3, false],
    ])
  })

  it('a model that fails and names a time to retry is not called any sooner', async () => {
    const at: number[] = []
    const { session } = player.play(here.pawl, {
      model() {
        at.push(Date.now())
        if (at.length === 1) throw new ModelError('rate_limit_error', 'slow down', { retryable: true, retryAfter: 2_000, status: 429 })
        return 'patience'
      },
    })
    expect(await (await session.send('go')).result({ timeout: 20_000 })).toMatchObject({ text: 'patience' })
    expect(at[1]! - at[0]!).toBeGreaterThanOrEqual(1_950)
    expect(ofType(await eventsOf(session), 'model_attempt_failed')).toMatchObject([
      { error: { code: 'rate_limit_error', nextDelayMs: 2_000 } },
    ])
  })

  // Values that no constructor of pawl lets through: the error comes from another copy of pawl, or was made by hand.
  it.each<[string, unknown]>([
    ['endless', Number.POSITIVE_INFINITY],
    ['not a number', Number.NaN],
    ['negative', -1e18],
    ['a text', 'soon'],
    ['longer than a lifetime', 1e18],
  ])('a model that fails and asks for a wait that is %s is called again after one that is not', async (_, retryAfter) => {
    const handmade = Object.assign(new Error('slow down'), {
      name: 'ModelError',
      code: 'rate_limit_error',
      retryable: true,
      retryAfterMs: retryAfter,
    })
    const { session } = hasty.play(here.pawl, {
      model(_request, { attempt }) {
        if (attempt === 1) throw handmade
        if (attempt === 2) throw new ModelError('rate_limit_error', 'slow down', { retryable: true, retryAfter: retryAfter as number })
        return 'there'
      },
    })
    expect(await (await session.send('go')).result({ timeout: 20_000 })).toMatchObject({ text: 'there' })
    const waits = ofType(await eventsOf(session), 'model_attempt_failed').map(({ error }) => error.nextDelayMs)
    expect(waits).toHaveLength(2)
    for (const wait of waits) expect(wait).toBeLessThanOrEqual(500)
  })

  it('a model that fails leaves a session that continues with the next message', async () => {
    const { session, requests } = player.play(here.pawl, {
      model(request) {
        if (saidIn(request).length === 1) throw new ModelError('bad', 'no', { retryable: false })
        return 'better'
      },
    })
    await (await session.send('one')).settled({ timeout: 20_000 })
    expect(await (await session.send('two')).result({ timeout: 20_000 })).toMatchObject({ run: 2, text: 'better' })
    expect(saidIn(requests.at(-1)!)).toEqual(['one', 'two'])
  })
})
