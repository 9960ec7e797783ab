// What a call reports: `ctx.progress`, `ctx.lastProgress`, `ctx.milestone` and `ctx.emit`, where it shows up and who receives it.
import { randomUUID } from 'node:crypto'
import { type Agent, defineAgent, defineTool, type Json, type ToolContext, type Verdict } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { scripted, type ScriptedAnswer } from 'pawl/testing'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { answersIn, resultsIn, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

type Body = (ctx: ToolContext) => unknown

let here: Deployment
let sql: pg.Pool
const bodies = new Map<string, { body: Body; verify?: (ctx: ToolContext) => Verdict<unknown> }>()

function laid(sessionId: string) {
  return bodies.get(sessionId) ?? expect.fail(`nothing to do for ${sessionId}`)
}

const tool = (name: string, effect: 'read' | 'idempotent' | 'external', timeout = 20_000) =>
  defineTool({
    name,
    description: name,
    effect,
    input: z.object({ what: z.string() }),
    timeout,
    retry: { maxRetries: 2, baseDelay: 10 },
    execute: (_input, ctx) => laid(ctx.sessionId).body(ctx),
    ...(effect === 'external' && {
      settleAfter: 0,
      verify: (_input: unknown, ctx: ToolContext) => laid(ctx.sessionId).verify?.(ctx) ?? { happened: 'unknown' as const },
    }),
  })

const script = (tools: string) =>
  scripted((request): ScriptedAnswer => {
    if (answersIn(request) === 0) return tools.split(' ').map((name) => use(name, 'it'))
    return String(resultsIn(request)[0]?.content)
  })
const working = (name: string) =>
  defineAgent({ name, instructions: '', model: script(name), tools: [tool(name, name as 'read', 20_000)] }) as Agent
const hasty = defineAgent({ name: 'hasty', instructions: '', model: script('hasty'), tools: [tool('hasty', 'idempotent', 300)] }) as Agent
const marked = defineAgent({
  name: 'marked',
  instructions: '',
  model: script('idempotent idempotent'),
  tools: [tool('idempotent', 'idempotent')],
  checkpoint: {
    on: [
      { type: 'milestone_reached', milestone: 'half' },
      { type: 'emitted', name: 'shipped' },
    ],
  },
}) as Agent

beforeAll(async () => {
  here = await deploy()
  sql = new pg.Pool({ connectionString: here.stack.databaseUrl, max: 1 })
  await here.startWorker({ agents: [working('read'), working('idempotent'), working('external'), hasty, marked] })
})
afterAll(async () => {
  await sql?.end()
  await here?.stop()
})

/** A session whose agent calls a tool with this body. */
function open(agent: string, body: Body, verify?: (ctx: ToolContext) => Verdict<unknown>): SessionHandle {
  const session = here.pawl.session(`p-${randomUUID()}`, { agent })
  bodies.set(session.id, { body, ...(verify && { verify }) })
  return session
}

async function play(agent: string, body: Body, verify?: (ctx: ToolContext) => Verdict<unknown>) {
  const session = open(agent, body, verify)
  const { text } = await (await session.send('go')).result({ timeout: 30_000 })
  const events = await eventsOf(session)
  return { session, text, events, said: ofType(events, 'tool_progress').map(({ attempt, value }) => [attempt, value]) }
}

/** The ledger row of the session's first call. */
async function row(session: SessionHandle): Promise<{ status?: string; attempt?: number; progress?: Json; milestones?: string[] }> {
  const { rows } = await sql.query(
    `select status, attempt, progress, milestones from pawl.tool_calls where session_id = $1 order by call_id`,
    [session.id],
  )
  return (rows[0] as object | undefined) ?? {}
}

describe.concurrent('a tool’s progress', () => {
  it('a tool’s progress becomes an event when its attempt ends, and stays in the ledger', async () => {
    const { session, said } = await play('read', (ctx) => {
      ctx.progress({ page: 1 })
      ctx.progress({ page: 2 })
      return 'read'
    })
    expect(said).toEqual([[1, { page: 2 }]])
    await until('it is stored', async () => (await row(session)).status === 'completed')
    expect(await row(session)).toMatchObject({ progress: { page: 2 } })
  })

  it('a tool’s progress has its newest value in the ledger while the call runs, even one that Postgres cannot hold', async () => {
    const more = gate()
    const end = gate()
    const session = open('idempotent', async (ctx) => {
      ctx.progress({ page: 1, of: 'a\u0000b' })
      await more.pass()
      for (let page = 2; page <= 500; page++) ctx.progress({ page })
      await end.pass()
      return 'read'
    })
    const run = await session.send('go')
    await until('its progress is shown', async () => {
      const shown = await row(session)
      return shown.status === 'running' && (shown.progress as { page?: number } | null)?.page === 1
    })
    more.open()
    await until('the newest is shown', async () => ((await row(session)).progress as { page?: number }).page === 500)
    expect(await row(session)).toMatchObject({ status: 'running', attempt: 1 })
    end.open()
    expect(await run.result({ timeout: 30_000 })).toMatchObject({ text: 'read' })
    expect(ofType(await eventsOf(session), 'tool_progress')).toMatchObject([{ attempt: 1, value: { page: 500 } }])
  })

  it('a tool’s progress is shown once the store can be written, even if it could not be when the call began', async () => {
    const schema = `progress_${randomUUID().replaceAll('-', '').slice(0, 16)}`
    const own = await deploy({ schema })
    const end = gate()
    try {
      await own.startWorker({ agents: [working('idempotent')] })
      const play = async (body: Body) => {
        const session = own.pawl.session(`p-${randomUUID()}`, { agent: 'idempotent' })
        bodies.set(session.id, { body })
        return { session, run: await session.send('go') }
      }
      await (await play(() => 'made the tables')).run.result({ timeout: 30_000 })
      await until('the store is there', async () => (await own.pawl.sessions.list()).items.length === 1)
      // A sequence keeps its count although the refused statement is rolled back.
      await sql.query(`create sequence ${schema}.refusals;
        create function ${schema}.refuse() returns trigger language plpgsql as $$ begin
          perform nextval('${schema}.refusals'); raise exception 'refused'; end $$;
        create trigger refuse before update on ${schema}.tool_calls for each row when (new.status = 'running') execute function ${schema}.refuse()`)
      const { session, run } = await play(async (ctx) => {
        ctx.progress({ page: 1 })
        await end.pass()
        return 'read'
      })
      await until('it was refused', async () => (await sql.query(`select is_called from ${schema}.refusals`)).rows[0].is_called)
      await sql.query(`drop trigger refuse on ${schema}.tool_calls`)
      await until('it is shown', async () => {
        const { rows } = await sql.query(`select status, progress from ${schema}.tool_calls where session_id = $1`, [session.id])
        return rows[0]?.status === 'running' && rows[0].progress?.page === 1
      })
      end.open()
      expect(await run.result({ timeout: 30_000 })).toMatchObject({ text: 'read' })
    } finally {
      end.open()
      await own.stop()
      await sql.query(`drop schema if exists ${schema} cascade`)
    }
  })

  it('a tool’s progress reaches the attempts after one that threw, until one reports something newer', async () => {
    const found: unknown[] = []
    const { said } = await play('idempotent', (ctx) => {
      found.push(ctx.lastProgress)
      if (ctx.attempt === 1) ctx.progress(['a'])
      if (ctx.attempt === 3) ctx.progress(['a', 'b'])
      if (ctx.attempt < 3) throw new Error('not yet')
      return 'done'
    })
    expect(found).toEqual([undefined, ['a'], ['a']])
    expect(said).toEqual([
      [1, ['a']],
      [3, ['a', 'b']],
    ])
  })

  it('a tool’s progress reaches the attempt after one that timed out', async () => {
    const found: unknown[] = []
    const { text } = await play('hasty', (ctx) => {
      found.push(ctx.lastProgress)
      ctx.progress(ctx.attempt)
      return ctx.attempt === 1 ? new Promise(() => undefined) : 'done'
    })
    expect(text).toBe('done')
    expect(found).toEqual([undefined, 1])
  })

  it('a tool’s progress reaches the next attempt after verify reports that the previous one did nothing', async () => {
    const found: unknown[] = []
    const body: Body = (ctx) => {
      found.push(ctx.lastProgress)
      ctx.progress('asked the bank')
      if (ctx.attempt === 1) throw new Error('no answer')
      return 'done'
    }
    await play('external', body, () => ({ happened: false }))
    expect(found).toEqual([undefined, 'asked the bank'])
  })

  it('a tool’s progress reaches the attempt that a person requests', async () => {
    const found: unknown[] = []
    const session = open('external', (ctx) => {
      found.push(ctx.lastProgress)
      ctx.progress({ sent: 3 })
      if (ctx.attempt === 1) throw new Error('no answer')
      return 'done'
    })
    const run = await session.send('go')
    expect(await run.settled({ timeout: 30_000 })).toMatchObject({ status: 'waiting' })
    await session.resolve('t_1_1_0', 'retry', { by: 'me' })
    expect(await run.result({ timeout: 30_000 })).toMatchObject({ text: 'done' })
    expect(found).toEqual([undefined, { sent: 3 }])
  })

  it('a tool’s progress may be null, and reaches the next attempt as null', async () => {
    const found: unknown[] = []
    await play('read', (ctx) => {
      found.push(ctx.lastProgress)
      ctx.progress(null)
      if (ctx.attempt === 1) throw new Error('not yet')
    })
    expect(found).toEqual([undefined, null])
  })

  const circular: { self?: unknown } = {}
  circular.self = circular
  const refused: Record<string, { value: unknown; says: RegExp }> = {
    'that is circular': { value: circular, says: /^TypeError: ctx\.progress accepts JSON only: .*circular/s },
    'that is a BigInt': { value: 1n, says: /^TypeError: ctx\.progress accepts JSON only: .*BigInt/s },
    'of more than 16 KB': { value: 'x'.repeat(16_001), says: /^TypeError: ctx\.progress accepts at most 16,000 bytes of JSON/ },
  }
  it.each(Object.keys(refused))('a tool’s progress %s is refused inside the tool, with an error that says why', async (what) => {
    const { value, says } = refused[what] ?? expect.fail('nothing to say')
    const { text, said } = await play('read', (ctx) => {
      ctx.progress('before')
      try {
        ctx.progress(value as Json)
      } catch (error) {
        return String(error)
      }
      return 'taken'
    })
    expect(text).toMatch(says)
    expect(said).toEqual([[1, 'before']])
  })
})

describe.concurrent('a milestone', () => {
  it('a milestone becomes one event per attempt, and is in the ledger', async () => {
    const { session, events } = await play('read', (ctx) => {
      ctx.milestone('half')
      ctx.milestone('half')
      ctx.milestone('most')
      if (ctx.attempt === 1) throw new Error('not yet')
      return 'done'
    })
    expect(ofType(events, 'milestone_reached').map(({ name }) => name)).toEqual(['half', 'most', 'half', 'most'])
    await until('it is stored', async () => (await row(session)).status === 'completed')
    expect((await row(session)).milestones).toEqual(expect.arrayContaining(['half', 'most']))
  })

  it('only a milestone that the agent’s checkpoint policy names makes a checkpoint', async () => {
    const { session, events } = await play('marked', (ctx) => {
      ctx.milestone(ctx.callId === 't_1_1_0' ? 'half' : 'most')
      return ctx.callId
    })
    const made = ofType(events, 'checkpoint_made')
    expect(made).toMatchObject([{ version: 1, reasons: ['event:milestone_reached'] }])
    const [half] = ofType(events, 'milestone_reached')
    expect(half).toMatchObject({ callId: 't_1_1_0', name: 'half' })
    // It is made when the turn has closed, in the task of its last result.
    expect(events.find(({ seq }) => seq === (made[0]?.seq ?? 0) - 1)).toMatchObject({ type: 'tool_completed', at: made[0]?.at })
    await until('it is stored', async () => (await here.pawl.sessions.get(session.id)).status === 'idle')
    const { rows } = await sql.query('select version, reasons from pawl.checkpoints where session_id = $1', [session.id])
    expect(rows).toHaveLength(1)
  })

  it.each(['', 'x'.repeat(201), 'a\u0000', '\ud800'])('a milestone named %j is refused inside the tool', async (name) => {
    const { text, events } = await play('read', (ctx) => {
      try {
        ctx.milestone(name)
      } catch (error) {
        return String(error)
      }
      return 'taken'
    })
    expect(text).toMatch(/^TypeError: A milestone's name must be a string of 1 to 200 characters/)
    expect(ofType(events, 'milestone_reached')).toEqual([])
  })
})

describe.concurrent('a custom event', () => {
  const customRows = async (session: SessionHandle): Promise<unknown[]> =>
    (await sql.query('select call_id, attempt, name, data, raw from pawl.custom_events where session_id = $1 order by seq', [session.id]))
      .rows

  it('a custom event is recorded with the outcome of its attempt, whether that is a result or an error', async () => {
    const { session, events } = await play('idempotent', (ctx) => {
      ctx.emit('tried', { attempt: ctx.attempt })
      if (ctx.attempt === 1) throw new Error('not yet')
      ctx.emit('done')
      return 'done'
    })
    const emitted = ofType(events, 'emitted')
    expect(emitted.map(({ attempt, name, data }) => [attempt, name, data])).toEqual([
      [1, 'tried', { attempt: 1 }],
      [2, 'tried', { attempt: 2 }],
      [2, 'done', undefined],
    ])
    expect(emitted[0]).toMatchObject({ run: 1, turn: 1, callId: 't_1_1_0', tool: 'idempotent' })
    const [completed] = ofType(events, 'tool_completed')
    expect(completed?.seq).toBe((emitted.at(-1)?.seq ?? 0) + 1)
    await until('it is stored', async () => (await customRows(session)).length === 3)
    expect(await customRows(session)).toMatchObject([
      { call_id: 't_1_1_0', attempt: 1, name: 'tried', data: { attempt: 1 }, raw: null },
      { attempt: 2, name: 'tried', data: { attempt: 2 } },
      { attempt: 2, name: 'done', data: null },
    ])
  })

  it('a custom event is in the feed exactly as it was reported, even if Postgres cannot hold it in jsonb', async () => {
    const data = { note: 'a\0b \ud800' }
    const { session } = await play('external', (ctx) => {
      ctx.emit('odd', data)
      return 'done'
    })
    await until('it is stored', async () => (await customRows(session)).length === 1)
    expect(await customRows(session)).toMatchObject([{ data: { note: 'a\ufffdb \ufffd' }, raw: expect.stringContaining('\\u0000') }])
    const told: unknown[] = []
    for await (const { sessionId, event } of here.pawl.events({ types: ['emitted'], agent: 'external' })) {
      if (sessionId === session.id) told.push(event)
    }
    expect(told).toMatchObject([{ type: 'emitted', name: 'odd', data }])
  })

  it('a custom event that the agent’s checkpoint policy names makes a checkpoint', async () => {
    const { events } = await play('marked', (ctx) => {
      ctx.emit('packed')
      ctx.emit('shipped')
      return ctx.callId
    })
    expect(ofType(events, 'checkpoint_made')).toMatchObject([{ version: 1, reasons: ['event:emitted'] }])
    const [made] = ofType(events, 'checkpoint_made')
    expect(events.find(({ seq }) => seq === (made?.seq ?? 0) - 1)).toMatchObject({ type: 'tool_completed' })
  })

  it('a custom event that is too large fails the call without another attempt, and says what to do', async () => {
    const { text, events } = await play('idempotent', (ctx) => ctx.emit('rows', 'x'.repeat(16_001)))
    expect(text).toBe(
      'The data of the custom event "rows" has 16,003 bytes of JSON, and the limit is 16,000: report what to look up, not the data.',
    )
    expect(ofType(events, 'tool_failed')).toMatchObject([{ attempt: 1, code: 'event_too_large' }])
    expect(ofType(events, 'emitted')).toEqual([])
  })
})
