// The console of `pawl serve` in a real browser: signing in, finding a session, seeing what happened at any point, and deciding.
import { randomUUID } from 'node:crypto'
import { createRequire } from 'node:module'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { pawl, type PawlProcess, runPawl } from '../integration/cli/processes.ts'
import { approvalStage, once } from '../support/approvals.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf } from '../support/events.ts'
import { inOrder, use } from '../support/scenes.ts'
import { until } from '../support/until.ts'
import { startBrowser } from './support/browser.ts'

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js')
const schema = `console_${randomUUID().replaceAll('-', '').slice(0, 16)}`
const stage = approvalStage()
let here: Deployment
let folder: string
let server: PawlProcess
let url: string
let key: string
let browser: Browser
/** The name of the console's cookie at this server. */
let cookie: string
/** What a page logged as an error, or what its policy refused. */
const complaints: string[] = []

function env(): Record<string, string> {
  const { temporalAddress, namespace, databaseUrl } = inject('stack')
  return { TEMPORAL_ADDRESS: temporalAddress, TEMPORAL_NAMESPACE: namespace, DATABASE_URL: databaseUrl }
}

async function newKey(name: string, ...args: string[]): Promise<string> {
  const { code, stdout } = await runPawl(['keys', 'create', name, ...args, '--schema', schema], { cwd: folder, env: env() })
  expect(code).toBe(0)
  return stdout.trim()
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pawl-console-'))
  here = await deploy({ schema })
  await here.startWorker({ agents: [stage.agent] })
  await (await stage.play(here.pawl, { model: () => 'hello' }).session.send('hello')).result()
  await until('the tables are there', () => here.pawl.apiKeys.list())
  server = pawl(['serve', '--port', '0', '--json', '--schema', schema, '--task-queue', here.taskQueue], { cwd: folder, env: env() })
  url = String((await server.event('serving')).url)
  cookie = `pawl_console${new URL(url).port}`
  key = await newKey('ann', '--scopes', 'read,send,approve,operate')
  browser = await startBrowser()
})
afterAll(async () => {
  await browser?.close()
  server?.kill('SIGKILL')
  await server?.ended
  await here?.stop()
  await rm(folder, { recursive: true, force: true })
})

async function open(place = ''): Promise<Page> {
  const context = await browser.newContext({ viewport: { width: 1_024, height: 768 } })
  const page = await context.newPage()
  page.on('console', (message) => {
    // Requests that are refused on purpose: of a visitor who has not signed in, or for another tenant's session.
    if (message.type() === 'error' && !/status of (401|404)/.test(message.text())) complaints.push(message.text())
  })
  page.on('pageerror', (error) => complaints.push(String(error)))
  await page.goto(`${url}/console/${place}`)
  return page
}

async function signedIn(place = '', as = key): Promise<Page> {
  const page = await open(place)
  await page.getByLabel('API key').fill(as)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('navigation').waitFor()
  return page
}

/** What axe finds wrong with the page, in both colour schemes. */
async function findings(page: Page): Promise<string[]> {
  await page.addScriptTag({ path: axe }).catch(() => undefined)
  const found: string[] = []
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    const { violations } = await page.evaluate(
      async () =>
        (globalThis as never as { axe: { run(): Promise<never> } }).axe.run() as never as Promise<{
          violations: { id: string; nodes: { html: string }[] }[]
        }>,
    )
    found.push(...violations.map(({ id, nodes }) => `${colorScheme} ${id}: ${nodes.map(({ html }) => html).join(' ')}`))
  }
  return found
}

const shows = (one: Locator): Promise<void> => one.waitFor({ timeout: 20_000 })

