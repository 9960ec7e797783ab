// Approvals: which calls need one, what happens to the rest of the turn in the meantime, and that nothing is decided twice.
import type { SessionEvent } from 'pawl'
import { RunFailedError, type SessionHandle } from 'pawl/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { codeOf } from '../support/codes.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { digestOf, pendingOf, type ApprovalStage, approvalStage, once } from '../support/approvals.ts'
import { inOrder, resultsIn, use } from '../support/scenes.ts'
import { until } from '../support/until.ts'

let here: Deployment
let asker: ApprovalStage

beforeAll(async () => {
  here = await deploy()
  asker = approvalStage()
  await here.startWorker({ agents: [asker.agent] })
})
afterAll(() => here?.stop())

const TIMEOUT = { timeout: 30_000 }

/** What the work adds to the session's events. */
async function addedBy(session: SessionHandle, work: () => Promise<unknown>): Promise<SessionEvent[]> {
  const before = (await session.state()).seq
  await work()
  const { seq } = await session.state()
  return seq === before ? [] : eventsOf(session, before)
}

describe('a call that needs approval', () => {
  it('a call that needs approval waits until exactly its arguments are approved, and is executed once', async () => {
    const { session, entered } = asker.play(here.pawl, { model: once(['pay', 'rent', 500]) })
    const run = await session.send('go')
    const pending = await pendingOf(run)
    expect(pending).toEqual([
      {
        kind: 'approval',
        callId: 't_1_1_0',
        turn: 1,
        tool: 'pay',
        input: { what: 'rent', n: 500 },
        digest: expect.stringMatching(/^[0-9a-f]+$/),
        expiresAt: expect.any(Number),
      },
    ])
    expect((await session.state()).status).toBe('waiting')
    expect(entered()).toEqual([])
    const digest = pending[0]!.digest!
    expect(await session.approve('t_1_1_0', { digest, by: 'ann', note: 'seen the bill' })).toEqual({ digest })
    expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'completed' })
    expect(entered()).toEqual(['pay rent'])
    const events = await eventsOf(session)
    expect(ofType(events, 'approval_decided')).toMatchObject([{ approved: true, digest, by: 'ann', note: 'seen the bill' }])
    expect(events.map(({ type }) => type).filter((type) => /tool|approval/.test(type))).toEqual([
      'tool_issued',
      'approval_requested',
      'approval_decided',
      'tool_completed',
    ])
  })

  it('a call needs approval if its tool says so, and its request carries the tool’s reason', async () => {
    const { session, entered } = asker.play(here.pawl, {
      model: once(['pay', 'tip', 5], ['pay', 'house', 900]),
      approval: ({ n = 0 }, { callId, agent }) => n > 100 && `${agent} wants ${n} (${callId})`,
    })
    const run = await session.send('go')
    const pending = await until('the cheap one is paid', async () => entered().length === 1 && pendingOf(run))
    expect(entered()).toEqual(['pay tip'])
    expect(pending).toMatchObject([{ callId: 't_1_1_1', reason: 'helped wants 900 (t_1_1_1)' }])
    await session.deny('t_1_1_1', { digest: pending[0]!.digest! })
    await run.result(TIMEOUT)
  })

  it('a call also needs approval if its tool’s approval function fails', async () => {
    const { session, entered } = asker.play(here.pawl, {
      model: once(['pay', 'rent']),
      approval: () => Promise.reject(new Error('the rules are lost')),
    })
    const run = await session.send('go')
    expect(await pendingOf(run)).toMatchObject([{ reason: expect.stringContaining('the rules are lost') }])
    expect(entered()).toEqual([])
    await session.interrupt()
    expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'interrupted' })
  })

  it('a call that needs approval is not executed if it is denied, and the model learns why', async () => {
    const { session, requests, entered } = asker.play(here.pawl, { model: once(['pay', 'rent']) })
    const run = await session.send('go')
    await session.deny('t_1_1_0', { digest: await digestOf(run, 't_1_1_0'), by: 'bob', reason: 'no money left' })
    await run.result(TIMEOUT)
    expect(entered()).toEqual([])
    expect(resultsIn(requests.at(-1)!)).toEqual([
      { id: 't_1_1_0', isError: true, content: 'This call was not approved and was not executed. Reason: no money left' },
    ])
    const [row] = await until('it is stored', async () => {
      const rows = await session.toolCalls()
      return rows[0]?.status === 'denied' && rows
    })
    expect(row).toMatchObject({ approval: { decision: 'denied', decidedBy: 'bob' }, error: { code: 'denied' } })
  })

  it('no approval is requested for a call whose arguments are invalid, or that was executed before', async () => {
    const { session, entered } = asker.play(here.pawl, {
      model: inOrder([use('pay', 'rent')], [use('pay', 'rent'), { type: 'tool_use', id: 'x', name: 'pay', input: { wat: 1 } }]),
    })
    const run = await session.send('go')
    await session.approve('t_1_1_0', { digest: await digestOf(run, 't_1_1_0') })
    await run.result(TIMEOUT)
    expect(entered()).toEqual(['pay rent'])
    const events = await eventsOf(session)
    expect(ofType(events, 'approval_requested')).toHaveLength(1)
    expect(ofType(events, 'tool_completed').at(-1)).toMatchObject({ callId: 't_1_2_0', replayOf: 't_1_1_0' })
    expect(ofType(events, 'tool_failed')).toMatchObject([{ callId: 't_1_2_1', code: 'invalid_arguments' }])
  })
})

