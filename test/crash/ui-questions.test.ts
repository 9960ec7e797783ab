// The chat page of examples/ui in a real browser, with an agent that needs its user: for a sign-in, an answer and an approval. The page is
// loaded again and the executor is killed while each of them waits, and while each is being answered.
import { randomUUID } from 'node:crypto'
import type { UiMessage } from 'pawl/ui'
import type { Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { pdfBlock } from '../support/documents.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { type Application, startApplication } from '../support/mcp/application.ts'
import { type ProtectedServer, startProtected } from '../support/mcp/authorization.ts'
import { until } from '../support/until.ts'
import { type ChatPages, say, shownIn, startChatPages } from './support/chat-pages.ts'

/** A worker that was killed must be back by then. */
const SHOWN_WITHIN_MS = 60_000
const query = { agent: 'refunding' }

let remote: ProtectedServer
let application: Application
let here: ChatPages

beforeAll(async () => {
  remote = await startProtected()
  application = await startApplication(remote.url)
  // Workers inherit this process's environment.
  Object.assign(process.env, { PRIVATE_URL: remote.url, APPLICATION_URL: application.url })
  here = await startChatPages({ fixture: 'refunding' })
})
afterAll(async () => {
  await here?.close()
  await application?.close()
  await remote?.close()
})

function killExecutors(): void {
  for (const pid of here.supervisor.pids()) process.kill(pid, 'SIGKILL')
}

const shows = (one: Locator): Promise<void> => one.waitFor({ timeout: SHOWN_WITHIN_MS })
const questionOf = (page: Page, server: string): Locator => page.getByRole('group', { name: `${server} asks:` })
const button = (within: Page | Locator, name: string): Locator => within.getByRole('button', { name, exact: true })
const closedQuestions = (page: Page): Promise<string[]> => page.locator('div.question').allTextContents()

/** The page shows what waits, and still does after a kill and a reload. */
async function waitsThrough(page: Page, waiting: Locator): Promise<void> {
  await shows(waiting)
  killExecutors()
  await page.reload()
  await shows(waiting)
}

it('the chat page leads its user from a file through a sign-in, a question and an approval, despite kills and reloads at each', async () => {
  const session = `ui-${randomUUID()}`
  const page = await here.load(session, { query })
  const { source } = pdfBlock({ size: 5_000 })
  const { data } = source as { data: string }
  await page.setInputFiles('input[type=file]', { name: 'order.pdf', mimeType: 'application/pdf', buffer: Buffer.from(data, 'base64') })
  await say(page, 'Refund this order.')

  const signIn = questionOf(page, 'profile')
  await waitsThrough(page, signIn)
  const opened = page.context().waitForEvent('page')
  await signIn.getByRole('link', { name: `Open ${new URL(application.url).host}` }).click()
  const tab = await opened
  await shows(tab.getByText('You are signed in.'))
  await tab.close()
  const asked = application.holdNext()
  await button(signIn, 'Done').click()
  await asked.reached
  killExecutors()
  asked.open()
  await page.reload()

  const amount = questionOf(page, 'ledger')
  await waitsThrough(page, amount)
  expect(await closedQuestions(page)).toEqual(['profile asked: Sign in to profile. (answered)'])
  await amount.getByLabel('Amount *').fill('7')
  await amount.getByLabel('reason').selectOption('late')
  await amount.getByLabel('notify').check()
  const charging = here.ledger.holdNext({ stage: 'entered', session })
  await button(amount, 'Answer').click()
  const { note } = await charging
  process.kill((note as { executor: number }).executor, 'SIGKILL')
  await page.reload()

  await waitsThrough(page, button(page, 'Approve'))
  expect(JSON.parse((await page.locator('.call pre').textContent()) ?? '')).toEqual({ name: session, cents: 4_900 })
  const refunding = here.ledger.holdNext({ stage: 'entered', session })
  await button(page, 'Approve').click()
  process.kill((await refunding).pid, 'SIGKILL')
  await page.reload()

  const answer = `Done: ${session}; ask_charge ${session}; refund ${session}`
  await until('the page shows the answer', async () => (await shownIn(page)).at(-1)?.text === answer, SHOWN_WITHIN_MS)
  await page.reload()
  await until('it still does', async () => (await shownIn(page)).at(-1)?.text === answer, SHOWN_WITHIN_MS)
  const link = page.locator('article').first().getByRole('link', { name: 'order.pdf' })
  expect(await link.getAttribute('href')).toBe(`data:application/pdf;base64,${data}`)
  expect(await closedQuestions(page)).toEqual([
    'profile asked: Sign in to profile. (answered)',
    `ledger asked: How much for ${session}? (answered)`,
  ])
  expect(await page.locator('[role=alert]').count()).toBe(0)

  const handle = here.pawl.session(session)
  const events = await eventsOf(handle)
  const counts = ['message_received', 'answer_requested', 'answer_received', 'approval_requested', 'approval_decided'] as const
  expect(counts.map((type) => ofType(events, type).length)).toEqual([1, 2, 2, 1, 1])
  expect((await handle.toolCalls()).map(({ status }) => status)).toEqual(['completed', 'completed', 'completed'])
  expect(remote.callers.filter((user) => user === session)).toHaveLength(1)
  const applied = here.ledger.marks({ session, stage: 'applied' })
  expect(applied.map(({ what }) => what)).toEqual(['ask_charge', 'refund'])
  expect(applied[0]?.note).toMatchObject({ amount: 7, reason: 'late', notify: true })
})

it('the chat page shows which questions its user has declined, and which were not answered before the user stopped the run', async () => {
  const session = `ui-${randomUUID()}`
  const page = await here.load(session, { query })
  await say(page, 'Refund my order.')
  await shows(questionOf(page, 'profile'))
  await button(questionOf(page, 'profile'), 'Decline').click()
  await shows(questionOf(page, 'ledger'))
  await button(page, 'Stop').click()
  const closed = ['profile asked: Sign in to profile. (declined)', `ledger asked: How much for ${session}? (not answered)`]
  await until('both are closed', async () => JSON.stringify(await closedQuestions(page)) === JSON.stringify(closed), SHOWN_WITHIN_MS)
  expect(remote.callers).not.toContain(session)
})

it('the chat page makes no link of an address that is not one of a page', async () => {
  const call = { type: 'tool-pay', toolCallId: 't_1_1_0', state: 'input-available', input: {}, providerExecuted: true } as const
  const data = { callId: 't_1_1_0', toolCallId: 't_1_1_0', digest: '1', from: 'odd', message: 'Click.', url: 'javascript:alert(1)' }
  const message: UiMessage = { id: 'm_1_1', role: 'assistant', parts: [call, { type: 'data-question', id: '1', data }] }
  const script = `
    const { fetch } = globalThis
    const answer = ${JSON.stringify({ messages: [message], seq: 1 })}
    globalThis.fetch = async (url, init) => (String(url).includes('/messages') ? Response.json(answer) : fetch(url, init))`
  const page = await here.load(`ui-${randomUUID()}`, { query, script })
  const question = questionOf(page, 'odd')
  await shows(question)
  expect(await question.getByRole('link').count()).toBe(0)
  expect(await question.getByRole('button').allTextContents()).toEqual(['Decline'])
})
