// Messages that a session delivers later.
import { randomUUID } from 'node:crypto'
import { type InvalidOptionError, MessageRejectedError, RequestRefusedError, ResultTimeoutError, type SessionHandle } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { SIGNALS, workflowIdOf } from '../../src/session/protocol/protocol.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { inOrder, saidIn, type Stage, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

const TIMEOUT = { timeout: 20_000 }

let here: Deployment
/** Its sessions continue as new early. */
let short: Deployment
let player: Stage

beforeAll(async () => {
  here = await deploy()
  short = await deploy({ history: { events: 100 } })
  player = stage()
  await here.startWorker({ agents: [player.agent] })
  await short.startWorker({ agents: [player.agent] })
})
afterAll(async () => {
  await here?.stop()
  await short?.stop()
})

const answer = { model: () => 'done' }

describe.concurrent('a scheduled message', () => {
  it('a scheduled message is kept by its session, and answered when it is due, not before', async () => {
    const { session, id, requests } = player.play(here.pawl, answer)
    const dueAt = Date.now() + 8_000
    const run = await session.send('later', { at: dueAt, by: 'ann', metadata: { n: 1 } })
    await until('it is scheduled', async () => (await session.scheduled()).length === 1)
    expect(await session.scheduled()).toEqual([
      {
        messageId: run.messageId,
        dueAt: new Date(dueAt),
        content: 'later',
        metadata: { n: 1 },
        by: 'ann',
        scheduledAt: expect.any(Date),
      },
    ])
    expect(await session.state()).toMatchObject({ status: 'idle', scheduled: 1, queued: 0 })
    expect(requests).toHaveLength(0)
    await expect(run.result({ timeout: 1_000 })).rejects.toSatisfy(
      (error: ResultTimeoutError) => error instanceof ResultTimeoutError && error.message.includes(new Date(dueAt).toISOString()),
    )
    expect((await run.result(TIMEOUT)).text).toBe('done')
    const [received] = ofType(await eventsOf(session), 'message_received')
    expect(received).toMatchObject({ messageId: run.messageId, content: 'later', by: 'ann', metadata: { n: 1 }, dueAt })
    expect(received?.at ?? 0).toBeGreaterThanOrEqual(dueAt)
    expect(saidIn(requests[0] as never)).toContain('later')
    const { rows } = await rowsMatchEvents(here.stack, id)
    expect(rows.messages).toEqual([
      expect.objectContaining({ kind: 'user', message_id: run.messageId, scheduled_for: dueAt }),
      expect.objectContaining({ kind: 'assistant', scheduled_for: null }),
    ])
  })

  it('a scheduled message is one message however often it is sent, also after it was delivered', async () => {
    const { session, requests } = player.play(here.pawl, answer)
    const send = () => session.send('once', { messageId: 'm1', delay: 800 })
    const [run] = await Promise.all([send(), send(), send()])
    await run.result(TIMEOUT)
    await send()
    await (await session.send('bye', { messageId: 'm2' })).result(TIMEOUT)
    expect(ofType(await eventsOf(session), 'message_received').map(({ messageId }) => messageId)).toEqual(['m1', 'm2'])
    expect(requests).toHaveLength(2)
  })

  it('a scheduled message is delivered at once if its time has passed', async () => {
    const { session } = player.play(here.pawl, answer)
    await (await session.send('now', { at: new Date(Date.now() - 60_000) })).result(TIMEOUT)
    expect(ofType(await eventsOf(session), 'message_scheduled')).toEqual([])
    // A client with a clock of its own may schedule it, too.
    await here.temporal.workflow.getHandle(workflowIdOf(session.id)).signal(SIGNALS.message, { messageId: 'past', content: 'past', at: 1 })
    await session.run('past').result(TIMEOUT)
  })

  it('a scheduled message comes in the order of the times, and messages for the same time in the order in which they were sent', async () => {
    // On a busy machine, the times must be further away: all three are scheduled before the first is due.
    const scheduled = async (leadMs: number): Promise<SessionHandle> => {
      const { session } = player.play(here.pawl, answer)
      const at = Date.now() + leadMs
      await session.send('c', { messageId: 'c', at: at + 1 })
      await session.send('a', { messageId: 'a', at })
      await session.send('b', { messageId: 'b', at })
      return Date.now() < at ? session : scheduled(leadMs * 2)
    }
    const session = await scheduled(1_500)
    await session.run('c').result(TIMEOUT)
    expect(ofType(await eventsOf(session), 'message_received').map(({ messageId }) => messageId)).toEqual(['a', 'b', 'c'])
  })

  it('a scheduled message joins a run in progress, or interrupts it if that was asked for', async () => {
    const door = gate()
    const { session } = player.play(here.pawl, {
      async model(request, ctx) {
        if (saidIn(request).includes('long') && !saidIn(request).includes('stop')) await door.pass(ctx.signal)
        return 'done'
      },
    })
    const first = await session.send('long')
    await door.reached
    const second = await session.send('stop', { delay: 300, interrupt: true })
    await expect(first.result(TIMEOUT)).rejects.toMatchObject({ code: 'run_interrupted' })
    expect((await second.result(TIMEOUT)).text).toBe('done')
  })

  it('a scheduled message is taken back with unschedule: it is archived, its run is rejected, and its id stays accepted', async () => {
    const { session, id, requests } = player.play(here.pawl, answer)
    const run = await session.send('never', { messageId: 'm1', delay: '1h' })
    await until('it is scheduled', async () => (await session.scheduled()).length === 1)
    await session.unschedule('m1', { by: 'ann', reason: 'changed my mind' })
    expect(await session.scheduled()).toEqual([])
    await expect(run.result(TIMEOUT)).rejects.toSatisfy(
      (error: MessageRejectedError) => error instanceof MessageRejectedError && error.code === 'unscheduled',
    )
    await expect(session.unschedule('m1')).rejects.toMatchObject({ code: 'not_scheduled' })
    await session.send('again', { messageId: 'm1' })
    await (await session.send('other', { messageId: 'm2' })).result(TIMEOUT)
    expect(requests).toHaveLength(1)
    const { rows } = await rowsMatchEvents(here.stack, id)
    expect(rows.archived_messages).toEqual([expect.objectContaining({ message_id: 'm1', why: 'unscheduled', kind: 'scheduled' })])
  })

  it('a scheduled message keeps its session open; close refuses, unless it takes the messages back', async () => {
    const { session, id } = player.play(here.pawl, answer, { idleTimeout: '300ms' })
    await (await session.send('hello')).result(TIMEOUT)
    await session.send('later', { messageId: 'm1', delay: '1h' })
    await until('it is scheduled', async () => (await session.scheduled()).length === 1)
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    expect((await session.state()).status).toBe('idle')
    await expect(session.close()).rejects.toSatisfy(
      (error: RequestRefusedError) => error instanceof RequestRefusedError && error.code === 'messages_scheduled',
    )
    await session.close({ unschedule: true, by: 'ann' })
    await here.workflowEnded(id)
    const events = await eventsOf(session)
    expect(ofType(events, 'messages_unscheduled')).toMatchObject([{ messageIds: ['m1'], by: 'ann', reason: 'closed' }])
    expect(events.at(-1)?.type).toBe('session_closed')
  })

  it('a scheduled message opens a session that has closed, which then stays open until the message is delivered', async () => {
    const { session, id } = player.play(here.pawl, answer, { idleTimeout: '300ms' })
    await (await session.send('hello')).result(TIMEOUT)
    await here.workflowEnded(id)
    const run = await session.send('later', { delay: 1_200 })
    expect((await run.result(TIMEOUT)).text).toBe('done')
    await here.workflowEnded(id)
  })

  it('a scheduled message is kept by rollbacks and not copied by forks', async () => {
    const { session, copy, kept } = await goneBack(2_500)
    expect(kept).toEqual(['m-later'])
    expect(await copy.scheduled()).toEqual([])
    expect((await session.run('m-later').result(TIMEOUT)).text).toBe('done')
    await rowsMatchEvents(here.stack, session.id)
    await rowsMatchEvents(here.stack, copy.id)
  })

  /** A session that was forked and has gone back while a message was scheduled. On a slow machine, that takes a message which is due later. */
  async function goneBack(delay: number): Promise<{ session: SessionHandle; copy: SessionHandle; kept: string[] }> {
    const { session } = player.play(here.pawl, answer)
    const first = await session.send('one')
    await first.result(TIMEOUT)
    const at = Date.now() + delay
    await session.send('later', { messageId: 'm-later', at })
    await until('it is scheduled', async () => (await session.scheduled()).length === 1 || Date.now() > at)
    const copy = await session.fork()
    await session.rollback({ message: first.messageId })
    const kept = (await session.scheduled()).map(({ messageId }) => messageId)
    return Date.now() < at ? { session, copy, kept } : goneBack(2 * delay)
  }

  it('a scheduled message survives a continue-as-new', async () => {
    const { session, id, requests } = player.play(short.pawl, { model: () => 'done', look: () => 'seen' })
    const at = Date.now() + 6_000
    await session.send('later', { messageId: 'm-later', at })
    const first = await short.temporal.workflow.getHandle(workflowIdOf(id)).describe()
    await until(
      'it continues as new',
      async () => {
        await (await session.send('more')).result(TIMEOUT)
        return (await short.temporal.workflow.getHandle(workflowIdOf(id)).describe()).runId !== first.runId
      },
      60_000,
    )
    expect((await session.run('m-later').result(TIMEOUT)).text).toBe('done')
    const received = ofType(await eventsOf(session), 'message_received').filter(({ messageId }) => messageId === 'm-later')
    expect(received).toHaveLength(1)
    expect(requests.filter((request) => saidIn(request).includes('later')).length).toBeGreaterThan(0)
    await rowsMatchEvents(short.stack, id)
  })

  it('a scheduled message of more than 4,000 bytes waits in the side store, and the model sees all of it', async () => {
    const text = `${'long '.repeat(3_000)}end`
    const { session, requests } = player.play(here.pawl, answer)
    const run = await session.send(text, { delay: 700 })
    await until('it is scheduled', async () => (await session.scheduled()).length === 1)
    expect(JSON.stringify(await session.scheduled()).length).toBeLessThan(2_000)
    await run.result(TIMEOUT)
    expect(saidIn(requests[0] as never)).toContain(text)
  })

  it('a scheduled message may be 400 days ahead', async () => {
    const { session } = player.play(here.pawl, answer)
    await session.send('next year', { delay: '400d' })
    await until('it is scheduled', async () => (await session.scheduled()).length === 1)
    await session.close({ unschedule: true })
  })

  it('a scheduled message is refused before it is sent if its time is impossible', async () => {
    const { session } = player.play(here.pawl, answer)
    const refused = (options: object) =>
      expect(session.send('x', options as never), JSON.stringify(options)).rejects.toSatisfy(
        (error: InvalidOptionError) => error.code === 'invalid_option',
      )
    for (const at of ['tomorrow', '2026-12-24', '2026-12-24T18:00:00', Number.NaN, -1, 1.5, new Date(Number.NaN), Date.now() * 1_000]) {
      await refused({ at })
    }
    for (const delay of ['soon', -1, '11y', Number.POSITIVE_INFINITY]) await refused({ delay })
    await refused({ at: Date.now() + 1_000, delay: '1s' })
  })

  it('a scheduled message is rejected by its session if its time is impossible, or if the session has no room for it', async () => {
    const { session, id } = player.play(here.pawl, answer)
    await (await session.send('hello')).result(TIMEOUT)
    const workflow = here.temporal.workflow.getHandle(workflowIdOf(id))
    await workflow.signal(SIGNALS.message, { messageId: 'odd', content: 'x', at: 'soon' })
    await workflow.signal(SIGNALS.message, { messageId: 'large', content: 'x'.repeat(5_000), at: Date.now() + 3_600_000 })
    for (let n = 0; n < 20; n++) {
      await workflow.signal(SIGNALS.message, { messageId: `m${n}`, content: 'x'.repeat(3_800), at: Date.now() + 3_600_000 })
    }
    await expect(session.run('odd').result(TIMEOUT)).rejects.toMatchObject({ code: 'invalid_time' })
    await expect(session.run('large').result(TIMEOUT)).rejects.toMatchObject({ code: 'message_too_large' })
    await expect(session.run('m19').result(TIMEOUT)).rejects.toMatchObject({ code: 'inbox_full' })
    // Ordinary messages still have room.
    await (await session.send('hello again')).result(TIMEOUT)
    expect((await session.scheduled()).length).toBeGreaterThan(10)
  })

  it('a scheduled message is delivered after its run ended, when it came while a call was in progress in a paused session', async () => {
    const { session } = player.play(here.pawl, { model: inOrder([use('put', 'it')], 'done', 'then') })
    await (await session.send('go')).result(TIMEOUT)
    await session.pause()
    const run = await session.send('later', { delay: 500 })
    await until('it is delivered', async () => (await session.state()).queued === 1)
    await session.unpause()
    expect((await run.result(TIMEOUT)).text).toBe('then')
  })

  it('a scheduled message is delivered once its workflow runs again, if that was terminated', async () => {
    const { session, id } = player.play(here.pawl, answer)
    await (await session.send('hello')).result(TIMEOUT)
    const run = await session.send('later', { messageId: `m-${randomUUID()}`, delay: 1_000 })
    await until('it is stored', async () => (await here.pawl.sessions.get(id)).flushedSeq >= (await session.state()).seq)
    await here.temporal.workflow.getHandle(workflowIdOf(id)).terminate('by the test')
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    await session.resume()
    expect((await run.result(TIMEOUT)).text).toBe('done')
  })
})
