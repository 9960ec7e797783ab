// Sessions that are unlike others, in the console: of another tenant, gone, huge, hostile, with impossible times, from a newer pawl; servers
// that restart; decisions that another person has just made.
import { randomUUID } from 'node:crypto'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { nextDigest } from '../../src/session/digest.ts'
import type { EventBody } from '../../src/session/events.ts'
import { openStore, type Store } from '../../src/store/index.ts'
import { answered, completed, EPOCH, issued, logOf, oneRun, received, started } from '../integration/store/sessions.ts'
import { approvalStage, once } from '../support/approvals.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { ownSchema, type OwnSchema } from '../support/rows.ts'
import { until } from '../support/until.ts'
import { type ConsolePages, overflowOf, shows, startConsolePages } from './support/console-pages.ts'

const stage = approvalStage()
const MEGABYTE = 1_000_000
let here: Deployment
let rows: OwnSchema
let store: Store
let console: ConsolePages

beforeAll(async () => {
  rows = await ownSchema(inject('stack').databaseUrl, 'odd')
  const schema = rows.name
  here = await deploy({ schema })
  await here.startWorker({ agents: [stage.agent] })
  await (await stage.play(here.pawl, { model: () => 'hello' }).session.send('hello')).result()
  await until('the tables are there', () => here.pawl.apiKeys.list())
  store = openStore({ postgres: here.stack.databaseUrl, schema })
  console = await startConsolePages(here.pawl, { schema, taskQueue: here.taskQueue })
})
afterAll(async () => {
  await console?.close()
  await store?.close()
  await here?.stop()
  await rows?.close()
})

/** Stores a session with these events. `change` edits their JSON. */
async function stored(bodies: readonly EventBody[], change: (json: string) => string = (json) => json): Promise<string> {
  const id = `odd-${randomUUID()}`
  let prev = ''
  const log = logOf([started({ sessionId: id, tags: ['odd'] }), ...bodies]).map(({ seq, json: unchanged }) => {
    const json = change(unchanged)
    const entry = { seq, prev, digest: nextDigest(prev, json), json }
    prev = entry.digest
    return entry
  })
  await store.flush(id, EPOCH, log)
  return id
}

async function openSession(id: string, options: Parameters<ConsolePages['open']>[1] = {}): Promise<Page> {
  const page = await console.open(`#/sessions/${id}`, options)
  await shows(page.getByRole('heading', { level: 1 }).first())
  return page
}