describe('the other calls of the turn', () => {
  it('a turn requests all its approvals at once, runs its other calls meanwhile, and keeps the order of effects', async () => {
    const { session, entered } = asker.play(here.pawl, {
      model: once(['put', 'first'], ['pay', 'a'], ['look', 'around'], ['put', 'after a'], ['peek', 'inside'], ['pay', 'b']),
    })
    const run = await session.send('go')
    const pending = await pendingOf(run)
    expect(pending.map(({ callId }) => callId)).toEqual(['t_1_1_1', 't_1_1_4', 't_1_1_5'])
    await until('what needs no approval is done', () => entered().length === 2)
    expect(entered()).toEqual(['put first', 'look around'])
    const digest = (callId: string) => pending.find((call) => call.callId === callId)!.digest!
    // Approvals may come in any order: a read is executed at once, an effect when its turn comes.
    await session.approve('t_1_1_5', { digest: digest('t_1_1_5') })
    await session.approve('t_1_1_4', { digest: digest('t_1_1_4') })
    await until('the read is done', () => entered().includes('peek inside'))
    await until('the session waits again', async () => (await session.state()).status === 'waiting')
    expect(entered()).not.toContain('pay b')
    await session.approve('t_1_1_1', { digest: digest('t_1_1_1') })
    await run.result(TIMEOUT)
    expect(entered().filter((what) => /^(put|pay)/.test(what))).toEqual(['put first', 'pay a', 'put after a', 'pay b'])
    expect(entered()).toHaveLength(6)
  })

  it('when a call is denied, the other calls of its turn keep their results', async () => {
    const { session, requests } = asker.play(here.pawl, { model: once(['look', 'x'], ['pay', 'a'], ['put', 'y']) })
    const run = await session.send('go')
    await session.deny('t_1_1_1', { digest: await digestOf(run, 't_1_1_1') })
    await run.result(TIMEOUT)
    expect(resultsIn(requests.at(-1)!)).toMatchObject([
      { content: 'look x done', isError: false },
      { isError: true },
      { content: 'put y done', isError: false },
    ])
  })
})

