// The console of `pawl serve` in headless Chromium, for one schema and task queue.
import { createRequire } from 'node:module'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Pawl } from 'pawl/client'
import type { Browser, BrowserContextOptions, Locator, Page } from 'playwright-core'
import { inject } from 'vitest'
import { pawl as startPawl, type PawlProcess } from '../../integration/cli/processes.ts'
import { startBrowser } from './browser.ts'

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js')
export const SCHEMES = ['light', 'dark'] as const

interface Opened extends BrowserContextOptions {
  /** Default: one with all scopes. */
  key?: string
  /** Runs in the page before its own scripts. */
  script?: string
  /** Opens it in this browser, with the locale of its environment. */
  browser?: Browser
}

export interface ConsolePages {
  url: string
  browser: Browser
  /** What pages logged as errors, or what their policy refused. */
  complaints: string[]
  /** Opens a place of the console, such as `#/inbox`, signed in. */
  open(place: string, options?: Opened): Promise<Page>
  /** A key with these scopes. */
  newKey(scopes: readonly string[], tenant?: string): Promise<{ id: string; key: string }>
  /** Kills the server. */
  stopServer(): Promise<void>
  /** Starts it at the same address. */
  startServer(): Promise<void>
  close(): Promise<void>
}

/** Starts them; `pawl` is a client of the same schema and task queue, whose tables exist. */
export async function startConsolePages(pawl: Pawl, at: { schema: string; taskQueue: string }): Promise<ConsolePages> {
  const { temporalAddress, namespace, databaseUrl } = inject('stack')
  const env = { TEMPORAL_ADDRESS: temporalAddress, TEMPORAL_NAMESPACE: namespace, DATABASE_URL: databaseUrl }
  const folder = await mkdtemp(join(tmpdir(), 'pawl-console-'))
  let server: PawlProcess | undefined
  const serve = async (port: string): Promise<string> => {
    const args = ['serve', '--port', port, '--json', '--rate-limit', '0', '--schema', at.schema, '--task-queue', at.taskQueue]
    server = startPawl(args, { cwd: folder, env })
    return String((await server.event('serving')).url)
  }
  const stopServer = async (): Promise<void> => {
    server?.kill('SIGKILL')
    await server?.ended
  }
  const newKey: ConsolePages['newKey'] = async (scopes, tenant) => {
    const created = await pawl.apiKeys.create({ name: 'ann', scopes: scopes as never, ...(tenant !== undefined && { tenant }) })
    return { id: created.id, key: created.key }
  }
  const url = await serve('0')
  const { key: allKey } = await newKey(['read', 'send', 'approve', 'operate'])
  const browser = await startBrowser()
  const complaints: string[] = []
  return {
    url,
    browser,
    complaints,
    newKey,
    stopServer,
    startServer: async () => void (await serve(new URL(url).port)),
    async open(place, { key = allKey, script, browser: own, ...context } = {}) {
      const locale = own ? {} : { locale: 'en-US' }
      const page = await (await (own ?? browser).newContext({ ...locale, viewport: { width: 1_024, height: 768 }, ...context })).newPage()
      page.on('console', (message) => {
        // Chromium reports each refused request, and each one to a server that is down.
        if (
          message.type() === 'error' &&
          !/status of (400|401|403|404|409|410)|ERR_(CONNECTION|INCOMPLETE|EMPTY|FAILED)/.test(message.text())
        )
          complaints.push(message.text())
      })
      page.on('pageerror', (error) => complaints.push(String(error)))
      await page.context().addCookies([{ name: `pawl_console${new URL(url).port}`, value: key, url, httpOnly: true, sameSite: 'Strict' }])
      if (script !== undefined) await page.addInitScript(script)
      await page.goto(`${url}/console/${place}`)
      return page
    },
    async close() {
      await browser.close()
      await stopServer()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** What axe finds wrong with the page in this colour scheme. The page's policy must allow its script (`bypassCSP`). */
export async function findings(page: Page, colorScheme: (typeof SCHEMES)[number]): Promise<string[]> {
  await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
  if (!(await page.evaluate<boolean>('"axe" in globalThis'))) await page.addScriptTag({ path: axe })
  const { violations } = await page.evaluate<{ violations: { id: string; nodes: { html: string }[] }[] }>('axe.run()')
  return violations.map(({ id, nodes }) => `${colorScheme} ${id}: ${nodes.map(({ html }) => html).join(' ')}`)
}

/** By how much the page is wider than its window. */
export const overflowOf = (page: Page): Promise<number> =>
  page.evaluate<number>('document.documentElement.scrollWidth - document.documentElement.clientWidth')

/** Waits until it is visible, by default for 20,000 ms. A failure has what the page says instead. */
export async function shows(one: Locator, timeout = 20_000): Promise<void> {
  try {
    await one.waitFor({ timeout })
  } catch (cause) {
    const page = one.page()
    const text = await page
      .locator('body')
      .innerText()
      .catch(() => '')
    throw new Error(`${cause instanceof Error ? cause.message : String(cause)}\n${page.url()} says: ${text.slice(0, 3_000)}`, { cause })
  }
}
