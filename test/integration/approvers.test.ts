// Calls that only people with a role may approve or deny: in process, over HTTP, in lists and in SQL.
import { randomUUID } from 'node:crypto'
import { type Access, apiKeyAuthorize, createHandler } from 'pawl/service'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { approvalStage, type ApprovalStage, digestOf, once, pendingOf } from '../support/approvals.ts'
import { codeOf } from '../support/codes.ts'
import { deploy, type Deployment, SILENT } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { until } from '../support/until.ts'
import { webClient } from '../support/web.ts'

const TIMEOUT = { timeout: 30_000 }
let here: Deployment
let stage: ApprovalStage
let client: pg.Client

beforeAll(async () => {
  here = await deploy()
  client = new pg.Client(here.stack.databaseUrl)
  await client.connect()
  stage = approvalStage()
  await here.startWorker({ agents: [stage.agent] })
})
afterAll(async () => {
  await client?.end()
  await here?.stop()
})

const sql = async (text: string): Promise<Record<string, unknown>[]> => (await client.query<Record<string, unknown>>(text)).rows

const SCOPES = ['read', 'send', 'approve'] as const

/** Large amounts need finance, others support. */
const byAmount = ({ n = 0 }: { n?: number | undefined }) => ({ reason: `${n} cents`, approvers: { role: n > 100 ? 'finance' : 'support' } })

describe('a call that only people with a role may decide', () => {
  it('a call that only people with a role may decide says who may decide, and is executed once a person with the role approves it', async () => {
    const { session, entered } = stage.play(here.pawl, { model: once(['grant', 'loan', 5]) })
    const run = await session.send('go')
    const [call] = await pendingOf(run)
    expect(call).toMatchObject({ kind: 'approval', reason: 'It is final.', approvers: { role: 'finance' } })
    expect((await session.state()).current?.calls).toMatchObject([{ approvers: { role: 'finance' } }])
    expect((await session.status()).waitsFor).toMatchObject([{ to: 'approve', approvers: { role: 'finance' } }])
    await session.approve('t_1_1_0', { digest: call!.digest!, by: 'ann', roles: ['support', 'finance'] })
    await run.result(TIMEOUT)
    expect(entered()).toEqual(['grant loan'])
  })

  it('a call that only people with a role may decide refuses approvals and denials without the role, records who tried, and goes on waiting', async () => {
    const { session, entered } = stage.play(here.pawl, { model: once(['grant', 'loan']) })
    const run = await session.send('go')
    const digest = await digestOf(run, 't_1_1_0')
    expect(await codeOf(session.approve('t_1_1_0', { digest, by: 'bob', roles: ['support'] }))).toBe('not_an_approver')
    expect(await codeOf(session.deny('t_1_1_0', { digest, by: 'bob' }))).toBe('not_an_approver')
    expect(await codeOf(session.approve('t_1_1_0', { digest, roles: ['a role'] }))).toBe('invalid_option')
    expect(entered()).toEqual([])
    expect(await pendingOf(run)).toMatchObject([{ callId: 't_1_1_0' }])
    const about = { callId: 't_1_1_0', tool: 'grant', digest, approvers: { role: 'finance' }, by: 'bob' }
    expect(ofType(await eventsOf(session), 'approval_refused')).toMatchObject([
      { ...about, approved: true, roles: ['support'] },
      { ...about, approved: false },
    ])
    await until('a query finds who tried', async () => {
      const rows = await sql(
        `select json::jsonb ->> 'by' as who, json::jsonb -> 'approvers' ->> 'role' as role from pawl.events
         where type = 'approval_refused' and session_id = '${session.id}' order by seq`,
      )
      return rows.length === 2 && rows.every(({ who, role }) => who === 'bob' && role === 'finance')
    })
    await session.deny('t_1_1_0', { digest, by: 'ann', roles: ['finance'], reason: 'no' })
    await run.result(TIMEOUT)
    const [row] = await sql(`select status, role, decided_by from pawl.approvals where session_id = '${session.id}'`)
    expect(row).toEqual({ status: 'denied', role: 'finance', decided_by: 'ann' })
  })

  it('a call that only people with a role may decide needs the role of the arguments with which a person approves it, too', async () => {
    const { session, entered } = stage.play(here.pawl, { model: once(['pay', 'rent', 50]), approval: byAmount })
    const run = await session.send('go')
    const [call] = await pendingOf(run)
    expect(call).toMatchObject({ approvers: { role: 'support' }, reason: '50 cents' })
    const decision = { digest: call!.digest!, by: 'sue', roles: ['support'] }
    expect(await codeOf(session.approve('t_1_1_0', { ...decision, input: { what: 'rent', n: 5_000 } }))).toBe('not_an_approver')
    expect(entered()).toEqual([])
    await session.approve('t_1_1_0', { ...decision, input: { what: 'rent', n: 60 } })
    await run.result(TIMEOUT)
    expect(entered()).toEqual(['pay rent'])
  })

  it('a call that only people with a role may decide asks a person if the tool returns approvers that make no sense', async () => {
    const { session } = stage.play(here.pawl, { model: once(['pay', 'rent']), approval: () => ({ approvers: { role: '' } }) })
    const run = await session.send('go')
    expect(await pendingOf(run)).toMatchObject([{ reason: expect.stringContaining('approvers') }])
    await session.interrupt()
    await run.settled(TIMEOUT)
  })
})

