// The SQL of docs/sql.md, extracted from the page and run on a database with real sessions.
import { randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import pg from 'pg'
import { type Agent, defineAgent, defineHook, defineTool, ModelError, type ModelRequest } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { scripted } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { z } from 'zod'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { answersIn, saidIn } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

const schema = `queries_${randomUUID().replaceAll('-', '').slice(0, 16)}`
const USAGE = { input_tokens: 1_000_000, output_tokens: 100_000, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
const held = gate()
let here: Deployment
let database: pg.Client
let queries: string[]

/** The first message decides whether the model fails; the newest, which tool it calls. */
function answer(request: ModelRequest) {
  const [said = ''] = saidIn(request)
  const newest = saidIn(request).at(-1) ?? ''
  if (said === 'fail') throw new ModelError('bad_request', 'The model refuses.', { retryable: false })
  if (said === 'stumble' && answersIn(request) === 0 && !stumbled) {
    stumbled = true
    throw new ModelError('overloaded_error', 'Busy.', { retryable: true })
  }
  const call = ['refund', 'note', 'wire', 'hold'].find((tool) => newest === tool)
  const isAnswered = request.messages.at(-1)?.content !== newest
  const use = { type: 'tool_use' as const, id: 'toolu_1', name: call ?? '', input: { what: newest } }
  return { content: call && !isAnswered ? [use] : [{ type: 'text' as const, text: 'Done.' }], usage: USAGE }
}
let stumbled = false

const input = z.object({ what: z.string() })
const description = 'Does something.'
const clerk = defineAgent({
  name: 'clerk',
  instructions: 'Serve.',
  retry: { maxRetries: 2, baseDelay: 10 },
  model: scripted(answer, { name: 'claude-sonnet-4-5' }),
  tools: [
    defineTool({
      name: 'refund',
      description,
      input,
      effect: 'external',
      approval: true,
      execute: () => ({ id: 're_1' }),
      effectId: () => 're_1',
    }),
    defineTool({ name: 'note', description, input, effect: 'idempotent', execute: () => ({ id: 'n_1' }), effectId: () => 'n_1' }),
    defineTool({
      name: 'wire',
      description,
      input,
      effect: 'external',
      onUnknown: 'tell_model',
      execute: () => {
        throw new Error('reply lost')
      },
    }),
    defineTool({ name: 'hold', description, input, effect: 'read', execute: (_, ctx) => held.pass(ctx.signal) }),
  ],
})

/** The agent of docs/output.md. */
const classifier = defineAgent({
  name: 'classifier',
  instructions: 'Classify the message of a customer.',
  output: z.object({
    topic: z.enum(['delivery', 'refund', 'other']),
    urgent: z.boolean(),
    orders: z.array(z.string().regex(/^A\d+$/)).default([]),
  }),
  model: scripted((request) => {
    const input = { topic: saidIn(request).at(-1) ?? '', urgent: false }
    return answersIn(request) === 2 ? 'It is a delivery.' : [{ type: 'tool_use', id: 'toolu_1', name: 'submit_output', input }]
  }),
})

const STEPS = [
  { id: 'book', title: 'Book the flight' },
  { id: 'pay', title: 'Pay', postconditions: 'There is a receipt.' },
]
/** Its plan is half done when its run ends. */
const watched = defineAgent({
  name: 'watched',
  instructions: 'Serve.',
  model: scripted(() => 'Done.'),
  hooks: [defineHook({ on: 'agentStart', run: () => ({ appendContext: 'It rains.' }) })],
})
const planner = defineAgent({
  name: 'planner',
  instructions: 'Plan.',
  plan: true,
  model: scripted(
    (request) => ({
      content: [
        ...(answersIn(request) === 0
          ? [{ type: 'tool_use' as const, id: 'toolu_1', name: 'plan_setup', input: { objective: 'To Rome', steps: STEPS } }]
          : answersIn(request) === 1
            ? [{ type: 'tool_use' as const, id: 'toolu_2', name: 'plan_update_step', input: { id: 'book', status: 'done' } }]
            : [{ type: 'text' as const, text: 'Later.' }]),
      ],
      usage: USAGE,
    }),
    { name: 'claude-sonnet-4-5' },
  ),
})

beforeAll(async () => {
  const page = await readFile(new URL('../../docs/sql.md', import.meta.url), 'utf8')
  queries = [...page.matchAll(/^## (\d+)\.[^\n]*\n```sql\n([^`]+)```/gm)].map(([, , sql = '']) => sql)
  here = await deploy({ schema })
  database = new pg.Client(inject('stack').databaseUrl)
  await database.connect()
  await here.startWorker({ agents: [clerk as Agent, classifier as Agent, planner as Agent, watched as Agent] })
})
afterAll(async () => {
  held.open()
  await here?.stop()
  await database?.query(`drop schema if exists ${schema} cascade`)
  await database?.end()
})

/** Runs the query of the question with that number. */
async function ask(number: number, variables: Record<string, string> = {}): Promise<Record<string, unknown>[]> {
  return (await database.query(filled(queries[number - 1] ?? '', variables))).rows
}

/** The SQL of a page for this schema, with values for psql's variables. */
function filled(sql: string, variables: Record<string, string>): string {
  return sql.replaceAll('pawl.', `"${schema}".`).replaceAll(/:'(\w+)'/g, (_, name: string) => database.escapeLiteral(variables[name] ?? ''))
}

/** Returns the answer to the question once the store has everything that belongs to it. */
const answerOf = (number: number, complete: (rows: Record<string, unknown>[]) => boolean, variables?: Record<string, string>) =>
  until(`question ${number} is answered`, async () => {
    const rows = await ask(number, variables)
    return complete(rows) && rows
  })

function open(id: string, tags: string[] = []): SessionHandle {
  return here.pawl.session(id, { agent: 'clerk', tags }) as SessionHandle
}

async function settle(session: SessionHandle, text: string): Promise<void> {
  await (await session.send(text)).settled({ timeout: 30_000 })
}

describe('docs/sql.md', () => {
  it('docs/sql.md has twenty-one questions', () => {
    expect(queries).toHaveLength(21)
  })

  it('SQL questions 1 and 9 show what is running, waiting or in error, and whose events have not been stored for minutes', async () => {
    await settle(open('failed'), 'fail')
    await open('waits').send('refund')
    await open('runs').send('hold')
    await held.reached
    const rows = await answerOf(1, (found) => ['error', 'running', 'waiting'].every((one) => found.some(({ status }) => status === one)))
    expect(rows.map(({ session_id, agent, status, error, waiting }) => [session_id, agent, status, error, waiting]).sort()).toEqual([
      ['failed', 'clerk', 'error', 'bad_request', 0],
      ['runs', 'clerk', 'running', '', 0],
      ['waits', 'clerk', 'waiting', '', 1],
    ])
    expect(await ask(9)).toEqual([])
    await until(
      'the long call is stored',
      async () => (await here.pawl.toolCalls({ session: 'runs', status: 'running' })).items.length === 1,
    )
    await database.query(`update "${schema}".sessions set flushed_at = now() - interval '6 minutes' where session_id = 'runs'`)
    expect(await ask(9)).toMatchObject([{ session_id: 'runs', status: 'running' }])
  })

  it('SQL question 2 shows what happened in a session', async () => {
    const session = open('told')
    await settle(session, 'note')
    const events = await eventsOf(session)
    const rows = await answerOf(2, (found) => found.length >= events.length, { session: 'told' })
    expect(rows.map(({ seq, type }) => [Number(seq), type])).toEqual(events.map(({ seq, type }) => [seq, type]))
    expect(rows[1]).toMatchObject({ type: 'message_received', event: expect.stringContaining('"content":"note"') })
  })

  it('SQL question 3 shows which effects are unknown', async () => {
    await settle(open('wired'), 'wire')
    const rows = await answerOf(3, (found) => found.length >= 1)
    expect(rows).toMatchObject([{ session_id: 'wired', call_id: 't_1_1_0', tool: 'wire', input: { what: 'wire' }, attempt: 1 }])
  })

  it('SQL question 4 shows what a customer cost', async () => {
    await settle(open('acme-1', ['customer:acme']), 'note')
    await settle(open('acme-2', ['customer:acme', 'vip']), 'hello')
    const rows = await answerOf(4, ([sum]) => Number(sum?.model_calls) >= 3, { tag: 'customer:acme' })
    // Three calls, at 3 dollars per million input tokens and 15 per million output tokens.
    expect(rows).toMatchObject([{ sessions: '2', model_calls: '3', input_tokens: '3000000', output_tokens: '300000', without_price: '0' }])
    expect(Number(rows[0]?.usd)).toBeCloseTo(3 * (3 + 1.5), 6)
    expect(await ask(4, { tag: 'customer:none' })).toMatchObject([{ sessions: '0', model_calls: '0', usd: null }])
  })

  it('SQL question 5 shows what has failed, by context', async () => {
    await settle(open('stumbled'), 'stumble')
    const rows = await answerOf(5, (found) => found.some(({ error }) => error === 'overloaded_error'))
    expect(rows.find(({ error }) => error === 'overloaded_error')).toMatchObject({
      context: 'model',
      attempts: '1',
      sessions: '1',
      not_retried: '0',
      newest: expect.any(Date),
    })
  })

  it('SQL question 6 shows how long tools take', async () => {
    await settle(open('timed'), 'note')
    const rows = await answerOf(6, (found) => found.some(({ tool }) => tool === 'note'))
    const note = rows.find(({ tool }) => tool === 'note')
    expect(Number(note?.calls)).toBeGreaterThanOrEqual(1)
    expect(Number(note?.p95_ms)).toBeGreaterThanOrEqual(Number(note?.p50_ms))
  })

  it('SQL question 7 shows who approved what', async () => {
    const session = open('approved')
    const run = await session.send('refund')
    const request = await until('approval is asked for', async () => ofType(await eventsOf(session), 'approval_requested')[0])
    await session.approve(request.callId, { digest: request.digest, by: 'ann', note: 'looks right' })
    await run.result({ timeout: 30_000 })
    const rows = await answerOf(7, (found) => found.length >= 1)
    expect(rows).toMatchObject([
      {
        session_id: 'approved',
        tool: 'refund',
        status: 'approved',
        decided_by: 'ann',
        note: 'looks right',
        input: { what: 'refund' },
        edited: false,
      },
    ])
  })

  it('SQL question 8 shows what was rolled back, and which effects remain', async () => {
    const session = open('moved')
    await settle(session, 'hello')
    await settle(session, 'note')
    const { toSeq } = await session.rollback({ run: 2, by: 'ann', reason: 'wrong customer' })
    await session.rollback({ run: 1, by: 'ben' })
    const rows = await answerOf(8, (found) => found.length >= 2)
    expect(rows).toMatchObject([
      { session_id: 'moved', by: 'ben', call_id: 't_2_1_0', tool: 'note', older_effects: null },
      {
        session_id: 'moved',
        by: 'ann',
        reason: 'wrong customer',
        to_seq: String(toSeq),
        tool: 'note',
        status: 'completed',
        effect_id: 'n_1',
      },
    ])
  })

  it('SQL question 8 does not list effects that did not happen or were undone', async () => {
    const wired = open('undone')
    await settle(wired, 'wire')
    await wired.rollback({ run: 1 })
    const effectsIn = (rows: Record<string, unknown>[]) =>
      rows.filter(({ session_id }) => session_id === 'undone').map(({ tool, status }) => [tool, status])
    expect(effectsIn(await answerOf(8, (rows) => effectsIn(rows).length > 0))).toEqual([['wire', 'unknown']])
    await wired.resolve('t_1_1_0', { happened: false }, { by: 'ann' })
    await answerOf(8, (rows) => effectsIn(rows).every(([tool]) => tool === null))
    await settle(wired, 'note')
    await wired.rollback({ run: 2, keys: 'forgotten' })
    const rows = await answerOf(8, (found) => effectsIn(found).length >= 2)
    expect(effectsIn(rows)).toEqual([
      [null, null],
      [null, null],
    ])
  })

  it('SQL question 10 shows tokens and dollars per day, by agent, and agrees with the client', async () => {
    await settle(open('spent'), 'hello')
    const sumOf = (rows: Record<string, unknown>[], of: string): number => rows.reduce((all, row) => all + Number(row[of]), 0)
    // Events of earlier tests may still be on their way: ask both until they agree.
    const { rows, sums } = await until('query and client say the same', async () => {
      const asked = { rows: await ask(10), sums: (await here.pawl.usage({ by: 'agent' })).items }
      return sumOf(asked.rows, 'model_calls') === asked.sums[0]?.calls && asked
    })
    expect(rows.every(({ agent, without_price }) => agent === 'clerk' && without_price === '0')).toBe(true)
    expect(sums).toMatchObject([{ key: 'clerk', unpriced: 0 }])
    expect(sumOf(rows, 'usd')).toBeCloseTo(sums[0]?.usd ?? -1, 3)
    expect(sumOf(rows, 'usd')).toBeGreaterThan(0)
  })

  it('SQL question 11 shows which call had an effect, by the call’s key or by the effect’s id', async () => {
    await settle(open('effective'), 'note')
    const call = await until(
      'the call is stored',
      async () => (await here.pawl.toolCalls({ session: 'effective', status: 'completed' })).items[0],
    )
    const byKey = await ask(11, { key: call.key ?? '' })
    const byEffect = await ask(11, { effect_id: 'n_1' })
    expect(byKey).toMatchObject([{ session_id: 'effective', call_id: 't_1_1_0', tool: 'note', status: 'completed', effect_id: 'n_1' }])
    expect(byEffect.map(({ session_id }) => session_id)).toContain('effective')
  })

  it('SQL questions 12 to 15, 17 and 18 report failures as the client does', async () => {
    const session = open('stubborn')
    await settle(session, 'fail')
    await session.recover({ strategy: 'continue_run', by: 'ann' })
    const since = { since: Date.now() - 3_600_000 }
    // Attempts of earlier tests may still be on their way: ask both until they agree.
    const { report, rates } = await until('query and client have seen both failures and the same attempts', async () => {
      const { repeated, ...others } = await here.pawl.failures(since)
      const asked = { report: { repeated, ...others }, rates: await ask(12) }
      return repeated.length > 0 && Number(asked.rates[0]?.failed) === others.agents[0]?.failed && asked
    })
    const [repeated, recoveries, times] = [await ask(13), await ask(14), await ask(15)]
    const [clerk] = report.agents
    expect(rates).toMatchObject([
      {
        agent: 'clerk',
        failed: String(clerk?.failed),
        healed_by_person: String(clerk?.healedByPerson),
        open: String(clerk?.open),
        held_up: '0',
      },
    ])
    expect(Number(rates[0]?.percent)).toBeCloseTo((100 * ((clerk?.failed ?? 0) - (clerk?.healedByItself ?? 0))) / (clerk?.runs ?? 1), 0)
    expect(repeated).toMatchObject([{ session_id: 'stubborn', error: 'bad_request', times: '2', runs: '1' }])
    expect(report.repeated).toMatchObject([{ sessionId: 'stubborn', code: 'bad_request', times: 2, runs: 1 }])
    const outcome = { recoveries: '1', completed: '0', failed_again: '1', unfinished: '0', refused: '0' }
    expect(recoveries).toEqual([{ agent: 'clerk', strategy: 'continue_run', automatic: false, ...outcome }])
    expect(report.recoveries).toMatchObject([{ strategy: 'continue_run', automatic: false, recoveries: 1, failed: 1 }])
    const [inError] = report.timeInError
    expect(inError).toMatchObject({ agent: 'clerk', code: 'bad_request' })
    expect(times).toMatchObject([
      { agent: 'clerk', error: 'bad_request', times: String(inError?.times), still: String(inError?.open), median: expect.anything() },
    ])
    expect(inError?.times).toBeGreaterThanOrEqual(2)
    const causes = await ask(17)
    expect(causes.length).toBe(report.causes.length)
    for (const { what, tool, code, failures, open: still } of report.causes) {
      expect(causes).toContainEqual(expect.objectContaining({ what, tool, code, failures: String(failures), open: String(still) }))
    }
    expect(await ask(18)).toContainEqual(expect.objectContaining({ session_id: 'stubborn', code: 'bad_request', errors: '2' }))
  })

  it('SQL question 16 shows what the runs of an agent returned', async () => {
    const session = here.pawl.session('classified', { agent: classifier })
    const { output } = await (await session.send('refund')).result({ timeout: 30_000 })
    expect(output).toEqual({ topic: 'refund', urgent: false, orders: [] })
    await settle(session as SessionHandle, 'nonsense, then a text')
    const rows = await answerOf(16, (found) => found.length > 0, { agent: 'classifier' })
    expect(rows).toEqual([
      {
        session_id: 'classified',
        run: 1,
        turn: 1,
        topic: 'refund',
        output: { topic: 'refund', urgent: false, orders: [] },
        completed_at: expect.any(Date),
      },
    ])
  })

  it('SQL questions 19 to 21 show checkpoints with plan and spend, unfinished plans and open steps, as lists and status do', async () => {
    const session = here.pawl.session('planned', { agent: 'planner' }) as SessionHandle
    await settle(session, 'go')
    const rows = await answerOf(20, (found) => found.some(({ session_id }) => session_id === 'planned'))
    expect(rows).toContainEqual(
      expect.objectContaining({ session_id: 'planned', status: 'idle', objective: 'To Rome', plan_done: 1, plan_steps: 2 }),
    )
    expect(await ask(21)).toContainEqual(
      expect.objectContaining({ session_id: 'planned', place: 2, step: 'pay', status: 'pending', note: 'There is a receipt.' }),
    )
    const progress = { version: 2, objective: 'To Rome', steps: 2, done: 1 }
    const [checkpoint] = await session.checkpoints()
    expect(checkpoint).toMatchObject({ plan: progress, spent: { tokens: 3_300_000, usd: expect.any(Number) } })
    expect((await ask(19, { session: 'planned' }))[0]).toMatchObject({
      version: checkpoint?.version,
      objective: 'To Rome',
      plan_done: 1,
      plan_steps: 2,
      spent_tokens: '3300000',
      usd_since_previous: expect.anything(),
      archived: false,
    })
    expect(await here.pawl.sessions.get('planned')).toMatchObject({ plan: progress })
    expect((await here.pawl.overview()).items).toContainEqual(
      expect.objectContaining({ sessionId: 'planned', needs: 'plan', plan: progress }),
    )
    expect(await session.status()).toMatchObject({ status: 'idle', plan: progress })
  })
})

it('the SQL of the guide to hooks shows each answer of a hook once, and not again for what a fork has copied', async () => {
  const guide = await readFile(new URL('../../docs/hooks.md', import.meta.url), 'utf8')
  const [, sql = ''] = /^```sql\n([^`]+)```/m.exec(guide) ?? expect.fail('the guide has no SQL')
  const original = here.pawl.session('watched', { agent: 'watched' })
  await settle(original, 'hello')
  const copy = await original.fork({ id: 'watched-copy' })
  await settle(copy, 'hello again')
  const idsOf = async (): Promise<unknown[]> => (await database.query(filled(sql, {}))).rows.map(({ session_id }) => session_id).sort()
  await until('the fork’s own answer is stored', async () => (await idsOf()).includes('watched-copy'))
  expect(await idsOf()).toEqual(['watched', 'watched-copy'])
})

it('every SQL block of the guides and the README runs', async () => {
  const guides = (await readdir(new URL('../../docs', import.meta.url))).filter((name) => name.endsWith('.md'))
  const pages = ['README.md', ...guides.map((name) => `docs/${name}`)]
  const ran: string[] = []
  for (const path of pages) {
    const page = await readFile(new URL(`../../${path}`, import.meta.url), 'utf8')
    for (const [, sql = ''] of page.matchAll(/^```sql\n([^`]+)```/gm)) {
      // Nothing that a page does to the tables may stay.
      await database.query('begin')
      const failure = await database.query(filled(sql, {})).then(
        () => undefined,
        (error: Error) => `${error.message}\n${sql}`,
      )
      await database.query('rollback')
      expect(failure, path).toBeUndefined()
      ran.push(path)
    }
  }
  expect(ran.length).toBeGreaterThan(25)
})