describe('the console', () => {
  it('the console asks for an API key, refuses a wrong one, and shows nothing before', async () => {
    const page = await open('#/inbox')
    await page.getByLabel('API key').fill('pawl_wrong')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await shows(page.getByRole('alert'))
    expect(await page.getByRole('navigation').count()).toBe(0)
    await page.getByLabel('API key').fill(key)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await shows(page.getByRole('heading', { name: 'Inbox' }))
    const [kept] = (await page.context().cookies()).filter(({ name }) => name === cookie)
    expect(kept).toMatchObject({ httpOnly: true, sameSite: 'Strict' })
    await page.getByRole('button', { name: 'Sign out' }).click()
    await shows(page.getByLabel('API key'))
  })

  it('the console leads from the list of sessions to what waits, where a person approves it; the call runs once and the page shows it', async () => {
    const played = stage.play(here.pawl, { model: once(['pay', '<img src=x onerror=alert(1)>']) }, { tags: ['customer:42'] })
    const run = await played.session.send('Pay it, please.')
    await run.settled()
    const page = await signedIn('#/sessions?tag=customer%3A42')
    await page.getByRole('link', { name: played.id }).click()
    const call = page.getByRole('region', { name: 'Call of pay' })
    await shows(call.getByText('waits for approval'))
    expect(await call.getByText('<img src=x onerror=alert(1)>').count()).toBe(1)
    await call.getByRole('textbox').fill('as agreed')
    await call.getByRole('button', { name: 'Approve' }).click()
    await shows(call.getByText('approved by key:ann'))
    await shows(call.getByText('completed, attempt 1'))
    expect(await call.getByRole('button').count()).toBe(0)
    expect((await run.result()).text).toBeDefined()
    expect(played.entered().filter((entry) => entry.startsWith('pay'))).toHaveLength(1)
    await page.context().close()
  })

  it('the console shows a session as it was at an earlier event, without its later calls and without buttons', async () => {
    const played = stage.play(here.pawl, { model: inOrder([use('look', 'it')], 'It is there.') })
    await (await played.session.send('Look, please.')).result()
    const events = await eventsOf(played.session)
    const asked = events.find(({ type }) => type === 'message_received')?.seq ?? 0
    const page = await signedIn(`#/sessions/${played.id}`)
    await shows(page.getByText('It is there.'))
    await page.getByRole('slider').fill(String(asked))
    await shows(page.getByText('as it was'))
    expect(await page.getByText('It is there.').count()).toBe(0)
    expect(await page.getByText('Look, please.').count()).toBe(1)
    expect(page.url()).toContain(`at=${asked}`)
    await page.reload()
    await shows(page.getByText('as it was'))
    await page.getByRole('button', { name: 'Now' }).click()
    await shows(page.getByText('It is there.'))
    await page.context().close()
  })

  it('the console follows a session: a message that is sent on the page is answered on the page', async () => {
    const played = stage.play(here.pawl, { model: (request) => `answer ${request.messages.length}` })
    await (await played.session.send('One.')).result()
    const page = await signedIn(`#/sessions/${played.id}`)
    await shows(page.getByText('answer 1'))
    await page.getByLabel('Message').fill('Two.')
    await page.getByRole('button', { name: 'Send' }).click()
    await shows(page.getByText('answer 3'))
    await page.context().close()
  })

  it('the console says what a recovery would do, and carries it out', async () => {
    let isBroken = true
    const played = stage.play(here.pawl, {
      model: (request) => {
        if (request.messages.length === 1) return [use('put', 'x')]
        if (isBroken) throw Object.assign(new Error('The provider refuses this.'), { retryable: false })
        return 'Recovered.'
      },
    })
    await (await played.session.send('Put it.')).result().catch(() => undefined)
    const page = await signedIn(`#/sessions/${played.id}`)
    await page.getByRole('button', { name: 'Recover…' }).click()
    isBroken = false
    await page.getByRole('button', { name: 'continue run' }).click()
    await shows(page.getByText('Recovered.'))
    expect(played.entered()).toHaveLength(1)
    await page.context().close()
  })

  it('the console finds a call by the key of its effect, and shows what failed and what was spent', async () => {
    const played = stage.play(here.pawl, {
      model: inOrder([use('put', 'x')], () => {
        throw new Error('The provider is gone.')
      }),
    })
    await (await played.session.send('Put it.')).settled().catch(() => undefined)
    const [call] = await played.session.toolCalls()
    const page = await signedIn()
    await page.getByRole('searchbox', { name: 'Search' }).fill(call?.key ?? '')
    await page.keyboard.press('Enter')
    await shows(page.getByRole('main').getByRole('link', { name: played.id }))
    await page.getByRole('link', { name: 'Errors' }).click()
    await shows(page.getByText('The provider is gone.').first())
    await page.getByRole('link', { name: 'Usage' }).click()
    await page.getByLabel('By').selectOption('by agent')
    await shows(page.getByRole('rowheader', { name: 'helped' }))
    await page.context().close()
  })

  it('the console lets a visitor see only the sessions of the tenant, and decide only what the key allows', async () => {
    const tenantKey = await newKey('eve', '--scopes', 'read', '--tenant', 'acme')
    const foreign = stage.play(here.pawl, { model: () => 'secret' })
    await (await foreign.session.send('hello')).result()
    const own = stage.play(here.pawl, { model: once(['pay', 'rent']) }, { id: `acme:${randomUUID()}` })
    await (await own.session.send('Pay it.')).settled()
    const page = await signedIn('', tenantKey)
    await shows(page.getByRole('link', { name: own.id }))
    expect(await page.getByRole('link', { name: foreign.id }).count()).toBe(0)
    await page.goto(`${url}/console/#/sessions/${foreign.id}`)
    await shows(page.getByText('This session cannot be shown'))
    await page.goto(`${url}/console/#/inbox`)
    await shows(page.getByText('Your credentials lack the scope “approve” for this decision.'))
    expect(await page.getByRole('button', { name: 'Approve' }).count()).toBe(0)
    await page.context().close()
  })

  it('the console refuses a request with its cookie from a page of another origin', async () => {
    const headers = { cookie: `${cookie}=${key}`, 'content-type': 'application/json', origin: 'https://evil.example' }
    const body = JSON.stringify({ agent: 'helped', content: 'hello' })
    const refused = await fetch(`${url}/v1/sessions`, { method: 'POST', headers, body })
    expect([refused.status, ((await refused.json()) as { code: string }).code]).toEqual([403, 'cross_origin'])
    const allowed = await fetch(`${url}/v1/caller`, { headers: { cookie: `${cookie}=${key}` } })
    expect(await allowed.json()).toEqual({ identity: 'key:ann', scopes: ['read', 'send', 'approve', 'operate'], roles: [], tenant: null })
  })

  it('the console has no finding of axe, no error and no breach of its policy, at any width', async () => {
    const played = stage.play(here.pawl, { model: once(['pay', 'x'.repeat(2_000)]) })
    await (await played.session.send('Pay it.')).settled()
    for (const place of [
      '#/sessions',
      '#/inbox',
      '#/usage?by=agent',
      '#/errors',
      '#/search?q=nobody',
      `#/sessions/${played.id}`,
      '#/sessions?status=error&agent=nobody',
      '#/nowhere',
    ]) {
      const page = await browser.newContext({ bypassCSP: true }).then((context) => context.newPage())
      await page.context().addCookies([{ name: cookie, value: key, url }])
      await page.goto(`${url}/console/${place}`)
      await shows(page.getByRole('navigation'))
      await shows(page.getByRole('main').locator('h1').first())
      expect(await findings(page)).toEqual([])
      for (const width of [360, 1_024, 1_600]) {
        await page.setViewportSize({ width, height: 800 })
        expect([place, width, await page.evaluate<number>('document.documentElement.scrollWidth')]).toEqual([place, width, width])
      }
      await page.context().close()
    }
    expect(complaints).toEqual([])
  })

  it('the console is not served if it is turned off, and its files come with a policy that allows no other script', async () => {
    const page = await fetch(`${url}/console/`)
    expect(page.headers.get('content-security-policy')).toContain("script-src 'self'")
    expect((await fetch(`${url}/console/nothing.js`)).status).toBe(404)
    const without = pawl(['serve', '--port', '0', '--json', '--no-console', '--schema', schema, '--task-queue', here.taskQueue], {
      cwd: folder,
      env: env(),
    })
    const other = String((await without.event('serving')).url)
    expect((await fetch(`${other}/console/`)).status).toBe(401)
    without.kill('SIGKILL')
    await without.ended
  })
})
