// Failure statistics from a real Postgres: error rates, repeated failures, the outcomes of recoveries, and time in error.
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { type Queries, queriesOf } from '../../src/client/queries/queries.ts'
import type { EventBody } from '../../src/session/events.ts'
import type { FailedAttempt } from '../../src/session/call-facts.ts'
import type { RecoveryStrategy } from '../../src/session/agent-facts.ts'
import type { FailureCause } from '../../src/store/sums.ts'
import { storeHealth } from '../../src/store/maintenance/health.ts'
import { openStore, type Store } from '../../src/store/index.ts'
import { codeOf } from '../support/codes.ts'
import { callIdOf } from '../../src/session/ids.ts'
import { answered, completed, EPOCH, failedAttempt, issued, logOf, received, started } from './store/sessions.ts'

const schema = `failures_${randomUUID().replaceAll('-', '').slice(0, 16)}`
const NOON = Date.UTC(2026, 10, 21, 12)
const MINUTE = 60_000
let store: Store
let queries: Queries

beforeAll(() => {
  store = openStore({ postgres: inject('stack').databaseUrl, schema })
  queries = queriesOf(store)
})
afterAll(async () => {
  await store?.close()
  const database = new pg.Client(inject('stack').databaseUrl)
  await database.connect()
  await database.query(`drop schema if exists ${schema} cascade`)
  await database.end()
})

/** Stores a session whose events are a minute apart. */
async function put(id: string, agent: string, bodies: EventBody[], at = NOON): Promise<void> {
  const all = [started({ sessionId: id, agent }), ...bodies]
  await store.flush(id, EPOCH, logOf(all.map((body, index) => ({ ...body, at: at + index * MINUTE }))))
}

