// What people create in the console, in a real browser: schedules and shared budgets.
import { randomUUID } from 'node:crypto'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Deployment } from '../support/deployment.ts'
import { approvalStage } from '../support/approvals.ts'
import { type ConsoleDeployment, deployConsole } from './support/console-deployment.ts'
import { type ConsolePages, findings, overflowOf, SCHEMES, shows } from './support/console-pages.ts'

const desk = approvalStage()
let shown: ConsoleDeployment
let here: Deployment
let pages: ConsolePages

beforeAll(async () => {
  shown = await deployConsole('creating', [desk.agent])
  ;({ here, pages } = shown)
})
afterAll(() => shown?.close())

const scheduleForm = async (page: Page) => {
  await page.getByRole('button', { name: 'New schedule…' }).click()
  return page.getByRole('form', { name: 'New schedule' })
}
const budgetForm = async (page: Page) => {
  await page.getByRole('button', { name: 'Set a budget…' }).click()
  return page.getByRole('form', { name: 'Set a budget' })
}

describe('schedules in the console', () => {
  it('the console creates a schedule, and shows what the service refuses at the field', async () => {
    const id = `s-${randomUUID().slice(0, 8)}`
    const page = await pages.open('#/schedules')
    const form = await scheduleForm(page)
    const problemAt = (label: string) =>
      form
        .locator('.field')
        .filter({ has: page.getByLabel(label, { exact: true }) })
        .getByRole('alert')
    const create = form.getByRole('button', { name: 'Create the schedule' })
    await form.getByLabel('Id', { exact: true }).fill('not an id')
    await form.getByLabel('Interval', { exact: true }).fill('soon')
    await create.click()
    await shows(problemAt('Id').getByText('must be 1 to 200 of'))
    await shows(problemAt('Agent'))
    await shows(problemAt('Message').getByText('must not be empty'))
    await shows(problemAt('Interval').getByText('a number with the unit'))
    expect(await form.getByLabel('Interval', { exact: true }).getAttribute('aria-invalid')).toBe('true')
    await form.getByLabel('Id', { exact: true }).fill(id)
    await form.getByLabel('Agent').fill(desk.agent.name)
    await form.getByLabel('Message').fill('Count the stock.')
    await form.getByLabel('by a cron expression').check()
    await form.getByLabel('Cron expression', { exact: true }).fill('0 25 * * *')
    await form.getByLabel('Time zone', { exact: true }).fill('Mars/Olympus')
    await create.click()
    await shows(problemAt('Time zone').getByText('time zone'))
    expect(await problemAt('Message').count()).toBe(0)
    await form.getByLabel('Time zone', { exact: true }).fill('Europe/Berlin')
    await create.click()
    await shows(problemAt('Cron expression'))
    await form.getByLabel('Cron expression', { exact: true }).fill('0 9 * * MON-FRI')
    await form.getByLabel('While the session is busy').selectOption('skip')
    await create.click()
    await form.waitFor({ state: 'detached' })
    await shows(page.getByRole('listitem', { name: `Schedule ${id}` }).getByText('0 9 * * MON-FRI (Europe/Berlin)'))
    const made = await here.pawl.schedules.get(id)
    expect(made).toMatchObject({
      agent: desk.agent.name,
      by: 'key:ann',
      overlap: 'skip',
      session: null,
      paused: false,
      timeZone: 'Europe/Berlin',
    })
    const again = await scheduleForm(page)
    for (const [label, text] of [
      ['Id', id],
      ['Agent', desk.agent.name],
      ['Message', 'Count.'],
      ['Interval', '1h'],
    ] as const)
      await again.getByLabel(label, { exact: true }).fill(text)
    await again.getByRole('button', { name: 'Create the schedule' }).click()
    await shows(problemAt('Id').getByText(id))
    await here.pawl.schedules.delete(id)
    await page.context().close()
  })
})

