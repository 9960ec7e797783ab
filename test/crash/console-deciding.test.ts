// Decisions about several calls in the console, in a real browser: groups of the inbox, and the calls of a failed turn.
import { randomUUID } from 'node:crypto'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { linesOfChoice } from '../../console/src/session/choosing.ts'
import { previewChoice } from '../../src/session/recovery/choice-preview.ts'
import { type ApprovalSession, approvalStage, once, pendingOf } from '../support/approvals.ts'
import type { Deployment } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { gate, until } from '../support/until.ts'
import { stage, use } from '../support/scenes.ts'
import { type ConsoleDeployment, deployConsole } from './support/console-deployment.ts'
import { type ConsolePages, findings, overflowOf, SCHEMES, shows } from './support/console-pages.ts'

const desk = approvalStage()
const player = stage({ limits: { maxTotalTokens: 1_000_000 } })
let shown: ConsoleDeployment
let here: Deployment
let pages: ConsolePages

beforeAll(async () => {
  shown = await deployConsole('deciding', [desk.agent, player.agent])
  ;({ here, pages } = shown)
})
afterAll(() => shown?.close())

/** Sessions of one customer, each with a call of `pay` that waits. */
async function waiting(amounts: readonly number[], context = { customer: randomUUID() }): Promise<ApprovalSession[]> {
  const all: ApprovalSession[] = []
  for (const n of amounts) {
    const played = desk.play(here.pawl, { model: once(['pay', 'rent', n]) }, { context })
    await pendingOf(await played.session.send('Pay it.'))
    await until('it is listed', async () => (await here.pawl.pending.list({ session: played.id })).items.length === 1)
    all.push(played)
  }
  return all
}

const groupWith = (page: Page, { id }: ApprovalSession) =>
  page.getByRole('listitem', { name: /calls of pay$/ }).filter({ has: page.getByRole('link', { name: id }) })
const digestOf = async ({ id }: ApprovalSession): Promise<string> => (await here.pawl.pending.list({ session: id })).items[0]?.digest ?? ''
const hasEnded = async ({ session }: ApprovalSession): Promise<boolean> => (await session.state()).status === 'idle'

/** Three calls that one decision would settle, and the page on which a person is about to decide them. */
async function openGroup() {
  const context = { customer: randomUUID() }
  const [first, second, third] = await waiting([1, 2, 3], context)
  if (!first || !second || !third) throw new Error('there are three')
  const page = await pages.open('#/inbox')
  const group = groupWith(page, first)
  await group.getByRole('button', { name: 'Decide together…' }).click()
  const panel = group.getByRole('region', { name: 'Decide together' })
  await shows(panel.getByRole('button', { name: 'Approve 3 calls' }))
  return { context, calls: [first, second, third] as const, page, group, panel }
}

