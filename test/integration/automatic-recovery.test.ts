// How a session recovers from an error without a person, and what is recorded of that: attempts, refusals, outcomes.
import { ModelError } from 'pawl'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { foldedState } from '../support/folded.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { inOrder, saidIn, type Scene, type Stage, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

let here: Deployment
let player: Stage
let patient: Stage
let insistent: Stage

beforeAll(async () => {
  here = await deploy()
  const retry = { maxRetries: 0 }
  player = stage({ name: 'player', retry, recovery: { baseDelay: 20, maxDelay: 50 } })
  // Longer than anything that a test does in the meantime.
  patient = stage({ name: 'patient', retry, recovery: { baseDelay: '1h', maxDelay: '1h' } })
  insistent = stage({ name: 'insistent', retry: { maxRetries: 3, baseDelay: 10 }, recovery: { baseDelay: 20, maxDelay: 50 } })
  await here.startWorker({ agents: [player.agent, patient.agent, insistent.agent] })
})
afterAll(() => here?.stop())

async function inPostgres(sql: string): Promise<object[]> {
  const client = new pg.Client(here.stack.databaseUrl)
  await client.connect()
  try {
    return (await client.query<object>(sql)).rows
  } finally {
    await client.end()
  }
}

const overloaded = (): never => {
  throw new ModelError('overloaded_error', 'the provider is overloaded', { retryable: true })
}

/** A model whose provider is overloaded until `isBack`. */
function overloadedUntil(isBack: (calls: number) => boolean): Scene {
  let calls = 0
  return { model: (request) => (isBack(++calls) ? `back: ${saidIn(request).join(', ')}` : overloaded()) }
}

