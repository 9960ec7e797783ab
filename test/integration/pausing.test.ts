// Pausing a session: the step in progress finishes, nothing new begins, and everything accepted meanwhile takes effect afterwards.
import { defineAgent, defineTool, ModelError } from 'pawl'
import type { ResultTimeoutError, SessionHandle, SessionView } from 'pawl/client'
import { scripted } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { answersIn, inOrder, saidIn, type Stage, stage, use } from '../support/scenes.ts'
import { startSlowProxy } from '../support/slow-proxy.ts'
import { gate, until } from '../support/until.ts'

const TIMEOUT = { timeout: 20_000 }

const paid: string[] = []
const careful = defineAgent({
  name: 'careful',
  instructions: '',
  model: scripted(inOrder([use('pay', 'the bill')], 'paid')),
  tools: [
    defineTool({
      name: 'pay',
      description: 'Pays.',
      input: z.object({ what: z.string() }),
      effect: 'external',
      approval: true,
      execute: ({ what }) => void paid.push(what),
    }),
  ],
})

let here: Deployment
let player: Stage
let patient: Stage

beforeAll(async () => {
  here = await deploy()
  player = stage()
  patient = stage({ name: 'patient', retry: { maxRetries: 0 }, recovery: { baseDelay: '2s', maxDelay: '2s' } })
  await here.startWorker({ agents: [player.agent, patient.agent, careful] })
})
afterAll(() => here?.stop())

/** Pauses the session while it waits for its recovery. A recovery that begins just before the pause is let through. */
async function pausedBeforeRecovery(session: SessionHandle): Promise<{ state: SessionView; dueAt: number }> {
  for (;;) {
    await until('it waits for its recovery', async () => (await session.state()).error?.nextAttemptAt)
    await session.pause({ by: 'ann' })
    const state = await session.state()
    const dueAt = state.error?.nextAttemptAt
    if (dueAt !== undefined) return { state, dueAt }
    await session.unpause()
  }
}

