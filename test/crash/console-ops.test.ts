// What people do in the console, in a real browser: going back, deciding with other arguments, recovering many sessions, and looking after
// workers, schedules, rules and budgets.
import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { linesOf } from '../../console/src/session/words.ts'
import { previewRollback } from '../../src/session/recovery/rollback-preview.ts'
import { approvalStage, once } from '../support/approvals.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { type Played, type Scene, stage, use, hasResults, wordIn } from '../support/scenes.ts'
import { until } from '../support/until.ts'
import type { Deployment } from '../support/deployment.ts'
import { startBrowser } from './support/browser.ts'
import { type ConsoleDeployment, deployConsole } from './support/console-deployment.ts'
import { type ConsolePages, findings, SCHEMES, shows } from './support/console-pages.ts'

const desk = approvalStage()
const player = stage({ plan: true, memory: [{ block: 'customer', maxChars: 200 }], limits: { maxTotalTokens: 1_000_000 } })
let shown: ConsoleDeployment
let here: Deployment
let pages: ConsolePages

beforeAll(async () => {
  shown = await deployConsole('console', [desk.agent, player.agent])
  ;({ here, pages } = shown)
})
afterAll(() => shown?.close())

const TIMEOUT = { timeout: 20_000 }

async function say({ session }: Played, text: string): Promise<void> {
  await (await session.send(text, { messageId: text })).result(TIMEOUT)
}

/** Each message makes an effect, and sets up a plan. */
const busy: NonNullable<Scene['model']> = (request) => {
  const said = wordIn(request)
  if (hasResults(request)) return `did ${said}`
  const plan = { objective: `to ${said}`, steps: [{ id: said, title: `step ${said}` }], replace: true }
  return [use('put', said), { type: 'tool_use', id: 'toolu_p', name: 'plan_setup', input: plan }]
}

const panelOf = (page: Page) => page.getByRole('region', { name: 'Go back' })

describe('going back in the console', () => {
  it('the console previews a rollback as the function says that carries it out, and rolls the session back', async () => {
    const played = player.play(here.pawl, { model: busy })
    for (const text of ['one', 'two']) await say(played, text)
    const page = await pages.open(`#/sessions/${played.id}`)
    await shows(page.getByText('did two'))
    await page.getByRole('button', { name: 'Go back…' }).click()
    const panel = panelOf(page)
    const expected = linesOf('rollback', previewRollback(await eventsOf(played.session), { target: { message: 'two' } }))
    await shows(panel.getByText('Does not undo: put'))
    expect(await panel.getByRole('list', { name: 'Preview' }).getByRole('listitem').allTextContents()).toEqual(
      expected.map(({ text }) => text),
    )
    await panel.getByLabel('Reason').fill('the wrong customer')
    await panel.getByRole('button', { name: 'Roll the session back' }).click()
    await shows(panel.getByText('One effect was not undone.'))
    await shows(page.getByText('rolled back to event').and(page.locator('li span')))
    await shows(page.locator('li.out').getByText('did two'))
    const [back] = ofType(await eventsOf(played.session), 'rolled_back')
    expect(back).toMatchObject({ by: 'key:ann', reason: 'the wrong customer', target: { message: 'two' } })
    await page.context().close()
  })

  it('the console refuses a rollback of a session that has moved on, says what has changed, and rolls back after another look', async () => {
    const played = player.play(here.pawl, { model: busy })
    for (const text of ['one', 'two']) await say(played, text)
    const page = await pages.open(`#/sessions/${played.id}`)
    await shows(page.getByText('did two'))
    await page.getByRole('button', { name: 'Go back…' }).click()
    const panel = panelOf(page)
    await shows(panel.getByRole('button', { name: 'Roll the session back' }))
    await say(played, 'three')
    await shows(panel.getByText('The session has moved on since event'))
    await shows(panel.getByText('message received'))
    expect(await panel.getByRole('button', { name: 'Roll the session back' }).isDisabled()).toBe(true)
    await panel.getByRole('button', { name: 'Look again' }).click()
    await panel.getByLabel('Where to').selectOption({ label: 'to before run 3' })
    await panel.getByRole('button', { name: 'Roll the session back' }).click()
    await shows(panel.getByText('Rolled back to event'))
    await page.context().close()
  })

  it('the console forks a session from the event at which the slider stands, and opens the fork', async () => {
    const played = player.play(here.pawl, { model: busy })
    for (const text of ['one', 'two']) await say(played, text)
    const second = (await eventsOf(played.session)).find((event) => event.type === 'run_started' && event.run === 2)?.seq ?? 0
    const page = await pages.open(`#/sessions/${played.id}?at=${second}`)
    await page.getByRole('button', { name: 'Go back…' }).click()
    const panel = panelOf(page)
    await panel.getByLabel('Fork', { exact: true }).check()
    await panel.getByLabel('Where to').selectOption({ label: 'to before run 2' })
    await shows(panel.getByText('Happened only in this session: put'))
    const id = `f-${randomUUID()}`
    await panel.getByLabel('Id of the fork').fill(id)
    await panel.getByRole('button', { name: 'Make the fork' }).click()
    await panel.getByRole('link', { name: id }).click()
    await shows(page.getByRole('heading', { name: id }))
    await shows(page.getByText('did one'))
    expect(await page.getByText('did two').count()).toBe(0)
    expect((await here.pawl.session(id).state()).forkedFrom?.sessionId).toBe(played.id)
    await page.context().close()
  })

  it('the console has the model answer again, and the effect happens once', async () => {
    const played = player.play(here.pawl, { model: busy })
    await say(played, 'one')
    const page = await pages.open(`#/sessions/${played.id}`)
    await shows(page.getByText('did one'))
    await page.getByRole('button', { name: 'Go back…' }).click()
    const panel = panelOf(page)
    await panel.getByLabel('Answer again').check()
    await shows(panel.getByText('Known by their keys'))
    await panel.getByRole('button', { name: 'Ask the model again' }).click()
    await until(
      'it is answered again',
      async () => (await played.session.state()).run === 2 && (await played.session.state()).status === 'idle',
    )
    expect(played.count('put')).toBe(1)
    await page.context().close()
  })

  it('the console shows plan and effects as they were at the event of the slider', async () => {
    const played = player.play(here.pawl, { model: busy })
    for (const text of ['one', 'two']) await say(played, text)
    const events = await eventsOf(played.session)
    const first = events.find(({ type }) => type === 'run_completed')?.seq ?? 0
    const second = ofType(events, 'message_received')[1]?.seq ?? 0
    const page = await pages.open(`#/sessions/${played.id}`)
    const effects = page.getByRole('list', { name: 'Effects' })
    await page.locator('summary').filter({ hasText: 'Effects' }).click()
    await page.locator('summary').filter({ hasText: 'Plan' }).click()
    const plan = page.getByRole('list', { name: 'Plan' })
    await shows(plan.getByText('step two'))
    expect(await effects.getByRole('listitem').count()).toBe(2)
    // An event on the timeline moves the slider, too.
    await page.getByRole('link', { name: `#${second}`, exact: true }).click()
    await expect.poll(() => page.getByRole('slider').inputValue()).toBe(String(second))
    await page.getByRole('slider').fill(String(first))
    await shows(plan.getByText('step one'))
    expect(await plan.getByText('step two').count()).toBe(0)
    expect(await effects.getByRole('listitem').count()).toBe(1)
    await page.context().close()
  })
})