describe('a run whose provider is overloaded for longer than the retries last', () => {
  it('a run continues automatically when an overloaded provider is back, and each attempt is recorded with its outcome', async () => {
    const { session, id } = player.play(
      here.pawl,
      overloadedUntil((calls) => calls > 3),
    )
    const run = await session.send('go')
    expect(await run.result({ timeout: 20_000 })).toMatchObject({ run: 1, text: 'back: go' })
    const events = await eventsOf(session)
    expect(ofType(events, 'model_attempt_failed').map(({ error }) => error.attempt)).toEqual([1, 2, 3])
    expect(ofType(events, 'recovery_started')).toMatchObject([
      { strategy: 'continue_run', automatic: true, reason: 'automatic recovery 1 of at most 10 after overloaded_error' },
      { strategy: 'continue_run', automatic: true },
      { strategy: 'continue_run', automatic: true },
    ])
    const { rows } = await rowsMatchEvents(here.stack, id)
    expect(rows.recoveries).toMatchObject([
      { outcome: 'failed', outcome_code: 'overloaded_error', details: { automatic: true, code: 'overloaded_error' } },
      { outcome: 'failed' },
      { outcome: 'completed', outcome_code: null },
    ])
  })

  it('a run whose provider is overloaded is listed as stuck in the overview until the model answers', async () => {
    const [attempt, step] = [gate(), gate()]
    let calls = 0
    const { session, id } = player.play(here.pawl, {
      async model() {
        calls += 1
        if (calls === 1) return overloaded()
        if (calls > 2) return 'done'
        await attempt.pass()
        return [use('look', 'it')]
      },
      look: (_, { signal }) => step.pass(signal),
    })
    const needs = async () => (await here.pawl.overview({ idPrefix: id })).needs
    const run = await session.send('go')
    await attempt.reached
    await until('the attempt is stored', async () => (await here.pawl.sessions.get(id)).status === 'running')
    expect(await needs()).toMatchObject({ automatic: 1, nothing: 0 })
    attempt.open()
    await step.reached
    await until('the answer is stored', async () => (await needs()).nothing === 1)
    step.open()
    await run.result({ timeout: 20_000 })
  })

  it('a run whose provider is overloaded keeps its limits and policy even though no model call has succeeded', async () => {
    const { session, id } = patient.play(
      here.pawl,
      overloadedUntil(() => false),
    )
    await session.send('go')
    const state = await until('it is in error', async () => {
      const now = await session.state()
      return now.status === 'error' ? now : undefined
    })
    const { facts, current } = await foldedState(session)
    expect(facts).toMatchObject({ limits: { maxTurns: 50 }, recovery: { automatic: ['continue_run'], baseDelayMs: 3_600_000 } })
    expect(current?.limits).toEqual({ maxTurns: 50 })
    const error = { code: 'overloaded_error', strategy: 'continue_run', attempts: 1, progress: { completed: [], unknown: [] } }
    expect(state.error).toMatchObject({ ...error, nextAttemptAt: expect.any(Number) })
    const waitMs = (state.error?.nextAttemptAt ?? 0) - (state.error?.at ?? 0)
    expect(waitMs).toBeGreaterThan(2_000_000)
    const { rows } = await rowsMatchEvents(here.stack, id)
    expect(rows.sessions[0]?.error).toMatchObject(error)
    const found = await inPostgres(`select error_code, error_strategy, next_attempt_at from pawl.sessions where session_id = '${id}'`)
    const next = new Date(state.error?.nextAttemptAt ?? 0)
    expect(found).toEqual([{ error_code: 'overloaded_error', error_strategy: 'continue_run', next_attempt_at: next }])
  })

  it('a new message immediately retries a run whose provider is overloaded, long before the next attempt is due', async () => {
    const { session, id } = patient.play(
      here.pawl,
      overloadedUntil((calls) => calls > 2),
    )
    const first = await session.send('one')
    const inError = async (attempt: number) =>
      until(`attempt ${attempt} has failed`, async () => {
        const { status, recovered } = await foldedState(session)
        return status === 'error' && (recovered?.inARow ?? 0) === attempt - 1
      })
    await inError(1)
    const second = await session.send('two')
    await inError(2)
    const third = await session.send('three')
    const answer = { run: 1, text: 'back: one, two, three' }
    for (const run of [first, second, third]) expect(await run.result({ timeout: 20_000 })).toMatchObject(answer)
    await rowsMatchEvents(here.stack, id)
  })

  it('a run whose provider is overloaded can be interrupted while it waits for the next attempt', async () => {
    const { session, id } = patient.play(
      here.pawl,
      overloadedUntil(() => false),
    )
    const run = await session.send('go')
    await until('it is in error', async () => (await session.state()).status === 'error')
    await session.interrupt({ by: 'ann' })
    expect(await run.settled({ timeout: 20_000 })).toMatchObject({ status: 'interrupted' })
    expect(await session.state()).toMatchObject({ status: 'idle', error: null })
    await rowsMatchEvents(here.stack, id)
  })

  it('a run’s next recovery attempt happens under another worker if its own was stopped', async () => {
    const alone = await deploy()
    try {
      let isBack = false
      const actor = stage({ name: 'actor', retry: { maxRetries: 0 }, recovery: { baseDelay: '3s' } })
      const first = await alone.startWorker({ agents: [actor.agent] })
      const { session } = actor.play(
        alone.pawl,
        overloadedUntil(() => isBack),
      )
      const run = await session.send('go')
      await until('it is in error', async () => (await session.state()).status === 'error')
      await first.stop()
      isBack = true
      await alone.startWorker({ agents: [actor.agent] })
      expect(await run.result({ timeout: 30_000 })).toMatchObject({ run: 1, text: 'back: go' })
    } finally {
      await alone.stop()
    }
  })
})

