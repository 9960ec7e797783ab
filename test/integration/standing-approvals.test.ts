// Standing approvals: what people approve without being asked again, in one session and for a context, and how that ends.
import { randomUUID } from 'node:crypto'
import { tmpdir } from 'node:os'
import { type Agent, defineAgent, defineTool } from 'pawl'
import { doctor, type SessionHandle } from 'pawl/client'
import { type Access, createHandler } from 'pawl/service'
import { scripted, type ScriptedAnswer } from 'pawl/testing'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { openStore } from '../../src/store/index.ts'
import { pendingOf } from '../support/approvals.ts'
import { codeOf } from '../support/codes.ts'
import { deploy, type Deployment, SILENT } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { until } from '../support/until.ts'
import { webClient } from '../support/web.ts'
import { runPawl } from './cli/processes.ts'

const TIMEOUT = { timeout: 30_000 }
let here: Deployment
let client: pg.Client
const paid: string[] = []

/** Each message lists the calls of the answer: `pay 500` or `sign`. */
const callsIn = (text: string): ScriptedAnswer =>
  text.split(', ').map((call, index) => {
    const [name = '', cents] = call.split(' ')
    return { type: 'tool_use', id: `x${index}`, name, input: cents === undefined ? {} : { cents: Number(cents) } }
  })

const cents = z.object({ cents: z.number().optional() })
const pay = (sessionId: string, amount: number | undefined) => {
  paid.push(`${sessionId} ${amount}`)
  return 'paid'
}
const tools = [
  defineTool({
    name: 'pay',
    description: 'Pays.',
    input: cents,
    effect: 'external',
    approval: true,
    execute: ({ cents: amount }, ctx) => pay(ctx.sessionId, amount),
  }),
  defineTool({ name: 'sign', description: 'Signs.', input: cents, effect: 'external', execute: 'client', approval: true }),
  defineTool({
    name: 'grant',
    description: 'Grants.',
    input: cents,
    effect: 'external',
    approval: ({ cents: amount = 0 }) => ({ approvers: { role: amount > 100 ? 'finance' : 'support' } }),
    execute: ({ cents: amount }, ctx) => pay(ctx.sessionId, amount),
  }),
  defineTool({
    name: 'fragile',
    description: 'Fails to decide.',
    input: cents,
    effect: 'external',
    approval: () => Promise.reject(new Error('the rules are lost')),
    execute: ({ cents: amount }, ctx) => pay(ctx.sessionId, amount),
  }),
]
const agent = defineAgent({
  name: 'payer',
  instructions: 'Pay.',
  model: scripted((request) => {
    const last = request.messages.at(-1)?.content
    return typeof last === 'string' && /^(pay|sign|grant|fragile)/.test(last) ? callsIn(last) : 'done'
  }),
  tools,
}) as Agent

/** Its first call is lost, and the model, which is told, makes it again beside another one. */
const forgetful = defineAgent({
  name: 'forgetful',
  instructions: 'Pay.',
  model: scripted(({ turn }) => (turn === 1 ? callsIn('lose') : turn === 2 ? callsIn('lose, lose 5') : 'done')),
  tools: [
    defineTool({
      name: 'lose',
      description: 'Pays.',
      input: cents,
      effect: 'external',
      approval: true,
      onUnknown: 'tell_model',
      execute({ cents: amount }, ctx) {
        pay(ctx.sessionId, amount)
        if (amount === undefined) throw new Error('the line is dead')
        return 'paid'
      },
    }),
  ],
}) as Agent

beforeAll(async () => {
  here = await deploy()
  client = new pg.Client(here.stack.databaseUrl)
  await client.connect()
  await here.startWorker({ agents: [agent, forgetful] })
})
afterAll(async () => {
  await client?.end()
  await here?.stop()
})

const sql = async (text: string): Promise<Record<string, unknown>[]> => (await client.query<Record<string, unknown>>(text)).rows
const open = (context?: object, more: object = {}): SessionHandle =>
  here.pawl.session(randomUUID(), { agent: 'payer', ...(context && { context: context as never }), ...more }) as SessionHandle
const paidIn = ({ id }: SessionHandle): string[] => paid.filter((one) => one.startsWith(id)).map((one) => one.slice(id.length + 1))