describe('deciding in the console', () => {
  it('the console shows what differs in edited arguments, and the call is executed with them', async () => {
    const played = desk.play(here.pawl, { model: once(['pay', 'rent', 500]) })
    const run = await played.session.send('Pay it.')
    await run.settled()
    const page = await pages.open('#/inbox')
    const card = page.getByRole('listitem').filter({ hasText: played.id })
    await card.getByRole('button', { name: 'Edit arguments…' }).click()
    const text = card.getByLabel('Arguments, as JSON')
    await text.fill('{"what": "rent", "n":')
    await shows(card.getByText('This is not JSON.'))
    await text.fill('{"what": "rent", "n": 400}')
    await shows(card.getByRole('row', { name: '/n 500 400' }))
    expect(await card.getByRole('button', { name: 'Approve', exact: true }).isDisabled()).toBe(true)
    await card.getByRole('button', { name: 'Approve with these arguments' }).click()
    await run.result(TIMEOUT)
    expect(played.entries.map(({ tool, input }) => [tool, input])).toEqual([['pay', { what: 'rent', n: 400 }]])
    await page.context().close()
  })

  it('the console recovers many sessions at once, previews each, and says what became of each', async () => {
    const broken = new Set<string>()
    const failing = Array.from({ length: 3 }, () => {
      const id = `bulk-${randomUUID()}`
      broken.add(id)
      const model: Scene['model'] = () => {
        if (broken.has(id)) throw Object.assign(new Error('The provider refuses this.'), { retryable: false })
        return 'well again'
      }
      return player.play(here.pawl, { model }, { id })
    })
    for (const { session } of failing) await (await session.send('go')).result(TIMEOUT).catch(() => undefined)
    const [first, second, third] = failing
    if (!first || !second || !third) throw new Error('there are three')
    const page = await pages.open('#/errors')
    const section = page.getByRole('region', { name: 'Sessions in error' })
    for (const { id } of failing) await section.getByLabel(`Choose ${id}`).check()
    await section.getByLabel('Strategy').selectOption('restart_run')
    await section.getByRole('button', { name: 'Preview 3' }).click()
    await shows(section.getByText('restart run:').nth(2))
    // Somebody else is faster with one of them, and one is still broken.
    broken.delete(first.id)
    broken.delete(second.id)
    await second.session.recover({ strategy: 'abandon' })
    await section.getByLabel('Reason').fill('the provider is back')
    await section.getByRole('button', { name: 'Recover 3' }).click()
    const outcome = (id: string) => section.getByRole('listitem').filter({ hasText: id })
    await shows(outcome(first.id).getByText('recovered', { exact: true }))
    await shows(outcome(second.id).getByText('it has moved on meanwhile'))
    await until('the first has answered', async () => (await first.session.state()).status === 'idle')
    expect(ofType(await eventsOf(first.session), 'recovery_started')[0]).toMatchObject({
      strategy: 'restart_run',
      by: 'key:ann',
      reason: 'the provider is back',
    })
    await page.context().close()
  })
})