describe('a decision', () => {
  it('a decision that is malformed, repeated, about another call or with a wrong digest is refused and leaves no trace', async () => {
    const { session, entered } = asker.play(here.pawl, { model: once(['pay', 'a'], ['look', 'x']) })
    const run = await session.send('go')
    const digest = await digestOf(run, 't_1_1_0')
    await until('the look is done', () => entered().length === 1)
    const history = async () => (await here.temporal.workflow.getHandle(`pawl:${session.id}`).fetchHistory()).events?.length
    const refusals = async () => {
      expect(await codeOf(session.approve('t_1_1_0', { digest: 'another' }))).toBe('digest_mismatch')
      expect(await codeOf(session.deny('t_1_1_0', { digest: 'another' }))).toBe('digest_mismatch')
      expect(await codeOf(session.approve('t_1_1_1', { digest }))).toBe('not_waiting')
      expect(await codeOf(session.approve('t_9_9_9', { digest }))).toBe('call_not_found')
      expect(await codeOf(session.answer('t_1_1_0', 'yes'))).toBe('not_waiting')
      expect(await codeOf(session.resolve('t_1_1_0', { happened: false }))).toBe('not_unknown')
      for (const nonsense of [null, 7, 'x', [], {}, { callId: {} }, { callId: '__proto__', resolution: 'retry' }]) {
        const handle = here.temporal.workflow.getHandle(`pawl:${session.id}`)
        for (const update of ['approve', 'deny', 'resolve', 'answer']) {
          await expect(handle.executeUpdate(update, { args: [nonsense] })).rejects.toThrow()
        }
      }
    }
    const before = await until('the session is at rest', async () => {
      const length = await history()
      const { seq } = await session.state()
      const stored = await session.toolCalls()
      return stored.length === 2 && seq > 0 && length === (await history()) && length
    })
    expect(await addedBy(session, refusals)).toEqual([])
    expect(await history()).toBe(before)
    await session.approve('t_1_1_0', { digest })
    expect(await codeOf(session.approve('t_1_1_0', { digest }))).toMatch(/not_waiting|call_not_found/)
    expect(await codeOf(session.deny('t_1_1_0', { digest }))).toMatch(/not_waiting|call_not_found/)
    await run.result(TIMEOUT)
    expect(await codeOf(session.deny('t_1_1_0', { digest }))).toBe('call_not_found')
    expect(ofType(await eventsOf(session), 'approval_decided')).toHaveLength(1)
    expect(entered()).toEqual(['look x', 'pay a'])
  })

  it('a decision made by several people at once counts once', async () => {
    const { session, entered } = asker.play(here.pawl, { model: once(['pay', 'a']) })
    const run = await session.send('go')
    const digest = await digestOf(run, 't_1_1_0')
    const input = { what: 'b' }
    const outcomes = await Promise.all([
      codeOf(session.approve('t_1_1_0', { digest, input, by: 'ann' })),
      codeOf(session.approve('t_1_1_0', { digest, by: 'bob' })),
      codeOf(session.deny('t_1_1_0', { digest, by: 'cid' })),
    ])
    expect(outcomes.filter((outcome) => outcome === 'accepted')).toHaveLength(1)
    await run.result(TIMEOUT)
    expect(ofType(await eventsOf(session), 'approval_decided')).toHaveLength(1)
    expect(entered().length).toBeLessThanOrEqual(1)
  })

  it('a decision may change the arguments, which then have their own digest and key, and count as executed', async () => {
    const { session, entries, entered, requests } = asker.play(here.pawl, {
      model: inOrder([use('pay', 'a', 900)], [use('pay', 'a', 900)], [use('pay', 'a', 90)]),
    })
    const run = await session.send('go')
    const digest = await digestOf(run, 't_1_1_0')
    const changed = await session.approve('t_1_1_0', { digest, input: { what: 'a', n: 90 }, by: 'ann' })
    expect(changed.digest).not.toBe(digest)
    const second = await until('the model asks again', async () => {
      const [call] = await pendingOf(run)
      return call?.callId === 't_1_2_0' && call
    })
    // The call that the model wanted at first was not done, so it needs approval again.
    expect(second).toMatchObject({ input: { what: 'a', n: 900 }, digest })
    await session.approve('t_1_2_0', { digest })
    await run.result(TIMEOUT)
    expect(entries.map(({ input: { n } }) => n)).toEqual([90, 900])
    expect(new Set(entries.map(({ key }) => key)).size).toBe(2)
    // The call that replaced it was done, so it is not done again.
    expect(resultsIn(requests.at(-1)!)).toMatchObject([
      { id: 't_1_3_0', content: expect.stringContaining('[idempotent replay of t_1_1_0]') },
    ])
    expect(entered()).toHaveLength(2)
    const [decided] = ofType(await eventsOf(session), 'approval_decided')
    expect(decided).toMatchObject({ digest, approved: true, input: { what: 'a', n: 90 }, resolution: { inputDigest: changed.digest } })
    const row = await until('it is stored', async () => (await session.toolCalls()).find(({ callId }) => callId === 't_1_1_0'))
    expect(row).toMatchObject({ status: 'completed', input: { n: 90 }, key: entries[0]!.key, approval: { edited: true, decidedBy: 'ann' } })
  })

  it('a decision is refused if its new arguments are invalid, or if the call was executed with them before', async () => {
    const { session, entered } = asker.play(here.pawl, { model: inOrder([use('pay', 'a')], [use('pay', 'b')]) })
    const run = await session.send('go')
    const digest = await digestOf(run, 't_1_1_0')
    const refused = () => session.approve('t_1_1_0', { digest, input: { wat: 1 } })
    await expect(refused()).rejects.toMatchObject({
      name: 'RequestRefusedError',
      code: 'invalid_arguments',
      message: expect.stringContaining('what'),
    })
    expect(await codeOf(session.approve('t_1_1_0', { digest, input: { what: 'x'.repeat(1_100_000) } }))).toBe('invalid_request')
    await session.approve('t_1_1_0', { digest })
    const next = await until('the second is asked for', async () => (await pendingOf(run)).find(({ callId }) => callId === 't_1_2_0'))
    expect(await codeOf(session.approve('t_1_2_0', { digest: next.digest!, input: { what: 'a' } }))).toBe('already_completed')
    await session.deny('t_1_2_0', { digest: next.digest! })
    await run.result(TIMEOUT)
    expect(entered()).toEqual(['pay a'])
  })
})