describe('shared budgets in the console', () => {
  it('the console sets a shared budget, replaces it, and shows what the service refuses at the field', async () => {
    const tag = `t-${randomUUID().slice(0, 8)}`
    const page = await pages.open('#/rules')
    const form = await budgetForm(page)
    const problemAt = (label: string) =>
      form
        .locator('.field')
        .filter({ has: page.getByLabel(label, { exact: true }) })
        .getByRole('alert')
    await form.getByLabel('Tag', { exact: true }).fill(tag)
    await form.getByLabel('US dollars').fill('ten')
    await form.getByRole('button', { name: 'Set the budget' }).click()
    await shows(problemAt('US dollars'))
    await form.getByLabel('US dollars').fill('10')
    await form.getByLabel('Time zone', { exact: true }).fill('Mars/Olympus')
    await form.getByRole('button', { name: 'Set the budget' }).click()
    await shows(problemAt('Time zone'))
    await form.getByLabel('Time zone', { exact: true }).fill('')
    await form.getByRole('button', { name: 'Set the budget' }).click()
    await form.waitFor({ state: 'detached' })
    const row = page.getByRole('row').filter({ hasText: tag })
    await shows(row.getByText('$10.00'))
    const second = await budgetForm(page)
    await second.getByLabel('Tag', { exact: true }).fill(tag)
    await second.getByLabel('US dollars').fill('12.5')
    await second.getByRole('button', { name: 'Set the budget' }).click()
    await shows(row.getByText('$12.50'))
    expect((await here.pawl.budgets.list()).filter((one) => one.tag === tag)).toMatchObject([
      { maxUsd: 12.5, per: 'day', onOutage: 'continue' },
    ])
    await page.context().close()
  })

  it('the console offers neither form without the right, and no shared budgets to a tenant', async () => {
    const { key: reader } = await pages.newKey(['read', 'send', 'approve'])
    const page = await pages.open('#/schedules', { key: reader })
    await shows(page.getByRole('heading', { name: 'Schedules', exact: true }))
    expect(await page.getByRole('button', { name: 'New schedule…' }).count()).toBe(0)
    await page.goto(`${pages.url}/console/#/rules`)
    await shows(page.getByRole('heading', { name: 'Standing approvals' }))
    expect(await page.getByRole('button', { name: 'Set a budget…' }).count()).toBe(0)
    await page.context().close()
    const { key: tenant } = await pages.newKey(['read', 'operate'], 'acme')
    const other = await pages.open('#/schedules', { key: tenant })
    const form = await scheduleForm(other)
    for (const [label, text] of [
      ['Id', 'theirs'],
      ['Agent', desk.agent.name],
      ['Message', 'Count.'],
      ['Interval', '1h'],
    ] as const)
      await form.getByLabel(label, { exact: true }).fill(text)
    await form.getByRole('button', { name: 'Create the schedule' }).click()
    await shows(form.getByRole('alert').getByText('acme'))
    await other.goto(`${pages.url}/console/#/rules`)
    await shows(other.getByRole('heading', { name: 'Standing approvals' }))
    await expect.poll(() => other.getByRole('button', { name: 'Set a budget…' }).count()).toBe(0)
    await other.context().close()
  })

  it('the forms have no finding of axe, also with refusals, and are as wide as their window', async () => {
    for (const [place, open, submit] of [
      ['#/schedules', scheduleForm, 'Create the schedule'],
      ['#/rules', budgetForm, 'Set the budget'],
    ] as const) {
      const page = await pages.open(place, { bypassCSP: true })
      const form = await open(page)
      await form.getByRole('button', { name: submit }).click()
      await shows(form.getByRole('alert').first())
      for (const scheme of SCHEMES) expect([place, await findings(page, scheme)]).toEqual([place, []])
      for (const width of [360, 1_024, 1_600]) {
        await page.setViewportSize({ width, height: 800 })
        expect([place, width, await overflowOf(page)]).toEqual([place, width, 0])
      }
      await page.context().close()
    }
    expect(pages.complaints).toEqual([])
  })
})
