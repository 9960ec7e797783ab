// How a session is taken out of `error` by somebody: the run started again from its messages, or given up.
import { ModelError } from 'pawl'
import { RecoveryRefused } from 'pawl/client'
import type { ScriptedAnswer } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { answersIn, inOrder, saidIn, type Scene, type Stage, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

let here: Deployment
let player: Stage

beforeAll(async () => {
  here = await deploy()
  player = stage()
  await here.startWorker({ agents: [player.agent] })
})
afterAll(() => here?.stop())

/** A model that makes these turns and then fails, until it is mended. */
function failsAfter(turns: ScriptedAnswer[]): Scene & { mended?: boolean } {
  const script = inOrder(...turns)
  const scene: Scene & { mended?: boolean } = {
    model(request) {
      if (scene.mended) return `mended: ${saidIn(request).join(', ')}`
      if (answersIn(request) < turns.length) return script(request)
      throw new ModelError('broken', 'it is broken', { retryable: false })
    },
  }
  return scene
}

describe('restart_run', () => {
  it('takes the run’s messages again in a new run, and the model sees nothing of the failed one', async () => {
    const door = gate()
    const scene: Scene & { mended?: boolean } = failsAfter([[use('look', 'at it')]])
    scene.look = (_input, ctx) => door.pass(ctx.signal)
    const { session, requests } = player.play(here.pawl, scene)
    const first = await session.send('one')
    await door.reached
    const second = await session.send('two')
    door.open()
    expect(await first.settled({ timeout: 20_000 })).toMatchObject({ status: 'failed', code: 'broken', strategy: 'restart_run' })
    scene.mended = true
    await session.recover({ strategy: 'restart_run', by: 'me' })
    for (const run of [first, second]) {
      expect(await until('the new run has completed', () => run.result({ timeout: 2_000 }))).toMatchObject({
        run: 2,
        text: 'mended: one, two',
      })
    }
    expect(requests.at(-1)!.messages).toEqual([
      { role: 'user', content: 'one' },
      { role: 'user', content: 'two' },
    ])
    const events = await eventsOf(session)
    expect(ofType(events, 'recovery_started')).toMatchObject([{ run: 1, strategy: 'restart_run', by: 'me' }])
    expect(ofType(events, 'message_received')).toHaveLength(2)
    await until('the rows are those of the new run', async () => {
      const rows = await session.messages()
      return rows.length === 3 && rows.every(({ run }) => run === 2)
    })
  })

  it('keeps what earlier runs said', async () => {
    const scene = failsAfter(['fine'])
    const { session, requests } = player.play(here.pawl, scene)
    await (await session.send('one')).result({ timeout: 20_000 })
    const run = await session.send('two')
    await run.settled({ timeout: 20_000 })
    scene.mended = true
    await session.recover({ strategy: 'restart_run' })
    await until('the new run has completed', () => run.result({ timeout: 2_000 }))
    expect(requests.at(-1)!.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user'])
  })

  for (const [tool, scene] of [
    ['put', {}],
    ['pay', {}],
    [
      'wire',
      {
        wire() {
          throw new Error('lost')
        },
      },
    ],
  ] as [string, Scene][]) {
    it(`is refused once ${tool} has completed, or may have`, async () => {
      const failing = failsAfter([[use(tool, 'it')]])
      const { session } = player.play(here.pawl, { ...scene, model: failing.model! })
      expect(await (await session.send('go')).settled({ timeout: 20_000 })).toMatchObject({ status: 'failed', strategy: 'abandon' })
      const refused = await session.recover({ strategy: 'restart_run' }).catch((error: unknown) => error)
      expect(refused).toBeInstanceOf(RecoveryRefused)
      expect(refused).toMatchObject({ code: 'effects_completed', message: expect.stringContaining('t_1_1_0') })
      expect((await session.state()).status).toBe('error')
    })
  }

  it('is allowed when only reads, and calls that failed before they began, were made', async () => {
    const scene = failsAfter([[use('look', 'at it'), use('nothing', 'at all'), { ...use('put', 'x'), input: { what: 7 } }]])
    const { session } = player.play(here.pawl, scene)
    const run = await session.send('go')
    await run.settled({ timeout: 20_000 })
    scene.mended = true
    await session.recover({ strategy: 'restart_run' })
    await until('the new run has completed', () => run.result({ timeout: 2_000 }))
  })
})

it('abandon leaves the failed run as it is and the session idle; the next message goes on with all that was said', async () => {
  const scene = failsAfter([[use('put', 'it')]])
  const { session, requests, count } = player.play(here.pawl, scene)
  await (await session.send('one')).settled({ timeout: 20_000 })
  await session.recover({ strategy: 'abandon' })
  expect(await session.state()).toMatchObject({ status: 'idle', error: null, current: null })
  scene.mended = true
  expect(await (await session.send('two')).result({ timeout: 20_000 })).toMatchObject({ run: 2, text: 'mended: one, two' })
  expect(requests.at(-1)!.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'user'])
  expect(count('put')).toBe(1)
})

it('a session that is not in error has nothing to recover', async () => {
  const { session } = player.play(here.pawl, {})
  await (await session.send('one')).result({ timeout: 20_000 })
  await expect(session.recover({ strategy: 'abandon' })).rejects.toMatchObject({ code: 'not_in_error' })
  await expect(session.recover({ strategy: 'magic' as never })).rejects.toMatchObject({ code: 'not_in_error' })
})
