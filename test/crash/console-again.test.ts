// What the console does when a person clicks twice, an answer is lost, or something happens while a person looks, in a real browser.
import { randomUUID } from 'node:crypto'
import type { Page, Route } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { EventBody } from '../../src/session/events.ts'
import { openStore, type Store } from '../../src/store/index.ts'
import { EPOCH, logOf, received, started } from '../integration/store/sessions.ts'
import { approvalStage } from '../support/approvals.ts'
import type { Deployment } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { answersIn, type Played, type Scene, stage, use } from '../support/scenes.ts'
import { ask, passOn, treeStage } from '../support/tree.ts'
import { gate, until } from '../support/until.ts'
import { type ConsoleDeployment, deployConsole } from './support/console-deployment.ts'
import { type ConsolePages, shows } from './support/console-pages.ts'

const player = stage()
const desk = approvalStage()
const tree = treeStage()
let shown: ConsoleDeployment
let here: Deployment
let pages: ConsolePages
let store: Store

beforeAll(async () => {
  shown = await deployConsole('again', [player.agent, desk.agent, ...tree.agents])
  ;({ here, pages } = shown)
  store = openStore({ postgres: here.stack.databaseUrl, schema: shown.schema, migrate: 'off' })
})
afterAll(async () => {
  await store?.close()
  await shown?.close()
})

const TIMEOUT = { timeout: 20_000 }
const echo: NonNullable<Scene['model']> = () => 'said'

async function say({ session }: Played, text: string): Promise<void> {
  await (await session.send(text, { messageId: text })).result(TIMEOUT)
}

const messagesOf = async ({ session }: Played) => ofType(await eventsOf(session), 'message_received')

/** The server carries out the first such request, and its answer is lost. Returns the status of that answer. */
async function loseAnswer(page: Page, path: string): Promise<() => number> {
  let status = 0
  const lose = async (route: Route): Promise<void> => {
    const headers = { ...(await route.request().allHeaders()), origin: pages.url }
    status = (await route.fetch({ headers })).status()
    await route.abort()
  }
  await page.route(`**${path}`, lose, { times: 1 })
  return () => status
}

describe('requests that are made twice', () => {
  it('the console sends a message once, although its button is clicked twice', async () => {
    const played = player.play(here.pawl, { model: echo })
    await say(played, 'one')
    const page = await pages.open(`#/sessions/${played.id}`)
    await page.getByLabel('Message').fill('two')
    // A slow answer leaves time for the second click.
    await page.route('**/messages', async (route) => {
      await new Promise((resolve) => setTimeout(resolve, 500))
      await route.continue()
    })
    await page.getByRole('button', { name: 'Send' }).dblclick()
    await expect.poll(() => page.getByLabel('Message').inputValue()).toBe('')
    await until(
      'both are answered',
      async () => (await played.session.state()).run >= 2 && (await played.session.state()).status === 'idle',
    )
    expect((await messagesOf(played)).map(({ content }) => content)).toEqual(['one', 'two'])
    await page.context().close()
  })

  it('the console sends a message once, although the answer was lost and a person sends it again', async () => {
    const played = player.play(here.pawl, { model: echo })
    await say(played, 'one')
    const page = await pages.open(`#/sessions/${played.id}`)
    const lost = await loseAnswer(page, '/messages')
    await page.getByLabel('Message').fill('two')
    await page.getByRole('button', { name: 'Send' }).click()
    await shows(page.getByText('The server cannot be reached. It may have carried out the request'))
    expect(lost()).toBe(202)
    await page.getByRole('button', { name: 'Send' }).click()
    await expect.poll(() => page.getByLabel('Message').inputValue()).toBe('')
    for (const text of ['two', 'three']) {
      await page.getByLabel('Message').fill(text)
      await page.getByRole('button', { name: 'Send' }).click()
      await expect.poll(() => page.getByLabel('Message').inputValue()).toBe('')
    }
    await until('the last one is there', async () => (await messagesOf(played)).some(({ content }) => content === 'three'))
    expect((await messagesOf(played)).map(({ content }) => content)).toEqual(['one', 'two', 'two', 'three'])
    await page.context().close()
  })

  it('the console makes one fork, although the answer was lost and a person asks for it again', async () => {
    const played = player.play(here.pawl, { model: echo })
    await say(played, 'one')
    const page = await pages.open(`#/sessions/${played.id}`)
    await page.getByRole('button', { name: 'Go back…' }).click()
    const panel = page.getByRole('region', { name: 'Go back' })
    await panel.getByLabel('Fork', { exact: true }).check()
    const lost = await loseAnswer(page, '/fork')
    await panel.getByRole('button', { name: 'Make the fork' }).click()
    await shows(panel.getByText('The server cannot be reached. It may have carried out the request'))
    expect(lost()).toBe(201)
    await panel.getByRole('button', { name: 'Make the fork' }).click()
    await shows(panel.getByText('The fork:'))
    const forks = async () => (await here.pawl.sessions.list({ limit: 1_000 })).items.filter(({ parent }) => parent === played.id)
    await until('it is stored', async () => (await forks()).length > 0)
    // Another one would be stored by now: it was requested before.
    const id = await panel.getByRole('link').textContent()
    expect((await forks()).map(({ sessionId }) => sessionId)).toEqual([id])
    await page.context().close()
  })

  it('the console interrupts one run, although its button is clicked twice while another message waits', async () => {
    const entered = gate()
    const played = player.play(here.pawl, {
      model: async ({ messages }, { signal }) => {
        if (JSON.stringify(messages.at(-1)).includes('two')) return 'the second'
        entered.open()
        await new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))))
        return 'never'
      },
    })
    await played.session.send('one')
    await entered.pass()
    const second = await played.session.send('two')
    const page = await pages.open(`#/sessions/${played.id}`)
    const requests: string[] = []
    await page.route('**/interrupt', async (route) => {
      requests.push(route.request().url())
      await new Promise((resolve) => setTimeout(resolve, 500))
      await route.continue()
    })
    await page.getByRole('button', { name: 'Interrupt' }).dblclick()
    expect((await second.result(TIMEOUT)).text).toBe('the second')
    expect(requests).toHaveLength(1)
    await page.context().close()
  })
})

