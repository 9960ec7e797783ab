// The chat page of examples/ui in a real browser, and workers of the speaking agent that can be killed in mid-answer.
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Pawl } from 'pawl/client'
import type { UiMessage } from 'pawl/ui'
import type { Supervisor } from 'pawl/worker'
import type { Page } from 'playwright-core'
import { chatServer } from '../../../examples/ui/server.ts'
import { AI_SDK_7 } from '../../ai-sdk-7/paths.ts'
import { startBrowser } from './browser.ts'
import { compile } from './build.ts'
import type { Ledger } from './ledger.ts'
import { startRig } from './rig.ts'

/** A message as a page shows it. */
export interface PageMessage {
  id: string
  role: string
  text: string
}

/** The parts that tests with pages work with. */
export interface ChatPages {
  pawl: Pawl
  supervisor: Supervisor
  ledger: Ledger
  /** Where the page and the web handler are. */
  origin: string
  /** Opens the page of a session. `query`: further members of its address; `script`: runs in the page each time before it is loaded. */
  load(session: string, more?: { query?: Record<string, string>; script?: string }): Promise<Page>
  /** The session's messages as they are recorded. */
  recorded(session: string): Promise<PageMessage[]>
  close(): Promise<void>
}

interface ChatPagesOptions {
  /** Packages that the page is built with in place of others. Default: those of version 7 of the AI SDK. */
  alias?: Record<string, string>
  /** The module of the workers. Default: that of the speaking agent. */
  fixture?: 'speaking' | 'refunding'
}

/** Starts them. */
export async function startChatPages({ alias = AI_SDK_7, fixture = 'speaking' }: ChatPagesOptions = {}): Promise<ChatPages> {
  const ends: (() => Promise<unknown> | void)[] = []
  const close = async (): Promise<void> => {
    for (const end of ends.splice(0).reverse()) await end()
  }
  try {
    const fixtures = await compile([fixture, 'mcp-server'].map((name) => `test/crash/fixtures/${name}.ts`))
    ends.push(() => fixtures.remove())
    const rig = await startRig()
    ends.push(() => rig.close())
    const { supervisor } = await rig.supervise({ module: fixtures.path(fixture), processes: 1 })
    const server = await chatServer(rig.pawl, () => ({ identity: 'tester', scopes: ['read', 'send', 'approve'] }), alias)
    ends.push(() => closed(server))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const browser = await startBrowser()
    ends.push(() => browser.close())
    return {
      pawl: rig.pawl,
      supervisor,
      ledger: rig.ledger,
      origin,
      close,
      async load(session, { query = {}, script } = {}) {
        const page = await browser.newPage()
        if (script !== undefined) await page.addInitScript(script)
        await page.goto(`${origin}/?${new URLSearchParams({ session, agent: 'speaking', ...query })}`)
        await page.waitForSelector('form')
        return page
      },
      async recorded(session) {
        const response = await fetch(`${origin}/api/pawl/v1/ui/${session}/messages`)
        const { messages } = (await response.json()) as { messages: UiMessage[] }
        return messages.map(({ id, role, parts }) => ({ id, role, text: parts.map((part) => ('text' in part ? part.text : '')).join('') }))
      },
    }
  } catch (error) {
    await close()
    throw error
  }
}

function closed(server: Server): void {
  server.closeAllConnections()
  server.close()
}

/** What a page shows, as an expression of its own. */
export const SHOWN = `[...document.querySelectorAll('article')].map((article) => ({
  id: article.id,
  role: article.dataset.role,
  text: [...article.querySelectorAll('p')].map((text) => text.textContent).join(''),
}))`

/** What the page shows. */
export async function shownIn(page: Page): Promise<PageMessage[]> {
  return page.evaluate(SHOWN)
}

/** Sends a message. */
export async function say(page: Page, text: string): Promise<void> {
  await page.getByLabel('Message').fill(text)
  await page.locator('.composer button[type=submit]').click()
}
