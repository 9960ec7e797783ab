// A tree of agents as one thing: its inbox, its watch, its usage, its lists, and why its root waits; by client, HTTP and CLI.
import { tmpdir } from 'node:os'
import { createHandler } from 'pawl/service'
import type { TreeItem } from 'pawl/client'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { openStore } from '../../src/store/index.ts'
import { codeOf } from '../support/codes.ts'
import { deploy, type Deployment } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { ownSchema, type OwnSchema } from '../support/rows.ts'
import { ask, passOn, treeStage } from '../support/tree.ts'
import { gate, until } from '../support/until.ts'
import { eventsUntil, webClient, type WebClient } from '../support/web.ts'
import { runPawl } from './cli/processes.ts'

let schema: OwnSchema
let here: Deployment
let web: WebClient
const tree = treeStage()
const TIMEOUT = { timeout: 30_000 }
const LIMIT = { timeout: 180_000 }

beforeAll(async () => {
  schema = await ownSchema(inject('stack').databaseUrl, 'tree')
  here = await deploy({ schema: schema.name })
  await here.startWorker({ agents: tree.agents })
  web = webClient(createHandler({ pawl: here.pawl, authorize: () => ({ identity: 'ann', scopes: ['read'] }) }), 'key')
})
afterAll(async () => {
  await here?.stop()
  await schema?.close()
})

/** A tree whose clerk waits for an approval. */
async function waitingTree() {
  const played = tree.play(here.pawl, {
    boss: passOn(ask('helper', 'pay it')),
    helper: passOn(ask('clerk', 'pay it')),
    clerk: passOn({ tool: 'pay', input: { what: 'rent' } }),
  })
  const run = await played.session.send('go')
  const [call] = await until('the inbox of the tree has the call', async () => {
    const calls = await played.session.pending({ tree: true })
    return calls.length > 0 && calls
  })
  if (!call) throw new Error('no call')
  const [helper = ''] = played.sessionsOf('helper')
  return { ...played, run, call, helper, clerk: call.sessionId }
}

const approve = ({ clerk, call }: Awaited<ReturnType<typeof waitingTree>>) =>
  here.pawl.session(clerk).approve(call.callId, { digest: call.digest ?? '', by: 'ann' })

it('the inbox of a tree has the calls of all its sessions, with the agents above each', async () => {
  const played = await waitingTree()
  expect(played.call).toMatchObject({
    sessionId: `${played.helper}/${played.clerk.slice(-12)}`,
    agent: 'clerk',
    path: ['boss', 'helper'],
    kind: 'approval',
  })
  expect(await played.session.pending()).toEqual([])
  expect((await here.pawl.session(played.helper).pending({ tree: true })).map(({ sessionId }) => sessionId)).toEqual([played.clerk])
  expect(await codeOf(here.pawl.pending.list({ tree: true }))).toBe('invalid_option')
  const answer = await web.get(`/v1/pending?session=${played.id}&tree=true`)
  expect(answer.body).toMatchObject({ items: [{ sessionId: played.clerk, path: ['boss', 'helper'] }] })
  await approve(played)
  await played.run.result(TIMEOUT)
  await until('it is empty', async () => (await played.session.pending({ tree: true })).length === 0)
})

it('the status of the root says which session holds it up, and what it waits for', async () => {
  const played = await waitingTree()
  const { status, waitsFor } = await played.session.status()
  expect(status).toBe('running')
  const below = [{ for: 'person', to: 'approve', session: played.clerk, callId: 't_1_1_0', tool: 'pay', digest: played.call.digest }]
  expect(waitsFor).toMatchObject([{ for: 'agent', session: played.helper, below }])
  const said = await runPawl(['status', played.id, '--schema', schema.name], place())
  expect(said.stdout).toContain(`waits in session ${played.clerk}`)
  expect(said.stdout).toContain(`pawl approve ${played.clerk} t_1_1_0`)
  await here.pawl.session(played.clerk).pause({ by: 'ann', reason: 'lunch' })
  await until('the pause is shown', async () => {
    const [wait] = (await played.session.status()).waitsFor
    return wait?.below?.some(({ to, session, reason }) => to === 'unpause' && session === played.clerk && reason === 'lunch')
  })
  await played.session.interrupt()
  await played.run.settled(TIMEOUT)
})