describe('the console and sessions that are unlike others', () => {
  it('the console says the same about a session of another tenant as about one that does not exist', async () => {
    const foreign = await stored(oneRun(1, 'secret'))
    const { key } = await console.newKey(['read'], 'acme')
    for (const id of [foreign, 'nobody', '%E0%A4%A']) {
      const page = await openSession(id, { key })
      await shows(page.getByText('This session cannot be shown'))
      expect(await page.getByText('text of secret').count()).toBe(0)
      await page.context().close()
    }
  })

  it('the console says which right a visitor lacks, on each page, and does not fail', async () => {
    const { key } = await console.newKey(['send'])
    const id = await stored(oneRun(1, 'm1'))
    for (const place of ['#/sessions', '#/inbox', '#/usage', '#/errors', `#/sessions/${id}`, '#/search?q=x']) {
      const page = await console.open(place, { key })
      await shows(page.getByText(/scope "read"|“read”/).first())
      await page.context().close()
    }
  })

  it('the console says that a session was erased, and shows nothing of it', async () => {
    const played = stage.play(here.pawl, { model: () => 'a secret answer' })
    await (await played.session.send('a secret question')).result()
    await played.session.close()
    await here.workflowEnded(played.id)
    await here.pawl.erase(played.id, { by: 'ann' })
    const page = await openSession(played.id)
    await shows(page.getByText(/was erased on/))
    expect(await page.getByText('secret').count()).toBe(0)
    await page.context().close()
  })

  it('the console says that a session was pruned, and where its messages are', async () => {
    const played = stage.play(here.pawl, { model: () => 'an old answer' })
    await (await played.session.send('an old question')).result()
    await played.session.close()
    await here.workflowEnded(played.id)
    await rows.age([played.id], 100)
    await here.pawl.prune({ olderThan: '90d', by: 'ann' })
    const page = await openSession(played.id)
    await shows(page.getByText(/was pruned on/))
    await page.context().close()
  })

  it('the console shows an event of a newer pawl by its type, and everything else as usual', async () => {
    const id = await stored([...oneRun(1, 'm1'), { type: 'milestone_reached', name: 'half', run: 1, turn: 2 } as never], (json) =>
      json.replace('"milestone_reached"', '"moon_landed"'),
    )
    const page = await openSession(id)
    await shows(page.getByText('an event that this version of pawl does not know: moon_landed'))
    await shows(page.getByText('text of m1'))
    await shows(page.getByText('runs, turns'))
    await page.context().close()
  })

  it('the console opens a session with 50 MB of results, and shows the beginning of each until one asks for more', async () => {
    const turns = Array.from({ length: 50 }, (_, n): EventBody[] => [
      { type: 'turn_started', run: 1, turn: n + 1, takes: n === 0 ? ['m1'] : [] },
      answered(1, n + 1, [{ order: n }]),
      issued(1, n + 1, 0, { order: n }),
      completed(1, n + 1, 0, 'result '.repeat(MEGABYTE / 7)),
    ])
    const id = await stored([received('m1'), { type: 'run_started', run: 1, messageId: 'm1' }, ...turns.flat()])
    const page = await openSession(id)
    await shows(page.getByText('203 of 203'))
    const value = page.locator('details.long').first()
    await shows(value.getByText('999,999 characters'))
    await value.locator('summary').click()
    await shows(value.getByRole('button', { name: /Show the other 899,999 characters/ }))
    expect(await overflowOf(page)).toBe(0)
    await page.context().close()
  })

  it('the console shows text in every script and direction, and words of any length, within the width of a phone', async () => {
    const texts = [
      'أين طلبي رقم W-1015؟',
      'איפה ההזמנה שלי',
      '注文はどこですか。',
      'คำสั่งซื้อของฉันอยู่ที่ไหน',
      '👩🏽‍🔧🏳️‍🌈',
      `${'\u202e'}reversed${'\u202c'} \u200b\u0000\ud800 zalgo z̷̡̛̤͉̳̈́͂`,
      'w'.repeat(10_000),
    ]
    const id = await stored(texts.flatMap((text, n) => [received(`m${n}`, text)]))
    const page = await openSession(id, { viewport: { width: 360, height: 740 } })
    const arabic = page.locator('p.text', { hasText: 'W-1015' })
    await shows(arabic)
    expect(
      await arabic.evaluate(
        (one) => (globalThis as never as { getComputedStyle(one: unknown): { direction: string } }).getComputedStyle(one).direction,
      ),
    ).toBe('rtl')
    expect(await page.locator('p.text').count()).toBe(texts.length)
    expect(await overflowOf(page)).toBe(0)
    await page.context().close()
  })

  it('the console shows HTML and scripts as text, in every field', async () => {
    const evil = '"><img src=x onerror="document.title=\'hacked\'"><script>document.title="hacked"</script>'
    const failed = { attempt: 1, class: 'Error', code: evil, message: evil, retryable: true, worker: evil }
    const id = await stored(
      [
        { ...received('m1', evil), by: evil } as EventBody,
        { type: 'run_started', run: 1, messageId: 'm1' },
        { type: 'turn_started', run: 1, turn: 1, takes: ['m1'] },
        { type: 'model_attempt_failed', run: 1, turn: 1, error: failed },
        { ...answered(1, 1, [{ [evil]: evil }], evil), model: evil } as EventBody,
        issued(1, 1, 0, { [evil]: evil }),
        { type: 'tool_attempt_failed', run: 1, turn: 1, callId: 't_1_1_0', tool: evil, error: failed } as EventBody,
        { ...completed(1, 1, 0, { [evil]: [evil] }), effectId: evil } as EventBody,
        { type: 'session_paused', by: evil, reason: evil } as EventBody,
      ],
      (json) => json.replace('"tags":["odd"]', `"tags":${JSON.stringify([evil])}`),
    )
    for (const place of [`#/sessions/${id}`, '#/sessions', '#/errors', `#/search?q=${encodeURIComponent(evil)}`]) {
      const page = await console.open(place)
      await shows(page.getByText('onerror=').first())
      expect(await page.locator('main img, main script').count()).toBe(0)
      expect(await page.title()).not.toContain('hacked')
      await page.setViewportSize({ width: 360, height: 740 })
      expect([place, await overflowOf(page)]).toEqual([place, 0])
      await page.context().close()
    }
  })

  it('the console counts by the clock of the server if that of the visitor is wrong, and shows times that cannot be', async () => {
    const played = stage.play(here.pawl, { model: () => 'hello' })
    await (await played.session.send('hello')).result()
    const script = `const { now } = Date; Date.now = () => now() - 5 * 3_600_000`
    const list = await console.open('#/sessions', { script })
    const row = list.getByRole('row').filter({ hasText: played.id })
    await shows(row)
    expect(await row.locator('time').textContent()).toMatch(/^(now|\d+s ago)$/)
    await list.context().close()
    const odd = await stored([received('m1'), received('m2')], (json) =>
      json.replace(/"at":\d+,"type":"message_received","messageId":"m2"/, '"at":9e15,"type":"message_received","messageId":"m2"'),
    )
    const page = await openSession(odd)
    await shows(page.getByText('at an impossible time'))
    await page.context().close()
  })
})

