// Budgets of runs and sessions: what is reserved, what is counted, and how a session continues once its limit is raised.
import { tmpdir } from 'node:os'
import { defineHook, ModelError } from 'pawl'
import { RequestRefusedError, type RunHandle } from 'pawl/client'
import { scripted } from 'pawl/testing'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { inOrder, saidIn, type Stage, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'
import { runPawl, withoutWaits } from './cli/processes.ts'

/** A ten-thousandth of a dollar per output token; input costs nothing. */
const PRICE = { input: 0, output: 100 }
const MOST = 4_000
const OF_MODEL = { price: PRICE, maxTokens: MOST }
const TIMEOUT = { timeout: 20_000 }

let here: Deployment
let dollars: Stage
let tokens: Stage
let sessions: Stage
let fallback: Stage
let chooser: Stage
let reporting: Stage
let pool: pg.Pool

const NO_RECOVERY = { recovery: { automatic: [] } } as const

beforeAll(async () => {
  here = await deploy()
  dollars = stage({ name: 'dollars', limits: { maxUsd: 1 }, ...NO_RECOVERY }, OF_MODEL)
  tokens = stage({ name: 'tokens', limits: { maxTotalTokens: 12_000 }, ...NO_RECOVERY }, { maxTokens: MOST })
  sessions = stage({ name: 'sessions', sessionLimits: { maxUsd: 1 }, ...NO_RECOVERY }, OF_MODEL)
  const spare = { ...scripted(() => using(1_000, 'from the spare')), name: 'spare', price: { input: 0, output: 10 }, maxTokens: MOST }
  fallback = stage({ name: 'falls-back', limits: { maxUsd: 1 }, fallback: spare, ...NO_RECOVERY }, OF_MODEL)
  reporting = stage(
    {
      name: 'reporting',
      limits: { maxUsd: 1 },
      ...NO_RECOVERY,
      hooks: [defineHook({ on: 'turnStart', name: 'scorer', run: (_input, ctx) => ctx.spend({ usd: 0.02, note: 'a score' }) })],
    },
    OF_MODEL,
  )
  chooser = stage({ name: 'chooser', limits: { maxUsd: 1 }, fallback: () => scripted(() => 'free of charge?'), ...NO_RECOVERY }, OF_MODEL)
  pool = new pg.Pool({ connectionString: here.stack.databaseUrl })
  await here.startWorker({ agents: [dollars, tokens, sessions, fallback, chooser, reporting].map(({ agent }) => agent) })
})
afterAll(async () => {
  await pool?.end()
  await here?.stop()
})

const usageOf = (output: number) => ({
  input_tokens: 0,
  output_tokens: output,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
})
const using = (output: number, text: string) => ({ content: [{ type: 'text' as const, text }], usage: usageOf(output) })
const lookUsing = (output: number) => ({ content: [use('look', 'around')], usage: usageOf(output) })

/** The result of a run that was continued: at first its handle may still report the failure. */
const completed = (run: RunHandle) => run.result({ timeout: 20_000 })

/** A run that ends because its budget is exhausted. */
const exhausted = { status: 'failed', code: 'budget_exhausted', strategy: 'manual' }

describe.concurrent('a budget in US dollars', () => {
  it('a budget in US dollars lowers max_tokens, refuses a call with too little left, and continues once raised', async () => {
    const { session, requests } = dollars.play(here.pawl, {
      model: inOrder(lookUsing(3_500), lookUsing(3_500), lookUsing(2_400), using(10, 'done')),
    })
    const run = await session.send('go')
    expect(await run.settled(TIMEOUT)).toMatchObject(exhausted)
    // 10,000 tokens in total: 3,000 are left after 7,000, and too few after 9,400.
    expect(requests.map(({ maxTokens }) => maxTokens)).toEqual([undefined, undefined, 3_000])
    const state = await session.state()
    expect(state).toMatchObject({
      status: 'error',
      spend: { tokens: 9_400, usd: 0.94 },
      current: { run: 1, turn: 4, spend: { usd: 0.94 } },
    })
    expect(state.error?.reason).toBe(
      'The budget of the run is exhausted: 0.94 USD of 1 USD are spent (limits.maxUsd); the next model call needs 0.1024 USD, and 0.06 USD are left. ' +
        'Raise it: session.raise({"scope":"run","maxUsd":2}).',
    )
    expect(state.error?.raise).toEqual([{ scope: 'run', maxUsd: 2 }])
    // Another attempt without a higher limit would fail again.
    await expect(session.recover()).rejects.toMatchObject({
      code: 'choose_strategy',
      message: `No strategy is a good default after budget_exhausted: raise the budget (\`pawl raise ${session.id} --scope run --max-usd 2\`), and the run continues, or abandon it.`,
    })
    expect(await session.raise({ maxUsd: 1.5, by: 'ann', reason: 'a large order' })).toEqual({ already: false })
    expect(await completed(run)).toMatchObject({ run: 1, text: 'done' })
    expect(requests.map(({ turn }) => turn)).toEqual([1, 2, 3, 4])
    const events = await eventsOf(session)
    expect(ofType(events, 'budget_raised')).toMatchObject([{ scope: 'run', run: 1, maxUsd: 1.5, by: 'ann', reason: 'a large order' }])
    expect(ofType(events, 'recovery_started')).toMatchObject([{ strategy: 'continue_run', by: 'ann' }])
  })

  it('a budget in US dollars causes one warning, when four fifths are spent', async () => {
    const { session } = dollars.play(here.pawl, { model: inOrder(lookUsing(4_000), lookUsing(4_000), lookUsing(500), using(10, 'done')) })
    expect(await (await session.send('go')).result(TIMEOUT)).toMatchObject({ text: 'done' })
    expect(ofType(await eventsOf(session), 'budget_warning')).toMatchObject([{ scope: 'run', unit: 'usd', run: 1, limit: 1, spent: 0.8 }])
  })

  it('a budget in US dollars starts again for the next run; a call that the provider refuses costs nothing', async () => {
    const { session } = dollars.play(here.pawl, {
      model(request) {
        if (saidIn(request).at(-1) === 'more') return using(100, 'cheap')
        throw new ModelError('bad_request', 'no', { retryable: false, status: 400 })
      },
    })
    expect(await (await session.send('go')).settled(TIMEOUT)).toMatchObject({ code: 'bad_request' })
    expect((await session.state()).spend).toBeUndefined()
    expect(await (await session.send('more')).result(TIMEOUT)).toMatchObject({ run: 2, text: 'cheap' })
    expect((await session.state()).spend).toEqual({ tokens: 100, usd: 0.01 })
  })

  it('a budget in US dollars counts an attempt that broke off in the middle of its answer, with what it had streamed', async () => {
    let calls = 0
    const { session } = dollars.play(here.pawl, {
      model(_request, { onDelta }) {
        if (++calls > 1) return using(100, 'done')
        onDelta({ type: 'text', index: 0, text: 'x'.repeat(744) })
        throw new ModelError('stream_cut', 'cut', { retryable: true, phase: 'stream' })
      },
    })
    expect(await (await session.send('go')).result(TIMEOUT)).toMatchObject({ text: 'done' })
    const [failed] = ofType(await eventsOf(session), 'model_attempt_failed')
    // Up to 256 more tokens may have been in transit.
    expect(failed?.error.spent?.usd).toBe(0.1)
    expect((await session.state()).spend?.usd).toBe(0.11)
  })

  it('a budget in US dollars carries over to a restart, so restarts cannot exceed it', async () => {
    let calls = 0
    const { session, requests } = dollars.play(here.pawl, {
      model() {
        calls += 1
        if (calls === 2) throw new ModelError('broken', 'no', { retryable: false })
        return calls === 1 ? lookUsing(8_000) : using(100, 'done')
      },
    })
    const run = await session.send('go')
    expect(await run.settled(TIMEOUT)).toMatchObject({ code: 'broken' })
    await session.recover({ strategy: 'restart_run', by: 'ann' })
    expect(await completed(run)).toMatchObject({ text: 'done', run: 2 })
    expect(requests.at(-1)?.maxTokens).toBe(2_000)
    expect((await session.state()).spend?.usd).toBe(0.81)
  })

  it('a budget in US dollars counts a call that is interrupted', async () => {
    const door = gate()
    const { session } = dollars.play(here.pawl, {
      async model(_request, { onDelta, signal }) {
        onDelta({ type: 'text', index: 0, text: 'x'.repeat(744) })
        await door.pass(signal)
        return 'too late'
      },
    })
    const run = await session.send('go')
    await door.reached
    await session.interrupt()
    expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'interrupted' })
    expect(ofType(await eventsOf(session), 'spent')).toMatchObject([{ run: 1, turn: 1, usd: 0.1 }])
    expect((await session.state()).spend?.usd).toBe(0.1)
  })

  it('a budget in US dollars uses pawl’s own measurement if a provider reports no usage, or nonsense', async () => {
    const { session } = dollars.play(here.pawl, {
      model: (_request, { onDelta }) => {
        onDelta({ type: 'text', index: 0, text: 'x'.repeat(744) })
        return { content: [{ type: 'text', text: 'x'.repeat(100) }], usage: { ...usageOf(5), output_tokens: -5 } }
      },
    })
    await (await session.send('go')).result(TIMEOUT)
    const [answer] = ofType(await eventsOf(session), 'model_completed')
    expect(answer?.usage.output_tokens).toBe(0)
    expect(answer?.spent?.usd).toBe(0.1)
    expect((await session.state()).spend?.usd).toBe(0.1)
  })

  it('a budget in US dollars is not restored by a rollback', async () => {
    const { session } = dollars.play(here.pawl, { model: (request) => using(1_000, `answer ${saidIn(request).length}`) })
    await (await session.send('one')).result(TIMEOUT)
    await (await session.send('two')).result(TIMEOUT)
    await session.rollback({ run: 2, by: 'ann' })
    expect((await session.state()).spend).toEqual({ tokens: 2_000, usd: 0.2 })
    const copy = await session.fork({ checkpoint: 1 })
    expect((await copy.state()).spend).toEqual({ tokens: 1_000, usd: 0.1 })
    expect((await copy.state()).usage.output_tokens).toBe(0)
  })

  it('a budget in US dollars is in the session’s row and in its checkpoints', async () => {
    const { session, id } = dollars.play(here.pawl, { model: () => using(1_000, 'done') })
    await (await session.send('one')).result(TIMEOUT)
    await until('it is stored', async () => {
      const { rows } = await pool.query(`select spent_tokens, spent_usd from pawl.sessions where session_id = $1`, [id])
      expect(rows).toEqual([{ spent_tokens: '1000', spent_usd: '0.1' }])
      const made = await pool.query(`select state::json -> 'spend' as spend from pawl.checkpoints where session_id = $1`, [id])
      expect(made.rows.at(-1)).toEqual({ spend: { tokens: 1_000, usd: 0.1 } })
      return true
    })
  })
})