describe('a run that needs a person', () => {
  it('a run that needs a person is followed by a new run for the next message, and the audit records its outcome', async () => {
    let isFixed = false
    const { session, id } = player.play(here.pawl, {
      model: () => {
        if (isFixed) return 'fine'
        throw new ModelError('broken', 'it is broken', { retryable: false })
      },
    })
    const run = await session.send('go')
    expect(await run.settled({ timeout: 20_000 })).toMatchObject({ status: 'failed', code: 'broken' })
    isFixed = true
    const next = await session.send('again', { messageId: 'm2' })
    expect(await next.result({ timeout: 20_000 })).toMatchObject({ run: 2 })
    const { rows } = await rowsMatchEvents(here.stack, id)
    expect(rows.recoveries).toMatchObject([
      { kind: 'run_started', run: 2, outcome: 'completed', details: { code: 'broken', messageId: 'm2' } },
    ])
  })

  it('each refused recovery of a run has a row that says who requested it', async () => {
    const { session, id } = player.play(here.pawl, {
      model: inOrder([use('look', 'around')], () => {
        throw new ModelError('broken', 'it is broken', { retryable: false })
      }),
    })
    const run = await session.send('go')
    await run.settled({ timeout: 20_000 })
    const request = { strategy: 'restart_from_last_effect', by: 'ann', reason: 'it looked right' } as const
    await expect(session.recover(request)).rejects.toMatchObject({ code: 'no_effect' })
    await until('the refusal is stored, while the session stays in error', async () => {
      const rows = await inPostgres(`select from pawl.recoveries where session_id = '${id}' and kind = 'recovery_refused'`)
      return rows.length === 1
    })
    await session.recover({ strategy: 'abandon', by: 'bob' })
    await expect(session.recover({ strategy: 'abandon', by: 'eve' })).rejects.toMatchObject({ code: 'not_in_error' })
    const { rows } = await rowsMatchEvents(here.stack, id)
    expect(rows.recoveries).toMatchObject([
      {
        kind: 'recovery_refused',
        by: 'ann',
        note: 'it looked right',
        strategy: 'restart_from_last_effect',
        details: { code: 'no_effect' },
      },
      { kind: 'recovery_started', by: 'bob', strategy: 'abandon', outcome: 'abandoned' },
    ])
  })
})

describe('a run whose model call fails in a way that the error does not explain', () => {
  /** The id of a request, of letters only. */
  const anyId = (): string => Array.from({ length: 12 }, () => String.fromCharCode(97 + Math.random() * 26)).join('')
  const broken = (): never => {
    throw new TypeError(`Cannot read properties of undefined (reading 'usage') in request ${anyId()}`)
  }
  const isFault = {
    code: 'model_call_failed',
    reason: expect.stringMatching(/^The same unexpected error twice in a row: .*reading 'usage'/),
  }

  it('after the same unexplained error twice, a run waits for a person instead of for an outage to end', async () => {
    const { session } = insistent.play(here.pawl, { model: broken })
    const failure = await (await session.send('go')).settled({ timeout: 20_000 })
    expect(failure).toMatchObject({ status: 'failed', ...isFault })
    expect(ofType(await eventsOf(session), 'model_attempt_failed')).toHaveLength(2)
    const { error } = await session.status()
    expect(error).toMatchObject(isFault)
    expect(error?.nextAttemptAt).toBeUndefined()
  })

  it('a run with an unexplained error answers the next message while it waits for an attempt', async () => {
    let calls = 0
    const { session } = patient.play(here.pawl, { model: (request) => (++calls > 1 ? `heard ${saidIn(request).join(', ')}` : broken()) })
    const first = await session.send('one')
    await until('it is in error', async () => (await session.state()).error?.nextAttemptAt !== undefined)
    const second = await session.send('two')
    for (const run of [first, second]) expect(await run.result({ timeout: 20_000 })).toMatchObject({ text: 'heard one, two' })
  })

  it('the limit on unexplained errors includes the error of the attempt before an automatic recovery', async () => {
    const { session } = player.play(here.pawl, { model: broken })
    expect(await (await session.send('go')).settled({ timeout: 20_000 })).toMatchObject({ status: 'failed', ...isFault })
    expect(ofType(await eventsOf(session), 'recovery_started')).toHaveLength(1)
  })

  it('a run with an unexplained error is continued like any outage if a lost connection caused it', async () => {
    let calls = 0
    const refused = (): never => {
      throw new TypeError('fetch failed', { cause: Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }) })
    }
    const { session } = insistent.play(here.pawl, { model: () => (++calls > 5 ? 'back' : refused()) })
    expect(await (await session.send('go')).result({ timeout: 20_000 })).toMatchObject({ text: 'back' })
  })
})