describe('the pages of operators', () => {
  it('the console shows the workers, and opens a rate gate that is shut', async () => {
    const database = new Client({ connectionString: here.stack.databaseUrl })
    await database.connect()
    try {
      await database.query(
        `insert into "${shown.schema}".gates (key, shut_until, by) values ('acme account', now() + interval '1 hour', 'worker-1')`,
      )
      const page = await pages.open('#/workers')
      await shows(page.getByRole('region', { name: 'Processes' }).getByText('polling').first())
      const gate = page.getByRole('listitem').filter({ hasText: 'acme account' })
      await gate.getByRole('button', { name: 'Open now' }).click()
      await gate.waitFor({ state: 'detached' })
      await page.context().close()
    } finally {
      await database.end()
    }
  })

  it('the console pauses, triggers and deletes a schedule', async () => {
    const id = `s-${randomUUID().slice(0, 8)}`
    const { schedules } = here.pawl
    await schedules.create({ id, agent: desk.agent.name, message: 'hello', every: '1h', session: 'new' })
    await until('it is listed', async () => (await schedules.list()).items.some((one) => one.id === id))
    const page = await pages.open('#/schedules')
    const card = page.getByRole('listitem', { name: `Schedule ${id}` })
    await card.getByRole('button', { name: 'Pause' }).click()
    await shows(card.getByText('paused', { exact: true }))
    expect((await schedules.get(id)).paused).toBe(true)
    await card.getByRole('button', { name: 'Send now' }).click()
    await until('it was started', async () => (await schedules.get(id)).recent.length === 1)
    await card.getByRole('button', { name: 'Unpause' }).click()
    await shows(card.getByText('on', { exact: true }))
    await card.getByRole('button', { name: 'Delete' }).click()
    await card.getByRole('group').getByRole('button', { name: 'Delete' }).click()
    await card.waitFor({ state: 'detached' })
    await expect(schedules.get(id)).rejects.toMatchObject({ code: 'schedule_not_found' })
    await page.context().close()
  })

  it('the console revokes a standing approval and removes a shared budget', async () => {
    const played = desk.play(here.pawl, { model: once(['pay', 'rent']) })
    const run = await played.session.send('Pay it.')
    const settled = await run.settled()
    if (settled.status !== 'waiting') throw new Error('it waits')
    const [call] = settled.pending
    await played.session.approve(call?.callId ?? '', {
      digest: call?.digest ?? '',
      by: 'bob',
      remember: { for: 'session', matching: 'tool' },
    })
    await run.result(TIMEOUT)
    const tag = `tenant:${randomUUID()}`
    await here.pawl.budgets.set({ tag, maxUsd: 5, per: 'day' })
    const page = await pages.open('#/rules')
    const rule = page.getByRole('listitem', { name: 'Rule for pay' }).filter({ hasText: played.id })
    await shows(rule.getByText('any arguments'))
    await rule.getByRole('button', { name: 'Revoke' }).click()
    await rule.getByRole('group').getByRole('button', { name: 'Revoke' }).click()
    await rule.waitFor({ state: 'detached' })
    const budget = page.getByRole('row').filter({ hasText: tag })
    await budget.getByRole('button', { name: 'Remove' }).click()
    await budget.getByRole('group').getByRole('button', { name: 'Remove' }).click()
    await budget.waitFor({ state: 'detached' })
    expect((await here.pawl.budgets.list()).some((one) => one.tag === tag)).toBe(false)
    expect(await here.pawl.approvals.rules({ session: played.id })).toEqual([])
    await page.context().close()
  })

  it('the console shows a tenant neither workers nor budgets, and a visitor without rights no buttons', async () => {
    const { key: tenant } = await pages.newKey(['read', 'operate'], 'acme')
    const page = await pages.open('#/workers', { key: tenant })
    await shows(page.getByText('Workers are for credentials without a tenant.'))
    expect(await page.getByRole('region', { name: 'Processes' }).count()).toBe(0)
    await page.goto(`${pages.url}/console/#/rules`)
    await shows(page.getByRole('heading', { name: 'Standing approvals' }))
    await expect.poll(() => page.getByRole('heading', { name: 'Shared budgets' }).count()).toBe(0)
    await page.context().close()
    const { key: reader } = await pages.newKey(['read'])
    const played = player.play(here.pawl, { model: busy })
    await say(played, 'one')
    const other = await pages.open(`#/sessions/${played.id}`, { key: reader })
    await shows(other.getByText('did one'))
    expect(await other.getByRole('button', { name: 'Go back…' }).count()).toBe(0)
    await other.context().close()
  })

  it('the console draws the usage as a chart whose numbers a screen reader has, too', async () => {
    const played = player.play(here.pawl, { model: busy })
    await say(played, 'one')
    const page = await pages.open('#/usage?by=agent')
    await shows(
      page
        .getByRole('img', { name: /by agent: .*player/ })
        .locator('svg rect')
        .first(),
    )
    await page.context().close()
  })

  it('the console draws its charts in any locale, also where the browser’s is no valid one', async () => {
    const played = player.play(here.pawl, { model: busy })
    await say(played, 'one')
    const plain = await startBrowser({ LANG: 'C', LC_ALL: 'C' })
    try {
      const draws = async (page: Page): Promise<void> => {
        await shows(
          page
            .getByRole('img', { name: /by agent: .*player/ })
            .locator('svg rect')
            .first(),
        )
        expect(await page.getByRole('alert').allTextContents()).toEqual([])
        await page.context().close()
      }
      const page = await pages.open('#/usage?by=agent', { browser: plain })
      // With this language, no `Intl` constructor works.
      const refused = 'try { new Intl.NumberFormat(navigator.language); "" } catch (error) { error.name }'
      expect(await page.evaluate(refused)).toBe('RangeError')
      await draws(page)
      for (const locale of ['ar-EG', 'zz-ZZ-x-odd']) await draws(await pages.open('#/usage?by=agent', { locale }))
    } finally {
      await plain.close()
    }
    expect(pages.complaints).toEqual([])
  })

  it('the new pages of the console have no finding of axe, no error and no breach of the policy, at any width', async () => {
    const played = player.play(here.pawl, { model: busy })
    await say(played, 'one')
    const waiting = desk.play(here.pawl, { model: once(['pay', 'rent', 1]) })
    await (await waiting.session.send('Pay it.')).settled()
    const steps: [place: string, prepare?: (page: Page) => Promise<void>][] = [
      ['#/workers'],
      ['#/schedules'],
      ['#/rules'],
      ['#/errors'],
      ['#/usage?by=day', (page) => shows(page.locator('.chart svg'))],
      [
        `#/sessions/${played.id}`,
        (page) =>
          page
            .getByRole('button', { name: 'Go back…' })
            .click()
            .then(() => shows(panelOf(page))),
      ],
      [
        `#/sessions/${waiting.id}`,
        (page) =>
          page
            .getByRole('button', { name: 'Edit arguments…' })
            .click()
            .then(() => shows(page.getByLabel('Arguments, as JSON'))),
      ],
    ]
    for (const [place, prepare] of steps) {
      const page = await pages.open(place, { bypassCSP: true })
      await shows(page.getByRole('main').locator('h1').first())
      await prepare?.(page)
      for (const scheme of SCHEMES) expect([place, await findings(page, scheme)]).toEqual([place, []])
      for (const width of [360, 1_024, 1_600]) {
        await page.setViewportSize({ width, height: 800 })
        expect([place, width, await page.evaluate<number>('document.documentElement.scrollWidth')]).toEqual([place, width, width])
      }
      await page.context().close()
      // With the policy, which axe needs to go around: what loads code and styles later.
      if (!prepare) continue
      const plain = await pages.open(place)
      await shows(plain.getByRole('main').locator('h1').first())
      await prepare(plain)
      await plain.context().close()
    }
    expect(pages.complaints).toEqual([])
  })

  it('the first page of the console has at most 150 KB, and charts and actions are not part of it', () => {
    const folder = fileURLToPath(new URL('../../dist/console/', import.meta.url))
    const index = readFileSync(join(folder, 'index.html'), 'utf8')
    const names = [...index.matchAll(/(?:src|href)="\.\/(assets\/[^"]+)"/g)].map(([, name = '']) => name)
    const bytes = ['index.html', ...names].reduce((sum, name) => sum + statSync(join(folder, `${name}.br`)).size, 0)
    expect(bytes).toBeLessThan(150_000)
    expect(names.join()).not.toMatch(/chart|going-back|editing/)
    expect(readdirSync(join(folder, 'assets')).join()).toMatch(/chart.*going-back/)
  })
})
