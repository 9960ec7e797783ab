// A session that waits for a person: through continue-as-new, the end of its workflow, interrupts, closes, rollbacks and forks.
import { setTimeout as sleep } from 'node:timers/promises'
import type { SessionHandle } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { codeOf } from '../support/codes.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { digestOf, pendingOf, type ApprovalStage, approvalStage, once } from '../support/approvals.ts'
import { inOrder, resultsIn, saidIn, use } from '../support/scenes.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { until } from '../support/until.ts'
import { size } from '../support/sizes.ts'

/** The events of history at which sessions continue as new, and a little less than that. */
const DUE = size(200, 1_000)
const ALMOST_DUE = 0.8 * DUE
const DEADLINE_MS = 15_000

let here: Deployment
let asker: ApprovalStage
let hurried: ApprovalStage

beforeAll(async () => {
  here = await deploy({ history: { events: DUE } })
  asker = approvalStage()
  hurried = approvalStage({ name: 'hurried', limits: { deadline: DEADLINE_MS } })
  await here.startWorker({ agents: [asker.agent, hurried.agent] })
})
afterAll(() => here?.stop())

const TIMEOUT = { timeout: 60_000 }
const workflowOf = (id: string) => here.temporal.workflow.getHandle(`pawl:${id}`)

/** Makes the execution of a session nearly as long as one may be, so that it soon continues as new. */
async function nearlyFull(session: SessionHandle): Promise<void> {
  await (await session.send('hello')).result(TIMEOUT)
  const lengthOf = async () => (await workflowOf(session.id).describe()).historyLength
  for (let length = await lengthOf(); length < ALMOST_DUE; ) {
    const before = length
    await Promise.all(Array.from({ length: 25 }, () => workflowOf(session.id).signal('nonsense', 1)))
    length = await until('they have arrived', async () => {
      const now = await lengthOf()
      return now > before && now
    })
  }
}

/** Repeats an action, each time once everything is stored, until the session continues in a new execution. */
async function untilContinued(session: SessionHandle, again: () => Promise<unknown>): Promise<void> {
  const executionOf = async () => (await workflowOf(session.id).describe()).runId
  const first = await executionOf()
  const isStored = async () => (await here.pawl.sessions.get(session.id)).flushedSeq >= (await session.state()).seq
  while ((await executionOf()) === first) {
    await again()
    await until('it is stored', async () => (await isStored()) || (await executionOf()) !== first)
  }
}

