// Questions that an MCP server asks during a call, answered in the console, in a real browser.
import { randomUUID } from 'node:crypto'
import { type Agent, defineAgent } from 'pawl'
import { scripted } from 'pawl/testing'
import { mcp } from 'pawl/tools'
import type { Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { pendingOf } from '../support/approvals.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { type AskingServer, startAsking } from '../support/mcp/asking.ts'
import { resultsIn, saidIn } from '../support/scenes.ts'
import { type ConsoleDeployment, deployConsole } from './support/console-deployment.ts'
import { findings, overflowOf, SCHEMES, shows } from './support/console-pages.ts'

let asker: AskingServer
let shown: ConsoleDeployment

/** Ships the order of the message, in the way that it says. */
const model = scripted((request) => {
  const [result] = resultsIn(request)
  if (result) return String(result.content)
  return [{ type: 'tool_use', id: 'toolu_1', name: 'asker__ship', input: JSON.parse(saidIn(request)[0] ?? '{}') }]
})

beforeAll(async () => {
  asker = await startAsking()
  const tools = [mcp({ name: 'asker', transport: { type: 'http', url: asker.url }, effects: { ship: 'external' } })]
  shown = await deployConsole('questions', [defineAgent({ name: 'shipping', instructions: '', tools, model }) as Agent])
})
afterAll(async () => {
  await shown?.close()
  await asker?.close()
})

async function ship(how: string) {
  const order = `order-${randomUUID()}`
  const session = shown.here.pawl.session(order, { agent: 'shipping' })
  const run = await session.send(JSON.stringify({ order, how }))
  await pendingOf(run)
  return { order, session, run, shipped: () => asker.world.shipped.filter((one) => one === order).length }
}

const cardOf = (page: Page, order: string): Locator => page.getByRole('listitem').filter({ has: page.getByRole('link', { name: order }) })
const formFor = (within: Page | Locator, message: string): Locator => within.getByRole('form', { name: `Answer to: ${message}` })

it('the inbox has a form for each question of a call, says what is wrong with an answer, and the call continues with it', async () => {
  const { order, session, run, shipped } = await ship('twice')
  const page = await shown.pages.open('#/inbox', { bypassCSP: true })
  const card = cardOf(page, order)
  await shows(card.getByText('asker asks: Which size?'))
  const first = formFor(card, 'Which size?')
  await first.getByRole('button', { name: 'Answer' }).click()
  await shows(card.getByRole('alert').filter({ hasText: 'content.size is missing' }))
  for (const scheme of SCHEMES) expect(await findings(page, scheme)).toEqual([])
  await first.getByLabel('size').selectOption('M')
  await page.reload()
  // What was not sent is not kept.
  expect(await first.getByLabel('size').inputValue()).toBe('')
  await first.getByLabel('size').selectOption('M')
  await first.getByLabel('gift').check()
  await first.getByRole('button', { name: 'Answer' }).click()
  const second = formFor(card, 'Really?')
  await shows(second)
  expect(await second.getByLabel('size').inputValue()).toBe('')
  await second.getByLabel('size').selectOption('L')
  await second.getByRole('button', { name: 'Answer' }).click()
  expect(await run.result({ timeout: 30_000 })).toMatchObject({ text: `shipped ${order}: second M, then L` })
  await card.waitFor({ state: 'detached' })
  expect(shipped()).toBe(1)
  expect(ofType(await eventsOf(session), 'answer_received')).toMatchObject([
    { by: 'key:ann', reply: { action: 'accept', content: { size: 'M', gift: true } } },
    { by: 'key:ann', reply: { action: 'accept', content: { size: 'L', gift: false } } },
  ])
  await page.context().close()
})

it('the page of a session has the question, too: a link to where its user answers, and a way to decline', async () => {
  const paying = await ship('url')
  const page = await shown.pages.open(`#/sessions/${paying.order}`)
  const form = formFor(page, 'Pay here.')
  await shows(page.getByText('asker asks the user'))
  expect(await form.getByRole('link', { name: 'Open bank.example' }).getAttribute('href')).toBe('https://bank.example/pay?order=7')
  await form.getByRole('button', { name: 'Done' }).click()
  await paying.run.result({ timeout: 30_000 })
  await form.waitFor({ state: 'detached' })
  expect(paying.shipped()).toBe(1)

  const declined = await ship('size')
  await page.goto(`${shown.pages.url}/console/#/sessions/${declined.order}`)
  await page.setViewportSize({ width: 360, height: 700 })
  await shows(formFor(page, 'Which size?'))
  expect(await overflowOf(page)).toBeLessThanOrEqual(0)
  await formFor(page, 'Which size?').getByRole('button', { name: 'Decline' }).click()
  // The server says that it has not shipped the order, which is no proof for a tool with the effect `external`.
  await page.getByRole('button', { name: 'Skip it' }).click()
  await declined.run.result({ timeout: 30_000 })
  expect(declined.shipped()).toBe(0)
  expect(ofType(await eventsOf(declined.session), 'answer_received')).toMatchObject([{ reply: { action: 'decline' } }])
  expect(shown.pages.complaints).toEqual([])
  await page.context().close()
})

it('a visitor who may not send messages reads the question, and which scope an answer needs', async () => {
  const { order, session } = await ship('size')
  const { key } = await shown.pages.newKey(['read', 'approve'])
  const page = await shown.pages.open('#/inbox', { key })
  const card = cardOf(page, order)
  await shows(card.getByText('asker asks: Which size?'))
  await shows(card.getByText('lack the scope “send”'))
  expect(await card.getByRole('button').count()).toBe(0)
  await session.interrupt()
  await page.context().close()
})