/** Sends calls, and approves the first one that waits. */
async function approveFirst(session: SessionHandle, calls: string, decision: object = {}) {
  const run = await session.send(calls)
  const [call] = await pendingOf(run)
  const answer = await session.approve(call!.callId, { digest: call!.digest!, by: 'ann', ...decision })
  return { run, answer, callId: call!.callId }
}

/** The calls that still wait after the message, or the text of the answer. */
async function after(session: SessionHandle, calls: string): Promise<string[] | 'done'> {
  const settled = await (await session.send(calls)).settled(TIMEOUT)
  if (settled.status === 'waiting') return settled.pending.map(({ callId }) => callId)
  return settled.status === 'completed' ? 'done' : Promise.reject(new Error(JSON.stringify(settled)))
}

/** Waits until the inbox shows a call of each session. */
const allStored = (sessions: readonly SessionHandle[]) =>
  until('the calls are stored', async () => {
    const { items } = await here.pawl.pending.list({ limit: 200 })
    return sessions.every(({ id }) => items.some(({ sessionId }) => sessionId === id))
  })

const stored = (rule: string | undefined) =>
  until('the rule is stored', async () => (await here.pawl.approvals.rules({ all: true })).find(({ id }) => id === rule))

describe('a standing approval for a session', () => {
  it('a standing approval for a session approves later calls of the tool, whatever their arguments, and the record says which rule did', async () => {
    const session = open()
    const remember = { for: 'session', matching: 'tool' } as const
    const { run, answer } = await approveFirst(session, 'pay 1', { remember, note: 'trusted' })
    expect(answer).toMatchObject({ digest: expect.any(String), rule: expect.stringMatching(/^ar_/) })
    await run.result(TIMEOUT)
    expect(await after(session, 'pay 2')).toBe('done')
    expect(await after(session, 'pay 3')).toBe('done')
    expect(paidIn(session)).toEqual(['1', '2', '3'])
    const events = await eventsOf(session)
    expect(ofType(events, 'approval_rule_given')).toMatchObject([{ tool: 'pay', matching: 'tool', by: 'ann', note: 'trusted' }])
    expect(ofType(events, 'approval_requested')).toHaveLength(1)
    expect(ofType(events, 'approval_decided')).toMatchObject([{ by: 'ann' }, { by: 'ann', rule: answer.rule }, { rule: answer.rule }])
    await until('the audit is stored', async () => {
      const rows = await sql(`select status, decided_by, rule from pawl.approvals where session_id = '${session.id}' order by seq`)
      return rows.length === 3 && rows[2]?.rule === answer.rule && rows[2]?.decided_by === 'ann' && rows[2]?.status === 'approved'
    })
    expect(await stored(answer.rule)).toMatchObject({ for: 'session', sessionId: session.id, used: 2, givenBy: 'ann', note: 'trusted' })
    // Other sessions have their own.
    expect(await after(open(), 'pay 4')).toEqual(['t_1_1_0'])
  })

  it('a standing approval for a session approves only calls with the same arguments, or within its bounds', async () => {
    const same = open()
    await (await approveFirst(same, 'pay 5', { remember: { for: 'session', matching: 'input' } })).run.result(TIMEOUT)
    expect(await after(same, 'pay 6')).toEqual(['t_2_1_0'])
    await same.interrupt()
    const bounded = open()
    const remember = { for: 'session', matching: { '/cents': { min: 1, max: 100 } } } as const
    await (await approveFirst(bounded, 'pay 500', { remember })).run.result(TIMEOUT)
    expect(await after(bounded, 'pay 100')).toBe('done')
    expect(await after(bounded, 'pay')).toEqual(['t_3_1_0'])
    await bounded.interrupt()
    expect(await after(bounded, 'pay 101')).toEqual(['t_4_1_0'])
    await bounded.interrupt()
  })

  it('a standing approval for a session also approves the session’s other calls that wait, but no more than it has uses', async () => {
    const session = open()
    const remember = { for: 'session', matching: 'tool', uses: 3 } as const
    const { run, answer } = await approveFirst(session, 'pay 1, pay 2, pay 3', { remember })
    expect(answer.released).toEqual(['t_1_1_1', 't_1_1_2'])
    await run.result(TIMEOUT)
    await stored(answer.rule)
    expect(await here.pawl.approvals.rules({ session: session.id })).toHaveLength(1)
    expect(await after(session, 'pay 4, pay 5')).toEqual(['t_2_1_1'])
    expect(paidIn(session)).toEqual(['1', '2', '3', '4'])
    await until('the last use is stored', async () => (await stored(answer.rule)).used === 3)
    expect(await here.pawl.approvals.rules({ session: session.id })).toEqual([])
    await session.interrupt()
  })

  it('a standing approval for a session approves no waiting call that repeats one whose outcome is unknown', async () => {
    const session = open(undefined, { agent: 'forgetful' })
    const run = await session.send('go')
    const [first] = await pendingOf(run)
    await session.approve(first!.callId, { digest: first!.digest!, by: 'ann' })
    const second = await until('both calls wait', async () => {
      const settled = await run.settled(TIMEOUT)
      return settled.status === 'waiting' && settled.pending.find(({ callId }) => callId === 't_1_2_1')
    })
    const { released } = await session.approve('t_1_2_1', { digest: second.digest!, remember: { for: 'session', matching: 'tool' } })
    expect(released).toBeUndefined()
    expect((await pendingOf(run)).map(({ callId }) => callId)).toContain('t_1_2_0')
    expect(paidIn(session)).toEqual(['undefined'])
    await session.interrupt()
  })

  it('a standing approval for a session approves calls of client tools, which then wait for their answer only', async () => {
    const session = open()
    const { run } = await approveFirst(session, 'sign', { remember: { for: 'session', matching: 'tool' } })
    await session.answer('t_1_1_0', 'ok')
    await run.result(TIMEOUT)
    const next = await session.send('sign 2')
    expect(await pendingOf(next)).toMatchObject([{ kind: 'client', callId: 't_2_1_0' }])
    await session.answer('t_2_1_0', 'ok')
    await next.result(TIMEOUT)
  })

  it('a standing approval for a session satisfies only the approvers under which it was given, and never replaces a function that fails', async () => {
    const session = open()
    const remember = { for: 'session', matching: 'tool' } as const
    const { run } = await approveFirst(session, 'grant 1', { remember, roles: ['support'] })
    await run.result(TIMEOUT)
    expect(await after(session, 'grant 2')).toBe('done')
    expect(await after(session, 'grant 500')).toEqual(['t_3_1_0'])
    await session.interrupt()
    const fragile = open()
    const waiting = await fragile.send('fragile 1')
    const [call] = await pendingOf(waiting)
    expect(await codeOf(fragile.approve(call!.callId, { digest: call!.digest!, remember }))).toBe('invalid_rule')
    await fragile.interrupt()
  })

  it('a standing approval for a session ends when it is revoked, and cannot be revoked twice in different ways', async () => {
    const session = open()
    const { run, answer } = await approveFirst(session, 'pay 1', { remember: { for: 'session', matching: 'tool' } })
    await run.result(TIMEOUT)
    await stored(answer.rule)
    expect(await here.pawl.approvals.revoke(answer.rule!, { by: 'bob', reason: 'no more' })).toMatchObject({ revokedBy: 'bob' })
    expect(await after(session, 'pay 2')).toEqual(['t_2_1_0'])
    expect(ofType(await eventsOf(session), 'approval_rule_revoked')).toMatchObject([{ rule: answer.rule, by: 'bob', reason: 'no more' }])
    await until('it is stored', async () => (await here.pawl.approvals.rules({ session: session.id })).length === 0)
    expect(await here.pawl.approvals.revoke(answer.rule!, { by: 'cid' })).toMatchObject({ revokedBy: 'bob' })
    expect(await codeOf(here.pawl.approvals.revoke('ar_none'))).toBe('rule_not_found')
    await session.interrupt()
  })

  it('a standing approval for a session is gone once the session goes back behind it, does not come back, and is not inherited by forks', async () => {
    const session = open()
    await (await session.send('hello', { messageId: 'first' })).result(TIMEOUT)
    const { run, answer } = await approveFirst(session, 'pay 1', { remember: { for: 'session', matching: 'tool' } })
    await run.result(TIMEOUT)
    const fork = await session.fork()
    expect(await after(fork, 'pay 2')).toEqual([expect.stringMatching(/_1_0$/)])
    await session.rollback({ run: 2 })
    expect(await after(session, 'pay 2')).toEqual([expect.stringMatching(/_1_0$/)])
    await until('its row says so', async () => (await stored(answer.rule))?.revokedBy === 'rollback')
    await session.interrupt()
    await fork.interrupt()
  })

  it('a standing approval for a session refuses what cannot be remembered, and approves nothing then', async () => {
    const session = open()
    const run = await session.send('pay 1')
    const [call] = await pendingOf(run)
    const attempt = (remember: unknown) => codeOf(session.approve(call!.callId, { digest: call!.digest!, remember: remember as never }))
    for (const bad of [
      { for: 'everyone', matching: 'tool' },
      { for: 'session', matching: {} },
      { for: 'session', matching: { cents: { max: 1 } } },
      { for: 'session', matching: { '/cents': { most: 1 } } },
      { for: 'session', matching: { '/cents': { max: 'x' } } },
      { for: 'session', matching: { '/cents': { oneOf: ['y'.repeat(2_000)] } } },
      { for: 'session', matching: 'tool', until: Date.now() - 1_000 },
      { for: 'context', matching: 'tool' },
    ])
      expect(await attempt(bad)).toBe('invalid_rule')
    expect(await attempt({ for: 'session', matching: 'tool', uses: 0 })).toBe('invalid_option')
    expect(await attempt({ for: 'session', matching: 'tool', hours: 1 })).toBe('invalid_option')
    expect(await pendingOf(run)).toHaveLength(1)
    await session.interrupt()
  })

  it('a standing approval for a session ends at its time', async () => {
    const session = open()
    const ends = Date.now() + 2_500
    const { run } = await approveFirst(session, 'pay 1', { remember: { for: 'session', matching: 'tool', until: new Date(ends) } })
    await run.result(TIMEOUT)
    expect(await after(session, 'pay 2')).toBe('done')
    await until('the time has come', async () => Date.now() > ends)
    expect(await after(session, 'pay 3')).toEqual(['t_3_1_0'])
    await session.interrupt()
  })
})