describe('while a session waits', () => {
  it('the run of a waiting session reports that it waits, even when asked again, until a person has decided', async () => {
    const { session } = asker.play(here.pawl, { model: inOrder([use('pay', 'a')], [use('pay', 'b')]) })
    const run = await session.send('go')
    const [first] = await pendingOf(run)
    expect(await pendingOf(session.run(run.messageId))).toEqual([first])
    await session.approve('t_1_1_0', { digest: first!.digest! })
    // A decided request is not reported again, however far behind the store is.
    expect(await pendingOf(run)).toMatchObject([{ callId: 't_1_2_0' }])
    await session.deny('t_1_2_0', { digest: await digestOf(run, 't_1_2_0') })
    expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'completed' })
    expect(await session.run(run.messageId).settled(TIMEOUT)).toMatchObject({ status: 'completed' })
  })

  it('the list of sessions shows which of them wait', async () => {
    const { session, id } = asker.play(here.pawl, { model: once(['pay', 'a'], ['form', 'b']) })
    await pendingOf(await session.send('go'))
    expect(await here.pawl.sessions.get(id)).toMatchObject({ status: 'waiting', waiting: 2 })
    await session.interrupt()
    await until('no call waits', async () => (await here.pawl.sessions.get(id)).waiting === 0)
  })

  it('messages to a waiting session join its run once it continues', async () => {
    const { session, requests } = asker.play(here.pawl, { model: once(['pay', 'a']) })
    const run = await session.send('go')
    const digest = await digestOf(run, 't_1_1_0')
    const steered = await session.send('and hurry')
    await session.approve('t_1_1_0', { digest })
    expect((await steered.result(TIMEOUT)).run).toBe(1)
    expect(saidIn(requests.at(-1)!)).toEqual(['go', 'and hurry'])
  })

  it('a waiting session continues as new with its requests, their expiry times, and the messages that were sent', async () => {
    const { session, requests, entered } = asker.play(here.pawl, {
      model: inOrder('hi', [use('pay', 'a'), use('hurry', 'b'), use('form', 'c'), use('post', 'd')]),
    })
    await nearlyFull(session)
    const run = await session.send('go')
    const before = await pendingOf(run)
    expect(before.map(({ tool }) => tool)).toContain('pay')
    let sent = 0
    await untilContinued(session, async () => {
      const batch = Array.from({ length: 10 }, () => `m${sent++}`)
      await Promise.all(batch.map((messageId) => workflowOf(session.id).signal('message', { messageId, content: messageId })))
      await until('they have arrived', async () => (await session.state()).queued === sent)
    })
    const after = await until('the short request has expired', async () => {
      const pending = await pendingOf(run)
      return pending.length === 2 && pending
    })
    const pay = before.find(({ tool }) => tool === 'pay')!
    expect(after.find(({ tool }) => tool === 'pay')).toEqual(pay)
    await session.answer('t_2_1_2', { agreed: true })
    await session.approve('t_2_1_0', { digest: pay.digest! })
    await run.result(TIMEOUT)
    expect(entered()).toEqual(['pay a', 'post d'])
    expect(saidIn(requests.at(-1)!)).toHaveLength(2 + sent)
    expect(resultsIn(requests.at(-1)!)).toMatchObject([{ isError: false }, { isError: true }, { isError: false }, { isError: false }])
  })

  it('the deadline of a waiting session’s run keeps running, even in the next execution', async () => {
    const { session, entered } = hurried.play(here.pawl, { model: inOrder('hi', [use('pay', 'a')]) })
    await nearlyFull(session)
    const run = await session.send('go')
    const digest = await digestOf(run, 't_2_1_0')
    await untilContinued(session, () => Promise.all(Array.from({ length: 10 }, () => workflowOf(session.id).signal('nonsense', 1))))
    await expect(run.result(TIMEOUT)).rejects.toMatchObject({ code: 'deadline_exceeded' })
    const events = await eventsOf(session)
    const [started, failed] = [ofType(events, 'run_started')[1]!, ofType(events, 'error_entered')[0]!]
    expect(failed.at - started.at).toBeGreaterThanOrEqual(DEADLINE_MS)
    // The call can be approved for when the run is continued, and is not executed before that.
    await session.approve('t_2_1_0', { digest })
    expect((await session.state()).status).toBe('error')
    expect(entered()).toEqual([])
  })

  it('while a session waits, its workflow may end, and a decision opens it again', async () => {
    const { session, id, requests, entered } = asker.play(here.pawl, { model: once(['pay', 'a'], ['form', 'b'], ['look', 'c']) })
    const run = await session.send('go')
    const digest = (await pendingOf(run)).find(({ tool }) => tool === 'pay')!.digest!
    const isStored = async () => (await session.toolCalls()).filter(({ status }) => /^(awaiting|completed)/.test(status)).length === 3
    await until('all is stored', isStored)
    await workflowOf(id).terminate('a test')
    expect((await session.state()).status).toBe('waiting')
    expect(await pendingOf(run)).toHaveLength(2)
    await session.answer('t_1_1_1', { agreed: true })
    await until('that is stored', async () =>
      (await session.toolCalls()).some(({ tool, status }) => tool === 'form' && status === 'completed'),
    )
    await workflowOf(id).terminate('a test')
    await session.approve('t_1_1_0', { digest })
    await run.result(TIMEOUT)
    expect(entered().toSorted()).toEqual(['look c', 'pay a'])
    expect(resultsIn(requests.at(-1)!)).toMatchObject([{ isError: false }, { content: '{"agreed":true}' }, { isError: false }])
    expect(ofType(await eventsOf(session), 'approval_requested')).toHaveLength(1)
  })

  it('a call with an unknown outcome survives the end of its workflow', async () => {
    const { session, id, entries } = asker.play(here.pawl, {
      model: once(['post', 'a']),
      body: (_tool, _input, { attempt }) => {
        if (attempt === 1) throw new Error('lost')
      },
    })
    const run = await session.send('go')
    await pendingOf(run)
    await until('that is stored', async () => (await session.toolCalls())[0]?.status === 'unknown')
    await workflowOf(id).terminate('a test')
    await session.resolve('t_1_1_0', 'retry')
    await run.result(TIMEOUT)
    expect(entries.map(({ attempt }) => attempt)).toEqual([1, 2])
  })

  it('a regeneration that is refused while a session waits changes nothing', async () => {
    const lost = () => {
      throw new Error('lost')
    }
    const { session } = asker.play(here.pawl, { model: once(['post', 'a']), body: lost })
    const run = await session.send('go')
    await pendingOf(run)
    await expect(session.regenerate()).rejects.toMatchObject({ code: 'outcome_unknown', message: expect.stringContaining('t_1_1_0') })
    expect(await session.status()).toMatchObject({ status: 'waiting', waitsFor: [{ for: 'person', to: 'resolve', callId: 't_1_1_0' }] })
    await session.resolve('t_1_1_0', { happened: true, result: 'posted' })
    await run.result(TIMEOUT)
  })

  it('an effect that may have happened needs a person even after an interrupt, until it is settled or the session closed', async () => {
    const lost = () => {
      throw new Error('lost')
    }
    for (const end of ['resolve', 'undo', 'close'] as const) {
      const { session, id } = asker.play(here.pawl, { model: once(['post', 'a']), body: lost })
      const run = await session.send('go', { messageId: 'go' })
      await pendingOf(run)
      await session.interrupt({ by: 'ann' })
      await run.settled(TIMEOUT)
      const needs = async () => (await here.pawl.overview({ limit: 1_000 })).items.find(({ sessionId }) => sessionId === id)?.needs
      const pending = async () => (await here.pawl.pending.list({ session: id })).items.map(({ callId, kind }) => [callId, kind])
      await until('it is listed', async () => (await needs()) === 'resolution')
      expect(await pending()).toEqual([['t_1_1_0', 'unknown']])
      const { status, waitsFor } = await session.status()
      expect(status).toBe('idle')
      expect(waitsFor).toMatchObject([
        { for: 'person', to: 'resolve', callId: 't_1_1_0', tool: 'post', input: { what: 'a' } },
        { for: 'message' },
      ])
      expect(waitsFor[0]?.key).toBe((await session.toolCalls())[0]?.key)
      if (end === 'close') await session.close()
      else if (end === 'resolve') await session.resolve('t_1_1_0', { happened: false })
      else await session.rollback({ message: 'go', keys: 'forgotten' })
      await until('it is no longer listed', async () => (await needs()) === undefined)
      expect(await pending()).toEqual([])
      expect((await session.status()).waitsFor).toEqual([{ for: 'message' }])
      await rowsMatchEvents(here.stack, id)
    }
  })

  it('an interrupt ends the run of a waiting session, and its requests can no longer be decided', async () => {
    const { session, requests, entered } = asker.play(here.pawl, { model: inOrder([use('pay', 'a'), use('form', 'b')], 'ok') })
    const run = await session.send('go')
    const pending = await pendingOf(run)
    await session.interrupt({ by: 'ann' })
    expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'interrupted' })
    expect(await codeOf(session.approve('t_1_1_0', { digest: pending[0]!.digest! }))).toBe('call_not_found')
    expect(await codeOf(session.answer('t_1_1_1', { agreed: true }))).toBe('call_not_found')
    await (await session.send('two')).result(TIMEOUT)
    expect(resultsIn(requests.at(-1)!)).toMatchObject([{ isError: true }, { isError: true }])
    expect(entered()).toEqual([])
    const rows = await session.toolCalls()
    expect(rows.map(({ status, waitingUntil }) => [status, waitingUntil])).toEqual([
      ['skipped', null],
      ['skipped', null],
    ])
  })

  it('a close waits for a waiting run; a cancellation does not, and the session can be continued', async () => {
    const { session } = asker.play(here.pawl, { model: once(['pay', 'a']) })
    const run = await session.send('go')
    const digest = await digestOf(run, 't_1_1_0')
    await session.close({ by: 'ann' })
    expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'waiting' })
    await session.deny('t_1_1_0', { digest })
    await run.result(TIMEOUT)
    await until('it is closed', async () => (await session.state()).status === 'closed')

    const cancelled = asker.play(here.pawl, { model: inOrder([use('pay', 'a')], 'fine') })
    const second = await cancelled.session.send('go')
    await pendingOf(second)
    await workflowOf(cancelled.id).cancel()
    expect(await second.settled(TIMEOUT)).toMatchObject({ status: 'interrupted' })
    await until('it is closed', async () => (await cancelled.session.state()).status === 'closed')
    expect((await (await cancelled.session.send('again')).result(TIMEOUT)).text).toBe('fine')
  })

  it('a rollback drops the requests that a session waited for', async () => {
    const { session, requests, entered } = asker.play(here.pawl, {
      model: (request) => (saidIn(request).at(-1) === 'pay' ? [use('pay', 'a')] : `heard ${saidIn(request).at(-1)}`),
    })
    await (await session.send('one', { messageId: 'one' })).result(TIMEOUT)
    const run = await session.send('pay', { messageId: 'pay' })
    const digest = await digestOf(run, 't_2_1_0')
    await session.rollback({ message: 'pay' })
    expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'interrupted' })
    expect(await codeOf(session.approve('t_2_1_0', { digest }))).toBe('call_not_found')
    expect((await (await session.send('two')).result(TIMEOUT)).text).toBe('heard two')
    expect(saidIn(requests.at(-1)!)).toEqual(['one', 'two'])
    expect(entered()).toEqual([])
  })

  it('a client that is closed ends its waits for runs, its watches and its feeds with store_closed', async () => {
    const client = await here.connect()
    const withoutStore = await here.connect({ postgres: false })
    const { session, id } = asker.play(client, { model: once(['pay', 'a']) })
    const run = await session.send('go')
    await pendingOf(run)
    const all = async (items: AsyncIterable<unknown>): Promise<void> => {
      for await (const _ of items);
    }
    const warned: string[] = []
    const warn = ({ name }: Error): void => void warned.push(name)
    process.on('warning', warn)
    onTestFinished(() => void process.off('warning', warn))
    const waits = [
      // More than ten listeners look like a leak to Node.
      ...Array.from({ length: 12 }, () => run.result()),
      all(run.events()),
      all(run.stream()),
      all(session.watch()),
      all(session.events({ follow: true })),
      all(client.events({ follow: true })),
      withoutStore.session(id).run(run.messageId).result(),
      all(withoutStore.session(id).watch()),
    ].map(codeOf)
    // Each follows by then.
    await sleep(500)
    await Promise.all([client.close(), withoutStore.close()])
    expect(await Promise.all(waits)).toEqual(waits.map(() => 'store_closed'))
    expect(await codeOf(run.settled(TIMEOUT))).toBe('store_closed')
    expect(warned).toEqual([])
  }, 30_000)

  it('while a session waits, it can be forked; the fork does not wait, and the session still does', async () => {
    const { session, entered } = asker.play(here.pawl, { model: once(['pay', 'a']) })
    const run = await session.send('go')
    const digest = await digestOf(run, 't_1_1_0')
    const free = asker.play(here.pawl, { model: () => 'free' })
    // The fork begins where the waiting turn began.
    const copy = await session.fork({ id: free.id, interrupt: false })
    expect(await copy.state()).toMatchObject({ status: 'idle', current: null })
    expect((await (await copy.send('on')).result(TIMEOUT)).text).toBe('free')
    expect(saidIn(free.requests.at(-1)!)).toEqual(['go', 'on'])
    expect(await codeOf(copy.approve('t_1_1_0', { digest }))).toBe('call_not_found')
    await session.approve('t_1_1_0', { digest })
    await run.result(TIMEOUT)
    expect(entered()).toEqual(['pay a'])
  })
})
