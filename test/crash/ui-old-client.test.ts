// The chat page of examples/ui with version 6 of the AI SDK, which cannot take text back, in a real browser: executors die in the middle of
// each answer, and the page still shows each answer once.
import { randomUUID } from 'node:crypto'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { seededRandom } from '../../src/testing/crash/random.ts'
import { seed, size } from '../support/sizes.ts'
import { until } from '../support/until.ts'
import { type ChatPages, say, type PageMessage, SHOWN, shownIn, startChatPages } from './support/chat-pages.ts'
import { speech, type SpeechOrder } from './support/speech.ts'

const TURNS = size(2, 20)
const random = seededRandom(seed)

let here: ChatPages

beforeAll(async () => {
  here = await startChatPages({ alias: {} })
})
afterAll(async () => here?.close())

/** An order whose first attempts fall silent, so that they die in mid-answer on a machine of any speed. */
type Order = SpeechOrder & { silentAfter: number }

function orderOf(name: string): Order {
  return { name, turns: TURNS, words: 20, everyMs: 5, silentAfter: 1 + Math.floor(random() * 19) }
}

/** Kills the executors in the middle of each answer to the order, after `prepare`. */
async function killInMidAnswer(session: string, order: Order, prepare: (turn: number) => Promise<unknown>): Promise<void> {
  let [kills, said] = [0, '']
  for await (const item of here.pawl.session(session).watch()) {
    if (item.type !== 'delta' || item.delta.type !== 'text' || item.attempt > 1) continue
    said += item.delta.text
    if (!said.endsWith(lastWord(order, item.turn))) continue
    said = ''
    await prepare(item.turn)
    for (const pid of here.supervisor.pids()) process.kill(pid, 'SIGKILL')
    if (++kills === order.turns) return
  }
}

/** What the first attempt of a turn says last. */
function lastWord({ name, silentAfter }: Order, turn: number): string {
  return `${name}.${turn}.${silentAfter - 1} `
}

/** Keeps everything that the page shows: also what nobody would see in time. */
const RECORDER = `
  const moments = (globalThis.moments = [])
  new MutationObserver(() => moments.push(${SHOWN})).observe(document, { childList: true, subtree: true, characterData: true })`

/** What the page has shown, moment by moment, since it was loaded or asked. */
async function momentsOf(page: Page): Promise<PageMessage[][]> {
  return page.evaluate('moments.splice(0)')
}

/** Each message is there once; an answer consists of the texts of finished turns. */
function checkMoments(moments: readonly PageMessage[][], orders: readonly Order[]): void {
  const messages = orders.map((order) => ({
    asked: JSON.stringify(order),
    answers: Array.from({ length: order.turns + 1 }, (_, turns) => whole(order, turns)),
  }))
  for (const moment of moments) {
    expect(new Set(moment.map(({ id }) => id)).size).toBe(moment.length)
    for (const [at, { role, text }] of moment.entries()) {
      const { asked, answers } = messages[Math.floor(at / 2)] ?? expect.fail(`a message too many: ${text}`)
      expect(role).toBe(at % 2 === 0 ? 'user' : 'assistant')
      expect(at % 2 === 0 ? [asked] : answers).toContain(text)
    }
  }
}

/** What an answer has said after so many turns. */
function whole(order: Order, turns = order.turns): string {
  return Array.from({ length: turns }, (_, at) => speech(order, at + 1)).join('')
}

/** Waits until the page is at rest and shows the whole conversation, exactly as it is recorded. */
async function checkAtRest(page: Page, session: string, orders: readonly Order[]): Promise<void> {
  const isWhole = async (): Promise<boolean> => (await here.recorded(session)).at(-1)?.text === whole(orders.at(-1) ?? expect.fail('none'))
  await until('the answer is complete', isWhole, 60_000)
  await until('the page shows it', async () => JSON.stringify(await shownIn(page)) === JSON.stringify(await here.recorded(session)))
  await until('the page is at rest', async () => (await page.getAttribute('main', 'data-status')) === 'ready')
  const shown = await shownIn(page)
  expect(shown).toEqual(await here.recorded(session))
  expect(shown.map(({ text }) => text)).toEqual(orders.flatMap((order) => [JSON.stringify(order), whole(order)]))
  expect(await page.locator('[role=alert]').count()).toBe(0)
}

function warningsOf(page: Page): string[] {
  const warnings: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'warning' && message.text().startsWith('pawl/ui')) warnings.push(message.text())
  })
  return warnings
}

it(`a page with \`show: 'steps'\` shows finished answers only, each once, also when it is reloaded (seed ${seed}, again with PAWL_SEED)`, async () => {
  const session = `ui-${randomUUID()}`
  const order = orderOf('steps')
  const page = await here.load(session, { query: { show: 'steps' }, script: RECORDER })
  const warnings = warningsOf(page)
  const moments: PageMessage[][] = []
  await say(page, JSON.stringify(order))
  await until('the message has arrived', async () => (await here.recorded(session)).length > 0)
  await killInMidAnswer(session, order, async (turn) => {
    const finished = whole(order, turn - 1)
    await until('the page shows what is finished', async () => ((await shownIn(page))[1]?.text ?? '') === finished)
    // Its first answer is not recorded yet; later ones follow on recorded ones.
    if (turn % 2 === 1 && random() < 0.5) return
    moments.push(...(await momentsOf(page)))
    await page.reload()
  })
  await checkAtRest(page, session, [order])
  moments.push(...(await momentsOf(page)))
  checkMoments(moments, [order])
  expect(moments.length).toBeGreaterThan(0)
  expect(warnings).toEqual([])
})

it('a page that shows text as it arrives notices doubled text, warns, reloads, and shows only finished answers from then on', async () => {
  const session = `ui-${randomUUID()}`
  const [first, next] = [orderOf('first'), orderOf('next')]
  const page = await here.load(session, { script: RECORDER })
  const warnings = warningsOf(page)
  await say(page, JSON.stringify(first))
  await until('the message has arrived', async () => (await here.recorded(session)).length > 0)
  await killInMidAnswer(session, first, (turn) =>
    until('the page shows the beginning', async () => (await shownIn(page)).at(-1)?.text.endsWith(lastWord(first, turn))),
  )
  await until('the page has noticed', () => warnings.length > 0, 60_000)
  await checkAtRest(page, session, [first])
  await momentsOf(page)
  await say(page, JSON.stringify(next))
  await killInMidAnswer(session, next, async () => undefined)
  await checkAtRest(page, session, [first, next])
  checkMoments(await momentsOf(page), [first, next])
  expect(warnings).toEqual([expect.stringContaining("{ show: 'steps' }")])
})