describe('the console and what others do meanwhile', () => {
  it('the console says that another person has just decided a call, and the call does not run', async () => {
    const played = stage.play(here.pawl, { model: once(['pay', 'rent']) })
    const run = await played.session.send('Pay it.')
    const settled = await run.settled()
    const [call] = settled.status === 'waiting' ? settled.pending : []
    const page = await console.open('#/inbox')
    const card = page.getByRole('listitem').filter({ hasText: played.id })
    await shows(card.getByRole('button', { name: 'Approve' }))
    // The page does not learn of the decision before the click.
    await page.route('**/v1/pending*', (route) => route.abort())
    await played.session.deny(call?.callId ?? '', { digest: call?.digest ?? '', by: 'bob' })
    await run.result()
    await card.getByRole('button', { name: 'Approve' }).click()
    await shows(card.getByRole('alert').getByText('was denied by bob'))
    expect(played.entered()).toEqual([])
    await page.context().close()
  })

  it('the console shows a session with its decisions before the server knows whether a worker has newer events', async () => {
    const played = stage.play(here.pawl, { model: once(['pay', 'rent']) })
    const run = await played.session.send('Pay it.')
    await run.settled()
    await until('it is listed', async () => (await here.pawl.pending.list({ session: played.id })).items.length === 1)
    const page = await console.open('#/inbox')
    // What asks a worker takes seconds while there is none.
    const asksWorker = ({ pathname, searchParams }: URL): boolean =>
      pathname.endsWith(played.id) || (pathname.endsWith('/events') && searchParams.get('stored') !== 'true')
    await page.route(asksWorker, () => undefined)
    await page.goto(`${console.url}/console/#/sessions/${played.id}`)
    await page.getByRole('button', { name: 'Approve' }).click()
    await shows(page.getByText('approved by key:ann'))
    await run.result()
    await page.context().close()
  })

  it('the console says that the server does not answer, and continues by itself once it is back', async () => {
    const played = stage.play(here.pawl, { model: (request) => `answer ${request.messages.length}` })
    await (await played.session.send('One.')).result()
    const page = await openSession(played.id)
    await shows(page.getByText('answer 1'))
    const list = await console.open('#/sessions')
    await shows(list.getByRole('row').nth(1))
    await console.stopServer()
    await shows(page.getByText('The connection is lost.'))
    await shows(list.getByText('The server cannot be reached.'))
    expect(await page.getByText('answer 1').count()).toBe(1)
    await (await played.session.send('Two.')).result()
    await console.startServer()
    await shows(page.getByText('answer 3'))
    await page.getByText('The connection is lost.').waitFor({ state: 'detached' })
    await list.getByText('The server cannot be reached.').waitFor({ state: 'detached' })
    await page.context().close()
    await list.context().close()
  })

  it('the console asks for a key again once the key of the visitor was revoked', async () => {
    const { id, key } = await console.newKey(['read'])
    const page = await console.open('#/sessions', { key })
    await shows(page.getByRole('table'))
    await here.pawl.apiKeys.revoke(id)
    await page.getByLabel('API key').waitFor({ timeout: 30_000 })
    await page.context().close()
  })

  it('the console had no error and no breach of its policy meanwhile', () => {
    expect(console.complaints).toEqual([])
  })
})
