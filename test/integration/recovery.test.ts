// How a person takes a session out of `error`: the run is continued, restarted from its messages, or abandoned.
import { setTimeout as sleep } from 'node:timers/promises'
import { ModelError } from 'pawl'
import { RequestRefusedError, type SessionHandle } from 'pawl/client'
import type { ScriptedAnswer } from 'pawl/testing'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { codeOf } from '../support/codes.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { answersIn, inOrder, notesIn, resultsIn, saidIn, type Scene, type Stage, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

let here: Deployment
let player: Stage

beforeAll(async () => {
  here = await deploy()
  player = stage()
  await here.startWorker({ agents: [player.agent] })
})
afterAll(() => here?.stop())

/** A model that makes these turns and then fails, until `fixed` is set. */
function failsAfter(turns: ScriptedAnswer[]): Scene & { fixed?: boolean } {
  const script = inOrder(...turns)
  const scene: Scene & { fixed?: boolean } = {
    model(request) {
      if (scene.fixed) return `fixed: ${saidIn(request).join(', ')}`
      if (answersIn(request) < turns.length) return script(request)
      throw new ModelError('broken', 'it is broken', { retryable: false })
    },
  }
  return scene
}

describe('restart_run', () => {
  it('restart_run answers the run’s messages in a new run, and hides the failed one from the model', async () => {
    const door = gate()
    const scene: Scene & { fixed?: boolean } = failsAfter([[use('look', 'at it')]])
    scene.look = (_input, ctx) => door.pass(ctx.signal)
    const { session, requests } = player.play(here.pawl, scene)
    const first = await session.send('one')
    await door.reached
    const second = await session.send('two')
    door.open()
    expect(await first.settled({ timeout: 20_000 })).toMatchObject({ status: 'failed', code: 'broken', strategy: 'restart_run' })
    scene.fixed = true
    await session.recover({ strategy: 'restart_run', by: 'me' })
    for (const run of [first, second]) {
      expect(await run.result({ timeout: 20_000 })).toMatchObject({
        run: 2,
        text: 'fixed: one, two',
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

  it('restart_run keeps what earlier runs said', async () => {
    const scene = failsAfter(['fine'])
    const { session, requests } = player.play(here.pawl, scene)
    await (await session.send('one')).result({ timeout: 20_000 })
    const run = await session.send('two')
    await run.settled({ timeout: 20_000 })
    scene.fixed = true
    await session.recover({ strategy: 'restart_run' })
    await run.result({ timeout: 20_000 })
    expect(requests.at(-1)!.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user'])
  })

  it('restart_run replays an effect that the failed run completed, and the model is told beforehand', async () => {
    const scene = failsAfter([[use('pay', 'it')], [use('look', 'around')]])
    const { session, id, requests, count } = player.play(here.pawl, scene)
    const run = await session.send('go')
    expect(await run.settled({ timeout: 20_000 })).toMatchObject({ status: 'failed', strategy: 'restart_from_last_effect' })
    scene.model = inOrder([use('pay', 'it')], 'paid')
    await session.recover({ strategy: 'restart_run' })
    expect(await run.result({ timeout: 20_000 })).toMatchObject({ run: 2, text: 'paid' })
    expect(count('pay')).toBe(1)
    expect(notesIn(requests.at(-2)!)).toEqual([expect.stringMatching(/These calls completed; .*\n- pay \(t_1_1_0/)])
    expect(resultsIn(requests.at(-1)!)[0]?.content).toMatch(/^\[idempotent replay of t_1_1_0\]/)
    const [, second] = ofType(await eventsOf(session), 'run_started')
    expect(second).toMatchObject({ run: 2, intent: 1 })
    await rowsMatchEvents(here.stack, id)
  })

  it('restart_run is refused while it is unknown whether a call happened, and allowed once that is resolved', async () => {
    const failing = failsAfter([[use('wire', 'it')]])
    const lost: Scene & { fixed?: boolean } = Object.assign(failing, {
      wire(): never {
        throw new Error('lost')
      },
    })
    const { session, id } = player.play(here.pawl, lost)
    const run = await session.send('go')
    expect(await run.settled({ timeout: 20_000 })).toMatchObject({ status: 'failed', strategy: 'manual' })
    expect((await session.state()).error).toMatchObject({ options: ['selective', 'abandon', 'manual'], progress: { unknown: ['t_1_1_0'] } })
    for (const strategy of ['restart_run', 'continue_run', 'restart_from_last_effect'] as const) {
      const refused = await session.recover({ strategy }).catch((error: unknown) => error)
      expect(refused).toBeInstanceOf(RequestRefusedError)
      expect(refused).toMatchObject({ code: 'outcome_unknown', message: expect.stringContaining('t_1_1_0') })
    }
    await expect(session.recover()).rejects.toMatchObject({ code: 'choose_strategy', message: expect.stringContaining('abandon') })
    expect((await session.state()).status).toBe('error')
    await session.resolve('t_1_1_0', { happened: false })
    failing.fixed = true
    // Now there is a default strategy.
    await session.recover()
    expect(await run.result({ timeout: 20_000 })).toMatchObject({ run: 2 })
    await rowsMatchEvents(here.stack, id)
  })

  it('restart_run is allowed if the run made only reads and calls that failed before they began', async () => {
    const scene = failsAfter([[use('look', 'at it'), use('nothing', 'at all'), { ...use('put', 'x'), input: { what: 7 } }]])
    const { session } = player.play(here.pawl, scene)
    const run = await session.send('go')
    await run.settled({ timeout: 20_000 })
    scene.fixed = true
    await session.recover({ strategy: 'restart_run' })
    await run.result({ timeout: 20_000 })
  })
})

describe('continue_run', () => {
  it('continue_run retries only the failed step, and the run continues', async () => {
    const scene = failsAfter([[use('put', 'it')], [use('look', 'around')]])
    const { session, id, requests, count } = player.play(here.pawl, scene)
    const run = await session.send('go')
    await run.settled({ timeout: 20_000 })
    const asked = requests.length
    scene.fixed = true
    await session.recover({ strategy: 'continue_run', by: 'me', reason: 'it works again' })
    expect(await run.result({ timeout: 20_000 })).toMatchObject({ run: 1, text: 'fixed: go' })
    expect(requests).toHaveLength(asked + 1)
    expect(requests.at(-1)!.messages).toEqual(requests.at(-2)!.messages)
    expect(count('put')).toBe(1)
    const events = await eventsOf(session)
    expect(ofType(events, 'recovery_started')).toMatchObject([{ by: 'me', reason: 'it works again' }])
    expect(ofType(events, 'model_completed').map(({ attempt }) => attempt)).toEqual([1, 1, 2])
    await rowsMatchEvents(here.stack, id)
  })

  it('a run that has just been recovered is awaited, although the store does not know of the recovery yet', async () => {
    const scene = failsAfter([[use('look', 'around')]])
    const { session, id } = player.play(here.pawl, scene)
    const run = await session.send('go')
    await run.settled({ timeout: 20_000 })
    scene.fixed = true
    const blocker = new pg.Client(here.stack.databaseUrl)
    await blocker.connect()
    try {
      await blocker.query('begin')
      await blocker.query('select from pawl.sessions where session_id = $1 for update', [id])
      await session.recover({ strategy: 'continue_run' })
      const types: string[] = []
      const followed = (async () => {
        for await (const { type } of run.events()) types.push(type)
      })()
      expect(await run.result({ timeout: 20_000 })).toMatchObject({ run: 1, text: 'fixed: go' })
      await followed
      expect(types.slice(-1)).toEqual(['run_completed'])
    } finally {
      await blocker.end()
    }
  })

  it('continue_run is the default after a limit, and the limits of the build that now serves the agent apply', async () => {
    const own = await deploy()
    try {
      const short = stage({ name: 'limited', limits: { maxTurns: 2 } })
      const long = stage({ name: 'limited', limits: { maxTurns: 9 } })
      const script = { model: inOrder([use('look', '1')], [use('look', '2')], [use('look', '3')], 'done') }
      const worker = await own.startWorker({ agents: [short.agent] })
      const { session } = short.play(own.pawl, script, { id: 'limited' })
      const run = await session.send('go')
      expect(await run.settled({ timeout: 20_000 })).toMatchObject({ status: 'failed', code: 'max_turns', strategy: 'continue_run' })
      await worker.stop()
      await own.startWorker({ agents: [long.agent] })
      long.play(own.pawl, script, { id: 'limited' })
      await session.recover()
      expect(await run.result({ timeout: 20_000 })).toMatchObject({ run: 1, text: 'done' })
    } finally {
      await own.stop()
    }
  })
})

it('restart_from_last_effect goes back to just after the newest effect: later turns are archived and hidden from the model', async () => {
  const scene = failsAfter([[use('pay', 'it')], [use('look', 'here')], [use('look', 'there')]])
  const { session, id, requests, count } = player.play(here.pawl, scene)
  const run = await session.send('go')
  await run.settled({ timeout: 20_000 })
  scene.fixed = true
  await session.recover()
  expect(await run.result({ timeout: 20_000 })).toMatchObject({ run: 1, text: 'fixed: go' })
  expect(requests.at(-1)!.messages).toEqual(requests[1]!.messages)
  expect(count('pay')).toBe(1)
  expect(ofType(await eventsOf(session), 'recovery_started')).toMatchObject([
    { strategy: 'restart_from_last_effect', toSeq: expect.any(Number) },
  ])
  await rowsMatchEvents(here.stack, id)
})

it('abandon archives what the run said; what users said stays, and the next run knows which effects the run had', async () => {
  const scene = failsAfter([[use('put', 'it')]])
  const { session, id, requests, count } = player.play(here.pawl, scene)
  await (await session.send('one')).settled({ timeout: 20_000 })
  await session.recover({ strategy: 'abandon' })
  expect(await session.state()).toMatchObject({ status: 'idle', error: null, current: null })
  scene.fixed = true
  expect(await (await session.send('two')).result({ timeout: 20_000 })).toMatchObject({ run: 2, text: 'fixed: one, two' })
  expect(requests.at(-1)!.messages).toEqual([
    { role: 'user', content: 'one' },
    { role: 'user', content: expect.stringMatching(/^\[Note from the system.*\n.*\n- put \(t_1_1_0/) },
    { role: 'user', content: 'two' },
  ])
  expect(count('put')).toBe(1)
  const { rows } = await rowsMatchEvents(here.stack, id)
  const archive = ['assistant', 'tool_results'].map((kind) => ({ kind, run: 1, why: 'abandoned' }))
  expect(rows.archived_messages.toSorted((one, other) => Number(one.seq) - Number(other.seq))).toMatchObject(archive)
  expect(await session.archivedMessages()).toMatchObject([
    { role: 'assistant', run: 1, why: 'abandoned', content: [{ type: 'tool_use', name: 'put' }] },
    { role: 'user', run: 1, why: 'abandoned', content: [{ type: 'tool_result', content: 'put done' }] },
  ])
  expect(rows.recoveries).toMatchObject([{ strategy: 'abandon', outcome: 'abandoned', details: { code: 'broken' } }])
})

it('a session in error whose workflow has ended is still in error, and can be recovered', async () => {
  const scene = failsAfter([[use('look', 'at it')]])
  const { session, id } = player.play(here.pawl, scene)
  const run = await session.send('go')
  await run.settled({ timeout: 20_000 })
  await until('it is stored', async () => (await here.pawl.sessions.get(id)).flushedSeq >= (await session.state()).seq)
  await here.temporal.workflow.getHandle(`pawl:${id}`).terminate('by an operator')
  expect((await here.pawl.sessions.get(id)).error).toMatchObject({ code: 'broken', strategy: 'restart_run', run: 1, turn: 2 })
  await session.resume()
  expect(await session.state()).toMatchObject({ status: 'error', error: { code: 'broken' } })
  await here.temporal.workflow.getHandle(`pawl:${id}`).terminate('by an operator')
  scene.fixed = true
  await session.recover()
  expect(await run.result({ timeout: 20_000 })).toMatchObject({ run: 2 })
})

describe('regenerate', () => {
  it('regenerate answers the newest message again under the same intent, so nothing is paid twice', async () => {
    const { session, id, requests, count } = player.play(here.pawl, {
      model: (request) => (answersIn(request) % 2 === 0 ? [use('pay', 'it')] : `answer ${requests.length}`),
    })
    await (await session.send('hello')).result({ timeout: 20_000 })
    const first = await (await session.send('pay', { messageId: 'pay' })).result({ timeout: 20_000 })
    const paid = count('pay')
    const again = await session.regenerate({ by: 'me' })
    expect(again.messageId).toBe('pay')
    const second = await again.result({ timeout: 20_000 })
    expect(second).toMatchObject({ run: 3 })
    expect(second.text).not.toBe(first.text)
    expect(count('pay')).toBe(paid)
    expect(notesIn(requests.at(-1)!)).toHaveLength(1)
    expect(saidIn(requests.at(-1)!)).toEqual(['hello', 'pay'])
    await rowsMatchEvents(here.stack, id)
    // A regenerated answer can be regenerated, too.
    await (await session.regenerate()).result({ timeout: 20_000 })
    expect(count('pay')).toBe(paid)
  })

  it('regenerate does not repeat the refund of a failed run that was restarted and then regenerated twice', async () => {
    const scene = failsAfter([[use('pay', 'the refund')]])
    const { session, id, requests, count } = player.play(here.pawl, scene)
    await (await session.send('hello')).settled({ timeout: 20_000 })
    scene.model = (request) => (answersIn(request) === 0 ? [use('pay', 'the refund')] : 'refunded')
    await session.recover({ strategy: 'restart_run', by: 'ann' })
    await until('it has completed', async () => (await session.state()).status === 'idle')
    for (const by of ['bob', 'eve']) await (await session.regenerate({ by })).result({ timeout: 20_000 })
    expect(count('pay')).toBe(1)
    expect(resultsIn(requests.at(-1)!)[0]?.content).toMatch(/^\[idempotent replay of t_1_1_0\]/)
    const { rows } = await rowsMatchEvents(here.stack, id)
    expect(rows.tool_calls.map(({ status, call_id }) => `${call_id} ${status}`).sort()).toEqual([
      't_1_1_0 completed',
      't_2_1_0 replayed',
      't_3_1_0 replayed',
      't_4_1_0 replayed',
    ])
    const told = rows.recoveries.toSorted((one, other) => Number(one.seq) - Number(other.seq))
    expect(told.map(({ kind, by, outcome }) => [kind, by, outcome])).toEqual([
      ['recovery_started', 'ann', 'completed'],
      ['rolled_back', 'bob', null],
      ['rolled_back', 'eve', null],
    ])
  })

  it('regenerate is refused for a session that does not exist', async () => {
    const { session } = player.play(here.pawl, {})
    await expect(session.regenerate()).rejects.toMatchObject({ code: 'session_not_found' })
  })

  it('regenerate is refused once the only message was rolled back', async () => {
    const { session } = player.play(here.pawl, { model: () => 'fine' })
    await (await session.send('one', { messageId: 'one' })).result({ timeout: 20_000 })
    await session.rollback({ message: 'one' })
    await expect(session.regenerate()).rejects.toMatchObject({ code: 'run_not_found' })
  })
})

describe('rollback', () => {
  it('rollback allows a message that it removed to be sent again with the same id', async () => {
    const { session, id, requests } = player.play(here.pawl, { model: () => 'fine' })
    await (await session.send('one', { messageId: 'one' })).result({ timeout: 20_000 })
    await (await session.send('two', { messageId: 'two' })).result({ timeout: 20_000 })
    await session.rollback({ message: 'two' })
    expect(await (await session.send('another two', { messageId: 'two' })).result({ timeout: 20_000 })).toMatchObject({ run: 3 })
    expect(saidIn(requests.at(-1)!)).toEqual(['one', 'another two'])
    // The messages that it kept are still known.
    await session.send('one', { messageId: 'one' })
    await expect(session.send('one again', { messageId: 'one' })).rejects.toMatchObject({ code: 'request_id_reused' })
    await (await session.send('three')).result({ timeout: 20_000 })
    expect(saidIn(requests.at(-1)!)).toEqual(['one', 'another two', 'three'])
    await rowsMatchEvents(here.stack, id)
    await until('it is stored', async () => (await here.pawl.sessions.get(id)).flushedSeq >= (await session.state()).seq)
    await here.temporal.workflow.getHandle(`pawl:${id}`).terminate('by an operator')
    await session.send('another two', { messageId: 'two' })
    await (await session.send('four')).result({ timeout: 20_000 })
    expect(saidIn(requests.at(-1)!)).toEqual(['one', 'another two', 'three', 'four'])
  })

  it('rollback can forget the keys of effects that were undone outside pawl, which can then happen again', async () => {
    const { session, count, requests } = player.play(here.pawl, {
      model: (request) => (answersIn(request) % 2 === 0 ? [use('put', 'it')] : 'done'),
    })
    await (await session.send('put', { messageId: 'put' })).result({ timeout: 20_000 })
    await session.rollback({ message: 'put', keys: 'forgotten' })
    await (await session.send('put', { messageId: 'put' })).result({ timeout: 20_000 })
    expect(count('put')).toBe(2)
    expect(notesIn(requests.at(-1)!)).toEqual([])
  })
})

describe('two people at the same moment', () => {
  it('two people who recover a session at the same moment recover it once: the second is told that it is no longer in error', async () => {
    const other = await here.connect()
    const scene = failsAfter([[use('pay', 'it')], [use('look', 'around')]])
    const { session, id, count } = player.play(here.pawl, scene)
    const run = await session.send('go')
    await run.settled({ timeout: 20_000 })
    scene.model = inOrder([use('pay', 'it')], 'paid')
    const outcomes = await Promise.all([
      codeOf(session.recover({ strategy: 'restart_run', by: 'ann' })),
      codeOf(other.session(id).recover({ strategy: 'restart_from_last_effect', by: 'bob' })),
    ])
    expect(outcomes.toSorted()).toEqual(['accepted', 'not_in_error'])
    await run.result({ timeout: 20_000 })
    expect(count('pay')).toBe(1)
    const { rows } = await rowsMatchEvents(here.stack, id)
    expect(rows.recoveries).toMatchObject([
      { kind: 'recovery_started', by: outcomes[0] === 'accepted' ? 'ann' : 'bob', outcome: 'completed' },
    ])
  })

  it('a session is recovered and rolled back at once: nothing that the run says after the rollback is recorded', async () => {
    const delays = Array.from({ length: 10 }, (_, index) => index * 30)
    await Promise.all(
      delays.map(async (delayMs) => {
        const scene = failsAfter([[use('pay', 'it')]])
        const { session, id, count } = player.play(here.pawl, scene)
        await (await session.send('go')).settled({ timeout: 20_000 })
        const door = gate()
        scene.model = (_request, { signal }) => door.pass(signal).then(() => 'too late')
        const later = sleep(delayMs).then(() => codeOf(session.recover({ strategy: 'continue_run', by: 'ann' })))
        expect(await codeOf(session.rollback({ run: 1, by: 'bob' }))).toBe('accepted')
        door.open()
        expect(['accepted', 'not_in_error']).toContain(await later)
        await until('the session is idle', async () => (await session.state()).status === 'idle')
        expect(count('pay')).toBe(1)
        const { events } = await rowsMatchEvents(here.stack, id)
        const [back] = ofType(events, 'rolled_back')
        expect(events.filter(({ seq, type }) => seq > (back?.seq ?? 0) && type !== 'session_closed')).toEqual([])
      }),
    )
  })
})

describe('a refused recovery of a session that is not in error', () => {
  const IDLE = 'The session is idle and not in error, so there is nothing to recover.'
  const whyRefused = (session: SessionHandle): Promise<string> =>
    session.recover({ strategy: 'abandon' }).then(
      () => 'accepted',
      ({ message }: Error) => message,
    )

  it('a refused recovery suggests answering the newest message again', async () => {
    const { session } = player.play(here.pawl, {})
    await (await session.send('one')).result({ timeout: 20_000 })
    await expect(session.recover({ strategy: 'abandon' })).rejects.toMatchObject({ code: 'not_in_error' })
    expect(await whyRefused(session)).toContain(`${IDLE} Send a message, or regenerate the newest answer.`)
    await expect(session.recover({ strategy: 'magic' as never })).rejects.toMatchObject({ code: 'invalid_option' })
    await session.regenerate()
  })

  it('a refused recovery suggests no regeneration after the newest run has left the session', async () => {
    const { session } = player.play(here.pawl, {})
    await (await session.send('one')).result({ timeout: 20_000 })
    await session.rollback({ run: 1 })
    expect(await whyRefused(session)).toMatch(/nothing to recover\. Send a message\.$/)
    await expect(session.regenerate()).rejects.toMatchObject({ code: 'run_not_found' })
  })

  it('a refused recovery suggests no regeneration while an outcome of the newest run is unknown', async () => {
    const { session } = player.play(here.pawl, {
      model: ({ messages }) => (messages.length === 1 ? [use('wire', 'x')] : 'sorry'),
      wire() {
        throw new Error('reply lost')
      },
    })
    await (await session.send('one')).settled({ timeout: 20_000 })
    await session.interrupt()
    expect(await whyRefused(session)).toMatch(/nothing to recover\. Send a message\.$/)
  })
})
