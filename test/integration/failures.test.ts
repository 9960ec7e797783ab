// Failure statistics from a real Postgres: error rates, repeated failures, the outcomes of recoveries, and time in error.
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { type Queries, queriesOf } from '../../src/client/queries/queries.ts'
import type { EventBody, RecoveryStrategy } from '../../src/session/events.ts'
import { openStore, type Store } from '../../src/store/index.ts'
import { codeOf } from '../support/codes.ts'
import { answered, EPOCH, failedAttempt, logOf, received, started } from './store/sessions.ts'

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
  it('are reported per agent: runs, runs that failed or were only held up, and failed attempts', async () => {
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
      { agent: 'one', runs: 4, failed: 1, heldUp: 1, failedAttempts: 1 },
      // No model has answered its run yet.
      { agent: 'two', runs: 0, failed: 0, heldUp: 0, failedAttempts: 1 },
    ])
    expect((await queries.failures({ since: NOON, until: NOON + 1 })).agents).toEqual([])
  })

  it('that repeat are reported per session and code', async () => {
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

  it('are reported with the outcomes of their recoveries', async () => {
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

  it('are reported with the time that sessions spent in error, and with how many are still in error', async () => {
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

  it('cover the last day by default, and a misspelt option is refused', async () => {
    expect((await queries.failures()).since.getTime()).toBeGreaterThan(Date.now() - 86_400_000 - MINUTE)
    expect(await codeOf(queries.failures({ agnet: 'x' } as never))).toBe('invalid_option')
  })

  it('come from one snapshot, however many sessions fail while they are counted', async () => {
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