describe('a session full of standing approvals', () => {
  it('a standing approval for a session is refused beside 20 others, until one of them has ended', async () => {
    const session = open()
    const run = await session.send(Array.from({ length: 22 }, (_, n) => `pay ${n}`).join(', '))
    const calls = await pendingOf(run)
    const approve = ({ callId, digest }: (typeof calls)[number], until?: number) =>
      session.approve(callId, { digest: digest!, by: 'ann', remember: { for: 'session', matching: 'input', ...(until && { until }) } })
    const ends = Date.now() + 6_000
    for (const [n, call] of calls.slice(0, 20).entries()) await approve(call, n === 7 ? ends : undefined)
    const [refused, accepted] = calls.slice(20)
    if (Date.now() < ends - 500) expect(await codeOf(approve(refused!))).toBe('too_many_rules')
    await until('one has ended', () => Date.now() > ends)
    expect(await approve(refused!)).toMatchObject({ rule: expect.stringMatching(/^ar_/) })
    expect(await codeOf(approve(accepted!))).toBe('too_many_rules')
    const rules = await until('all are stored', async () => {
      const found = await here.pawl.approvals.rules({ session: session.id })
      return found.length === 20 && found
    })
    expect(rules.every((rule) => rule.until === null)).toBe(true)
    await session.interrupt()
  })
})