describe.concurrent('a budget in tokens', () => {
  it('a budget in tokens also counts input: from the last answer’s usage and the bytes of what is new', async () => {
    const { session, requests } = tokens.play(here.pawl, {
      model: inOrder(
        { content: [use('look', 'around')], usage: { ...usageOf(1_000), input_tokens: 3_000 } },
        { content: [use('look', 'around')], usage: { ...usageOf(1_000), input_tokens: 4_500 } },
      ),
      look: () => 'x'.repeat(500),
    })
    expect(await (await session.send('go'.padEnd(9_000))).settled(TIMEOUT)).toMatchObject(exhausted)
    // 4,000 are spent. The next request counts as the 4,000 of the last call plus some 700 bytes, not as its 10,000 bytes: 3,300 are left.
    expect(requests).toHaveLength(2)
    expect(requests[1]?.maxTokens).toBeGreaterThan(3_000)
    expect(requests[1]?.maxTokens).toBeLessThan(3_500)
    expect((await session.state()).spend?.tokens).toBe(9_500)
  })
})

describe.concurrent('a budget of a session', () => {
  it('a budget of a session covers all its runs; a raised limit lets the run continue', async () => {
    const { session } = sessions.play(here.pawl, { model: () => using(4_000, 'done') })
    await (await session.send('one')).result(TIMEOUT)
    await (await session.send('two')).result(TIMEOUT)
    await (await session.send('three')).settled(TIMEOUT)
    const run = await session.send('four')
    expect(await run.settled(TIMEOUT)).toMatchObject(exhausted)
    await expect(session.raise({ maxUsd: 2 })).rejects.toMatchObject({ code: 'no_limit' })
    await session.raise({ scope: 'session', maxUsd: 5, by: 'ann' })
    expect(await completed(run)).toMatchObject({ text: 'done' })
    expect(await session.budgets()).toEqual([{ scope: 'session', unit: 'usd', limit: 5, spent: 1.6, assumed: 0, reserved: 0, left: 3.4 }])
  })

  it('a budget of a session shows what is reserved while the model answers', async () => {
    const door = gate()
    const { session } = sessions.play(here.pawl, {
      async model(request, { signal }) {
        if (saidIn(request).length > 1) await door.pass(signal)
        return using(1_000, 'done')
      },
    })
    await (await session.send('one')).result(TIMEOUT)
    const run = await session.send('two')
    await door.reached
    expect(await session.budgets()).toEqual([{ scope: 'session', unit: 'usd', limit: 1, spent: 0.1, assumed: 0, reserved: 0.4, left: 0.5 }])
    door.open()
    await run.result(TIMEOUT)
    expect(await session.budgets()).toMatchObject([{ spent: 0.2, reserved: 0, left: 0.8 }])
  })
})