describe('groups in the inbox', () => {
  it('the inbox shows calls that one decision settles as one entry, and one approval settles exactly those that the person has seen', async () => {
    const context = { customer: randomUUID() }
    const seen = await waiting([5, 7, 9], context)
    const [first] = seen
    if (!first) throw new Error('there are three')
    const page = await pages.open('#/inbox')
    const group = groupWith(page, first)
    await shows(group.getByText('3 calls wait for approval'))
    await shows(group.getByText('in 3 sessions with the same context'))
    await group.getByRole('button', { name: 'Decide together…' }).click()
    const panel = group.getByRole('region', { name: 'Decide together' })
    await shows(panel.getByText('Approves 3 calls of pay'))
    // One more arrives, within the same bounds.
    const [late] = await waiting([8], context)
    await shows(panel.getByText('Other calls wait now than those you have seen.'))
    expect(await panel.getByRole('button', { name: 'Approve 3 calls' }).isDisabled()).toBe(true)
    await late?.session.interrupt()
    await panel.getByText('Other calls wait now').waitFor({ state: 'detached' })
    await panel.getByLabel('Note').fill('called them')
    await panel.getByRole('button', { name: 'Approve 3 calls' }).click()
    for (const one of seen) await until('it has ended', () => hasEnded(one))
    expect(seen.flatMap(({ entries }) => entries.map(({ input }) => input.n))).toEqual([5, 7, 9])
    for (const { session } of seen) {
      const events = await eventsOf(session)
      expect(ofType(events, 'approval_decided')).toMatchObject([{ approved: true, by: 'key:ann', note: 'called them' }])
      expect(ofType(events, 'approval_rule_given')).toEqual([])
    }
    await group.waitFor({ state: 'detached' })
    const [again] = await waiting([7], context)
    expect(await again?.session.state()).toMatchObject({ status: 'waiting' })
    await again?.session.interrupt()
    await page.context().close()
  })

  it('a call of a group that is decided alone leaves the others waiting, and the rule that follows covers later calls if asked to', async () => {
    const context = { customer: randomUUID() }
    const [first, second, third] = await waiting([1, 2, 3], context)
    if (!first || !second || !third) throw new Error('there are three')
    const page = await pages.open('#/inbox')
    const group = groupWith(page, second)
    const alone = group.getByRole('listitem', { name: `Call t_1_1_0 of ${first.id}` })
    await alone.getByRole('button', { name: 'Alone…' }).click()
    await alone.getByLabel('Note, or the reason for a denial').fill('not this one')
    await alone.getByRole('button', { name: 'Deny' }).click()
    await until('it has ended', () => hasEnded(first))
    await shows(group.getByText('2 calls wait for approval'))
    await group.getByRole('button', { name: 'Decide together…' }).click()
    const panel = group.getByRole('region', { name: 'Decide together' })
    await panel.getByLabel('later calls, too').check()
    await panel.getByLabel('With').selectOption({ index: 1 })
    await shows(panel.getByText('without asking, until somebody revokes the rule'))
    await shows(panel.getByRole('listitem').filter({ hasText: 'n is from 2 to 3' }))
    await panel.getByRole('button', { name: 'Approve 2 calls' }).click()
    for (const one of [second, third]) await until('it has ended', () => hasEnded(one))
    expect([first, second, third].map(({ entries }) => entries.length)).toEqual([0, 1, 1])
    const later = desk.play(here.pawl, { model: once(['pay', 'rent', 3]) }, { context })
    await (await later.session.send('Pay it.')).result({ timeout: 20_000 })
    expect(later.entries).toHaveLength(1)
    await page.context().close()
  })

  it('a call that another person decides just before a group is approved leaves no approval over for a later call', async () => {
    const { context, calls, page, group, panel } = await openGroup()
    const [first, second, third] = calls
    // The page does not hear of it.
    const listed = gate()
    await page.route('**/v1/pending*', async (route) => {
      await listed.pass()
      await route.continue()
    })
    await second.session.deny('t_1_1_0', { digest: await digestOf(second), by: 'bob' })
    await until('it has ended', () => hasEnded(second))
    await panel.getByRole('button', { name: 'Approve 3 calls' }).click()
    for (const one of [first, third]) await until('it has ended', () => hasEnded(one))
    await shows(group.getByText('Approved 2 calls.'))
    await shows(group.getByRole('list', { name: 'Calls that were not approved' }).getByText(second.id))
    listed.open()
    const [later] = await waiting([2], context)
    expect(await later?.session.state()).toMatchObject({ status: 'waiting' })
    expect([first, second, third].map(({ entries }) => entries.length)).toEqual([1, 0, 1])
    await later?.session.interrupt()
    await page.context().close()
  })

  it('a group of which another person has decided a call is looked at again', async () => {
    const { calls, page, panel } = await openGroup()
    const [first, second, third] = calls
    await second.session.interrupt()
    await shows(panel.getByText('Other calls wait now than those you have seen.'))
    expect(await panel.getByRole('button', { name: 'Approve 3 calls' }).isDisabled()).toBe(true)
    await panel.getByRole('button', { name: 'Look again' }).click()
    await panel.getByRole('button', { name: 'Approve 2 calls' }).click()
    for (const one of [first, third]) await until('it has ended', () => hasEnded(one))
    await page.context().close()
  })

  it('a group with more calls than the inbox shows has the arguments of each of them before it is approved', async () => {
    const context = { customer: randomUUID() }
    const [first, second, third] = await waiting([11, 12, 13], context)
    if (!first || !second || !third) throw new Error('there are three')
    const page = await pages.open('#/inbox')
    // The list is full before the third call.
    await page.route('**/v1/pending?limit=100*', async (route) => {
      const response = await route.fetch()
      const { items } = (await response.json()) as { items: { sessionId: string }[] }
      await route.fulfill({ response, body: JSON.stringify({ items: items.filter(({ sessionId }) => sessionId !== third.id) }) })
    })
    await page.reload()
    const group = groupWith(page, first)
    await shows(group.getByText('2 calls wait for approval'))
    await group.getByRole('button', { name: 'Decide together…' }).click()
    const panel = group.getByRole('region', { name: 'Decide together' })
    await shows(panel.getByRole('button', { name: 'Approve 3 calls' }))
    const others = panel.getByRole('list', { name: 'Calls that the list does not show' })
    await shows(others.getByText(third.id))
    await shows(others.getByText('13', { exact: true }))
    for (const { session } of [first, second, third]) await session.interrupt()
    await page.context().close()
  })

  it('a group whose first call has other arguments by now is not approved', async () => {
    const [first, second] = await waiting([1, 2])
    if (!first || !second) throw new Error('there are two')
    const page = await pages.open('#/inbox')
    const group = groupWith(page, first)
    // What the page shows is older than the session.
    await page.route('**/v1/pending*', async (route) => {
      const response = await route.fetch()
      const text = await response.text()
      const items = (JSON.parse(text) as { items: { sessionId: string; digest: string }[] }).items
      for (const item of items) if (item.sessionId === first.id) item.digest = 'x'.repeat(64)
      await route.fulfill({ response, body: JSON.stringify({ items }) })
    })
    await page.reload()
    await group.getByRole('button', { name: 'Decide together…' }).click()
    await group.getByRole('button', { name: 'Approve 2 calls' }).click()
    await shows(group.getByRole('alert').filter({ hasText: 'digest' }))
    expect([first, second].flatMap(({ entries }) => entries)).toEqual([])
    for (const { session } of [first, second]) await session.interrupt()
    await page.context().close()
  })

  it('a visitor who may not approve sees the group without the button, and the page has no finding of axe at any width', async () => {
    const both = await waiting([1, 2])
    const [first] = both
    if (!first) throw new Error('there are two')
    const { key } = await pages.newKey(['read'])
    const reader = await pages.open('#/inbox', { key })
    await shows(groupWith(reader, first))
    expect(await reader.getByRole('button', { name: 'Decide together…' }).count()).toBe(0)
    await reader.context().close()
    const page = await pages.open('#/inbox', { bypassCSP: true })
    const group = groupWith(page, first)
    await group.getByRole('button', { name: 'Decide together…' }).click()
    await group.getByRole('button', { name: 'Alone…' }).first().click()
    await shows(group.getByRole('button', { name: 'Approve 2 calls' }))
    for (const scheme of SCHEMES) expect(await findings(page, scheme)).toEqual([])
    for (const width of [360, 1_024]) {
      await page.setViewportSize({ width, height: 800 })
      expect([width, await overflowOf(page)]).toEqual([width, 0])
    }
    await page.context().close()
    for (const { session } of both) await session.interrupt()
    expect(pages.complaints).toEqual([])
  })
})

