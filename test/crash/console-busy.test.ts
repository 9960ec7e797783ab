// The console over a busy deployment: sessions by the hundred or, in the soak, by the thousand, whose workers are killed at random while a
// person looks at every page and does everything that the pages offer.
import { randomUUID } from 'node:crypto'
import type { RunHandle, SessionHandle, SessionOptions } from 'pawl/client'
import pg from 'pg'
import type { Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { type Showcase, startShowcase } from '../../examples/console/showcase.ts'
import { seed, size } from '../support/sizes.ts'
import { until } from '../support/until.ts'
import { type ConsolePages, findings, overflowOf, SCHEMES, shows as showsIn, startConsolePages } from './support/console-pages.ts'
import { type Crowd, startCrowd } from './support/crowd.ts'

const SESSIONS = size(40, 2_000)
/** What a person waits for when processes have just been killed. */
const PATIENCE_MS = 60_000
const own = randomUUID().slice(0, 8)
const [schema, taskQueue, prefix] = [`busy_${own}`, `busy-${own}`, `busy-${own}-`]
let showcase: Showcase
let pages: ConsolePages
let crowd: Crowd

beforeAll(
  async () => {
    showcase = await startShowcase({ stack: inject('stack'), schema, taskQueue, prefix })
    pages = await startConsolePages(showcase.pawl, { schema, taskQueue })
    crowd = startCrowd(showcase, { prefix, seed, atLeast: SESSIONS, atOnce: size(2, 8), killEvery: size(8, 20) })
    // The others come while the tests run.
    await crowd.reached(SESSIONS / 2)
  },
  size(180_000, 2_400_000),
)
afterAll(async () => {
  crowd?.abandon()
  await pages?.close()
  await showcase?.stop()
})

const shows = (one: Locator): Promise<void> => showsIn(one, PATIENCE_MS)
const at = (id: string): string => `#/sessions/${prefix}${id}`
const open = async (place: string, bypassCSP = false): Promise<Page> => {
  const page = await pages.open(place, { key: showcase.key, bypassCSP })
  page.setDefaultTimeout(PATIENCE_MS)
  await shows(page.locator('main h1').first())
  return page
}
const visit = (page: Page, place: string): Promise<unknown> => page.goto(`${pages.url}/console/${place}`)
const press = (within: Page | Locator, name: string): Promise<void> => within.getByRole('button', { name, exact: true }).click()
const callOf = (page: Page, tool: string): Locator => page.getByRole('region', { name: `Call of ${tool}` })
const cardOf = (page: Page, id: string): Locator =>
  page.getByRole('listitem').filter({ has: page.getByRole('link', { name: `${prefix}${id}`, exact: true }) })
const newSession = (agent: string, options: Partial<SessionOptions> = {}): SessionHandle =>
  showcase.pawl.session(`${prefix}${randomUUID().slice(0, 8)}`, { agent, ...options })
async function say(session: SessionHandle, text: string): Promise<RunHandle> {
  const run = await session.send(text)
  await run.settled({ timeout: PATIENCE_MS })
  return run
}
const nameOf = ({ id }: SessionHandle): string => id.slice(prefix.length)

const REFUND = 'Please refund order W-1077, the sofa does not fit through our door.'
const PARCEL = 'Where is my parcel? Order W-1051.'
const EXPORT = 'Export the invoices of October.'

it('every page is free of findings in both themes, breaks no policy, and is as wide as its window while processes are killed', async () => {
  const ids = ['customer-42?at=11', 'customer-51', 'customer-77', 'mailing-lamp', 'export-october', 'prices', 'lisbon']
  const sessions = ['', '?status=waiting', ...ids.map((id) => `/${prefix}${id}`)]
  const rest = ['inbox', 'usage?by=agent', 'errors', 'workers', 'schedules', 'rules', 'search?q=customer+42']
  // Axe needs a page without the policy.
  const [plain, lax] = [await open('#/sessions'), await open('#/sessions', true)]
  for (const place of [...sessions.map((of) => `#/sessions${of}`), ...rest.map((of) => `#/${of}`)]) {
    for (const page of [plain, lax]) {
      await visit(page, place)
      await shows(page.locator('main h1').first())
      await page.locator('[aria-busy=true]').first().waitFor({ state: 'detached' })
    }
    for (const scheme of SCHEMES) expect([place, await findings(lax, scheme)]).toEqual([place, []])
    for (const width of [360, 1_600]) {
      await lax.setViewportSize({ width, height: 800 })
      expect([place, width, await overflowOf(lax)]).toEqual([place, width, 0])
    }
  }
  await visit(plain, '#/sessions')
  await press(plain, 'Older sessions')
  await shows(plain.getByRole('row').nth(51))
  await press(plain, 'Sign out')
  await shows(plain.getByLabel('API key'))
  for (const page of [plain, lax]) await page.context().close()
})

describe('deciding while processes are killed', () => {
  it('a person approves a call, approves another with other arguments, denies a third, and answers in a customer’s place', async () => {
    const page = await open(at('hotel-miramar'))
    await press(page, 'Approve')
    await shows(page.getByText('Your credit is now €20,000.'))
    await visit(page, at('customer-77'))
    await press(callOf(page, 'refund_order'), 'Edit arguments…')
    await page.getByLabel('Arguments, as JSON').fill('{"order": "W-1077", "cents": 100000}')
    await press(page, 'Approve with these arguments')
    await shows(page.getByText('Your refund of €1,000.00 has been confirmed.'))
    await shows(page.locator('dd').getByText('100,000').first())
    const coupon = newSession('support')
    await say(coupon, 'A coupon, please, for my trouble with order W-1099.')
    await visit(page, at(nameOf(coupon)))
    await page.getByLabel('Note, or the reason for a denial').fill('not again')
    await press(page, 'Deny')
    await shows(page.getByText('I am afraid that I cannot offer a refund for this order.'))
    await visit(page, '#/inbox')
    await cardOf(page, 'customer-63').getByLabel('The result, as JSON').fill('{"signed": true}')
    await press(cardOf(page, 'customer-63'), 'Answer')
    await visit(page, at('customer-63'))
    await shows(page.getByText('Thank you. The courier comes tomorrow'))
    await page.context().close()
  })

  it('a person follows a call to the session of the agent that works on it, and decides there', async () => {
    const page = await open(at('lisbon'))
    const call = callOf(page, 'hotels')
    await shows(call.getByText('awaiting answer'))
    expect(await call.getByRole('button', { name: 'Answer' }).count()).toBe(0)
    await call.getByRole('link', { name: `${prefix}lisbon/` }).click()
    await press(callOf(page, 'book_rooms'), 'Approve')
    await shows(page.getByText('Casa do Rio is booked, four rooms.'))
    await visit(page, at('lisbon'))
    await shows(page.getByText('Flights and hotel are booked.'))
    await page.context().close()
  })

  it('a person says of one mail that it was sent, and has the model continue without another', async () => {
    const page = await open(at('customer-51'))
    await callOf(page, 'email_carrier').getByLabel('Its result, as JSON').fill('{"mail": "M-1"}')
    await press(callOf(page, 'email_carrier'), 'It happened')
    await shows(page.locator('dd').getByText('M-1'))
    await shows(page.getByText('The carrier has been informed.'))
    const other = newSession('support')
    showcase.office.killNext('mails W-1051', 'before')
    await say(other, PARCEL)
    await visit(page, at(nameOf(other)))
    await press(callOf(page, 'email_carrier'), 'Skip it')
    await shows(page.getByText('The carrier has been informed.'))
    expect(showcase.office.times('mails W-1051')).toBe(1)
    await page.context().close()
  })

  it('a person decides a group of calls together, and revokes the standing approval of another', async () => {
    const context = { customer: randomUUID() }
    const tag = `group-${randomUUID().slice(0, 8)}`
    const three = Array.from({ length: 3 }, () => newSession('support', { context, tags: [tag] }))
    for (const session of three) await say(session, REFUND)
    const [first] = three
    const page = await open('#/inbox')
    // Hundreds of others may wait for longer.
    await page.getByLabel('Tag').fill(tag)
    await page.keyboard.press('Enter')
    const group = page.getByRole('listitem', { name: '3 calls of refund_order' }).filter({ hasText: first?.id ?? '' })
    await press(group, 'Decide together…')
    await group.getByLabel('later calls, too').check()
    await press(group, 'Approve 3 calls')
    for (const session of three) await until('it has ended', async () => (await session.state()).status === 'idle', PATIENCE_MS)
    await visit(page, '#/rules')
    const rule = page.getByRole('listitem', { name: 'Rule for refund_order' }).filter({ hasText: context.customer })
    await press(rule, 'Revoke')
    await press(rule.getByRole('group'), 'Revoke')
    await rule.waitFor({ state: 'detached' })
    await page.context().close()
  })
})

describe('steering sessions while processes are killed', () => {
  it('a person sends a message, interrupts what it started, pauses the session and lets it continue', async () => {
    const session = newSession('support')
    await say(session, 'When will order W-1012 arrive?')
    const page = await open(at(nameOf(session)))
    const send = async (text: string): Promise<void> => {
      await page.getByLabel('Message', { exact: true }).fill(text)
      await press(page, 'Send')
    }
    await send(REFUND)
    await shows(page.getByText('waits for approval').first())
    await press(page, 'Interrupt')
    await shows(page.getByText('interrupted by key:ann'))
    await press(page, 'Pause')
    await shows(page.getByText('paused by key:ann'))
    await send('When will order W-1012 arrive?')
    await press(page, 'Unpause')
    await shows(page.getByText('On Thursday. I will check that it has arrived.').nth(1))
    await page.context().close()
  })

  it('a person rolls a session back, forks it, and has the model answer again', async () => {
    const session = newSession('logistics')
    for (const text of ['Write to all customers of the lamp.', 'Yes, but leave out those of last year.']) await say(session, text)
    const page = await open(at(nameOf(session)))
    const panel = page.getByRole('region', { name: 'Go back' })
    const goBack = async (way: string, button: string): Promise<void> => {
      // A page that is behind is told that the session has moved.
      const { seq } = await session.state()
      await shows(page.locator('output', { hasText: new RegExp(`^\\s*${seq} of ${seq}\\b`) }))
      await press(page, 'Go back…')
      await panel.getByLabel(way, { exact: true }).check()
      await press(panel, button)
    }
    await goBack('Answer again', 'Ask the model again')
    await shows(panel.getByText('The message is answered again.'))
    await until('it is', async () => (await session.state()).run === 3 && (await session.state()).status === 'idle', PATIENCE_MS)
    await press(panel, 'Close')
    await goBack('Roll back', 'Roll the session back')
    await shows(panel.getByText('Rolled back to event'))
    await press(panel, 'Close')
    await goBack('Fork', 'Make the fork')
    await panel.getByRole('link').click()
    await shows(page.getByText(`forked from ${session.id}`))
    await page.context().close()
  })

  it('a person recovers failed sessions call by call, alone, and many at once, and raises the limit that stopped one', async () => {
    const failed = Array.from({ length: 4 }, () => newSession('accounting'))
    for (const session of failed) await say(session, EXPORT)
    const [first, second, ...others] = failed.map(nameOf)
    const page = await open(at(first ?? ''))
    await press(page, 'Recover…')
    await press(page, 'Choose per call…')
    const choice = page.getByRole('region', { name: 'Choose per call' })
    await choice.getByLabel('make it again').check()
    await choice.getByLabel('effects that have completed may happen again').check()
    await press(choice, 'Recover with these choices')
    await shows(page.getByText('recovery: selective by key:ann'))
    await shows(page.getByText('This model is scripted, so it has no answer to that.'))
    await visit(page, at(second ?? ''))
    await press(page, 'Recover…')
    await press(page, 'abandon')
    await shows(page.getByText('recovery: abandon by key:ann'))
    await visit(page, '#/errors')
    const section = page.getByRole('region', { name: 'Sessions in error' })
    for (const id of others) await section.getByLabel(`Choose ${prefix}${id}`).check()
    await section.getByLabel('Strategy').selectOption('abandon')
    await press(section, 'Preview 2')
    await press(section, 'Recover 2')
    for (const id of others) await shows(cardOf(page, id).getByText('recovered', { exact: true }))
    await visit(page, at('prices'))
    expect(await page.getByLabel('New limit of the run in US dollars').inputValue()).toBe('0.15')
    await press(page, 'Raise the limit')
    await shows(page.getByText('We are cheaper than all of them.'))
    await page.context().close()
  })
})

it('a person creates, pauses, triggers and deletes a schedule, sets and removes a budget, and opens a gate while processes are killed', async () => {
  const page = await open('#/schedules')
  const [id, tag] = [`${prefix}count`, `${prefix}tag`]
  await press(page, 'New schedule…')
  for (const [label, text] of Object.entries({ Id: id, Agent: 'logistics', Message: 'Check the stock of all warehouses.', Interval: '6h' }))
    await page.getByLabel(label, { exact: true }).fill(text)
  await press(page, 'Create the schedule')
  const schedule = page.getByRole('listitem', { name: `Schedule ${id}` })
  await press(schedule, 'Pause')
  await press(schedule, 'Unpause')
  await press(schedule, 'Send now')
  await shows(schedule.getByRole('link', { name: 'its session' }))
  await press(schedule, 'Delete')
  await press(schedule.getByRole('group'), 'Delete')
  await schedule.waitFor({ state: 'detached' })
  await visit(page, '#/rules')
  await press(page, 'Set a budget…')
  for (const [label, text] of Object.entries({ Tag: tag, 'US dollars': '10' })) await page.getByLabel(label, { exact: true }).fill(text)
  await press(page, 'Set the budget')
  const budget = page.getByRole('row').filter({ hasText: tag })
  await press(budget, 'Remove')
  await press(budget.getByRole('group'), 'Remove')
  await budget.waitFor({ state: 'detached' })
  const database = new pg.Client({ connectionString: inject('stack').databaseUrl })
  await database.connect()
  await database.query(`insert into "${schema}".gates (key, shut_until, by) values ('acme', now() + interval '1 hour', 'worker-1')`)
  await database.end()
  await visit(page, '#/workers')
  const gate = page.getByRole('listitem').filter({ hasText: 'acme' })
  await press(gate, 'Open now')
  await gate.waitFor({ state: 'detached' })
  await page.context().close()
})

it('a person who knows only “customer 42 says the refund did not arrive” finds the refund that was never paid, and has it paid once', async () => {
  expect(showcase.office.times('refunds W-1043')).toBe(0)
  const page = await open('#/sessions')
  await page.getByRole('searchbox', { name: 'Search', exact: true }).fill('customer 42')
  await page.keyboard.press('Enter')
  const found = page.getByRole('main').getByRole('listitem')
  await found.filter({ hasText: 'waiting' }).getByRole('link').click()
  const call = callOf(page, 'refund_order')
  await shows(call.getByText('was killed with its process'))
  await shows(call.getByText('it is unknown whether the effect happened'))
  await call.getByLabel('How you know').fill('the bank has no such transfer')
  await press(call, 'It did not happen')
  await shows(call.getByText('completed, attempt 2'))
  await shows(call.getByText('effect R-1043'))
  await shows(page.getByText('Your refund of €89.00 is on its way.'))
  expect(showcase.office.times('refunds W-1043')).toBe(1)
  await page.context().close()
})

it(`all of the ${SESSIONS} sessions settle as they would without kills, and no page had an error or broke its policy (seed ${seed}, again with PAWL_SEED)`, {
  timeout: size(300_000, 2_400_000),
}, async () => {
  const { sessions, kills } = await crowd.end()
  console.log(`busy console: ${sessions} sessions, ${kills} kills, seed ${seed}`)
  expect(kills).toBeGreaterThan(SESSIONS / size(20, 40))
  expect(pages.complaints).toEqual([])
})
