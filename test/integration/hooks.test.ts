// Hooks: where they run, what their answers change, and what is recorded about them.
import { type Agent, type AgentOptions, defineHook, defineSlice, type HookContext, type Json, type ModelRequest } from 'pawl'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { inputDigestOf } from '../../src/agent/keys.ts'
import { defined } from '../../src/session/defined.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { foldedState } from '../support/folded.ts'
import { inOrder, type Played, type Scene, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'
import type { HookEvent } from '../../src/session/hooks/hooks.ts'

type Ctx = HookContext<Json, unknown, { journal: string[] }>
type Answering = (input: never, ctx: Ctx) => unknown

/** What the hooks of one session answer, by the name of the hook. */
type Answers = Readonly<Record<string, Answering>>

let here: Deployment
let pool: pg.Pool
const answering = new Map<string, Answers>()
const seen = new Map<string, [hook: string, input: unknown][]>()

/** A hook that answers what the test of its session specifies. */
function hook(on: HookEvent, name: string, more: object = {}) {
  return defineHook({
    on,
    name,
    ...more,
    run: (input: unknown, ctx: Ctx) => {
      const inputs = seen.get(ctx.sessionId) ?? []
      seen.set(ctx.sessionId, [...inputs, [ctx.hook, input]])
      return answering.get(ctx.sessionId)?.[ctx.hook]?.(input as never, ctx) as undefined
    },
  } as never)
}

const hooks = [
  hook('agentStart', 'start'),
  hook('turnStart', 'turn'),
  hook('turnStart', 'turn2'),
  hook('turnEnd', 'end'),
  hook('preToolUse', 'pre', { timeout: '300ms' }),
  hook('preToolUse', 'pre2'),
  hook('preToolUse', 'lax', { tools: ['pay'], onError: 'skip' }),
  hook('postToolUse', 'post', { tools: /^(look|put|pay)$/ }),
  hook('postToolUseFailure', 'failure'),
  hook('agentStop', 'stop'),
] satisfies AgentOptions['hooks']
/** What happened, in order. */
const journal = defineSlice({
  name: 'journal',
  version: 1,
  schema: z.array(z.string()),
  initial: [],
  on: {
    turn_started: (all, { turn }) => [...all, `turn ${turn}`],
    tool_completed: (all, { tool }) => [...all, `${tool} done`],
    tool_failed: (all, { tool }) => [...all, `${tool} failed`],
    emitted: (all, { hook: by, name }) => [...all, `${by} reported ${name}`],
    run_interrupted: (all) => [...all, 'interrupted'],
  },
})
const hooked = stage({ hooks, slices: [journal], limits: { maxTurns: 4 } } as Partial<AgentOptions>)

beforeAll(async () => {
  here = await deploy()
  pool = new pg.Pool({ connectionString: here.stack.databaseUrl, max: 2 })
  await here.startWorker({ agents: [hooked.agent as Agent] })
})
afterAll(async () => {
  await here?.stop()
  await pool?.end()
})

/** The rows of a query for one session, once there are that many. */
async function rowsOf({ id }: Pick<Played, 'id'>, query: string, length: number): Promise<unknown[]> {
  return until(`there are ${length} rows`, async () => {
    const { rows } = await pool.query(query, [id])
    return rows.length === length && rows
  })
}

function open(answers: Answers, scene: Scene): Played {
  const played = hooked.play(here.pawl, scene)
  answering.set(played.id, answers)
  return played
}

async function play(answers: Answers, scene: Scene) {
  const played = open(answers, scene)
  const { text } = await (await played.session.send('go')).result({ timeout: 60_000 })
  return { ...played, text, events: await eventsOf(played.session) }
}

const inputsOf = ({ id }: Pick<Played, 'id'>) => seen.get(id) ?? []
const names = (played: Pick<Played, 'id'>) => inputsOf(played).map(([name]) => name)

/** The texts of a request's last message. */
function lastTexts({ messages }: ModelRequest): string[] {
  const { content } = messages.at(-1) ?? { content: '' }
  return typeof content === 'string' ? [content] : content.flatMap((block) => (block.type === 'text' ? [block.text] : []))
}

describe.concurrent('hooks', () => {
  it('hooks run at their places, with their subject as input, and are recorded whether they answer or not', async () => {
    const played = await play(
      {},
      { model: inOrder([use('look', 'a'), use('put', 'b', 1)], 'done'), put: () => Promise.reject(new Error('broken')) },
    )
    const args = { what: 'a' }
    const [look, put] = ['t_1_1_0', 't_1_1_1']
    expect(inputsOf(played)).toEqual([
      ['start', { task: 'go' }],
      ['turn', { turn: 1 }],
      ['turn2', { turn: 1 }],
      ['pre', { tool: 'look', args, callId: look }],
      ['pre2', { tool: 'look', args, callId: look }],
      ['pre', { tool: 'put', args: { what: 'b', n: 1 }, callId: put }],
      ['pre2', { tool: 'put', args: { what: 'b', n: 1 }, callId: put }],
      ['post', { tool: 'look', args, callId: look, result: 'look done' }],
      ['failure', { tool: 'put', args: { what: 'b', n: 1 }, callId: put, error: { code: 'tool_failed', message: 'broken' } }],
      ['end', { turn: 1 }],
      ['turn', { turn: 2 }],
      ['turn2', { turn: 2 }],
      ['end', { turn: 2 }],
      ['stop', { result: { text: 'done', content: [{ type: 'text', text: 'done' }], stopReason: 'end_turn' } }],
    ])
    const recorded = ofType(played.events, 'hook_answered')
    expect(recorded.map(({ hook: name, turn }) => [name, turn])).toEqual([
      ...['start', 'turn', 'turn2', 'pre', 'pre2', 'pre', 'pre2', 'post', 'failure', 'end'].map((name) => [name, 1]),
      ...['turn', 'turn2', 'end', 'stop'].map((name) => [name, 2]),
    ])
    expect(recorded.every(({ answer, error }) => answer === undefined && error === undefined)).toBe(true)
  })

  it('hooks add context that stays, and system messages that appear only at the end of the next call', async () => {
    const played = await play(
      {
        start: () => ({ appendContext: 'the customer is Ann' }),
        turn: ({ turn }: { turn: number }) => (turn === 1 ? { systemMessage: 'be brief' } : undefined),
        post: () => ({ appendContext: 'it was looked at' }),
      },
      { model: inOrder([use('look', 'a')], 'done') },
    )
    const [first, second] = played.requests
    const from = '[From the system, not from the user]\n'
    expect(first?.messages).toEqual([
      { role: 'user', content: 'go' },
      {
        role: 'user',
        content: [
          { type: 'text', text: `${from}the customer is Ann` },
          { type: 'text', text: `${from}be brief` },
        ],
      },
    ])
    expect(second?.messages.map(({ role }) => role)).toEqual(['user', 'user', 'assistant', 'user', 'user'])
    expect(second?.messages[1]).toEqual({ role: 'user', content: `${from}the customer is Ann` })
    expect(second && lastTexts(second)).toEqual([`${from}it was looked at`])
    await (await played.session.send('again')).result({ timeout: 60_000 })
    expect(JSON.stringify(played.requests[2]?.messages)).toContain('it was looked at')
    expect(JSON.stringify(played.requests[2]?.messages).split('be brief')).toHaveLength(2)
  })

  it('hooks stop the run before the model is called, and overrule the answers of others', async () => {
    const played = open({ turn: () => ({ systemMessage: 'go on' }), turn2: () => ({ stop: 'out of hours' }) }, {})
    const run = await played.session.send('go')
    await expect(run.result({ timeout: 60_000 })).rejects.toMatchObject({ name: 'RunInterruptedError', reason: 'out of hours' })
    expect(played.requests).toEqual([])
    const events = await eventsOf(played.session)
    expect(ofType(events, 'run_interrupted')).toMatchObject([{ by: 'hook turn2' }])
    expect(ofType(events, 'hook_answered').map(({ hook: name, answer, overruled }) => [name, answer, overruled])).toEqual([
      ['start', undefined, undefined],
      ['turn', { systemMessage: 'go on' }, true],
      ['turn2', { stop: 'out of hours' }, undefined],
    ])
  })

  it('hooks deny calls: the model is told why, and nothing is executed', async () => {
    const played = await play(
      { pre: ({ args }: { args: object }) => ({ modify: { ...args, n: 1 } }), pre2: () => ({ deny: 'not on Sundays' }) },
      { model: inOrder([use('pay', 'a', 5)], 'done') },
    )
    expect(played.count('pay')).toBe(0)
    const denial = 'This call was not allowed and was not executed. Reason: not on Sundays'
    expect(ofType(played.events, 'tool_failed')).toMatchObject([{ callId: 't_1_1_0', code: 'denied', message: denial }])
    expect(inputsOf(played)).toContainEqual([
      'failure',
      { tool: 'pay', args: { what: 'a', n: 5 }, callId: 't_1_1_0', error: { code: 'denied', message: denial } },
    ])
    await until('it is in the ledger', async () => (await here.pawl.toolCalls({ session: played.id })).items[0]?.status === 'denied')
  })

  it('hooks change arguments: the changed ones are executed, keyed and stored, next to the model’s own', async () => {
    const played = await play(
      { pre: ({ args }: { args: object }) => ({ modify: { ...args, n: 1 } }), pre2: () => ({ modify: { what: 'other' } }) },
      { model: inOrder([use('put', 'a', 5)], [use('put', 'a', 1)], 'done') },
    )
    expect(played.entries).toMatchObject([{ tool: 'put', input: { what: 'a', n: 1 } }])
    // The second request is for what the first one did: its effect is not repeated.
    expect(ofType(played.events, 'tool_completed').map(({ replayOf }) => replayOf)).toEqual([undefined, 't_1_1_0'])
    const [changed] = ofType(played.events, 'hook_answered').filter(({ hook: name }) => name === 'pre')
    expect(changed).toMatchObject({ args: { what: 'a', n: 5 }, answer: { modify: { what: 'a', n: 1 } }, callId: 't_1_1_0' })
    expect(inputsOf(played).filter(([name]) => name === 'post')[0]).toMatchObject(['post', { args: { what: 'a', n: 1 } }])
    const stored = await until('it is in the ledger', async () => {
      const { items } = await here.pawl.toolCalls({ session: played.id })
      return items.length === 2 && items.find(({ callId }) => callId === 't_1_1_0')
    })
    expect(stored).toMatchObject({ input: { what: 'a', n: 1 }, modelInput: { what: 'a', n: 5 } })
  })

  it('hooks that fail are recorded and skipped; for a call with an effect, a person is asked', async () => {
    const played = open(
      {
        turn: () => Promise.reject(Object.assign(new Error('no network'), { code: 'ENET' })),
        end: () => ({ deny: 'me' }),
        pre: (_input, { signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
        lax: () => Promise.reject(new Error('not so important')),
      },
      { model: inOrder([use('look', 'a'), use('pay', 'b')], 'done') },
    )
    const run = await played.session.send('go')
    const settled = await run.settled({ timeout: 60_000 })
    const reason = 'The hook "pre" failed: It took longer than its timeout of 300 ms.'
    expect(settled).toMatchObject({ status: 'waiting', pending: [{ callId: 't_1_1_1', tool: 'pay', reason }] })
    const { digest = '' } = (await played.session.state()).current?.calls[1] ?? {}
    await played.session.approve('t_1_1_1', { digest, by: 'ann' })
    expect(await run.result({ timeout: 60_000 })).toMatchObject({ text: 'done' })
    expect(played.count('pay')).toBe(1)
    const failures = ofType(await eventsOf(played.session), 'hook_answered').flatMap(({ hook: name, turn, error }) =>
      error ? [[name, turn, error.code]] : [],
    )
    expect(failures).toEqual([
      ['turn', 1, 'ENET'],
      ['pre', 1, 'timeout'],
      ['pre', 1, 'timeout'],
      ['lax', 1, undefined],
      ['end', 1, 'invalid_answer'],
      ['turn', 2, 'ENET'],
      ['end', 2, 'invalid_answer'],
    ])
  })

  it('hooks also check arguments that a person provides: what they deny or change needs a new approval', async () => {
    const ask = Promise.reject(new Error('ask a person'))
    ask.catch(() => undefined)
    const played = open(
      {
        pre: ({ args }: { args: { n?: number } }) => {
          if (args.n === undefined) return ask
          if (args.n > 100) return { deny: 'too much' }
          return args.n > 10 ? { modify: { ...args, n: 10 } } : undefined
        },
      },
      { model: inOrder([use('pay', 'a')], 'done') },
    )
    const run = await played.session.send('go')
    await run.settled({ timeout: 60_000 })
    const asked = async () => (await played.session.state()).current?.calls[0]
    const digestNow = async (): Promise<string> => (await asked())?.digest ?? expect.fail('it does not wait')
    const approve = async (n: number) =>
      played.session.approve('t_1_1_0', { digest: await digestNow(), input: { what: 'a', n }, by: 'ann' })
    const before = await digestNow()
    await expect(approve(101)).rejects.toMatchObject({ code: 'denied_by_hook', message: expect.stringContaining('too much') as string })
    expect(await digestNow()).toBe(before)
    await expect(approve(50)).rejects.toMatchObject({ code: 'changed_by_hook' })
    const again = await until('approval is requested again', async () => (await digestNow()) !== before && asked())
    expect(again).toMatchObject({ status: 'awaiting_approval', input: { what: 'a', n: 10 } })
    await approve(7)
    expect(await run.result({ timeout: 60_000 })).toMatchObject({ text: 'done' })
    expect(played.entries).toMatchObject([{ tool: 'pay', input: { what: 'a', n: 7 } }])
    const stored = await until('it is in the ledger', async () => {
      const [call] = (await here.pawl.toolCalls({ session: played.id })).items
      return call?.status === 'completed' && call
    })
    expect(stored).toMatchObject({ input: { what: 'a', n: 7 }, modelInput: { what: 'a' } })
    const digestOf = (n?: number) => inputDigestOf('pay', { what: 'a', ...defined({ n }) })
    const columns = 'call_id, digest, status, decided_by, decided_at is not null as decided'
    const requests = `select ${columns} from pawl.approvals where session_id = $1 order by seq`
    expect(await rowsOf(played, requests, 2)).toEqual([
      { call_id: 't_1_1_0', digest: digestOf(), status: 'superseded', decided_by: null, decided: true },
      { call_id: 't_1_1_0', digest: digestOf(10), status: 'approved', decided_by: 'ann', decided: true },
    ])
  })

  it('hooks continue a run after its final answer, up to its turn limit', async () => {
    const played = await play({ stop: () => ({ appendContext: 'check it again' }) }, { model: ({ turn }) => `answer ${turn}` })
    expect(played.text).toBe('answer 4')
    expect(played.requests.map(({ messages }) => messages.length)).toEqual([1, 3, 5, 7])
    expect(ofType(played.events, 'run_completed')).toMatchObject([{ turns: 4 }])
    expect(names(played).filter((name) => name === 'end')).toHaveLength(4)
  })

  it('hooks run once for a model call that is retried', async () => {
    let calls = 0
    const played = await play(
      { turn: () => ({ appendContext: 'once' }) },
      {
        model: () => {
          calls += 1
          if (calls === 1) throw new Error('overloaded')
          return 'done'
        },
      },
    )
    expect(names(played)).toEqual(['start', 'turn', 'turn2', 'end', 'stop'])
    expect(ofType(played.events, 'model_attempt_failed')).toHaveLength(1)
    expect(played.requests.map(({ messages }) => messages.length)).toEqual([2, 2])
  })

  it('hooks that are due when a run is interrupted still run, before the next run', async () => {
    const door = gate()
    const played = open(
      {
        post: (_input, ctx) => {
          ctx.emit('audited', ctx.slices.journal)
          return { appendContext: 'it was looked at' }
        },
      },
      { model: inOrder([use('look', 'a'), use('put', 'b')], 'done'), put: (_input, { signal }) => door.pass(signal) },
    )
    const run = await played.session.send('go')
    await door.reached
    await played.session.interrupt()
    await expect(run.result({ timeout: 60_000 })).rejects.toMatchObject({ name: 'RunInterruptedError' })
    expect(await (await played.session.send('and now?')).result({ timeout: 60_000 })).toMatchObject({ text: 'done' })
    const events = await eventsOf(played.session)
    const order = events.flatMap((event) =>
      event.type === 'hook_answered' ? [event.hook] : /^(run_|hooks)/.test(event.type) ? [event.type] : [],
    )
    const ended = order.slice(order.indexOf('run_interrupted'), order.lastIndexOf('run_started'))
    expect(ended).toEqual(['run_interrupted', 'post', 'failure', 'end', 'hooks_ended'])
    expect(JSON.stringify(played.requests.at(-1)?.messages)).toContain('it was looked at')
    expect((await foldedState(played.session)).hooksDue).toBeUndefined()
    // The slices that the hook sees include the end of the run.
    expect(ofType(events, 'emitted')).toMatchObject([
      { run: 1, turn: 1, on: 'postToolUse', hook: 'post', callId: 't_1_1_0', data: ['turn 1', 'look done', 'put failed', 'interrupted'] },
    ])
  })

  it('hooks report custom events once, each after its hook’s answer: in the events, in the feed, and in SQL', async () => {
    const report = (_input: unknown, ctx: Ctx): void => ctx.emit(`from ${ctx.hook}`, { attempt: ctx.attempt })
    const played = await play(
      {
        start: report,
        turn: report,
        end: report,
        pre: report,
        post: report,
        failure: (_input, ctx) => {
          ctx.emit('tried')
          throw new Error('no network')
        },
        stop: report,
      },
      { model: inOrder([use('look', 'a'), use('put', 'b')], 'done'), put: () => Promise.reject(new Error('broken')) },
    )
    const [look, put] = ['t_1_1_0', 't_1_1_1']
    const reported = [
      ['start', 'from start', 1, undefined],
      ['turn', 'from turn', 1, undefined],
      ['pre', 'from pre', 1, look],
      ['pre', 'from pre', 1, put],
      ['post', 'from post', 1, look],
      ['failure', 'tried', 1, put],
      ['end', 'from end', 1, undefined],
      ['turn', 'from turn', 2, undefined],
      ['end', 'from end', 2, undefined],
      ['stop', 'from stop', 2, undefined],
    ]
    const emitted = ofType(played.events, 'emitted')
    expect(emitted.map(({ hook: by, name, turn, callId }) => [by, name, turn, callId])).toEqual(reported)
    for (const { seq, on, hook: by, turn, callId, tool, attempt } of emitted) {
      const before = played.events.find((event) => event.seq === seq - 1)
      expect(before).toMatchObject({ type: 'hook_answered', on, hook: by, turn, attempt, ...(callId && { callId, tool }) })
    }
    const stop = new AbortController()
    const fed: unknown[] = []
    for await (const { sessionId, event } of here.pawl.events({ types: ['emitted'], follow: true, signal: stop.signal })) {
      if (sessionId === played.id && fed.push(event) === reported.length) stop.abort()
    }
    expect(fed).toEqual(emitted)
    const columns = 'select hook, name, turn, call_id, tool, attempt, data from pawl.custom_events where session_id = $1 order by seq'
    expect(await rowsOf(played, columns, reported.length)).toEqual(
      emitted.map(({ hook: by, name, turn, callId = null, tool = null, attempt, data = null }) => ({
        ...{ hook: by, name, turn, call_id: callId, tool, attempt, data },
      })),
    )
  })

  it('hooks that report too much fail with the error of `ctx.emit`, which a person sees for a call with an effect', async () => {
    const played = open({ pre: (_input, ctx) => ctx.emit('all of it', 'x'.repeat(16_000)) }, { model: inOrder([use('pay', 'a')], 'done') })
    const run = await played.session.send('go')
    const reason =
      'The hook "pre" failed: The data of the custom event "all of it" has 16,002 bytes of JSON, and the limit is 16,000: ' +
      'report what to look up, not the data.'
    expect(await run.settled({ timeout: 60_000 })).toMatchObject({ status: 'waiting', pending: [{ callId: 't_1_1_0', reason }] })
    const events = await eventsOf(played.session)
    expect(ofType(events, 'hook_answered').find(({ hook: by }) => by === 'pre')?.error).toMatchObject({ code: 'event_too_large' })
    expect(ofType(events, 'emitted')).toEqual([])
    await played.session.interrupt()
  })

  it('hooks also report events when they check a person’s arguments', async () => {
    const played = open(
      {
        pre: ({ args }: { args: { n?: number } }, ctx) => {
          if (args.n === undefined) throw new Error('ask a person')
          ctx.emit('checked', args.n)
          return args.n > 10 ? { deny: 'too much' } : undefined
        },
      },
      { model: inOrder([use('pay', 'a')], 'done') },
    )
    const run = await played.session.send('go')
    await run.settled({ timeout: 60_000 })
    const digest = (await played.session.state()).current?.calls[0]?.digest ?? ''
    const approve = async (n: number) => played.session.approve('t_1_1_0', { digest, input: { what: 'a', n }, by: 'ann' })
    await expect(approve(11)).rejects.toMatchObject({ code: 'denied_by_hook' })
    await approve(10)
    await run.result({ timeout: 60_000 })
    const reports = ofType(await eventsOf(played.session), 'emitted')
    expect(reports.map(({ callId, data }) => [callId, data])).toEqual([
      ['t_1_1_0', 11],
      ['t_1_1_0', 10],
    ])
  })

  it('hooks see the slices as they are before their step', async () => {
    const saw: [string, number, unknown][] = []
    const look = (_input: unknown, ctx: Ctx): void => void saw.push([ctx.hook, ctx.turn, ctx.slices.journal])
    const report = (input: unknown, ctx: Ctx): void => {
      look(input, ctx)
      ctx.emit('it')
    }
    await play(
      { start: look, turn: look, end: look, pre: look, post: report, failure: look, stop: look },
      { model: inOrder([use('look', 'a'), use('put', 'b')], 'done'), put: () => Promise.reject(new Error('broken')) },
    )
    const first = ['turn 1']
    const second = ['turn 1', 'look done', 'put failed', 'turn 2']
    expect(saw).toEqual([
      ['start', 1, first],
      ['turn', 1, first],
      ['pre', 1, first],
      ['pre', 1, first],
      ['post', 1, second],
      ['failure', 1, second],
      ['end', 1, second],
      ['turn', 2, second],
      ['end', 2, second],
      ['stop', 2, second],
    ])
  })

  it('hooks that change a call differently do not hide that the model has already made it, with an unknown outcome', async () => {
    let asked = 0
    const played = await play(
      { pre: ({ args }: { args: object }) => ({ modify: { ...args, n: ++asked } }) },
      {
        model: inOrder([use('pay', 'a', 5)], [use('pay', 'a', 5)], 'done'),
        pay: () => Promise.reject(new Error('the reply was lost')),
      },
    )
    expect(played.entries.map(({ tool, callId, input: { n } }) => [tool, callId, n])).toEqual([
      ['pay', 't_1_1_0', 1],
      ['verify', 't_1_1_0', 1],
      ['verify', 't_1_1_0', 1],
    ])
    expect(ofType(played.events, 'tool_unknown').map(({ callId, again }) => [callId, again])).toEqual([
      ['t_1_1_0', undefined],
      ['t_1_2_0', 't_1_1_0'],
    ])
    const digestOf = (n: number): string => inputDigestOf('pay', { what: 'a', n })
    const digests = `select call_id, input_digest, input, model_input, (
        select json::jsonb -> 'calls' -> 0 ->> 'ownDigest' from pawl.events e
        where e.session_id = c.session_id and e.type = 'model_completed' and (e.json::jsonb ->> 'turn')::int = c.turn
      ) as own_digest from pawl.tool_calls c where session_id = $1 order by call_id`
    const about = (callId: string, n: number) => ({
      ...{ call_id: callId, input_digest: digestOf(n), input: { what: 'a', n } },
      ...{ model_input: { what: 'a', n: 5 }, own_digest: digestOf(5) },
    })
    expect(await rowsOf(played, digests, 2)).toEqual([about('t_1_1_0', 1), about('t_1_2_0', 2)])
  })
})