describe('what happens while a person looks', () => {
  it('the console keeps the chosen target of a rollback when an event comes that changes nothing about it', async () => {
    const played = player.play(here.pawl, { model: echo })
    for (const text of ['one', 'two', 'three']) await say(played, text)
    const page = await pages.open(`#/sessions/${played.id}`)
    await page.getByRole('button', { name: 'Go back…' }).click()
    const panel = page.getByRole('region', { name: 'Go back' })
    const where = panel.getByLabel('Where to')
    await where.selectOption({ label: 'to before run 3' })
    const before = await panel.getByRole('list', { name: 'Preview' }).textContent()
    await played.session.checkpoint('for the test')
    await shows(page.locator('li').getByText('for the test'))
    expect(await where.locator('option:checked').textContent()).toBe('to before run 3')
    expect(await panel.getByRole('list', { name: 'Preview' }).textContent()).toBe(before)
    await panel.getByRole('button', { name: 'Roll the session back' }).click()
    await shows(panel.getByText('Rolled back to event'))
    expect(ofType(await eventsOf(played.session), 'rolled_back')).toMatchObject([{ target: { run: 3 } }])
    await page.context().close()
  })

  it('the list of sessions has each of them once, with its newest status, although others are created while a person reads on', async () => {
    const tag = `list-${randomUUID().slice(0, 8)}`
    const create = async (n: number): Promise<Played[]> => {
      const made = Array.from({ length: n }, () => player.play(here.pawl, { model: echo }, { tags: [tag] }))
      await Promise.all(made.map((played) => say(played, 'one')))
      return made
    }
    const [oldest] = await create(1)
    if (!oldest) throw new Error('there is one')
    await create(59)
    const page = await pages.open(`#/sessions?tag=${tag}`)
    const rows = page.locator('tbody tr')
    await expect.poll(() => rows.count()).toBe(50)
    await page.getByRole('button', { name: 'Older sessions' }).click()
    await expect.poll(() => rows.count()).toBe(60)
    await create(5)
    await say(oldest, 'two')
    await expect.poll(() => rows.count(), { timeout: 15_000 }).toBe(65)
    const row = rows.filter({ hasText: oldest.id })
    await expect.poll(() => row.locator('td').nth(2).textContent(), { timeout: 15_000 }).toBe('2')
    await page.context().close()
  })

  it('the list of sessions says why older ones cannot be read', async () => {
    const tag = `fails-${randomUUID().slice(0, 8)}`
    await Promise.all(Array.from({ length: 52 }, () => say(player.play(here.pawl, { model: echo }, { tags: [tag] }), 'one')))
    const page = await pages.open(`#/sessions?tag=${tag}`)
    await expect.poll(() => page.locator('tbody tr').count()).toBe(50)
    await page.route('**/v1/sessions?*', (route) => route.abort())
    await page.getByRole('button', { name: 'Older sessions' }).click()
    await shows(page.getByRole('alert').getByText('The server cannot be reached. The console tries again.'))
    await page.unroute('**/v1/sessions?*')
    await expect.poll(() => page.locator('tbody tr').count(), { timeout: 15_000 }).toBe(52)
    await page.context().close()
  })

  it('the inbox does not keep the note about a call for the next one of the same group', async () => {
    const asks = [[use('pay', 'rent')], [use('pay', 'water')], 'done']
    const played = desk.play(here.pawl, { model: (request) => asks[answersIn(request)] ?? 'done' })
    const run = await played.session.send('Pay them.')
    await run.settled(TIMEOUT)
    const page = await pages.open('#/inbox')
    const card = page.getByRole('listitem').filter({ hasText: played.id })
    await shows(card.getByText('rent'))
    await card.getByLabel('Note, or the reason for a denial').fill('as Ann said on the phone')
    await card.getByRole('button', { name: 'Edit arguments…' }).click()
    await shows(card.getByLabel('Arguments, as JSON'))
    await run.settled(TIMEOUT)
    const [call] = (await here.pawl.pending.list({ session: played.id })).items
    await played.session.approve(call?.callId ?? '', { digest: call?.digest ?? '' })
    await shows(card.getByText('water').first())
    expect(await card.getByLabel('Note, or the reason for a denial').inputValue()).toBe('')
    expect(await card.getByLabel('Arguments, as JSON').count()).toBe(0)
    await card.getByRole('button', { name: 'Approve', exact: true }).click()
    await run.result(TIMEOUT)
    expect(ofType(await eventsOf(played.session), 'approval_decided').map(({ note }) => note)).toEqual([undefined, undefined])
    await page.context().close()
  })

  it('the search lists a session once, however many of its tags match, and accepts a text that is longer than any tag', async () => {
    const word = randomUUID().slice(0, 8)
    const played = player.play(here.pawl, { model: echo }, { tags: [`${word}:9`, `${word}-9`] })
    await say(played, 'one')
    const page = await pages.open(`#/search?q=${word}%209`)
    await shows(page.getByRole('link', { name: played.id }).first())
    expect(await page.getByRole('link', { name: played.id }).count()).toBe(1)
    await page.goto(`${pages.url}/console/#/search?q=${'k'.repeat(300)}`)
    await shows(page.getByText('Nothing has this id'))
    await page.context().close()
  })

  it('the console counts only the chosen sessions that are still in error', async () => {
    const broken = new Set<string>()
    const model =
      (id: string): NonNullable<Scene['model']> =>
      () => {
        if (broken.has(id)) throw Object.assign(new Error('The provider refuses this.'), { retryable: false })
        return 'well again'
      }
    const [first, second] = ['a', 'b'].map((name) => {
      const id = `${name}-${randomUUID()}`
      broken.add(id)
      return player.play(here.pawl, { model: model(id) }, { id })
    })
    if (!first || !second) throw new Error('there are two')
    for (const { session } of [first, second]) await (await session.send('go')).result(TIMEOUT).catch(() => undefined)
    const page = await pages.open('#/errors')
    const section = page.getByRole('region', { name: 'Sessions in error' })
    for (const { id } of [first, second]) await section.getByLabel(`Choose ${id}`).check()
    await shows(section.getByRole('button', { name: 'Preview 2' }))
    await first.session.recover({ strategy: 'abandon' })
    await section.getByLabel(`Choose ${first.id}`).waitFor({ state: 'detached' })
    await shows(section.getByRole('button', { name: 'Preview 1' }))
    await second.session.recover({ strategy: 'abandon' })
    await page.context().close()
  })

  it('the console recovers every session in error that a bulk recovery finds, those that answer agent calls included', async () => {
    let isBroken = true
    const played = tree.play(here.pawl, {
      boss: passOn(ask('helper', 'x')),
      helper: () => {
        if (isBroken) throw Object.assign(new Error('The provider refuses this.'), { retryable: false })
        return 'well again'
      },
    })
    await played.session.send('go')
    const found = async (): Promise<string[]> => {
      const ids: string[] = []
      await here.pawl.recover({ agent: 'helper', by: 'ann', dryRun: true, onSession: ({ sessionId }) => void ids.push(sessionId) })
      return ids
    }
    const [helper = ''] = await until('the helper is in error', async () => (await found()).length === 1 && found())
    const page = await pages.open('#/errors')
    const section = page.getByRole('region', { name: 'Sessions in error' })
    await section.getByLabel(`Choose ${helper}`).check()
    await section.getByLabel('Strategy').selectOption('restart_run')
    await section.getByRole('button', { name: 'Preview 1' }).click()
    isBroken = false
    await section.getByRole('button', { name: 'Recover 1' }).click()
    const session = here.pawl.session(helper)
    await until('it has recovered', async () => (await session.state()).status === 'idle')
    expect(ofType(await eventsOf(session), 'recovery_started')).toMatchObject([{ strategy: 'restart_run', by: 'key:ann' }])
    await page.context().close()
  })

  it('the console shows as still in error only what is: a checkpoint that was written late is not', async () => {
    const id = `late-${randomUUID()}`
    const made = { type: 'checkpoint_made', version: 1, reasons: ['test'] } as EventBody
    await store.flush(id, EPOCH, logOf([started({ sessionId: id }), received('m'), made]), {
      late: { since: new Date(), code: 'store_unavailable', message: 'away', attempts: 2 },
    })
    const page = await pages.open('#/errors')
    const card = page.getByRole('listitem').filter({ hasText: id })
    await shows(card.getByText('was written late'))
    expect(await card.getByText('still in error').count()).toBe(0)
    await page.context().close()
  })

  it('the console shows that a worker polls, although the visitor’s clock is wrong by hours', async () => {
    const script = 'const real = Date.now; Date.now = () => real() + 5 * 3_600_000'
    const page = await pages.open('#/workers', { script })
    const processes = page.getByRole('region', { name: 'Processes' })
    await shows(processes.getByText('polling').first())
    await page.context().close()
  })
})
