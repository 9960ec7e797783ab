// Requests that a person has made while looking at an earlier event are refused if the session has moved on in a way that matters; and what
// previews say of rollbacks, forks and moments is what the server then does and says.
import { randomUUID } from 'node:crypto'
import { createHandler } from 'pawl/service'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { momentReader } from '../../console/src/session/moment.ts'
import { fold } from '../../src/session/fold/fold.ts'
import { previewFork, previewRegeneration, previewRollback } from '../../src/session/recovery/rollback-preview.ts'
import { viewOf } from '../../src/session/watching/view.ts'
import { type Deployment, deploy, SILENT } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { type Played, saidIn, type Scene, type Stage, stage, use, hasResults, wordIn } from '../support/scenes.ts'
import { until } from '../support/until.ts'
import { type WebClient, webClient } from '../support/web.ts'

let here: Deployment
let player: Stage
let web: Record<'root' | 'acme' | 'reader', WebClient>

beforeAll(async () => {
  here = await deploy()
  player = stage({ plan: true, memory: [{ block: 'customer', maxChars: 200 }], limits: { maxTotalTokens: 1_000_000 } })
  await here.startWorker({ agents: [player.agent] })
  const accesses = {
    root: { identity: 'root', scopes: ['read', 'send', 'approve', 'operate'] },
    acme: { identity: 'ann', scopes: ['read', 'send', 'approve', 'operate'], tenant: 'acme' },
    reader: { identity: 'ron', scopes: ['read'] },
  } as const
  const handler = createHandler({
    pawl: here.pawl,
    authorize: (request) => accesses[(request.headers.get('authorization') ?? '').replace('Bearer ', '') as keyof typeof accesses] ?? null,
    logger: SILENT,
  })
  web = { root: webClient(handler, 'root'), acme: webClient(handler, 'acme'), reader: webClient(handler, 'reader') }
})
afterAll(() => here?.stop())

const TIMEOUT = { timeout: 20_000 }

async function say({ session }: Played, text: string): Promise<void> {
  await (await session.send(text, { messageId: text })).result(TIMEOUT)
}

/** Each message makes an effect, and changes plan and memory. */
const busy: NonNullable<Scene['model']> = (request) => {
  const said = wordIn(request)
  if (hasResults(request)) return `did ${said}`
  const steps = [{ id: said, title: said }]
  return [
    use('put', said),
    { type: 'tool_use', id: 'toolu_p', name: 'plan_setup', input: { objective: said, steps, replace: true } },
    { type: 'tool_use', id: 'toolu_m', name: 'memory_append', input: { block: 'customer', content: `said ${said}` } },
  ]
}

const newest = async ({ session }: Played): Promise<number> => (await eventsOf(session)).at(-1)?.seq ?? 0