describe.concurrent('fallback models', () => {
  it('fallback models are counted at their own price', async () => {
    const { session } = fallback.play(here.pawl, {
      model() {
        throw new ModelError('overloaded_error', 'busy', { retryable: false, fallback: true, status: 529 })
      },
    })
    expect(await (await session.send('go')).result(TIMEOUT)).toMatchObject({ text: 'from the spare', model: 'spare' })
    expect((await session.state()).spend).toEqual({ tokens: 1_000, usd: 0.01 })
  })

  it('fallback models that a function chooses are refused before they are called if they have no price', async () => {
    const { session } = chooser.play(here.pawl, {
      model() {
        throw new ModelError('overloaded_error', 'busy', { retryable: false, fallback: true, status: 529 })
      },
    })
    expect(await (await session.send('go')).settled(TIMEOUT)).toMatchObject({ status: 'failed', code: 'unpriced_model' })
    expect((await session.state()).spend).toBeUndefined()
  })
})

describe.concurrent('what tools and hooks spend', () => {
  it('what tools and hooks spend counts, is recorded with their notes, and affects the budget of the very next call', async () => {
    const { session, requests } = reporting.play(here.pawl, {
      model: inOrder(lookUsing(1_000), using(1_000, 'done')),
      look(_input, ctx) {
        ctx.spend({ usd: 0.5, note: 'a search' })
        ctx.spend({ tokens: 70 })
        expect(() => ctx.spend({ usd: -1 })).toThrow(expect.objectContaining({ code: 'invalid_spend' }))
        return 'found'
      },
    })
    await (await session.send('go')).result(TIMEOUT)
    expect(
      ofType(await eventsOf(session), 'spent').map(({ usd, tokens: count, note, hook, tool }) => ({ usd, count, note, hook, tool })),
    ).toEqual([
      { usd: 0.02, note: 'a score', hook: 'scorer' },
      { usd: 0.5, note: 'a search', tool: 'look' },
      { count: 70, tool: 'look' },
      { usd: 0.02, note: 'a score', hook: 'scorer' },
    ])
    expect((await session.state()).spend).toEqual({ tokens: 2_070, usd: 0.74 })
    // 0.64 USD are spent: 0.02 + 0.1 + 0.5 + 0.02.
    expect(requests[1]?.maxTokens).toBe(3_600)
  })
})