describe.concurrent('a session that is paused', () => {
  it('a session that is paused during a model call records the answer, and runs its calls once it is unpaused', async () => {
    const door = gate()
    const { id, session, count } = player.play(here.pawl, {
      async model(request, ctx) {
        if (answersIn(request) === 0) await door.pass(ctx.signal)
        return inOrder([use('put', 'it')], 'done')(request)
      },
    })
    const run = await session.send('one')
    await door.reached
    expect(await session.pause({ by: 'ann', reason: 'too fast' })).toEqual({
      paused: { at: expect.any(Number), by: 'ann', reason: 'too fast' },
      already: false,
    })
    door.open()
    await until('the answer is recorded', async () => ofType(await eventsOf(session), 'model_completed').length === 1)
    await rowsMatchEvents(here.stack, id)
    expect(await session.state()).toMatchObject({ status: 'running', paused: { by: 'ann', reason: 'too fast' } })
    expect(count('put')).toBe(0)
    expect(await here.pawl.sessions.get(id)).toMatchObject({ status: 'running', paused: { by: 'ann', reason: 'too fast' } })

    expect(await session.unpause({ by: 'bob' })).toEqual({ already: false })
    expect(await run.result(TIMEOUT)).toMatchObject({ text: 'done' })
    expect(count('put')).toBe(1)
    expect(await session.state()).not.toHaveProperty('paused')
    await rowsMatchEvents(here.stack, id)
    expect(ofType(await eventsOf(session), 'session_unpaused')).toMatchObject([{ by: 'bob' }])
  })

  it('a session that is paused during a call lets it finish, and starts none of the calls that follow', async () => {
    const door = gate()
    const { session, count } = player.play(here.pawl, {
      model: inOrder([use('put', 'a'), use('put', 'b')], 'done'),
      put: ({ what }, ctx) => (what === 'a' ? door.pass(ctx.signal).then(() => 'put a') : 'put b'),
    })
    const run = await session.send('one')
    await door.reached
    await session.pause()
    door.open()
    await until('the first call has ended', async () => ofType(await eventsOf(session), 'tool_completed').length === 1)
    await session.checkpoint('looked at')
    expect(count('put')).toBe(1)
    await session.unpause()
    expect(await run.result(TIMEOUT)).toMatchObject({ text: 'done' })
    expect(count('put')).toBe(2)
  })

  it('a session that is paused while idle accepts messages, and one run answers them once it is unpaused', async () => {
    const { session, requests } = player.play(here.pawl, { model: (request) => saidIn(request).join(', ') })
    await (await session.send('one')).result(TIMEOUT)
    await session.pause()
    await session.send('two')
    const third = await session.send('three')
    expect(await session.state()).toMatchObject({ status: 'idle', queued: 2 })
    expect(requests).toHaveLength(1)
    await session.unpause()
    expect(await third.result(TIMEOUT)).toMatchObject({ run: 2, text: 'one, two, three' })
  })

  it('a repeated pause or unpause is reported as such, and records nothing', async () => {
    const { session } = player.play(here.pawl, {})
    await (await session.send('one')).result(TIMEOUT)
    expect(await session.unpause({ by: 'ann' })).toEqual({ already: true })
    const { paused } = await session.pause({ by: 'ann' })
    expect(await session.pause({ by: 'bob', reason: 'me too' })).toEqual({ paused, already: true })
    await session.unpause()
    expect(await session.unpause()).toEqual({ already: true })
    const events = await eventsOf(session)
    expect([ofType(events, 'session_paused').length, ofType(events, 'session_unpaused').length]).toEqual([1, 1])
    await expect(session.pause({ reason: 'x'.repeat(5_000) })).rejects.toMatchObject({ code: 'invalid_request' })
    await expect(here.pawl.session('nowhere').pause()).rejects.toMatchObject({ code: 'session_not_found' })
  })

  it('a session that is paused can be interrupted: the run ends, and the next one waits', async () => {
    const door = gate()
    const { session } = player.play(here.pawl, {
      model: async (request) => {
        if (saidIn(request).length === 1) await door.pass()
        return answersIn(request) === 0 ? [use('look', 'a')] : saidIn(request).join(', ')
      },
    })
    const run = await session.send('one')
    await door.reached
    await session.pause()
    door.open()
    await until('the answer is recorded', async () => ofType(await eventsOf(session), 'model_completed').length === 1)
    const next = await session.send('two', { interrupt: true })
    expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'interrupted', run: 1 })
    expect(await session.state()).toMatchObject({ status: 'idle', paused: {} })
    await session.unpause()
    expect(await next.result(TIMEOUT)).toMatchObject({ run: 2, text: 'one, two' })
  })

  it('a session that is paused can be recovered and rolled back, and still takes no step', async () => {
    const { session, requests } = player.play(here.pawl, {
      model(request) {
        if (requests.length === 1) throw new ModelError('bad', 'no', { retryable: false })
        return saidIn(request).join(', ')
      },
    })
    const run = await session.send('one')
    expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'failed', code: 'bad' })
    await session.pause()
    await session.recover({ strategy: 'continue_run' })
    expect(await session.state()).toMatchObject({ status: 'running', error: null, paused: {} })
    expect(requests).toHaveLength(1)
    const { effects } = await session.rollback({ run: 1 })
    expect(effects).toEqual([])
    expect(await session.state()).toMatchObject({ status: 'idle', paused: {} })
    await session.unpause()
    expect(await (await session.send('two')).result(TIMEOUT)).toMatchObject({ text: 'two' })
  })

  it('a session that is paused holds back an automatic recovery that is due until it is unpaused', async () => {
    let isBack = false
    const { id, session, requests } = patient.play(here.pawl, {
      model() {
        if (isBack) return 'back'
        throw new ModelError('overloaded_error', 'overloaded', { retryable: true })
      },
    })
    const run = await session.send('one', { deadline: '10m' })
    const { state, dueAt } = await pausedBeforeRecovery(session)
    await until('that is due', () => Date.now() > dueAt + 500)
    const asked = requests.length
    isBack = true
    expect((await session.status()).waitsFor).toMatchObject([{ for: 'person', to: 'unpause' }, { for: 'next_attempt' }])
    expect(await session.state()).toMatchObject({ status: 'error', error: state.error, paused: {} })
    expect(requests).toHaveLength(asked)
    await session.unpause()
    expect(await run.result(TIMEOUT)).toMatchObject({ run: 1, text: 'back' })
    const { rows } = await rowsMatchEvents(here.stack, id)
    expect(rows.recoveries.at(-1)).toMatchObject({ strategy: 'continue_run', outcome: 'completed', details: { automatic: true } })
  })

  it('a session that is paused while it waits for a recovery ends its run if a message’s deadline passes during the pause', async () => {
    const { id, session, requests } = patient.play(here.pawl, {
      model() {
        throw new ModelError('overloaded_error', 'overloaded', { retryable: true })
      },
    })
    const run = await session.send('one', { deadline: '6s' })
    const { state, dueAt } = await pausedBeforeRecovery(session)
    await until('both are due', () => Date.now() > Math.max(dueAt, state.current?.deadlineAt ?? Infinity) + 500)
    const asked = requests.length
    await session.unpause()
    expect(await until('the run has failed', async () => (await session.state()).error?.code === 'deadline_exceeded')).toBe(true)
    expect(requests).toHaveLength(asked)
    await rowsMatchEvents(here.stack, id)
    // A person can continue or abandon it.
    await session.recover({ strategy: 'abandon', by: 'ann' })
    expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'failed', code: 'deadline_exceeded' })
  })

  it('a session that is paused can be forked, and the fork is not paused', async () => {
    const { session } = player.play(here.pawl, { model: () => 'done' })
    await (await session.send('one')).result(TIMEOUT)
    await session.pause()
    // The fork's model plays the scene of the session with the fork's id.
    const { id } = player.play(here.pawl, { model: (request) => saidIn(request).join(', ') })
    const copy = await session.fork({ id })
    expect(await copy.state()).not.toHaveProperty('paused')
    expect(await (await copy.send('two')).result(TIMEOUT)).toMatchObject({ text: 'one, two' })
    expect(await session.state()).toMatchObject({ paused: {} })
  })

  it('a session that is paused is listed as paused', async () => {
    const { id, session } = player.play(here.pawl, {}, { tags: ['listed'] })
    const other = player.play(here.pawl, {}, { tags: ['listed'] })
    for (const one of [session, other.session]) await (await one.send('one')).result(TIMEOUT)
    await session.pause({ by: 'ann \u0000', reason: 'half \ud800' })
    const ids = async (paused: boolean) =>
      (await here.pawl.sessions.list({ tag: 'listed', paused })).items.map(({ sessionId }) => sessionId)
    await until('it is listed', async () => (await ids(true)).length === 1)
    expect([await ids(true), await ids(false)]).toEqual([[id], [other.id]])
    expect((await here.pawl.sessions.get(id)).paused).toEqual({ at: expect.any(Number), by: 'ann \u0000', reason: 'half \ud800' })
  })
})