it('a person answers a client tool’s call in the inbox', async () => {
  const played = desk.play(here.pawl, { model: once(['ask', 'name']) })
  const run = await played.session.send('go')
  await pendingOf(run)
  const page = await pages.open('#/inbox')
  const card = page.getByRole('listitem').filter({ has: page.getByRole('link', { name: played.id }) })
  await card.getByLabel('The result, as JSON').fill('{"name": "Ann"}')
  await card.getByRole('button', { name: 'Answer' }).click()
  await run.result({ timeout: 20_000 })
  expect(ofType(await eventsOf(played.session), 'tool_completed')).toMatchObject([{ value: { name: 'Ann' } }])
  await page.context().close()
})

describe('recovering call by call', () => {
  /** The model asks for three calls, and fails once it has their results, until `mend` is called. */
  async function failed(wire?: () => unknown): Promise<{ played: ReturnType<typeof player.play>; mend(): void }> {
    let isBroken = true
    const played = player.play(here.pawl, {
      model: () => {
        if (played.requests.length === 1) return [use('look', 'shelf'), use('put', 'lamp'), use('wire', 'money')]
        if (isBroken) throw Object.assign(new Error('The provider refuses this.'), { retryable: false })
        return 'well again'
      },
      ...(wire && { wire }),
    })
    const run = await played.session.send('go')
    await run.result({ timeout: 20_000 }).catch(() => undefined)
    return { played, mend: () => (isBroken = false) }
  }
  const choosing = async (page: Page) => {
    await page.getByRole('button', { name: 'Recover…' }).click()
    await page.getByRole('button', { name: 'Choose per call…' }).click()
    return page.getByRole('region', { name: 'Choose per call' })
  }

  it('the console recovers a run call by call, as its preview says', async () => {
    const { played, mend } = await failed()
    const before = await eventsOf(played.session)
    const page = await pages.open(`#/sessions/${played.id}`)
    const panel = await choosing(page)
    const fate = (tool: string, what: string) => panel.getByRole('group', { name: new RegExp(`^${tool} `) }).getByLabel(what)
    await fate('look', 'make it again').check()
    await fate('put', 'make it again').check()
    // An effect is not repeated by mistake.
    await shows(panel.getByText('its effect would happen again'))
    const button = panel.getByRole('button', { name: 'Recover with these choices' })
    expect(await button.isDisabled()).toBe(true)
    await panel.getByLabel('effects that have completed may happen again').check()
    const choice = { keep: ['t_1_1_2'], skip: [], redo: ['t_1_1_0', 't_1_1_1'], force: true }
    const preview = previewChoice(before, choice, 'ann')
    if ('refused' in preview) throw new Error(preview.refused.reason)
    expect(await panel.getByRole('list', { name: 'Preview' }).getByRole('listitem').allTextContents()).toEqual(
      linesOfChoice(preview).map(({ text }) => text),
    )
    await panel.getByLabel('Reason').fill('the shelf was full')
    mend()
    await button.click()
    await shows(page.getByText('well again'))
    const events = await eventsOf(played.session)
    const { keep, skip, redo, force } = choice
    const [started] = ofType(events, 'recovery_started')
    expect(started).toMatchObject({ strategy: 'selective', keep, by: 'key:ann', reason: 'the shelf was full', force })
    expect([started?.skip ?? [], started?.redo?.map(({ callId }) => callId)]).toEqual([skip, redo])
    // What the preview said is what happened.
    const done = ofType(events, 'tool_completed').filter(({ seq }) => seq > (started?.seq ?? 0))
    expect(new Set(done.map(({ callId }) => callId))).toEqual(new Set(preview.repeats.map(({ as }) => as)))
    expect([played.count('look'), played.count('put'), played.count('wire')]).toEqual([2, 2, 1])
    await page.context().close()
  })

  it('the console asks what becomes of a call whose outcome is unknown, and a person who resolves it looks again', async () => {
    const { played } = await failed(() => {
      throw new Error('the line went dead')
    })
    const page = await pages.open(`#/sessions/${played.id}`)
    const panel = await choosing(page)
    const call = panel.getByRole('group', { name: /^wire / })
    await shows(call)
    expect(await call.getByRole('radio', { checked: true }).count()).toBe(0)
    await shows(panel.getByText('It is unknown whether t_1_1_2 took effect'))
    const button = panel.getByRole('button', { name: 'Recover with these choices' })
    expect(await button.isDisabled()).toBe(true)
    await call.getByLabel('skip it').check()
    await shows(panel.getByText('Tells the model that it was skipped: t_1_1_2.'))
    await call.getByLabel('How you know').fill('the bank says so')
    await call.getByRole('button', { name: 'It happened' }).click()
    await shows(panel.getByText('The session has moved on since event'))
    expect(await button.isDisabled()).toBe(true)
    await panel.getByRole('button', { name: 'Look again' }).click()
    await shows(panel.getByText('Keeps the results of t_1_1_0, t_1_1_1, t_1_1_2.'))
    await button.click()
    await until('it has failed again', async () => ofType(await eventsOf(played.session), 'error_entered').length === 2)
    expect(ofType(await eventsOf(played.session), 'tool_resolved')).toMatchObject([{ happened: true, note: 'the bank says so' }])
    expect([played.count('look'), played.count('put'), played.count('wire')]).toEqual([1, 1, 1])
    await page.context().close()
  })

  it('the choice per call has no finding of axe, at any width, and a visitor without the right does not get it', async () => {
    const { played } = await failed()
    const page = await pages.open(`#/sessions/${played.id}`, { bypassCSP: true })
    await shows((await choosing(page)).getByRole('list', { name: 'Preview' }))
    for (const scheme of SCHEMES) expect(await findings(page, scheme)).toEqual([])
    for (const width of [360, 1_024]) {
      await page.setViewportSize({ width, height: 800 })
      expect([width, await overflowOf(page)]).toEqual([width, 0])
    }
    await page.context().close()
    const { key } = await pages.newKey(['read', 'send', 'approve'])
    const other = await pages.open(`#/sessions/${played.id}`, { key })
    await shows(other.getByText('The provider refuses this.').first())
    expect(await other.getByRole('button', { name: 'Recover…' }).count()).toBe(0)
    await other.context().close()
    expect(pages.complaints).toEqual([])
  })
})