describe.concurrent('raise', () => {
  it('raise works before the limit is reached, and says when nothing has changed', async () => {
    const door = gate()
    const { session, requests } = dollars.play(here.pawl, {
      model: inOrder(lookUsing(8_000), using(3_000, 'done')),
      look: (_input, ctx) => door.pass(ctx.signal),
    })
    const run = await session.send('go')
    await door.reached
    expect(await session.raise({ maxUsd: 2 })).toEqual({ already: false })
    expect(await session.raise({ maxUsd: 2 })).toEqual({ already: true })
    await expect(session.raise({ maxUsd: 1.5 })).rejects.toMatchObject({ code: 'limit_lower' })
    door.open()
    expect(await run.result(TIMEOUT)).toMatchObject({ text: 'done' })
    expect(requests[1]?.maxTokens).toBeUndefined()
    await expect(session.raise({ maxUsd: 3 })).rejects.toMatchObject({ code: 'no_current_run' })
  })

  it.each([{}, { maxUsd: 0 }, { maxUsd: Number.NaN }, { maxUsd: -1 }, { maxTotalTokens: 1.5 }])('raise refuses %o', async (limits) => {
    const { session } = dollars.play(here.pawl, { model: () => using(10, 'done') })
    await (await session.send('go')).result(TIMEOUT)
    const refused = await session.raise(limits).catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(RequestRefusedError)
    expect(refused).toMatchObject({ code: 'invalid_raise' })
  })
})