describe('a request with seenSeq', () => {
  it('a rollback is refused with session_moved after a message, and changes nothing; with the newest event it is accepted', async () => {
    const played = player.play(here.pawl, { model: (request) => `you said ${saidIn(request).at(-1)}` })
    await say(played, 'one')
    const seenSeq = await newest(played)
    await say(played, 'two')
    const before = await newest(played)
    const refused = played.session.rollback({ message: 'one', seenSeq, by: 'ann' })
    await expect(refused).rejects.toMatchObject({
      name: 'RequestRefusedError',
      code: 'session_moved',
      message: expect.stringContaining(`event ${seenSeq}`),
    })
    const path = `/v1/sessions/${played.id}/rollback`
    expect(await web.root.post(path, { message: 'one', seenSeq })).toMatchObject({ status: 409, body: { code: 'session_moved' } })
    expect(await newest(played)).toBe(before)
    // A number that the session has not reached is of another past.
    expect(await web.root.post(path, { message: 'one', seenSeq: before + 100 })).toMatchObject({
      status: 409,
      body: { code: 'session_moved' },
    })
    expect(await web.root.post(path, { message: 'one', seenSeq: before })).toMatchObject({ status: 200 })
  })

  it('a checkpoint or a pause in the meantime does not matter', async () => {
    const played = player.play(here.pawl, { model: () => 'hello' })
    await say(played, 'one')
    const seenSeq = await newest(played)
    await played.session.checkpoint('meanwhile')
    await played.session.pause({ by: 'bob' })
    await until('both are events', async () => ofType(await eventsOf(played.session), 'session_paused').length === 1)
    await played.session.rollback({ run: 1, seenSeq })
    await played.session.unpause()
  })

  it('a recovery, a regeneration and a fork are refused, too, and a fork of a closed session', async () => {
    let isBroken = true
    const played = player.play(here.pawl, {
      model: () => {
        if (isBroken) throw Object.assign(new Error('no'), { retryable: false })
        return 'better'
      },
    })
    await (await played.session.send('one')).result(TIMEOUT).catch(() => undefined)
    const seenSeq = await newest(played)
    await played.session.recover({ strategy: 'continue_run' })
    await until('it has failed again', async () => ofType(await eventsOf(played.session), 'error_entered').length === 2)
    const moved = { code: 'session_moved' }
    await expect(played.session.recover({ strategy: 'abandon', seenSeq })).rejects.toMatchObject(moved)
    isBroken = false
    await played.session.recover({ strategy: 'continue_run', seenSeq: await newest(played) })
    await until('it has recovered', async () => (await played.session.state()).status === 'idle')
    await expect(played.session.regenerate({ seenSeq })).rejects.toMatchObject(moved)
    await expect(played.session.fork({ seenSeq })).rejects.toMatchObject(moved)
    await played.session.close()
    await here.workflowEnded(played.id)
    await expect(played.session.fork({ seenSeq })).rejects.toMatchObject(moved)
    const fork = await played.session.fork({ seenSeq: await newest(played) })
    expect((await fork.state()).forkedFrom?.sessionId).toBe(played.id)
  })

  it('an event that a person has not seen is refused at the edge if it is not a number', async () => {
    const played = player.play(here.pawl, { model: () => 'hello' })
    await say(played, 'one')
    await expect(played.session.rollback({ run: 1, seenSeq: 'x' as never })).rejects.toMatchObject({ code: 'invalid_option' })
    expect(await web.root.post(`/v1/sessions/${played.id}/rollback`, { run: 1, seenSeq: 0 })).toMatchObject({ status: 400 })
  })
})

describe('a preview', () => {
  it('a preview of a rollback says what the server then archives, restores and reports', async () => {
    for (const keys of ['kept', 'forgotten'] as const) {
      const played = player.play(here.pawl, { model: busy })
      for (const text of ['one', 'two', 'three']) await say(played, text)
      const events = await eventsOf(played.session)
      const preview = previewRollback(events, { target: { message: 'two' }, keys })
      const report = await played.session.rollback({ message: 'two', keys, seenSeq: events.at(-1)?.seq ?? 0 })
      expect([preview.toSeq, preview.effects, preview.moreEffects]).toEqual([report.toSeq, report.effects, report.moreEffects])
      expect(preview.effects.map(({ tool }) => tool)).toEqual(['put', 'put'])
      expect(preview.replays).toHaveLength(keys === 'kept' ? 2 : 0)
      const archived = await played.session.archivedMessages()
      expect(new Set(preview.messages)).toEqual(new Set(archived.filter(({ kind }) => kind === 'user').map(({ messageId }) => messageId)))
      expect(preview.answers.map(({ run, turn }) => `m_${run}_${turn}`).sort()).toEqual(
        archived.flatMap(({ kind, messageId }) => (kind === 'assistant' ? [messageId] : [])).sort(),
      )
      expect((await played.session.plan())?.objective).toBe(preview.restored?.plan?.objective)
      expect((await played.session.memory()).map(({ content }) => content)).toEqual(
        preview.restored?.memory?.blocks.map(({ content }) => content),
      )
      const [back] = ofType(await eventsOf(played.session), 'rolled_back')
      expect(back?.restored).toEqual(preview.restored)
    }
  })

  it('a preview of a regeneration and of a fork says what they then do', async () => {
    const played = player.play(here.pawl, { model: busy })
    for (const text of ['one', 'two']) await say(played, text)
    const events = await eventsOf(played.session)
    const preview = previewRegeneration(events)
    expect([preview.waits, preview.next?.step, preview.effects.length]).toEqual([['two'], 'new_run', 1])
    await (await played.session.regenerate({ seenSeq: events.at(-1)?.seq ?? 0 })).result(TIMEOUT)
    // The effect has happened once, as the preview says.
    expect([preview.replays.length, played.count('put')]).toEqual([1, 2])
    const again = await eventsOf(played.session)
    expect(ofType(again, 'rolled_back')[0]?.toSeq).toBe(preview.toSeq)
    const forking = previewFork(again, { target: { message: 'two' } })
    const fork = await played.session.fork({ message: 'two', id: `f-${randomUUID()}`, seenSeq: again.at(-1)?.seq ?? 0 })
    const [forked] = ofType(await eventsOf(fork), 'forked')
    expect(forked?.from.seq).toBe(forking.toSeq)
    const texts = (await fork.messages()).filter(({ kind }) => kind === 'user').map(({ messageId }) => messageId)
    expect(texts).toEqual(['one'])
    expect(forking.messages).toEqual(['two'])
  })
})