describe('a request that is not decided in time', () => {
  it('a request that is not decided in time is denied, and the model is told', async () => {
    const { session, requests, entered } = asker.play(here.pawl, { model: once(['hurry', 'a'], ['look', 'x']) })
    const run = await session.send('go')
    expect(await run.result(TIMEOUT)).toMatchObject({ run: 1 })
    expect(entered()).toEqual(['look x'])
    expect(resultsIn(requests.at(-1)!)).toMatchObject([{ isError: true, content: expect.stringContaining('in time') }, { isError: false }])
    const events = await eventsOf(session)
    const [requested] = ofType(events, 'approval_requested')
    expect(ofType(events, 'approval_decided')).toMatchObject([{ approved: false, expired: true, digest: requested!.digest }])
    const row = await until('it is stored', async () => {
      const rows = await session.toolCalls()
      return rows[0]?.status === 'denied' && rows[0]
    })
    expect(row).toMatchObject({ approval: { decision: 'expired', decidedBy: null } })
    expect(await codeOf(session.approve('t_1_1_0', { digest: requested!.digest }))).toBe('call_not_found')
  })

  it('an approval request that expires fails the run if the tool says so; the other calls stay as they are', async () => {
    const { session, entered } = asker.play(here.pawl, { model: once(['strict', 'a'], ['pay', 'b']) })
    const run = await session.send('go')
    await expect(run.result(TIMEOUT)).rejects.toBeInstanceOf(RunFailedError)
    expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'failed', code: 'approval_expired' })
    const rows = await until('it is stored', async () => {
      const found = await session.toolCalls()
      return found.length === 2 && found[0]?.status === 'denied' && found
    })
    expect(rows.map(({ status }) => status)).toEqual(['denied', 'awaiting_approval'])
    expect(await here.pawl.sessions.get(session.id)).toMatchObject({ status: 'error', waiting: 1 })
    const [, { digest } = {}] = ofType(await eventsOf(session), 'approval_requested')
    expect(await codeOf(session.approve('t_1_1_1', { digest: digest! }))).toBe('accepted')
    expect(entered()).toEqual([])
    await session.recover({ strategy: 'continue_run' })
    await until('the approved call is executed, and the run ends', async () => (await session.state()).status === 'idle')
    expect(entered()).toHaveLength(1)
    expect(await (await session.send('again')).result(TIMEOUT)).toMatchObject({ run: 2 })
  })

  it('an expired approval request cannot be decided, even while the turn is busy with something else', async () => {
    const { session, entered } = asker.play(here.pawl, {
      model: once(['put', 'slow'], ['hurry', 'a']),
      body: async (tool) => {
        if (tool !== 'put') return undefined
        await until('the request has expired', async () => {
          const [asked] = ofType(await eventsOf(session), 'approval_requested')
          return asked && Date.now() > asked.expiresAt
        })
        return codeOf(session.approve('t_1_1_1', { digest: ofType(await eventsOf(session), 'approval_requested')[0]!.digest }))
      },
    })
    const run = await session.send('go')
    await run.result(TIMEOUT)
    expect(entered()).toEqual(['put slow'])
    expect(ofType(await eventsOf(session), 'tool_completed')).toMatchObject([{ callId: 't_1_1_0', value: 'approval_expired' }])
  })

  it('an expired request stays undecidable after its workflow was terminated; the session resumes and tells the model', async () => {
    const { session, entered, requests } = asker.play(here.pawl, { model: once(['linger', 'a']) })
    const run = await session.send('go')
    const [{ digest, expiresAt } = {}] = await pendingOf(run)
    await here.temporal.workflow.getHandle(`pawl:${session.id}`).terminate('so that no execution sees it expire')
    await until('the request has expired', () => Date.now() > (expiresAt ?? Number.POSITIVE_INFINITY))
    expect(await codeOf(session.approve('t_1_1_0', { digest: digest! }))).toMatch(/^(approval_expired|not_waiting|call_not_found)$/)
    expect(await run.result(TIMEOUT)).toMatchObject({ run: 1 })
    expect(entered()).toEqual([])
    expect(resultsIn(requests.at(-1)!)).toMatchObject([{ isError: true, content: expect.stringContaining('in time') }])
  })
})
