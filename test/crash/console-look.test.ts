// Every page of the console, of the showcase of `npm run demo -- --console`: in both themes without a finding of axe, at each width without
// overflow. `npm run screenshots` writes the pictures of docs/console from the same pages.
import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { AddressInfo } from 'node:net'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { type Showcase, startShowcase } from '../../examples/console/showcase.ts'
import { chatServer } from '../../examples/ui/server.ts'
import { AI_SDK_7 } from '../ai-sdk-7/paths.ts'
import { findings, overflowOf, SCHEMES } from './support/console-pages.ts'
import { startBrowser } from './support/browser.ts'
import { keepPicture, settle } from './support/pictures.ts'

/** Where pictures go; unset: nowhere. */
const PICTURES = process.env.PAWL_SCREENSHOTS === '1' ? fileURLToPath(new URL('../../docs/console', import.meta.url)) : undefined
const PREFIX = PICTURES === undefined ? `look-${randomUUID().slice(0, 8)}-` : ''
const SIZES = [
  [360, 740],
  [1_024, 720],
  [1_600, 1_000],
] as const
/** Which pictures are kept of each page, so that the guides do not grow by megabytes. */
const KEPT: readonly (readonly [width: number, scheme: string])[] = [
  [360, 'light'],
  [1_024, 'light'],
  [1_024, 'dark'],
  [1_600, 'dark'],
]

/** Pages besides those of the navigation, by name. */
const PLACES: Record<string, string> = {
  session: `#/sessions/${PREFIX}customer-42`,
  approval: `#/sessions/${PREFIX}customer-77`,
  unknown: `#/sessions/${PREFIX}customer-51`,
  error: `#/sessions/${PREFIX}export-october`,
  tree: `#/sessions/${PREFIX}lisbon`,
  arabic: `#/sessions/${PREFIX}customer-15`,
  archived: `#/sessions/${PREFIX}mailing-lamp`,
  earlier: `#/sessions/${PREFIX}customer-42?at=11`,
  search: `#/search?q=${PREFIX}customer-42`,
  empty: '#/sessions?agent=nobody',
  missing: '#/sessions/nobody',
}
/** Brings an element to the middle of the window. */
const CENTRE = (element: unknown): void => (element as { scrollIntoView(how: object): void }).scrollIntoView({ block: 'center' })
/** Of these no picture is kept. */
const SEEN_ONLY = new Set(['archived', 'earlier', 'missing', 'search', 'unknown', 'workers'])

let showcase: Showcase
let browser: Browser
const complaints: string[] = []

beforeAll(async () => {
  const stack = inject('stack')
  const own = randomUUID().slice(0, 8)
  showcase = await startShowcase({ stack, taskQueue: `look-${own}`, schema: `look_${own}`, prefix: PREFIX })
  browser = await startBrowser()
}, 180_000)
afterAll(async () => {
  await browser?.close()
  await showcase?.stop()
})

async function newPage(): Promise<Page> {
  // Its policy would keep axe out; the page without it is what console.test.ts opens.
  const page = await (
    await browser.newContext({
      bypassCSP: true,
      reducedMotion: 'reduce',
      locale: 'en-US',
      timezoneId: 'UTC',
      viewport: { width: 1_024, height: 720 },
    })
  ).newPage()
  page.on('console', (message) => {
    // Of a visitor who has not signed in, and of a session that does not exist.
    if (message.type() === 'error' && !/status of (401|404)/.test(message.text())) complaints.push(message.text())
  })
  page.on('pageerror', (error) => complaints.push(String(error)))
  return page
}

/** Looks at a page in all themes and widths. */
async function look(page: Page, name: string): Promise<void> {
  for (const scheme of SCHEMES) {
    expect([name, await findings(page, scheme)]).toEqual([name, []])
    for (const [width, height] of SIZES) {
      await page.setViewportSize({ width, height })
      expect([name, width, await overflowOf(page)]).toEqual([name, width, 0])
      if (PICTURES === undefined || SEEN_ONLY.has(name) || !KEPT.some(([w, s]) => w === width && s === scheme)) continue
      await mkdir(PICTURES, { recursive: true })
      await settle(page)
      if (name === 'approval') await page.getByRole('button', { name: 'Approve' }).evaluate(CENTRE)
      await keepPicture(page, join(PICTURES, `${name}-${width}-${scheme}.webp`))
    }
  }
}

describe('the looks of the console', () => {
  it('every page of the console is free of findings in both themes, and as wide as its window', async () => {
    const page = await newPage()
    await page.goto(`${showcase.url}/console/`)
    await page.getByLabel('API key').waitFor()
    await look(page, 'sign-in')
    await page.goto(showcase.consoleUrl)
    const navigation = page.getByRole('navigation')
    await navigation.waitFor()
    const links = await page.evaluate<string[]>("[...document.querySelectorAll('nav a')].map((link) => link.getAttribute('href'))")
    const pages = Object.fromEntries(links.map((place) => [place.replace('#/', ''), place]))
    expect(Object.keys(pages)).toEqual(expect.arrayContaining(['sessions', 'inbox', 'usage', 'errors']))
    for (const [name, place] of Object.entries({ ...pages, ...PLACES })) {
      await page.goto(`${showcase.url}/console/${place}`)
      await page.locator('main h1').first().waitFor()
      if (name === 'approval') await page.getByRole('button', { name: 'Approve' }).waitFor()
      await page.waitForLoadState('networkidle').catch(() => undefined)
      expect([name, await page.getByRole('alert').allTextContents()]).toEqual([name, []])
      await look(page, name)
    }
    expect(complaints).toEqual([])
  })

  it('the chat page of examples/ui is free of findings in both themes, and shows what one approves', async () => {
    const server = await chatServer(showcase.pawl, () => ({ identity: 'guest', scopes: ['read', 'send', 'approve'] }), AI_SDK_7)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    try {
      const page = await newPage()
      await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/?agent=support&session=${PREFIX}customer-77`)
      const call = page.getByRole('region', { name: 'Refund order' })
      await call.getByRole('button', { name: 'Approve' }).waitFor()
      expect(await call.locator('dd').allTextContents()).toEqual(['W-1077', '124,900'])
      await look(page, 'chat')
      expect(complaints).toEqual([])
    } finally {
      server.closeAllConnections()
      server.close()
    }
  })
})