describe('a standing approval for a context', () => {
  const customer = () => ({ customer: randomUUID(), plan: 'pro' })

  it('a standing approval for a context approves calls in other sessions whose contexts have the same members, and no others', async () => {
    const context = customer()
    const first = open(context)
    const remember = { for: { context: ['customer'] }, matching: { '/cents': { max: 100 } }, uses: 2 }
    const { run, answer } = await approveFirst(first, 'pay 500', { remember })
    await run.result(TIMEOUT)
    expect(await stored(answer.rule)).toMatchObject({ for: 'context', members: { customer: context.customer }, uses: 2, used: 0 })
    const second = open({ ...context, plan: 'free' })
    expect(await after(second, 'pay 1')).toBe('done')
    expect(await after(open(customer()), 'pay 1')).toEqual(['t_1_1_0'])
    expect(await after(open({ ...context }), 'pay 101')).toEqual(['t_1_1_0'])
    expect(await after(open({ ...context }, { tags: ['tenant:other'] }), 'pay 1')).toEqual(['t_1_1_0'])
    expect(await after(first, 'pay 2, pay 3')).toEqual(['t_2_1_1'])
    expect(await stored(answer.rule)).toMatchObject({ used: 2 })
    const [decision] = ofType(await eventsOf(second), 'approval_decided')
    expect(decision).toMatchObject({ approved: true, rule: answer.rule, by: 'ann' })
  })

  it('a standing approval for a context also approves calls that wait in other sessions and that it covers, and no others', async () => {
    const context = customer()
    const waiting = async (calls: string, of: object = context, more: object = {}) => {
      const session = open(of, more)
      const run = await session.send(calls)
      await pendingOf(run)
      return { session, run }
    }
    const covered = await waiting('pay 1', { ...context, plan: 'free' })
    const kept = [
      await waiting('pay 101'),
      await waiting('grant 1'),
      await waiting('pay 1', customer()),
      await waiting('pay 1', context, { tags: ['tenant:other'] }),
    ]
    await allStored([covered, ...kept].map(({ session }) => session))
    const remember = { for: { context: ['customer'] }, matching: { '/cents': { max: 100 } } }
    const first = open(context)
    const { run, answer } = await approveFirst(first, 'pay 500, pay 2', { remember })
    await run.result(TIMEOUT)
    await covered.run.result(TIMEOUT)
    expect(ofType(await eventsOf(covered.session), 'approval_decided')).toMatchObject([{ approved: true, rule: answer.rule, by: 'ann' }])
    expect(paidIn(covered.session)).toEqual(['1'])
    expect(paidIn(first)).toEqual(['500', '2'])
    await until('its uses are counted', async () => (await stored(answer.rule))?.used === 2)
    // Another tenant's sessions are not even asked: a thousand of their calls would leave none of the rule's own.
    const store = openStore({ postgres: here.stack.databaseUrl })
    const asked = await store.rules.waiting(answer.rule ?? '').finally(() => store.close())
    expect(asked?.calls.map(({ sessionId }) => sessionId)).toEqual([kept[0]?.session.id])
    for (const { session, run: one } of kept) {
      expect(await pendingOf(one)).toHaveLength(1)
      expect(paidIn(session)).toEqual([])
      await session.interrupt()
    }
  })

  it('a standing approval for a context approves the calls that have waited longest, as many as it has uses', async () => {
    const context = customer()
    const sessions = []
    for (let n = 1; n <= 4; n++) {
      const session = open(context)
      const run = await session.send(`pay ${n}`)
      await pendingOf(run)
      sessions.push({ session, run })
    }
    await allStored(sessions.map(({ session }) => session))
    const { run, answer } = await approveFirst(open(context), 'pay 500', { remember: { for: 'context', matching: 'tool', uses: 2 } })
    await run.result(TIMEOUT)
    for (const one of sessions.slice(0, 2)) await one.run.result(TIMEOUT)
    await until('no use is left', async () => (await stored(answer.rule))?.used === 2)
    for (const one of sessions.slice(2)) {
      expect(await pendingOf(one.run)).toHaveLength(1)
      await one.session.interrupt()
    }
  })

  it('the inbox groups the calls that one standing approval would approve', async () => {
    const context = customer()
    const wait = async (calls: string, of?: object, more: object = {}) => {
      const session = open(of, more)
      await pendingOf(await session.send(calls))
      return session
    }
    const alike = [await wait('pay 1', context), await wait('pay 2, pay 3', { plan: 'pro', customer: context.customer })]
    const others = [
      await wait('grant 1', context),
      await wait('grant 500', context),
      await wait('pay 1', customer()),
      await wait('pay 1', context, { tags: ['tenant:other'] }),
      await wait('pay 1'),
      await wait('pay 1'),
    ]
    await allStored([...alike, ...others])
    const groupsOf = async (sessions: readonly SessionHandle[], query: object = {}) => {
      const found: string[] = []
      for await (const call of here.pawl.pending.list({ kind: 'approval', agent: 'payer', ...query }))
        if (call.kind === 'approval' && sessions.some(({ id }) => id === call.sessionId)) found.push(call.group)
      return found
    }
    const [group = ''] = await groupsOf(alike)
    expect(await groupsOf(alike)).toEqual([group, group, group])
    expect(new Set([group, ...(await groupsOf(others))]).size).toBe(1 + others.length)
    expect(await groupsOf([...alike, ...others], { group })).toHaveLength(3)
    const handler = createHandler({ pawl: here.pawl, authorize: () => ({ identity: 'ann', scopes: ['read'] }), logger: SILENT })
    const { body } = await webClient(handler, 'ann').get<{ items: { group: string }[] }>(`/v1/pending?group=${group}`)
    expect(body.items.map((one) => one.group)).toEqual([group, group, group])
    // One decision settles the group.
    const [first] = (await here.pawl.pending.list({ group, limit: 1 })).items
    const remember = { for: 'context', matching: 'tool' } as const
    await here.pawl.session(first!.sessionId).approve(first!.callId, { digest: first!.digest!, remember })
    await until('the group is gone', async () => (await groupsOf(alike)).length === 0)
    for (const session of alike) await until('it has ended', async () => (await session.state()).status === 'idle')
    for (const session of others) await session.interrupt()
  })

  it('a standing approval for a context ends at once when it is revoked, also for calls that were matched before', async () => {
    const context = customer()
    const first = open(context)
    const { run, answer } = await approveFirst(first, 'pay 1', { remember: { for: 'context', matching: 'tool' } })
    await run.result(TIMEOUT)
    await stored(answer.rule)
    const second = open(context)
    // The second call is resolved with the first, which waits for a person: the rule does not cover its tool.
    const waiting = await second.send('grant 1, pay 7')
    const [call] = await pendingOf(waiting)
    expect(call?.callId).toBe('t_1_1_0')
    expect(await here.pawl.approvals.revoke(answer.rule!, { by: 'bob' })).toMatchObject({ revokedBy: 'bob' })
    await second.approve('t_1_1_0', { digest: call!.digest!, roles: ['support'] })
    expect(await pendingOf(waiting)).toMatchObject([{ callId: 't_1_1_1', reason: expect.stringContaining('was revoked') }])
    expect(paidIn(second)).toEqual(['1'])
    await second.interrupt()
  })

  it('a standing approval for a context is void for a tool whose input has changed', async () => {
    const context = customer()
    const { run, answer } = await approveFirst(open(context), 'pay 1', { remember: { for: 'context', matching: 'tool' } })
    await run.result(TIMEOUT)
    await stored(answer.rule)
    await sql(`update pawl.approval_rules set schema_digest = 'of another build' where id = '${answer.rule}'`)
    const session = open(context)
    expect(await after(session, 'pay 1')).toEqual(['t_1_1_0'])
    const { temporalAddress: address, namespace, databaseUrl: postgres } = here.stack
    const rules = await until('the doctor sees the call', async () => {
      const { checks } = await doctor({ temporal: { address, namespace }, postgres, taskQueue: here.taskQueue })
      const found = checks.find(({ check }) => check === 'rules')
      return found?.level === 'warn' && found
    })
    expect(rules.measured).toContain(`${answer.rule} (pay of payer)`)
  })

  it('a standing approval for a context is erased with the session in which it was given', async () => {
    const context = customer()
    const first = open(context)
    const { run, answer } = await approveFirst(first, 'pay 1', { remember: { for: 'context', matching: 'tool' } })
    await run.result(TIMEOUT)
    await stored(answer.rule)
    await first.close()
    await here.workflowEnded(first.id)
    await here.pawl.erase(first.id, { by: 'ann' })
    expect(await here.pawl.approvals.rules({ session: first.id, all: true })).toEqual([])
    expect(await after(open(context), 'pay 1')).toEqual(['t_1_1_0'])
  })
})

