// The chat page of examples/ui in a real browser, loaded again and again in mid-answer while executors and orchestrators are killed: it
// shows what is recorded, each message once.
import { randomUUID } from 'node:crypto'
import { PawlChatTransport, type UiMessageChunk } from 'pawl/ui'
import type { Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { seededRandom } from '../../src/testing/crash/random.ts'
import { pdfBlock } from '../support/documents.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { seed, size } from '../support/sizes.ts'
import { until } from '../support/until.ts'
import { type ChatPages, say, shownIn, startChatPages } from './support/chat-pages.ts'
import { speech, type SpeechOrder } from './support/speech.ts'

const CHATS = size(1, 12)
const TURNS = size(3, 8)
const KILLS = size(3, 100)
const random = seededRandom(seed)

let here: ChatPages

beforeAll(async () => {
  here = await startChatPages()
})
afterAll(async () => here?.close())

describe('the chat page', () => {
  it(`the chat page shows each recorded message once through ${KILLS} kills and reloads (seed ${seed}, again with PAWL_SEED)`, async () => {
    const chats = Array.from({ length: CHATS }, (_, n) => {
      const order: SpeechOrder = { name: `u${n}`, turns: TURNS, words: 40, everyMs: 15 }
      return { session: `ui-${randomUUID()}`, order }
    })
    const pages = await Promise.all(
      chats.map(async ({ session, order }) => {
        const page = await here.load(session)
        await say(page, JSON.stringify(order))
        await until('the message has arrived', async () => (await here.recorded(session)).length > 0)
        return page
      }),
    )
    for (let kills = 0; kills < KILLS; kills++) {
      const at = kills % CHATS
      const { session, order } = chats[at] ?? expect.fail('no chat')
      const page = pages[at] ?? expect.fail('no page')
      // Paced by what is shown, so that kills hit mid-answer on a slow machine, too.
      const length = async (): Promise<number> => (await shownIn(page)).reduce((sum, { text }) => sum + text.length, 0)
      const before = await length()
      const isDone = async (): Promise<boolean> => (await here.recorded(session)).at(-1)?.text.endsWith(speech(order, TURNS)) ?? false
      await until('more is shown', async () => (await length()) > before + 20 || (await isDone()), 60_000)
      const orchestrator = here.supervisor.orchestratorPid()
      const pids = here.supervisor.pids()
      const victim = kills % 3 === 2 ? orchestrator : pids[Math.floor(random() * pids.length)]
      if (victim !== undefined) process.kill(victim, 'SIGKILL')
      if (random() < 0.5) await page.reload()
      else {
        pages[at] = await here.load(session)
        await page.close()
      }
    }
    for (const [n, { session, order }] of chats.entries()) {
      const page = pages[n] ?? expect.fail('no page')
      const all = Array.from({ length: TURNS }, (_, turn) => speech(order, turn + 1)).join('')
      await until('the page shows the whole answer', async () => (await shownIn(page)).at(-1)?.text === all, 60_000)
      const shown = await shownIn(page)
      expect(shown).toEqual(await here.recorded(session))
      expect(shown.map(({ role, text }) => ({ role, text }))).toEqual([
        { role: 'user', text: JSON.stringify(order) },
        { role: 'assistant', text: all },
      ])
      expect(await page.locator('[role=alert]').count()).toBe(0)
    }
  })

  it('a resting chat page shows what is said in another page', async () => {
    const session = `ui-${randomUUID()}`
    const order: SpeechOrder = { name: 'both', turns: 1, words: 5, everyMs: 5 }
    const [idle, active] = await Promise.all([here.load(session), here.load(session)])
    await say(active, JSON.stringify(order))
    const isWhole = async (): Promise<boolean> => (await shownIn(idle)).at(-1)?.text === speech(order, 1)
    await until('the idle page shows the answer', isWhole, 30_000)
    expect(await shownIn(idle)).toEqual(await here.recorded(session))
    await until('it is at rest again', async () => (await idle.getAttribute('main', 'data-status')) === 'ready')
  })

  it('the chat page sends each decision at once, so two pages may decide one call each', async () => {
    const session = `ui-${randomUUID()}`
    const query = { agent: 'deciding' }
    const [one, other] = await Promise.all([here.load(session, { query }), here.load(session, { query })])
    await say(one, 'Pay twice.')
    const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
    const offers = (page: Page, count: number) => async () => (await button(page, 'Approve').count()) === count
    await until('both pages ask', async () => (await offers(one, 2)()) && (await offers(other, 2)()), 30_000)
    await button(one, 'Approve').first().click()
    await until('the other page shows the decision', offers(other, 1), 30_000)
    await button(other, 'Deny').click()
    for (const page of [one, other])
      await until('it shows the answer', async () => (await shownIn(page)).at(-1)?.text.endsWith('Decided.'), 30_000)
    expect((await here.pawl.session(session).toolCalls()).map(({ status }) => status)).toEqual(['completed', 'denied'])
  })

  it('the chat page sends a file, and shows it after a reload while executors are killed', async () => {
    const session = `ui-${randomUUID()}`
    const order: SpeechOrder = { name: 'file', turns: 2, words: 30, everyMs: 15 }
    const page = await here.load(session)
    const { source } = pdfBlock({ size: 50_000 })
    const { data } = source as { data: string }
    await page.setInputFiles('input[type=file]', { name: 'terms.pdf', mimeType: 'application/pdf', buffer: Buffer.from(data, 'base64') })
    await say(page, JSON.stringify(order))
    await until('the answer has begun', async () => (await shownIn(page)).at(-1)?.role === 'assistant', 30_000)
    for (const pid of here.supervisor.pids()) process.kill(pid, 'SIGKILL')
    await page.reload()
    const all = speech(order, 1) + speech(order, 2)
    await until('the page shows the whole answer', async () => (await shownIn(page)).at(-1)?.text === all, 60_000)
    const link = page.getByRole('link', { name: 'terms.pdf' })
    expect(await link.getAttribute('href')).toBe(`data:application/pdf;base64,${data}`)
    const [received] = ofType(await eventsOf(here.pawl.session(session)), 'message_received')
    expect(received?.content).toEqual([
      { type: 'document', source, title: 'terms.pdf' },
      { type: 'text', text: JSON.stringify(order) },
    ])
    await page.setInputFiles('input[type=file]', { name: 'a.zip', mimeType: 'application/zip', buffer: Buffer.from('PK') })
    await say(page, 'And this?')
    await until('the page says what is wrong', async () => (await page.locator('[role=alert]').count()) === 1, 30_000)
  })

  it('the chat page shows what agents two levels down and in the background say, each word once, through kills and reloads', async () => {
    const session = `ui-${randomUUID()}`
    const order: SpeechOrder = { name: 'deep', turns: 2, words: 120, everyMs: 25 }
    const page = await here.load(session, { query: { agent: 'leading' } })
    await say(page, JSON.stringify(order))
    const call = (within: Page | Locator, name: string): Locator => within.getByRole('region', { name, exact: true })
    const said = async (of: Locator): Promise<string> => (await of.locator('> .work > p').allTextContents()).join('')
    const deep = () => said(call(call(page, 'Passing'), 'Speaking'))
    const aside = () => said(call(page, 'Aside'))
    const whole = speech(order, 1) + speech(order, 2)
    for (const word of ['deep.1.10 ', 'deep.1.60 ', 'deep.2.10 ']) {
      // The one in the background may be ahead, and have answered.
      for (const text of word.includes('.1.') ? [deep, aside] : [deep]) {
        const shown = await until(`${word} is shown`, async () => (await text()).includes(word) && text(), 60_000)
        expect(whole.startsWith(shown)).toBe(true)
      }
      for (const pid of here.supervisor.pids()) process.kill(pid, 'SIGKILL')
      await page.reload()
    }
    await until('the answer is complete', async () => (await shownIn(page)).at(-1)?.text.endsWith('Led.'), 60_000)
    expect(await page.locator('.work').count()).toBe(0)
    expect((await here.recorded(session)).find(({ text }) => text === 'Led.')).toBeDefined()
  })

  it('the chat page stops a run that waits for a decision', async () => {
    const session = `ui-${randomUUID()}`
    const page = await here.load(session, { query: { agent: 'deciding' } })
    await say(page, 'Pay twice.')
    await page.getByRole('button', { name: 'Approve', exact: true }).first().waitFor()
    await page.getByRole('button', { name: 'Stop' }).click()
    await until('the run is stopped', async () => (await here.pawl.session(session).state()).status === 'idle', 30_000)
  })

  it('the chat page stops a run with its button, but not when the page is reloaded', async () => {
    const session = `ui-${randomUUID()}`
    const order: SpeechOrder = { name: 'stop', turns: 1, words: 2_000, everyMs: 20 }
    const page = await here.load(session)
    await say(page, JSON.stringify(order))
    await until('it speaks', async () => (await shownIn(page)).at(-1)?.text.startsWith('stop.1.0'), 30_000)
    await page.reload()
    await until('it continues', async () => (await shownIn(page)).at(-1)?.text.includes('stop.1.5 '), 30_000)
    expect((await here.pawl.session(session).state()).status).toBe('running')
    await page.getByRole('button', { name: 'Stop' }).click()
    await until('the run is stopped', async () => (await here.pawl.session(session).state()).status === 'idle', 30_000)
    expect(await page.getAttribute('main', 'data-status')).toBe('ready')
  })
})

describe('a chat', () => {
  it('a chat gets one reset for each attempt that died in mid-answer, and none for an orchestrator that did', async () => {
    const chatId = `ui-${randomUUID()}`
    const order: SpeechOrder = { name: 'reset', turns: 3, words: 200, everyMs: 15 }
    const transport = new PawlChatTransport({ api: `${here.origin}/api/pawl`, agent: 'speaking' })
    const message = { id: 'first', role: 'user', parts: [{ type: 'text', text: JSON.stringify(order) }] }
    const stream = await transport.sendMessages({ trigger: 'submit-message', chatId, messages: [message] })
    const killed: ('executors' | 'orchestrator')[] = []
    let [resets, turn, said, whole] = [0, 0, '', '']
    // The stream's type is that of `ai` 6, which has no chunk to take text back.
    for await (const chunk of stream as ReadableStream<UiMessageChunk | { type: 'reset-step' }>) {
      if (chunk.type === 'start-step') turn += 1
      if (chunk.type === 'reset-step') resets += 1
      if (chunk.type === 'start-step' || chunk.type === 'reset-step') said = ''
      if (chunk.type === 'text-delta') said += chunk.delta
      if (chunk.type === 'text-end') whole += said
      // Each answer loses a process at its fifth word.
      if (killed.length >= turn || !said.includes(`.${turn}.4 `)) continue
      const what = turn === 2 ? 'orchestrator' : 'executors'
      killed.push(what)
      const { supervisor } = here
      const victims = what === 'orchestrator' ? [supervisor.orchestratorPid()] : supervisor.pids()
      for (const pid of victims) if (pid !== undefined) process.kill(pid, 'SIGKILL')
    }
    expect(killed).toEqual(['executors', 'orchestrator', 'executors'])
    expect(whole).toBe(Array.from({ length: order.turns }, (_, at) => speech(order, at + 1)).join(''))
    const failed = ofType(await eventsOf(here.pawl.session(chatId)), 'model_attempt_failed')
    expect(failed.length).toBeGreaterThanOrEqual(2)
    expect(resets).toBe(failed.length)
  })
})