describe('the list of pending calls', () => {
  it('the list of pending calls shows who may decide, and finds the calls of a role', async () => {
    const { session } = stage.play(here.pawl, { model: once(['pay', 'tip', 5], ['calm', 'down']), approval: byAmount })
    await pendingOf(await session.send('go'))
    const ofRole = async (role: string) => (await here.pawl.pending.list({ session: session.id, role })).items
    await until('both are listed', async () => (await here.pawl.pending.list({ session: session.id })).items.length === 2)
    expect(await ofRole('support')).toMatchObject([{ callId: 't_1_1_0', approvers: { role: 'support' } }])
    expect(await ofRole('finance')).toEqual([])
    const all = (await here.pawl.pending.list({ session: session.id })).items
    expect(all.find(({ callId }) => callId === 't_1_1_1')).toMatchObject({ approvers: null })
    await session.interrupt()
  })
})

describe('over HTTP', () => {
  const accesses: Record<string, Access> = {
    ann: { identity: 'ann', scopes: SCOPES, roles: ['finance'] },
    bob: { identity: 'bob', scopes: SCOPES },
  }
  const nameIn = (request: Request): string => (request.headers.get('authorization') ?? '').replace('Bearer ', '')

  it('a decision over HTTP counts only with the roles that authorize returns', async () => {
    const handler = createHandler({ pawl: here.pawl, authorize: (request) => accesses[nameIn(request)] ?? null, logger: SILENT })
    const { session } = stage.play(here.pawl, { model: once(['grant', 'loan']) })
    const run = await session.send('go')
    const digest = await digestOf(run, 't_1_1_0')
    const at = `/v1/sessions/${session.id}/calls/t_1_1_0/approve`
    const [ann, bob] = [webClient(handler, 'ann'), webClient(handler, 'bob')]
    expect(await bob.post(at, { digest, roles: ['finance'] })).toMatchObject({ status: 400, body: { code: 'invalid_input' } })
    expect(await bob.post(at, { digest })).toMatchObject({ status: 403, body: { code: 'not_an_approver' } })
    await until(
      'it is listed',
      async () => (await ann.get<{ items?: unknown[] }>(`/v1/pending?session=${session.id}&role=finance`)).body.items?.length === 1,
    )
    expect(await ann.post(at, { digest })).toMatchObject({ status: 200 })
    await run.result(TIMEOUT)
    expect(ofType(await eventsOf(session), 'approval_decided')).toMatchObject([{ approved: true, by: 'ann' }])
  })

  it('a decision over HTTP counts with the roles of an API key', async () => {
    const handler = createHandler({ pawl: here.pawl, authorize: apiKeyAuthorize(here.pawl), logger: SILENT })
    const { session } = stage.play(here.pawl, { model: once(['grant', 'loan']) })
    const run = await session.send('go')
    const digest = await digestOf(run, 't_1_1_0')
    const at = `/v1/sessions/${session.id}/calls/t_1_1_0/approve`
    const name = `k-${randomUUID()}`
    const { key } = await here.pawl.apiKeys.create({ name, scopes: SCOPES, roles: ['finance'] })
    const { key: other } = await here.pawl.apiKeys.create({ name: 'other', scopes: SCOPES, roles: ['support'] })
    expect(await webClient(handler, other).post(at, { digest })).toMatchObject({ status: 403, body: { code: 'not_an_approver' } })
    expect(await webClient(handler, key).post(at, { digest })).toMatchObject({ status: 200 })
    await run.result(TIMEOUT)
    expect((await here.pawl.apiKeys.list()).find((one) => one.name === name)).toMatchObject({ roles: ['finance'] })
  })
})