describe('in the terminal', () => {
  it('a rule is given, listed and revoked, and a person states a role', { timeout: 90_000 }, async () => {
    const { temporalAddress, namespace, databaseUrl } = here.stack
    const env = { TEMPORAL_ADDRESS: temporalAddress, TEMPORAL_NAMESPACE: namespace, DATABASE_URL: databaseUrl }
    const pawl = async (...args: string[]) => {
      const { code, stdout, stderr } = await runPawl([...args, '--task-queue', here.taskQueue], { cwd: tmpdir(), env })
      return { code, out: `${stdout}${stderr}` }
    }
    const session = open()
    const run = await session.send('grant 500')
    await pendingOf(run)
    expect(await pawl('approve', session.id, 't_1_1_0', '--uses', '2')).toMatchObject({
      code: 1,
      out: expect.stringContaining('--remember'),
    })
    expect(await pawl('approve', session.id, 't_1_1_0')).toMatchObject({ code: 1, out: expect.stringContaining('not_an_approver') })
    await until('it is listed', async () =>
      (await runPawl(['pending', '--role', 'finance'], { cwd: tmpdir(), env })).stdout.includes(session.id),
    )
    const remember = ['--remember', 'session', '--matching', '{"/cents":{"max":1000}}', '--uses', '2']
    const given = await pawl('approve', session.id, 't_1_1_0', '--role', 'finance', '--by', 'ann', ...remember)
    expect(given).toMatchObject({ code: 0, out: expect.stringMatching(/the rule ar_\w+ approves later calls/) })
    await run.result(TIMEOUT)
    const [rule = ''] = /ar_\w+/.exec(given.out) ?? []
    await stored(rule)
    expect(await after(session, 'grant 600')).toBe('done')
    const listed = await until('the use is stored', async () => {
      const { out } = await pawl('approvals', 'rules', '--session', session.id)
      return out.includes('1 of 2') && out
    })
    expect(listed).toContain(rule)
    expect(await pawl('approvals', 'revoke', rule, '--by', 'bob')).toMatchObject({ code: 0, out: expect.stringContaining(`Rule ${rule}`) })
    expect(await after(session, 'grant 700')).toEqual(['t_3_1_0'])
    await session.interrupt()
  })
})

