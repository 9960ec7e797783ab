// The console with much in it: a session of 10,000 events, and 10,000 sessions.
import { randomUUID } from 'node:crypto'
import type { Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { sessionLog } from '../../bench/lists/sessions.ts'
import type { EventBody } from '../../src/session/events.ts'
import { callIdOf } from '../../src/session/ids.ts'
import { openStore, type Store } from '../../src/store/index.ts'
import { answered, EPOCH, failedAttempt, issued, logOf, oneRun, started } from '../integration/store/sessions.ts'
import { approvalStage } from '../support/approvals.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { size } from '../support/sizes.ts'
import { gate, until } from '../support/until.ts'
import { type ConsolePages, shows, startConsolePages } from './support/console-pages.ts'

const RUNS = size(223, 1_111)
/** 2,008 or 10,000. */
const EVENTS = 1 + 9 * RUNS
const SESSIONS = size(200, 10_000)
const FLUSHERS = 8
/** The page reads that many events before it looks for the end; a short session has no more. */
const BEGINNING = 400
/** The page waits for the number of the newest event for as long as it takes: otherwise, it gives the end up after a second. */
const PATIENT = `
  const wait = setTimeout
  globalThis.setTimeout = (work, ms, ...values) => wait(work, ms === 1_000 ? 60_000 : ms, ...values)
`

const schema = `scale_${randomUUID().replaceAll('-', '').slice(0, 16)}`
const stage = approvalStage()
let here: Deployment
let store: Store
let console: ConsolePages

beforeAll(async () => {
  here = await deploy({ schema })
  await here.startWorker({ agents: [stage.agent] })
  await (await stage.play(here.pawl, { model: () => 'hello' }).session.send('hello')).result()
  await until('the tables are there', () => here.pawl.apiKeys.list())
  store = openStore({ postgres: here.stack.databaseUrl, schema })
  console = await startConsolePages(here.pawl, { schema, taskQueue: here.taskQueue })
}, 120_000)
afterAll(async () => {
  await console?.close()
  await store?.close()
  await here?.stop()
})

it(`the console opens a session of ${EVENTS} events at its end before it has read the rest, and goes back in it`, async () => {
  const bodies = Array.from({ length: RUNS }, (_, n): EventBody[] => oneRun(n + 1, `message-${n + 1}`)).flat()
  const log = logOf([started({ sessionId: 'long' }), ...bodies])
  for (let at = 0; at < log.length; at += 1_000) await store.flush('long', EPOCH, log.slice(at, at + 1_000))
  const page = await console.open('#/sessions', { script: PATIENT })
  const looked = gate()
  await page.route('**/v1/sessions/long/events*', async (route) => {
    const after = Number(new URL(route.request().url()).searchParams.get('after'))
    if (after >= BEGINNING && after < EVENTS - BEGINNING) await looked.pass()
    await route.continue()
  })
  await page.goto(`${console.url}/console/#/sessions/long`)
  await page.getByText(`text of message-${RUNS}`, { exact: true }).waitFor()
  await page.getByText('Reading the events before these').waitFor()
  looked.open()
  const count = EVENTS.toLocaleString('en')
  await page.locator('output', { hasText: `${count} of ${count}` }).waitFor({ timeout: 60_000 })
  await expect.poll(() => page.locator('.timeline > li.message').count(), { timeout: 60_000 }).toBe(RUNS)
  // Back to an early event: the page shows the session as it was.
  await page.getByRole('slider').fill(String(EVENTS / 2))
  await page.getByText('as it was').waitFor()
  expect(await page.getByText(`text of message-${RUNS}`, { exact: true }).count()).toBe(0)
  await page.context().close()
})

it(`the console lists and filters ${SESSIONS} sessions`, async () => {
  const left = Array.from({ length: SESSIONS }, (_, nth) => nth).values()
  await Promise.all(
    Array.from({ length: FLUSHERS }, async () => {
      for (const nth of left) {
        const { id, log } = sessionLog(nth, SESSIONS)
        await store.flush(id, EPOCH, log)
      }
    }),
  )
  const page = await console.open('#/sessions')
  await page.getByRole('row').nth(50).waitFor()
  await page.goto(`${console.url}/console/#/sessions?agent=billing`)
  const agents = () => page.locator('tbody tr td:nth-child(3)').allTextContents()
  await expect.poll(async () => new Set(await agents())).toEqual(new Set(['billing']))
  await page.context().close()
})

/** The rows of a list that the page shows, counted while it loads the rest. */
async function growsTo(page: Page, rows: Locator, text: string, [first, all]: [number, number]): Promise<void> {
  const more = page.getByRole('button', { name: text, exact: true })
  await expect.poll(() => rows.count(), { timeout: 20_000 }).toBe(first)
  await shows(page.getByText(`${first} are shown; there are more.`))
  await more.click()
  await more.waitFor({ state: 'detached' })
  expect(await rows.count()).toBe(all)
  await page.context().close()
}

it('the console says that there are more errors, sums and standing approvals than it shows, and shows them', async () => {
  const schemaOfThese = `more_${randomUUID().replaceAll('-', '').slice(0, 16)}`
  const other = await deploy({ schema: schemaOfThese })
  const stored = openStore({ postgres: other.stack.databaseUrl, schema: schemaOfThese })
  let own: ConsolePages | undefined
  try {
    await other.startWorker({ agents: [stage.agent] })
    await until('the tables are there', () => other.pawl.apiKeys.list())
    own = await startConsolePages(other.pawl, { schema: schemaOfThese, taskQueue: other.taskQueue })
    const failures = Array.from(
      { length: 130 },
      (_, n): EventBody => ({ type: 'model_attempt_failed', run: 1, turn: 1, error: failedAttempt(n + 1) }),
    )
    const where = { run: 1, turn: 1, callId: callIdOf(1, 1, 0) }
    const terms = { effect: 'external' as const, schemaDigest: 's', matching: 'tool' as const }
    const rules = Array.from({ length: 230 }, (_, n): EventBody => {
      return { type: 'approval_rule_given', ...where, rule: `ar_${n}`, tool: n === 0 ? 'oldest' : 'refund', ...terms }
    })
    const [received, begun, turn, ...rest] = oneRun(1, 'all') as [EventBody, EventBody, EventBody, ...EventBody[]]
    await stored.flush('all', EPOCH, logOf([started({ sessionId: 'all' }), received, begun, turn, ...failures, ...rest, ...rules]))
    for (let n = 1; n < 120; n++) {
      await stored.flush(`s-${n}`, EPOCH, logOf([started({ sessionId: `s-${n}` }), ...oneRun(1, `message-${n}`)]))
    }
    const errors = await own.open('#/errors')
    await growsTo(errors, errors.locator('.card').filter({ hasText: 'attempt' }), 'Older failures', [100, 130])
    const usage = await own.open('#/usage?by=session')
    await growsTo(usage, usage.locator('tbody tr'), 'Lower costs', [100, 120])
    const approvals = await own.open('#/rules')
    await growsTo(approvals, approvals.getByRole('listitem', { name: /^Rule for/ }), 'Older approvals', [200, 230])
    const filtered = await own.open('#/sessions')
    const answer = gate()
    await filtered.route('**/v1/approval-rules*', async (route) => {
      await answer.pass()
      await route.continue()
    })
    await filtered.goto(`${own.url}/console/#/rules`)
    // The list comes while the person types.
    await filtered.getByLabel('Tool').pressSequentially('old')
    answer.open()
    await shows(filtered.getByRole('listitem', { name: 'Rule for refund' }).first())
    await filtered.getByLabel('Tool').pressSequentially('est')
    await filtered.getByLabel('Tool').press('Enter')
    await shows(filtered.getByRole('listitem', { name: 'Rule for oldest' }))
    expect(await filtered.getByRole('listitem', { name: /^Rule for/ }).count()).toBe(1)
    expect(own.complaints).toEqual([])
    await filtered.context().close()
  } finally {
    await own?.close()
    await stored.close()
    await other.stop()
  }
})

it('the inbox says that more calls wait if their arguments are too large for one page, and shows them', async () => {
  const input = { order: 'x'.repeat(2_500_000) }
  for (const sessionId of ['large-1', 'large-2']) {
    const [received, begun, turn] = oneRun(1, sessionId) as [EventBody, EventBody, EventBody]
    const asks: EventBody = {
      type: 'approval_requested',
      run: 1,
      turn: 1,
      callId: callIdOf(1, 1, 0),
      tool: 'refund',
      digest: 'd',
    } as EventBody
    const bodies = [started({ sessionId, tags: ['large'] }), received, begun, turn, answered(1, 1, [input]), issued(1, 1, 0, input), asks]
    await store.flush(sessionId, EPOCH, logOf(bodies))
  }
  const page = await console.open('#/inbox?tag=large')
  await shows(page.getByText('the 1 that wait longest'))
  await page.getByRole('button', { name: 'Newer calls', exact: true }).click()
  await shows(page.getByText('2 waiting'))
  await page.context().close()
})
