// A budget that sessions share when the processes that spend it are killed: what is counted is what the events say, and not more than the
// limit.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { SessionHandle } from 'pawl/client'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { spentBy } from '../../src/session/spending/budget.ts'
import { eventsOf } from '../support/events.ts'
import { type MeteredProvider, meteredProvider } from '../support/metered-provider.ts'
import { until } from '../support/until.ts'
import { type Compiled, compile } from './support/build.ts'
import { type Rig, startRig, type Supervised } from './support/rig.ts'

let rig: Rig
let fixtures: Compiled
let provider: MeteredProvider
let workers: Supervised[]

beforeAll(async () => {
  provider = await meteredProvider()
  process.env.SPENDERS_BUDGET = '1'
  process.env.PROVIDER_URL = provider.url
  fixtures = await compile(['test/crash/fixtures/spenders.ts'])
  rig = await startRig()
  const module = fixtures.path('spenders')
  workers = await Promise.all([rig.supervise({ module, processes: 1 }), rig.supervise({ module, processes: 1 })])
})
afterAll(async () => {
  await rig?.close()
  await fixtures?.remove()
  await provider?.close()
})

const LIMIT = 1

it('a shared budget whose workers are killed counts what the events say, and stays within its limit', { timeout: 240_000 }, async () => {
  const tag = `tenant:${randomUUID()}`
  const { id } = await rig.pawl.budgets.set({ tag, maxUsd: LIMIT, per: 'day' })
  await sleep(500)
  const open = (): SessionHandle => rig.pawl.session(`shared-${randomUUID()}`, { agent: 'sharing', tags: [tag] }) as SessionHandle
  const sessions = Array.from({ length: 8 }, open)
  const runs = await Promise.all(sessions.map((session) => session.send('look')))
  let kills = 0
  for (let n = 0; n < 8; n++) {
    await sleep(500)
    const { supervisor } = workers[n % 2] ?? expect.fail('no worker')
    const pid = n % 4 < 2 ? supervisor.pids()[0] : supervisor.orchestratorPid()
    if (pid === undefined) continue
    process.kill(pid, 'SIGKILL')
    kills += 1
  }
  expect(kills).toBeGreaterThan(4)
  const statesNow = () => Promise.all(sessions.map((session) => session.state()))
  await until(
    'each session has ended or waits for the budget',
    async () => (await statesNow()).every(({ status, error, run }) => run > 0 && (status === 'idle' || error?.code === 'budget_exhausted')),
    120_000,
  )
  const recount = async (): Promise<number> => {
    const events = (await Promise.all(sessions.map((session) => eventsOf(session)))).flat()
    return Math.round(events.reduce((sum, event) => sum + (spentBy(event)?.usd ?? 0), 0) * 1e6) / 1e6
  }
  const find = async () => (await rig.pawl.budgets.list()).find((one) => one.id === id) ?? expect.fail('no budget')
  const spent = await recount()
  // What dead workers had set aside counts for another minute.
  expect(spent).toBeGreaterThan(0.1)
  expect(spent).toBeLessThanOrEqual(LIMIT)
  await until('the counter agrees', async () => Math.abs((await find()).spentUsd - (await recount())) < 1e-6, 30_000)
  await rig.pawl.budgets.set({ tag, maxUsd: 100, per: 'day' })
  for (const run of runs) await run.result({ timeout: 60_000 })
  await until('the counter still agrees', async () => Math.abs((await find()).spentUsd - (await recount())) < 1e-6, 30_000)
})
