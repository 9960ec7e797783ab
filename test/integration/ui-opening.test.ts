// A chat in the moments after its first message, while its session is still being opened.
import { randomUUID } from 'node:crypto'
import { type Access, createHandler, type Handler } from 'pawl/service'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { type Deployment, deploy, SILENT } from '../support/deployment.ts'
import { stage } from '../support/scenes.ts'
import { type SlowProxy, startSlowProxy } from '../support/slow-proxy.ts'
import { webClient } from '../support/web.ts'

const ANN: Access = { identity: 'ann', scopes: ['read', 'send'] }
/** Opening a session takes several requests to Postgres, each of which has several parts. */
const SLOW_MS = 700

let slow: SlowProxy
let here: Deployment
let handler: Handler
const player = stage()

beforeAll(async () => {
  slow = await startSlowProxy(inject('stack').databaseUrl)
  here = await deploy()
  await here.startWorker({ agents: [player.agent], postgres: slow.url })
  handler = createHandler({ pawl: here.pawl, authorize: () => ANN, logger: SILENT })
})
afterAll(async () => {
  if (slow) slow.delayMs = 0
  await here?.stop()
  await slow?.close()
})

describe('a session that a worker opens slowly', () => {
  it('a page that resumes a new chat whose session is being opened gets its answer, not a refusal', async () => {
    const { id } = player.play(here.pawl, { model: () => 'Hello from the slow one.' })
    const page = webClient(handler, 'ann')
    slow.delayMs = SLOW_MS
    const { status } = await page.post(`/v1/sessions`, { id, agent: 'player', content: 'hello', messageId: randomUUID() })
    expect(status).toBe(201)
    expect((await page.get(`/v1/sessions/${id}`)).body).toMatchObject({ status: 'loading', agent: null })
    const response = await handler(new Request(`http://ui.test/v1/ui/${id}/stream`))
    expect(response.status).toBe(200)
    slow.delayMs = 0
    expect(await response.text()).toContain('Hello from the slow one.')
  }, 60_000)
})
