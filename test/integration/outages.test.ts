// A Postgres outage is logged: one line when Postgres is lost and one when it is back, with its address but without its password.
import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { startStack, type Stack } from 'pawl/testing'
import { superviseWorkers } from 'pawl/worker'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { type Recorder, recorder } from '../support/recorder.ts'
import { stage } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

/** After this time without heartbeats, the server repeats a call. */
const HEARTBEAT_TIMEOUT_MS = 10_000
const UNREACHABLE = 'postgres://pawl:secret@127.0.0.1:1/x'

describe('a worker', () => {
  it('a worker whose Postgres is down at startup reports that once, and serves anyway', async () => {
    const here = await deploy({ stack: { ...inject('stack'), databaseUrl: UNREACHABLE } })
    const log = recorder()
    try {
      const player = stage()
      await here.startWorker({ agents: [player.agent], logger: log })
      await until('it is logged', () => log.about('127.0.0.1:1/x').length > 0)
      const { session } = player.play(here.pawl, { model: () => 'still here' })
      const run = await session.send('hello', { isNew: true })
      expect(await run.result({ timeout: 20_000 })).toMatchObject({ text: 'still here' })
      expect(log.about('127.0.0.1:1/x')).toEqual([
        ['warn', expect.stringMatching(/Postgres at 127\.0\.0\.1:1\/x does not answer \(.*ECONNREFUSED.*\)/)],
      ])
      expect(log.text()).not.toContain('secret')
    } finally {
      await here.stop()
    }
  })

  it.each(['foo', 'mysql://127.0.0.1/x'])(
    'a worker is refused at once with the Postgres address %s, supervised or not',
    async (postgres) => {
      const code = 'invalid_postgres_url'
      const here = await deploy()
      try {
        await expect(here.startWorker({ agents: [stage().agent], postgres })).rejects.toMatchObject({ name: 'StoreError', code })
        await expect(here.connect({ postgres })).rejects.toMatchObject({ name: 'StoreError', code })
        await expect(superviseWorkers({ module: 'agents.mjs', postgres })).rejects.toMatchObject({ name: 'StoreError', code })
      } finally {
        await here.stop()
      }
    },
  )
})

it('a program whose worker was refused ends by itself', async () => {
  const program = `
    import { defineAgent } from 'pawl'
    import { createWorker } from 'pawl/worker'
    const model = { name: 'm', generate: () => { throw new Error('not called') } }
    const agents = [defineAgent({ name: 'a', instructions: '', model })]
    await createWorker({ agents, postgres: 'mysql://127.0.0.1/x' }).catch(({ code }) => console.log(code))`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program], { timeout: 60_000 })
  expect(stdout.trim()).toBe('invalid_postgres_url')
})

describe('a Postgres that goes down under a running worker', () => {
  let stack: Stack
  let here: Deployment
  let log: Recorder
  const lines = () => log.about(new URL(stack.databaseUrl).host)

  beforeAll(async () => {
    stack = await startStack({ temporal: ['address'], postgres: ['embedded'] })
    here = await deploy({ stack: { ...inject('stack'), databaseUrl: stack.databaseUrl } })
    log = recorder()
    await here.startWorker({ agents: [stage().agent], logger: log })
  })
  afterAll(async () => {
    await here?.stop()
    await stack?.stop()
  })

  it('an outage of Postgres is logged once when it begins and once when it ends, even if nothing is being stored', async () => {
    for (let outage = 1; outage <= 2; outage++) {
      await stack.postgres.stop('crash')
      await until('its loss is logged', () => lines().length === outage * 2 - 1, 40_000)
      await stack.postgres.start()
      await until('its return is logged', () => lines().length === outage * 2, 40_000)
    }
    const outage = [
      ['warn', expect.stringContaining('does not answer')],
      ['warn', expect.stringMatching(/answers again, after \d+ s\./)],
    ]
    expect(lines()).toEqual([...outage, ...outage])
  })
})

it('a model’s answer that arrives while Temporal is down for longer than the heartbeat timeout is not requested again', async () => {
  const stack = await startStack({ temporal: ['path', 'cache', 'download', 'go'], postgres: ['embedded'] })
  const here = await deploy({ stack })
  try {
    const player = stage()
    await here.startWorker({ agents: [player.agent] })
    const door = gate()
    const model = async (_request: unknown, { signal }: { signal: AbortSignal }) => {
      await door.pass(signal)
      return 'an expensive answer'
    }
    const { session, requests } = player.play(here.pawl, { model })
    const run = await session.send('go')
    await door.reached
    await stack.temporal.stop('crash')
    door.open()
    await sleep(HEARTBEAT_TIMEOUT_MS + 2_000)
    await stack.temporal.start()
    expect(await run.result({ timeout: 90_000 })).toMatchObject({ text: 'an expensive answer' })
    expect(requests).toHaveLength(1)
  } finally {
    await here.stop()
    await stack.stop()
  }
}, 180_000)