it('a budget is shown by `pawl usage`, and raised by `pawl raise`', async () => {
  const { session, id } = dollars.play(here.pawl, {
    model: inOrder(lookUsing(3_500), lookUsing(3_500), lookUsing(2_400), using(10, 'done')),
  })
  const run = await session.send('go')
  expect(await run.settled(TIMEOUT)).toMatchObject(exhausted)
  const { temporalAddress, namespace, databaseUrl } = here.stack
  const env = { TEMPORAL_ADDRESS: temporalAddress, TEMPORAL_NAMESPACE: namespace, DATABASE_URL: databaseUrl }
  const pawl = (...args: string[]) => runPawl(args, { cwd: tmpdir(), env })
  const usage = await until('it is stored', async () => {
    const { stdout } = await pawl('usage', id)
    return stdout.includes('budget of') && stdout
  })
  expect(usage).toMatch(/^agent +calls .*\ndollars +3 /)
  expect(usage).toMatch(/\nbudget of +limit +spent +reserved +left +assumed\nrun +\$1\.0000 +\$0\.9400 +\$0\.0000 +\$0\.0600/)
  const nothing = await pawl('raise', id)
  expect([nothing.code, withoutWaits(nothing.stderr)]).toEqual([1, expect.stringContaining('invalid_usage: ')])
  const raised = await pawl('raise', id, '--max-usd', '1.5', '--by', 'ann', '--json')
  expect(JSON.parse(raised.stdout)).toMatchObject({ event: 'raised', already: false, sessionId: id })
  expect(await completed(run)).toMatchObject({ text: 'done' })
  expect(ofType(await eventsOf(session), 'budget_raised')).toMatchObject([{ maxUsd: 1.5, by: 'ann' }])
})