const NOT_HEALED = { healedByItself: 0, healedByPerson: 0, rolledBack: 0, givenUp: 0, open: 0 }
const begun = (run: number): EventBody[] => [
  received(`u${run}`),
  { type: 'run_started', run, messageId: `u${run}` },
  { type: 'turn_started', run, turn: 1, takes: [`u${run}`] },
]
const done = (run: number): EventBody[] => [
  answered(run, 1, []),
  {
    type: 'run_completed',
    run,
    turns: 1,
    stopReason: 'end_turn',
    usage: { input_tokens: 0, output_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
  },
]
const failed = (run: number, code: string, strategy: RecoveryStrategy | 'automatic' = 'continue_run'): EventBody => ({
  type: 'error_entered',
  run,
  turn: 1,
  code,
  reason: 'It failed.',
  strategy,
})
const recovered = (run: number, strategy: RecoveryStrategy): EventBody[] => [
  { type: 'recovery_started', run, strategy, by: 'ann' },
  { type: 'recovery_ended', run, strategy },
]

/** Calls `between` before each read statement of the pool. */
function beforeReads(pool: pg.Pool, between: () => Promise<void>): void {
  pool.on('connect', (client) => {
    const query = client.query.bind(client) as (statement: { text: string }) => Promise<unknown>
    const reading = async (statement: { text: string }): Promise<unknown> => {
      if (/^(with|select)/.test(statement.text)) await between()
      return query(statement)
    }
    client.query = reading as typeof client.query
  })
}

describe('failures', () => {
  it('failures are reported per agent: runs, runs that failed or were only held up, and failed attempts', async () => {
    await put('fine', 'one', [...begun(1), ...done(1), ...begun(2), ...done(2)])
    await put('fails', 'one', [
      ...begun(1),
      { type: 'model_attempt_failed', run: 1, turn: 1, error: failedAttempt(1) },
      failed(1, 'broken'),
    ])
    await put('held', 'one', [...begun(1), failed(1, 'agent_not_served', 'automatic')])
    await put('stumbles', 'two', [...begun(1), { type: 'model_attempt_failed', run: 1, turn: 1, error: failedAttempt(1) }])
    const { agents } = await queries.failures({ since: NOON })
    expect(agents).toEqual([
      { agent: 'one', runs: 4, failed: 1, ...NOT_HEALED, open: 1, heldUp: 1, failedAttempts: 1 },
      // No model has answered its run yet.
      { agent: 'two', runs: 0, failed: 0, ...NOT_HEALED, heldUp: 0, failedAttempts: 1 },
    ])
    expect((await queries.failures({ since: NOON, until: NOON + 1 })).agents).toEqual([])
  })

  it('failed runs are counted by whether they recovered automatically, a person recovered them, or neither', async () => {
    const byPolicy: EventBody[] = [
      { type: 'recovery_started', run: 1, strategy: 'continue_run', automatic: true },
      { type: 'recovery_ended', run: 1, strategy: 'continue_run' },
    ]
    await put('h1', 'healer', [...begun(1), failed(1, 'broken'), ...byPolicy, failed(1, 'broken'), ...byPolicy, ...done(1)])
    await put('h2', 'healer', [
      ...begun(1),
      failed(1, 'broken'),
      ...byPolicy,
      failed(1, 'limit'),
      ...recovered(1, 'continue_run'),
      ...done(1),
    ])
    await put('h3', 'healer', [...begun(1), failed(1, 'broken'), ...recovered(1, 'abandon')])
    await put('h4', 'healer', [...begun(1), failed(1, 'broken'), ...byPolicy, failed(1, 'broken')])
    // Its restarted run is run 2, and both failed and healed together.
    const restarted: EventBody[] = [
      { type: 'recovery_started', run: 1, strategy: 'restart_run', automatic: true },
      { type: 'recovery_ended', run: 1, strategy: 'restart_run' },
      { type: 'run_started', run: 2, messageId: 'u1' },
      { type: 'turn_started', run: 2, turn: 1, takes: ['u1'] },
    ]
    const again: EventBody[] = [
      failed(2, 'broken'),
      { type: 'recovery_started', run: 2, strategy: 'continue_run', automatic: true },
      { type: 'recovery_ended', run: 2, strategy: 'continue_run' },
    ]
    await put('h5', 'healer', [...begun(1), failed(1, 'broken'), ...restarted, ...again, ...done(2)])
    await put('h6', 'healer', [...begun(1), failed(1, 'broken'), ...begun(2), ...done(2)])
    await put('h7', 'healer', [...begun(1), failed(1, 'broken'), { type: 'run_interrupted', run: 1 }])
    const report = await queries.failures({ since: NOON, agent: 'healer' })
    expect(report.agents).toEqual([
      {
        agent: 'healer',
        runs: 9,
        failed: 8,
        ...NOT_HEALED,
        healedByItself: 3,
        healedByPerson: 2,
        givenUp: 2,
        open: 1,
        heldUp: 0,
        failedAttempts: 0,
      },
    ])
    expect(report.causes).toEqual([
      {
        agent: 'healer',
        what: 'run',
        tool: null,
        code: 'broken',
        errors: 10,
        failures: 7,
        ...NOT_HEALED,
        healedByItself: 2,
        healedByPerson: 2,
        givenUp: 2,
        open: 1,
        newest: expect.any(Date),
      },
      expect.objectContaining({ what: 'run', code: 'limit', failures: 1, healedByPerson: 1 }),
    ])
    const errors = (await queries.errors({ session: 'h2' })).items
    expect(errors.map(({ code, turn, endedBy, outcome }) => [code, turn, endedBy, outcome])).toEqual([
      ['limit', 1, 'person', 'completed'],
      ['broken', 1, 'itself', 'failed'],
    ])
    expect(errors[1]?.endedAt).toEqual(new Date((errors[1]?.at.getTime() ?? 0) + 2 * MINUTE))
  })

  it('failures that a person rolled back, or whose answer was regenerated, do not count as given up', async () => {
    // Events of a session begin with 1 session_started, 2 message_received, 3 run_started, 4 turn_started.
    const back: EventBody = { type: 'rolled_back', toSeq: 1, upToSeq: 1_000, effects: [] }
    const again: EventBody = { ...back, toSeq: 2, upToSeq: 0, again: { messages: [{ messageId: 'u1', seq: 2 }], intent: 1 } }
    const stopped: EventBody = { type: 'run_interrupted', run: 1, reason: 'regenerated' }
    const anew: EventBody[] = [
      { type: 'run_started', run: 2, messageId: 'u1' },
      { type: 'turn_started', run: 2, turn: 1, takes: ['u1'] },
    ]
    const slow: EventBody = { type: 'model_attempt_failed', run: 1, turn: 1, error: failedAttempt(1) }
    const declined: EventBody = {
      type: 'tool_attempt_failed',
      run: 1,
      turn: 1,
      callId: callIdOf(1, 1, 0),
      tool: 'refund',
      error: { ...failedAttempt(1), code: 'ECONNRESET' },
    }
    await put('b1', 'back', [...begun(1), failed(1, 'broken'), back])
    await put('b2', 'back', [...begun(1), failed(1, 'broken'), again, ...anew, ...done(2)])
    // An error that ends by itself, and a recovered run: both are in progress, so the request interrupts them first.
    await put('b3', 'back', [...begun(1), failed(1, 'broken'), ...recovered(1, 'continue_run'), stopped, again, ...anew, ...done(2)])
    await put('b4', 'back', [...begun(1), slow, stopped, again, ...anew, ...done(2)])
    await put('b5', 'back', [...begun(1), answered(1, 1, [1]), issued(1, 1, 0), declined, stopped, again, ...anew, ...done(2)])
    // What remains after a rollback was given up, even so.
    await put('b6', 'back', [...begun(1), failed(1, 'broken'), stopped, ...begun(2), ...done(2), { ...back, toSeq: 8 }])
    const { agents, causes } = await queries.failures({ since: NOON, agent: 'back' })
    expect(agents).toEqual([{ agent: 'back', runs: 10, failed: 4, ...NOT_HEALED, rolledBack: 3, givenUp: 1, heldUp: 0, failedAttempts: 2 }])
    const counts = causes.map(({ what, code, failures, rolledBack, givenUp }) => ({ what, code, failures, rolledBack, givenUp }))
    expect(counts).toEqual([
      { what: 'run', code: 'broken', failures: 4, rolledBack: 3, givenUp: 1 },
      { what: 'model', code: 'overloaded_error', failures: 1, rolledBack: 1, givenUp: 0 },
      { what: 'tool', code: 'ECONNRESET', failures: 1, rolledBack: 1, givenUp: 0 },
    ])
  })

  it('failures are the same however the events are split into flushes', async () => {
    const log = logOf([
      started({ sessionId: 'split', agent: 'splitter' }),
      ...begun(1),
      failed(1, 'broken'),
      { type: 'recovery_started', run: 1, strategy: 'continue_run', automatic: true },
      { type: 'recovery_ended', run: 1, strategy: 'continue_run' },
      failed(1, 'broken'),
      ...recovered(1, 'continue_run'),
      ...done(1),
      ...begun(2),
      failed(2, 'broken'),
      { type: 'session_closed', reason: 'requested' },
    ])
    for (const entry of log) await store.flush('split', EPOCH, [entry])
    await store.flush('whole', EPOCH, log)
    const [split, whole] = await Promise.all(['split', 'whole'].map(async (session) => (await queries.errors({ session })).items))
    expect(split?.map(({ endedBy, outcome }) => [endedBy, outcome])).toEqual([
      ['person', 'closed'],
      ['person', 'completed'],
      ['itself', 'failed'],
    ])
    const inSplit = (one: unknown) => ({ ...(one as object), sessionId: 'split' })
    expect(whole?.map(inSplit)).toEqual(split)
  })

  it('failures of tools and models are reported by tool and code, with the outcome of each call', async () => {
    const attempt = (turn: number, index: number, code: string): EventBody => ({
      type: 'tool_attempt_failed',
      run: 1,
      turn,
      callId: callIdOf(1, turn, index),
      tool: 'refund',
      error: { ...failedAttempt(1), code },
    })
    const streamed: EventBody = {
      type: 'model_attempt_failed',
      run: 1,
      turn: 1,
      error: { ...failedAttempt(1), phase: 'stream' },
    }
    const toolFailed: EventBody = {
      type: 'tool_failed',
      run: 1,
      turn: 1,
      callId: callIdOf(1, 1, 1),
      tool: 'refund',
      attempt: 1,
      code: 'declined',
      message: 'No.',
    }
    await put('tools', 'worker', [
      ...begun(1),
      streamed,
      answered(1, 1, [1, 2, 3]),
      issued(1, 1, 0),
      attempt(1, 0, 'ECONNRESET'),
      attempt(1, 0, 'ECONNRESET'),
      completed(1, 1, 0),
      issued(1, 1, 1),
      toolFailed,
      issued(1, 1, 2),
      attempt(1, 2, 'ECONNRESET'),
    ])
    const { causes } = await queries.failures({ since: NOON, agent: 'worker' })
    const none = { ...NOT_HEALED, newest: expect.any(Date) }
    expect(causes).toEqual([
      { agent: 'worker', what: 'tool', tool: 'refund', code: 'ECONNRESET', errors: 3, failures: 2, ...none, healedByItself: 1, open: 1 },
      { agent: 'worker', what: 'tool', tool: 'refund', code: 'declined', errors: 0, failures: 1, ...none, givenUp: 1 },
      { agent: 'worker', what: 'model', tool: null, code: 'overloaded_error', errors: 1, failures: 1, ...none, healedByItself: 1 },
    ])
    expect((await queries.errors({ session: 'tools', context: 'model' })).items).toMatchObject([{ phase: 'stream', turn: 1 }])
  })

  it('failures add up to the rows of errors that they summarise', async () => {
    const { items } = await queries.errors({ since: NOON, limit: 1_000 })
    const report = await queries.failures({ since: NOON })
    const sum = (what: (cause: FailureCause) => boolean): number =>
      report.causes.filter(what).reduce((total, { errors }) => total + errors, 0)
    for (const { agent, failedAttempts } of report.agents) {
      const rows = items.filter((row) => row.agent === agent)
      expect(failedAttempts).toBe(rows.filter(({ attempt }) => attempt !== null).length)
      expect(sum((cause) => cause.agent === agent && cause.what !== 'run')).toBe(failedAttempts)
      expect(sum((cause) => cause.agent === agent && cause.what === 'run')).toBe(rows.filter(({ context }) => context === 'run').length)
    }
    expect(report.agents.length).toBeGreaterThan(3)
  })

  it('failures of a model do not include deaths of the worker that asked it, which count against a tool', async () => {
    const died = { ...failedAttempt(1), class: 'WorkerDied', code: 'crash', message: 'Executor host:1 died.' }
    const frozen = { ...died, attempt: 2, class: 'HeartbeatTimeout' }
    const ofModel = (error: FailedAttempt): EventBody => ({
      type: 'model_attempt_failed',
      run: 1,
      turn: 1,
      error: { ...error, model: 'm' },
    })
    const ofTool: EventBody = {
      type: 'tool_attempt_failed',
      run: 1,
      turn: 1,
      callId: callIdOf(1, 1, 0),
      tool: 'deadly',
      error: died,
    }
    const asked = [...begun(1), ofModel(died), ofModel(frozen)]
    await put('deaths', 'mortal', [...asked, answered(1, 1, [1]), issued(1, 1, 0), ofTool], Date.now() - 20 * MINUTE)
    const refused = { ...failedAttempt(1), code: 'refused_by_provider' }
    await put('refusal', 'refused', [...begun(1), ofModel(refused)], Date.now() - 20 * MINUTE)
    const health = storeHealth(inject('stack').databaseUrl, { schema })
    try {
      const steps = (await health.failing()).map(({ context, agent, failed }) => [context, agent, failed])
      expect(steps).toContainEqual(['tool:deadly', null, 1])
      expect(steps).toContainEqual(['model', 'refused', 1])
      expect(steps.filter(([, agent]) => agent === 'mortal')).toEqual([])
    } finally {
      await health.close()
    }
  })

  it('failures that repeat are reported per session and code', async () => {
    const again = [failed(1, 'broken'), ...recovered(1, 'continue_run'), failed(1, 'broken'), ...begun(2), failed(2, 'broken')]
    await put('again', 'stubborn', [...begun(1), ...again])
    await put('once', 'stubborn', [...begun(1), failed(1, 'broken'), ...recovered(1, 'continue_run'), failed(1, 'other')])
    expect((await queries.failures({ since: NOON, agent: 'stubborn' })).repeated).toEqual([
      {
        sessionId: 'again',
        agent: 'stubborn',
        code: 'broken',
        times: 3,
        runs: 2,
        first: new Date(NOON + 4 * MINUTE),
        newest: new Date(NOON + 11 * MINUTE),
      },
    ])
  })

  it('failures are reported with the outcomes of their recoveries', async () => {
    await put('r1', 'patient', [...begun(1), failed(1, 'x'), ...recovered(1, 'continue_run'), ...done(1)])
    await put('r2', 'patient', [...begun(1), failed(1, 'x'), ...recovered(1, 'continue_run'), failed(1, 'x'), ...recovered(1, 'abandon')])
    await put('r3', 'patient', [...begun(1), failed(1, 'x'), ...recovered(1, 'restart_run'), ...begun(2).slice(1)])
    const byPolicy: EventBody = { type: 'recovery_started', run: 1, strategy: 'continue_run', automatic: true }
    await put('r4', 'patient', [
      ...begun(1),
      failed(1, 'x'),
      byPolicy,
      { type: 'recovery_ended', run: 1, strategy: 'continue_run' },
      ...done(1),
    ])
    const refused: EventBody = {
      type: 'recovery_refused',
      run: 1,
      strategy: 'restart_run',
      code: 'outcome_unknown',
      message: 'no',
      by: 'ann',
    }
    await put('r5', 'patient', [...begun(1), failed(1, 'x'), refused])
    const none = { completed: 0, failed: 0, unfinished: 0, refused: 0 }
    const manual = { agent: 'patient', automatic: false, ...none }
    expect((await queries.failures({ since: NOON, agent: 'patient' })).recoveries).toEqual([
      { ...manual, strategy: 'continue_run', recoveries: 2, completed: 1, failed: 1 },
      { ...manual, strategy: 'abandon', recoveries: 1 },
      { ...manual, automatic: true, strategy: 'continue_run', recoveries: 1, completed: 1 },
      { ...manual, strategy: 'restart_run', recoveries: 1, unfinished: 1, refused: 1 },
    ])
  })

  it('failures are reported with the time that sessions spent in error, and with how many are still in error', async () => {
    await put('t1', 'slow', [...begun(1), failed(1, 'x'), ...recovered(1, 'continue_run')])
    // A message takes the session out of the error two minutes later.
    await put('t2', 'slow', [...begun(1), failed(1, 'x'), received('u2'), ...begun(2).slice(1)])
    const until = Date.now() - 10 * MINUTE
    await put('t3', 'slow', [...begun(1), failed(1, 'x')], until)
    await put('t4', 'slow', [
      ...begun(1),
      failed(1, 'agent_not_served', 'automatic'),
      { type: 'recovery_ended', run: 1, strategy: 'automatic' },
    ])
    const { timeInError } = await queries.failures({ since: NOON, agent: 'slow' })
    expect(timeInError).toEqual([
      { agent: 'slow', code: 'x', times: 3, open: 1, totalMs: expect.any(Number), medianMs: 2 * MINUTE, longestMs: expect.any(Number) },
      { agent: 'slow', code: 'agent_not_served', times: 1, open: 0, totalMs: MINUTE, medianMs: MINUTE, longestMs: MINUTE },
    ])
    // The session entered the error four minutes after it began.
    expect(timeInError[0]?.longestMs).toBeGreaterThanOrEqual(6 * MINUTE)
    expect(timeInError[0]?.totalMs).toBe((timeInError[0]?.longestMs ?? 0) + 4 * MINUTE)
  })

  it('failures cover the last day by default, and a misspelt option is refused', async () => {
    expect((await queries.failures()).since.getTime()).toBeGreaterThan(Date.now() - 86_400_000 - MINUTE)
    expect(await codeOf(queries.failures({ agnet: 'x' } as never))).toBe('invalid_option')
  })

  it('failures come from one snapshot, however many sessions fail while they are counted', async () => {
    let sessions = 0
    const fail = (): Promise<void> => put(`more_${++sessions}`, 'more', [...begun(1), failed(1, 'broken')])
    await fail()
    const pool = new pg.Pool({ connectionString: inject('stack').databaseUrl })
    beforeReads(pool, fail)
    const busy = openStore({ postgres: pool, schema })
    try {
      const { agents, timeInError } = await queriesOf(busy).failures({ since: NOON, agent: 'more' })
      const [counted] = agents
      expect(timeInError).toMatchObject([{ agent: 'more', code: 'broken', times: counted?.failed }])
      expect(sessions).toBeGreaterThan(4)
    } finally {
      await busy.close()
      await pool.end()
    }
  })
})
