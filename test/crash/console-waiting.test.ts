// What the console says while no worker answers, in a real browser.
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Deployment } from '../support/deployment.ts'
import { stage } from '../support/scenes.ts'
import { until } from '../support/until.ts'
import { type ConsoleDeployment, deployConsole } from './support/console-deployment.ts'
import { shows } from './support/console-pages.ts'

const player = stage()
let shown: ConsoleDeployment
let here: Deployment

beforeAll(async () => {
  shown = await deployConsole('waiting', [player.agent])
  ;({ here } = shown)
})
afterAll(() => shown?.close())

/** The page gives an answer up after eight seconds instead of thirty. */
const IMPATIENT = `
  const wait = AbortSignal.timeout
  AbortSignal.timeout = (ms) => wait.call(AbortSignal, ms === 30_000 ? 8_000 : ms)
`

async function failed() {
  let isBroken = true
  const played = player.play(here.pawl, {
    model: () => {
      if (isBroken) throw Object.assign(new Error('The provider refuses this.'), { retryable: false })
      return 'well again'
    },
  })
  await (await played.session.send('go')).result({ timeout: 20_000 }).catch(() => undefined)
  await until('its error is stored', async () => (await here.pawl.sessions.get(played.id)).status === 'error')
  return { ...played, repair: () => void (isBroken = false) }
}

it('the page says what the previews of a recovery wait for, and gives a server up that does not answer', async () => {
  const played = await failed()
  const page = await shown.pages.open(`#/sessions/${played.id}`, { script: IMPATIENT })
  await page.route('**/runs/1', () => undefined)
  const recover = page.getByRole('button', { name: 'Recover…' })
  await recover.click()
  await shows(page.getByText('Asking a worker what the session is doing now.'))
  expect(await recover.isDisabled()).toBe(true)
  await shows(page.getByText('The server has not answered. Try again.'))
  await page.unroute('**/runs/1')
  await recover.click()
  await shows(page.getByRole('button', { name: 'restart run' }))
  expect(await page.getByText('The server has not answered. Try again.').count()).toBe(0)
  await page.context().close()
})

it('the console previews a recovery from what is stored while no worker runs, and says that it waits for one to carry it out', async () => {
  const played = await failed()
  await shown.worker.stop()
  const page = await shown.pages.open(`#/sessions/${played.id}`)
  await page.getByRole('button', { name: 'Recover…' }).click()
  await shows(page.getByText('Asking a worker what the session is doing now.'))
  const restart = page.getByRole('button', { name: 'restart run' })
  await shows(restart)
  await restart.click()
  await shows(page.getByText('Waiting for a worker that carries it out.'))
  played.repair()
  await here.startWorker({ agents: [player.agent] })
  await shows(page.getByText('well again'))
  await page.context().close()
  expect(shown.pages.complaints).toEqual([])
})