it('the root of a tree in which an agent has spent its budget says so', async () => {
  const other = await deploy({ schema: schema.name })
  const poor = treeStage({ call: { budget: { maxUsd: 0.000_001 } } as never, model: { maxTokens: 100, price: { input: 0, output: 100 } } })
  await other.startWorker({ agents: poor.agents })
  const { id, session, sessionsOf, count } = poor.play(other.pawl, { boss: passOn(ask('helper', 'x')) })
  await session.send('go')
  const below = await until('the root says why it waits', async () => (await session.status()).waitsFor[0]?.below)
  const [{ child } = {}] = ofType(await eventsOf(session), 'answer_requested')
  expect([count('helper'), sessionsOf('helper')]).toEqual([0, []])
  expect(below).toMatchObject([{ for: 'person', to: 'raise', session: child?.session }])
  expect(below?.[0]?.reason).toMatch(new RegExp(`^budget_exhausted: .*Raise the limit of session ${id}\\.$`))
  await other.stop()
})

it('lists leave children out unless they are asked for', async () => {
  const played = await waitingTree()
  const [{ createdAt: since }] = [await here.pawl.sessions.get(played.id)]
  const ids = async (options: Parameters<typeof here.pawl.sessions.list>[0]) =>
    (await here.pawl.sessions.list({ since, ...options })).items.map(({ sessionId }) => sessionId).sort()
  const all = [played.id, played.helper, played.clerk]
  expect(await ids({})).toEqual([played.id])
  expect(await ids({ children: true })).toEqual(all)
  expect(await ids({ tree: played.id })).toEqual(all)
  expect(await ids({ tree: played.helper })).toEqual([played.helper, played.clerk])
  expect((await here.pawl.sessions.get(played.clerk)).root).toBe(played.id)
  // A session of its own, with an id as if it were below the root.
  await here.pawl
    .session(`${played.id}/own`, { agent: 'boss' })
    .send('x')
    .catch(() => undefined)
  await until('it is stored', async () => (await ids({})).length === 2)
  expect(await ids({ tree: played.id })).toEqual(all)
  const listed = await web.get(`/v1/sessions?tree=${played.helper}`)
  expect((listed.body as { items: { sessionId: string }[] }).items.map(({ sessionId }) => sessionId).sort()).toEqual([
    played.helper,
    played.clerk,
  ])
  const shown = await runPawl(['show', played.id, '--tree', '--schema', schema.name], place())
  expect(shown.stdout).toMatch(/boss.*\n.*helper.*\n.*clerk.*waiting.*approval of pay \(t_1_1_0\)/)
  await played.session.interrupt()
  await played.run.settled(TIMEOUT)
})

it('the usage of a tree is the sum over its sessions', async () => {
  const { id, session, run, ...played } = await waitingTree()
  await approve({ id, session, run, ...played })
  await run.result(TIMEOUT)
  const perSession = await until('all is stored', async () => {
    const sums = await session.usage({ tree: true })
    return sums.reduce((sum, { calls }) => sum + calls, 0) === 6 && sums
  })
  expect(perSession.map(({ key, calls }) => [key, calls]).sort()).toEqual(
    [
      [id, 2],
      [played.helper, 2],
      [played.clerk, 2],
    ].sort(),
  )
  expect((await session.usage({ tree: true, by: 'agent' })).map(({ key }) => key).sort()).toEqual(['boss', 'clerk', 'helper'])
  expect((await session.usage()).map(({ key, calls }) => [key, calls])).toEqual([[id, 2]])
  const usage = await web.get(`/v1/usage?by=agent&session=${id}&tree=true`)
  expect((usage.body as { items: unknown[] }).items).toHaveLength(3)
  expect((await runPawl(['usage', id, '--tree', '--schema', schema.name], place())).stdout).toMatch(/clerk/)
  expect((await session.toolCalls({ status: 'completed' })).map(({ tool }) => tool)).toEqual(['helper'])
})