describe('a moment', () => {
  it('a moment of the console has the plan, the memory, the budgets and the effects that the server has for each checkpoint', async () => {
    const played = player.play(here.pawl, { model: busy })
    for (const text of ['one', 'two', 'three']) await say(played, text)
    await played.session.rollback({ message: 'three' })
    await say(played, 'four')
    await played.session.checkpoint('at the end')
    const events = await eventsOf(played.session)
    const checkpoints = ofType(events, 'checkpoint_made')
    expect(checkpoints.length).toBeGreaterThan(4)
    const base = `/v1/sessions/${played.id}`
    const reader = momentReader()
    for (const { version, seq } of checkpoints) {
      const moment = reader.read(events, seq) ?? expect.fail()
      expect((await web.root.get(`${base}/plan?at=${version}`)).body).toEqual({ plan: moment.plan })
      expect((await web.root.get(`${base}/memory?at=${version}`)).body).toEqual({ items: moment.memory })
      const { items } = (await web.root.get<{ items: { left: number; spent: number }[] }>(`${base}/budgets?at=${version}`)).body
      expect(items.map(({ left, spent }) => [left, spent])).toEqual(moment.budgets.map(({ left, spent }) => [left, spent]))
    }
    const calls = await until('the calls are stored', async () => {
      const { items } = (
        await web.root.get<{ items: { callId: string; status: string; effect: string; tool: string }[] }>(
          `/v1/tool-calls?session=${played.id}`,
        )
      ).body
      return items.length === 12 && items.every(({ status }) => status !== 'issued') && items
    })
    const completed = calls.filter(({ effect }) => effect !== 'read').map(({ callId }) => callId)
    const { effects } = reader.read(events, Number.POSITIVE_INFINITY) ?? expect.fail()
    expect(effects.map(({ callId }) => callId).sort()).toEqual(completed.sort())
    const state = (await web.root.get<Record<string, unknown>>(`${base}/state`)).body
    expect(state).toEqual(JSON.parse(JSON.stringify(viewOf(fold(undefined, events) ?? expect.fail()))))
  })
})

describe('the workers over HTTP', () => {
  it('an operator sees the worker processes; a caller of a tenant, or without the scope, does not', async () => {
    const seen = await web.root.get<{ taskQueue: string; workers: { identity: string; build: string }[] }>('/v1/workers')
    expect(seen).toMatchObject({ status: 200, body: { taskQueue: here.taskQueue, gates: expect.any(Array) } })
    expect(seen.body.workers.length).toBeGreaterThan(0)
    expect(seen.body.workers[0]?.build).toMatch(/^pawl@/)
    for (const who of [web.acme, web.reader]) {
      expect(await who.get('/v1/workers')).toMatchObject({ status: 403, body: { code: 'forbidden' } })
      expect(await who.post('/v1/workers/gates/open', { account: 'anthropic' })).toMatchObject({ status: 403, body: { code: 'forbidden' } })
    }
    expect(await web.root.post('/v1/workers/gates/open', { account: 'nobody' })).toMatchObject({ status: 200, body: { opened: false } })
    expect(await web.root.post('/v1/workers/gates/open', {})).toMatchObject({ status: 400, body: { code: 'invalid_input' } })
  })
})