describe.concurrent('a pause', () => {
  it('a pause holds up a call that a person approves during it', async () => {
    const session = here.pawl.session<typeof careful>(undefined, { agent: 'careful' })
    const run = await session.send('one')
    const waiting = await run.settled(TIMEOUT)
    const [call] = waiting.status === 'waiting' ? waiting.pending : []
    await session.pause()
    await session.approve(call?.callId ?? '', { digest: call?.digest ?? '', by: 'ann' })
    expect(await session.state()).toMatchObject({ status: 'running', paused: {} })
    // The timeout's message is based on the events, which are stored in the background.
    await until('a timeout says that it is paused', async () => {
      const { code, message } = (await run.result({ timeout: 500 }).catch((error: unknown) => error)) as ResultTimeoutError
      expect(code).toBe('result_timeout')
      return message.includes('The session is paused')
    })
    expect(paid).toEqual([])
    await session.unpause()
    expect(await run.result(TIMEOUT)).toMatchObject({ text: 'paid' })
    expect(paid).toEqual(['the bill'])
  })

  it('a pause keeps an idle session open; its idle time begins when it is unpaused', async () => {
    const { session } = player.play(here.pawl, {}, { idleTimeout: '300ms' })
    await (await session.send('one')).result(TIMEOUT)
    await session.pause()
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    expect(await session.state()).toMatchObject({ status: 'idle', paused: {} })
    await session.unpause()
    await until('it is closed', async () => (await session.state()).status === 'closed')
  })

  it('a close waits only for the work that a pause holds up', async () => {
    const { session } = player.play(here.pawl, {})
    await (await session.send('one')).result(TIMEOUT)
    await session.pause()
    const held = await session.send('two')
    await session.close()
    expect(await session.state()).toMatchObject({ status: 'idle', queued: 1 })
    await session.unpause()
    expect(await held.result(TIMEOUT)).toMatchObject({ run: 2 })
    await until('it is closed', async () => (await session.state()).status === 'closed')

    // The pause reopens the session, which then stays open until it is asked to close.
    await session.pause({ by: 'ann' })
    expect(await session.state()).toMatchObject({ status: 'idle', paused: { by: 'ann' } })
    await session.close()
    await until('it is closed again', async () => (await session.state()).status === 'closed')
    const run = await session.send('three')
    await until('the message waits', async () => (await session.state()).queued === 1)
    expect(await session.state()).toMatchObject({ status: 'idle', paused: { by: 'ann' } })
    await session.unpause()
    expect(await run.result(TIMEOUT)).toMatchObject({ run: 3 })
  })

  it('a pause that reopens a session about to close keeps it open until it is asked to close again', async () => {
    const proxy = await startSlowProxy(here.stack.databaseUrl)
    const slow = await deploy({ stack: { ...here.stack, databaseUrl: proxy.url } })
    await slow.startWorker({ agents: [player.agent] })
    const { session } = player.play(slow.pawl, {})
    await (await session.send('one')).result(TIMEOUT)
    proxy.delayMs = 500
    await session.close()
    // Its events are stored a second later. Until then its workflow keeps running.
    await until('it closes', async () => (await session.state()).status === 'closed')
    await session.pause({ by: 'ann' })
    await session.close()
    proxy.delayMs = 0
    await here.workflowEnded(session.id)
    await slow.stop()
    await proxy.close()
  })

  it('a pause does not count towards the deadline of a run', async () => {
    const limited = stage({ name: 'limited', limits: { deadline: 4_000 } })
    const taskQueue = `${here.taskQueue}-limited`
    await here.startWorker({ agents: [limited.agent], taskQueue })
    const door = gate()
    const { session } = limited.play(
      here.pawl,
      { model: inOrder([use('look', 'it')], 'done'), look: (_input, ctx) => door.pass(ctx.signal).then(() => 'seen') },
      { taskQueue },
    )
    const run = await session.send('one')
    await door.reached
    await session.pause()
    door.open()
    await new Promise((resolve) => setTimeout(resolve, 4_500))
    expect(await session.state()).toMatchObject({ status: 'running', paused: {} })
    await session.unpause()
    expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'completed', text: 'done' })
  })

  it('a pause survives continue-as-new, a restart of the worker, and a resume from the store', async () => {
    const elsewhere = await deploy({ history: { events: 60 } })
    try {
      const actor = stage()
      const first = await elsewhere.startWorker({ agents: [actor.agent] })
      const { id, session } = actor.play(elsewhere.pawl, { model: (request) => saidIn(request).at(-1) ?? '' })
      await (await session.send('one')).result(TIMEOUT)
      await session.pause({ by: 'ann' })
      const runId = async () => (await elsewhere.temporal.workflow.getHandle(`pawl:${id}`).describe()).runId
      const before = await runId()
      for (let n = 0; n < 60; n++) await session.send(`more ${n}`)
      await until('it has continued as new', async () => (await runId()) !== before)
      await first.stop()
      await elsewhere.startWorker({ agents: [actor.agent] })
      expect(await session.state()).toMatchObject({ run: 1, paused: { by: 'ann' } })

      await rowsMatchEvents(elsewhere.stack, id)
      await elsewhere.temporal.workflow.getHandle(`pawl:${id}`).terminate('lost')
      const last = await session.send('last')
      await until('it has resumed', async () => ofType(await eventsOf(session), 'session_resumed').length === 1)
      expect(await session.state()).toMatchObject({ run: 1, paused: { by: 'ann' } })
      await session.unpause()
      expect(await last.result(TIMEOUT)).toMatchObject({ run: 2, text: 'last' })
    } finally {
      await elsewhere.stop()
    }
  })
})