describe('over HTTP', () => {
  const scopes = ['read', 'send', 'approve'] as const
  const accesses: Record<string, Access> = {
    acme: { identity: 'ann', scopes, tenant: 'acme', context: { tenantId: 'acme' } },
    globex: { identity: 'gil', scopes, tenant: 'globex' },
    reader: { identity: 'ron', scopes: ['read'], tenant: 'acme' },
  }
  const nameIn = (request: Request): string => (request.headers.get('authorization') ?? '').replace('Bearer ', '')

  it('a rule is given, listed and revoked, and belongs to its tenant', async () => {
    const handler = createHandler({ pawl: here.pawl, authorize: (request) => accesses[nameIn(request)] ?? null, logger: SILENT })
    const [acme, globex, reader] = [webClient(handler, 'acme'), webClient(handler, 'globex'), webClient(handler, 'reader')]
    const id = `acme:${randomUUID()}`
    await acme.post('/v1/sessions', { id, agent: 'payer', content: 'pay 1' })
    const session = here.pawl.session(id)
    const [call] = await until('it waits', async () => {
      const { current } = await session.state().catch(() => ({ current: null }))
      return current?.calls.some(({ status }) => status === 'awaiting_approval') && current.calls
    })
    const at = `/v1/sessions/${encodeURIComponent(id)}/calls/t_1_1_0/approve`
    const remember = { for: { context: ['tenantId'] }, matching: 'tool' }
    expect(await acme.post(at, { digest: call!.digest, remember: { ...remember, for: 'all' } })).toMatchObject({ status: 400 })
    const { status, body } = await acme.post<{ rule: string }>(at, { digest: call!.digest, remember })
    expect({ status, body }).toMatchObject({ status: 200, body: { rule: expect.stringMatching(/^ar_/) } })
    await stored(body.rule)
    const list = async (who: typeof acme) =>
      (await who.get<{ items: { id: string }[] }>('/v1/approval-rules')).body.items.map((one) => one.id)
    expect(await list(acme)).toContain(body.rule)
    expect(await list(globex)).not.toContain(body.rule)
    const revoke = `/v1/approval-rules/${body.rule}/revoke`
    expect(await globex.post(revoke, {})).toMatchObject({ status: 404, body: { code: 'rule_not_found' } })
    expect(await reader.post(revoke, {})).toMatchObject({ status: 403 })
    expect(await acme.post(revoke, { reason: 'done' })).toMatchObject({ status: 200, body: { revokedBy: 'ann' } })
    expect(await list(acme)).not.toContain(body.rule)
  })
})