it('a watch of a tree shows each session from its question to its report, each event once and after the call that asks', async () => {
  const played = tree.play(here.pawl, {
    boss: passOn(ask('helper', 'pay it'), ask('helper', 'pay more')),
    helper: passOn(ask('clerk', 'pay it')),
    clerk: passOn({ tool: 'pay', input: { what: 'small' } }),
  })
  const stop = new AbortController()
  const items: TreeItem[] = []
  const watched = (async () => {
    for await (const item of played.session.watch({ tree: true, signal: stop.signal })) items.push(item)
  })()
  const run = await played.session.send('go')
  await run.result(TIMEOUT)
  const events = () => items.flatMap((item) => (item.type === 'event' ? [item] : []))
  await until('all children have reported', () => events().filter(({ event }) => event.type === 'caller_told').length === 4)
  await until('the run has ended', () => events().some(({ sessionId, event }) => sessionId === played.id && event.type === 'run_completed'))
  stop.abort()
  await watched
  const sessions = [played.id, ...played.sessionsOf('helper'), ...played.sessionsOf('clerk')]
  for (const id of sessions) {
    const seqs = events().flatMap(({ sessionId, event }) => (sessionId === id ? [event.seq] : []))
    expect(seqs, id).toEqual(seqs.map((_, n) => n + 1))
  }
  const [helper = ''] = played.sessionsOf('helper')
  const asked = items.findIndex(
    (item) => item.type === 'event' && item.event.type === 'answer_requested' && item.event.child?.session === helper,
  )
  const first = items.findIndex(({ sessionId }) => sessionId === helper)
  expect(first).toBeGreaterThan(asked)
  expect(items[first]?.caller).toMatchObject({ sessionId: played.id, callId: expect.stringMatching(/^t_1_1_[01]$/) })
  expect(items[0]?.caller).toBeUndefined()
})

it('a watch of a tree over HTTP resumes after the last event, in the root and in each child', async () => {
  const played = await waitingTree()
  const first = await eventsUpTo(
    `/v1/sessions/${played.id}/watch?tree=true`,
    undefined,
    ({ sessionId, event }) => sessionId === played.clerk && event.type === 'approval_requested',
  )
  await approve(played)
  await played.run.result(TIMEOUT)
  const rest = await eventsUpTo(
    `/v1/sessions/${played.id}/watch?tree=true`,
    first.at(-1)?.id,
    ({ sessionId, event }) => sessionId === played.id && event.type === 'run_completed',
  )
  const all = [...first, ...rest].map(({ data }) => `${data.sessionId} ${data.event.seq}`)
  expect(new Set(all).size).toBe(all.length)
  for (const id of [played.helper, played.clerk]) expect(all.filter((one) => one.startsWith(`${id} `)).length).toBeGreaterThan(5)
  const wrong = await web.get(`/v1/sessions/${played.id}/watch?tree=true`, { 'last-event-id': '=1&/other=3' })
  expect([wrong.status, (wrong.body as { code: string }).code]).toEqual([400, 'unknown_cursor'])
})

/** The ids of a tree whose sessions have ended, that of the root first. */
async function closedTree(): Promise<string[]> {
  const played = await waitingTree()
  await approve(played)
  await played.run.result(TIMEOUT)
  const sessions = [played.id, played.helper, played.clerk]
  for (const id of sessions) await here.pawl.session(id).close()
  for (const id of sessions) await here.workflowEnded(id)
  return sessions
}

