// Workers whose clock differs from the server's: the limits of a run are measured as durations.
import { ModelError } from 'pawl'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { inOrder, type Stage, stage, use } from '../support/scenes.ts'

const HOUR_MS = 3_600_000

let here: Deployment
let hurried: Stage

beforeAll(async () => {
  here = await deploy()
  hurried = stage({ name: 'hurried', limits: { deadline: '4s' } })
  await here.startWorker({ agents: [hurried.agent] })
})
afterAll(() => here?.stop())
afterEach(() => vi.restoreAllMocks())

/** Sets the clock of this process, which is the worker's; workflows use the server's. */
function setClock(aheadMs: number): void {
  const now = Date.now
  vi.spyOn(Date, 'now').mockImplementation(() => now() + aheadMs)
}

describe.each([
  ['ahead', HOUR_MS],
  ['behind', -HOUR_MS],
])('a worker whose clock is an hour %s', (_, aheadMs) => {
  it('a worker whose clock is an hour off gives a run all the time that its deadline allows', async () => {
    setClock(aheadMs)
    const { session } = hurried.play(here.pawl, { model: inOrder([use('look', 'at it')], 'in time') })
    expect(await (await session.send('go')).result({ timeout: 20_000 })).toMatchObject({ text: 'in time' })
  })

  it('a worker whose clock is an hour off ends a model call when the time is up', async () => {
    setClock(aheadMs)
    const { session } = hurried.play(here.pawl, { model: () => new Promise<never>(() => undefined) })
    const since = performance.now()
    await expect((await session.send('go')).result({ timeout: 20_000 })).rejects.toMatchObject({ code: 'deadline_exceeded' })
    expect(performance.now() - since).toBeGreaterThan(3_500)
  })

  it('the time of earlier attempts counts under a worker whose clock is off by an hour', async () => {
    setClock(aheadMs)
    const { session } = hurried.play(here.pawl, {
      model() {
        throw new ModelError('overloaded', 'come back later', { retryable: true, retryAfter: 3_000 })
      },
    })
    await expect((await session.send('go')).result({ timeout: 20_000 })).rejects.toMatchObject({ code: 'deadline_exceeded' })
    expect(ofType(await eventsOf(session), 'model_attempt_failed')).toHaveLength(2)
  })
})