it('a session is pruned only together with its tree', async () => {
  const sessions = await closedTree()
  const store = openStore({ postgres: inject('stack').databaseUrl, schema: schema.name })
  const before = new Date(Date.now() - 30 * 86_400_000)
  await schema.age(sessions.slice(1), 40)
  expect(await store.upkeep.prune({ before, limit: 10 })).toMatchObject({ sessions: [] })
  expect(await store.upkeep.prunable(before, undefined)).toMatchObject({ sessions: 0 })
  await schema.age(sessions, 40)
  expect((await store.upkeep.prune({ before, limit: 10 })).sessions.sort()).toEqual(sessions)
  await store.close()
})

it('a pruning that is killed within a tree leaves the rest to the next one, whichever session came first', LIMIT, async () => {
  const store = openStore({ postgres: inject('stack').databaseUrl, schema: schema.name })
  for (const first of [0, 1, 2]) {
    const sessions = await closedTree()
    await schema.age(sessions, 40)
    await schema.age([sessions[first] ?? ''], 41)
    // A prune commits batch by batch: one that was killed has committed some of them.
    const before = new Date(Date.now() - 30 * 86_400_000)
    expect((await store.upkeep.prune({ before, limit: 1 })).sessions).toEqual([sessions[first]])
    const rest = await store.upkeep.prune({ before: new Date(Date.now() - 30 * 86_400_000), limit: 10 })
    expect(rest.sessions.sort()).toEqual(sessions.filter((_, n) => n !== first).sort())
  }
  await store.close()
})

function place() {
  const { temporalAddress, databaseUrl } = inject('stack')
  return { cwd: tmpdir(), env: { TEMPORAL_ADDRESS: temporalAddress, DATABASE_URL: databaseUrl } }
}

type SentEvent = TreeItem & { type: 'event' }

/** The durable events of a stream, up to the one that is looked for. */
async function eventsUpTo(path: string, lastEventId: string | undefined, isLast: (event: SentEvent) => boolean) {
  const stop = new AbortController()
  const stream = await web.watch(path, { signal: stop.signal, ...(lastEventId !== undefined && { lastEventId }) })
  const sent = await eventsUntil(stream, ({ event, data }) => event === 'event' && isLast(data as SentEvent))
  stop.abort()
  return sent.filter(({ event }) => event === 'event').map(({ id, data }) => ({ id, data: data as SentEvent }))
}

it('a watch of a tree with more sessions at work than it reads at a time shows every event of each, once and in order', LIMIT, async () => {
  const open = gate()
  const names = Array.from({ length: 20 }, (_, n) => `q${n}`)
  const played = tree.play(here.pawl, {
    boss: passOn(...names.map((name) => ask('helper', name))),
    helper: passOn(ask('clerk', 'one'), ask('clerk', 'two')),
    clerk: async () => {
      await open.pass()
      return 'done'
    },
  })
  const stop = new AbortController()
  const seen = new Map<string, number[]>()
  const told = new Set<string>()
  const watching = (async () => {
    for await (const { sessionId, ...item } of played.session.watch({ tree: true, signal: stop.signal })) {
      if (item.type === 'event') seen.set(sessionId, [...(seen.get(sessionId) ?? []), item.event.seq])
      if (item.type === 'event' && item.event.type === 'caller_told') told.add(sessionId)
      if (told.size === 60) stop.abort()
    }
  })()
  const run = await played.session.send('go')
  await until('all clerks work', () => played.sessionsOf('clerk').length === 40, 60_000)
  open.open()
  await run.result({ timeout: 60_000 })
  await watching
  for (const id of [...played.sessionsOf('helper'), ...played.sessionsOf('clerk')]) {
    const last = ofType(await eventsOf(here.pawl.session(id)), 'caller_told')[0]?.seq ?? expect.fail('not told')
    expect(seen.get(id), id).toEqual(Array.from({ length: last }, (_, n) => n + 1))
  }
})
