// Tools that are answered from outside: by a form, a browser or a person.
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

describe('a call to a client tool', () => {
  it('a call to a client tool waits for its answer, which the model then receives', async () => {
    const { session, requests, entered } = asker.play(here.pawl, { model: once(['form', 'terms']) })
    const run = await session.send('go')
    const [call] = await pendingOf(run)
    expect(call).toEqual({ kind: 'client', callId: 't_1_1_0', turn: 1, tool: 'form', input: { what: 'terms' } })
    expect((await session.state()).status).toBe('waiting')
    await session.answer('t_1_1_0', { agreed: true }, { by: 'customer' })
    await run.result(TIMEOUT)
    expect(resultsIn(requests.at(-1)!)).toEqual([{ id: 't_1_1_0', content: '{"agreed":true}', isError: false }])
    expect(entered()).toEqual([])
    const events = await eventsOf(session)
    expect(ofType(events, 'answer_received')).toMatchObject([{ callId: 't_1_1_0', by: 'customer' }])
    const row = await until('it is stored', async () => {
      const [found] = await session.toolCalls()
      return found?.status === 'completed' && found
    })
    expect(row).toMatchObject({ result: { agreed: true }, waitingUntil: null })
  })

  it('a call to a client tool refuses an answer of the wrong shape, and nothing changes', async () => {
    const { session } = asker.play(here.pawl, { model: once(['form', 'terms']) })
    const run = await session.send('go')
    await pendingOf(run)
    const { seq } = await session.state()
    for (const wrong of ['yes', null, {}, { agreed: 'maybe' }]) {
      expect(await codeOf(session.answer('t_1_1_0', wrong))).toBe('invalid_answer')
    }
    expect(await codeOf(session.answer('t_1_1_0', undefined as never))).toBe('invalid_option')
    expect(await codeOf(session.answer('t_1_1_0', 'x'.repeat(1_100_000)))).toBe('invalid_request')
    expect((await session.state()).seq).toBe(seq)
    expect(await pendingOf(run)).toHaveLength(1)
    await session.answer('t_1_1_0', { agreed: false })
    await run.result(TIMEOUT)
  })

  it('a call to a client tool is answered only once', async () => {
    const { session, requests } = asker.play(here.pawl, { model: once(['form', 'terms'], ['ask', 'x']) })
    const run = await session.send('go')
    await pendingOf(run)
    const outcomes = await Promise.all([
      codeOf(session.answer('t_1_1_0', { agreed: true })),
      codeOf(session.answer('t_1_1_0', { agreed: false })),
    ])
    expect(outcomes.sort()).toEqual(['accepted', 'not_waiting'])
    expect(await codeOf(session.answer('t_1_1_0', { agreed: false }))).toBe('not_waiting')
    await session.answer('t_1_1_1', 'x it is')
    await run.result(TIMEOUT)
    expect(await codeOf(session.answer('t_1_1_0', { agreed: true }))).toBe('call_not_found')
    expect(resultsIn(requests.at(-1)!)).toHaveLength(2)
    expect(ofType(await eventsOf(session), 'answer_received')).toHaveLength(2)
  })

  it('a call to a client tool that is not answered in time returns an error to the model', async () => {
    const { session, requests } = asker.play(here.pawl, { model: once(['quick', 'x'], ['look', 'y']) })
    const run = await session.send('go')
    await run.result(TIMEOUT)
    expect(resultsIn(requests.at(-1)!)).toMatchObject([
      { isError: true, content: 'The call was not answered in time.' },
      { isError: false },
    ])
    expect(ofType(await eventsOf(session), 'tool_failed')).toMatchObject([{ code: 'answer_timeout' }])
    expect(await codeOf(session.answer('t_1_1_0', 'late'))).toBe('call_not_found')
  })

  it('a call to a client tool does not hold up other calls, and several can be answered in any order', async () => {
    const { session, requests, entered } = asker.play(here.pawl, {
      model: once(['form', 'a'], ['put', 'b'], ['ask', 'c'], ['look', 'd'], ['form', 'e']),
    })
    const run = await session.send('go')
    await until('the others are done', () => entered().length === 2)
    expect((await pendingOf(run)).map(({ callId }) => callId)).toEqual(['t_1_1_0', 't_1_1_2', 't_1_1_4'])
    await session.answer('t_1_1_4', { agreed: true })
    await session.answer('t_1_1_0', { agreed: false })
    expect((await session.state()).status).toBe('waiting')
    await session.answer('t_1_1_2', ['c', 2])
    await run.result(TIMEOUT)
    expect(resultsIn(requests.at(-1)!).map(({ content }) => content)).toEqual([
      '{"agreed":false}',
      'put b done',
      '["c",2]',
      'look d done',
      '{"agreed":true}',
    ])
  })

  it('a client tool’s call may need approval first; its tool sets the effect id and how the model sees the answer', async () => {
    const { session, requests } = asker.play(here.pawl, { model: once(['sign', 'contract']) })
    const run = await session.send('go')
    expect(await pendingOf(run)).toMatchObject([{ kind: 'approval' }])
    expect(await codeOf(session.answer('t_1_1_0', 'me'))).toBe('not_waiting')
    await session.approve('t_1_1_0', { digest: await digestOf(run, 't_1_1_0') })
    await until('it is asked', async () => (await pendingOf(run))[0]?.kind === 'client')
    await session.answer('t_1_1_0', 'Ann')
    await run.result(TIMEOUT)
    expect(resultsIn(requests.at(-1)!)).toMatchObject([{ content: 'signed as "Ann"' }])
    expect(ofType(await eventsOf(session), 'tool_completed')).toMatchObject([{ value: 'Ann', effectId: 'Ann' }])
  })

  it('a client tool is not asked again about a call whose key has already been answered', async () => {
    const { session, requests } = asker.play(here.pawl, { model: inOrder([use('form', 'a')], [use('form', 'a')]) })
    const run = await session.send('go')
    await pendingOf(run)
    await session.answer('t_1_1_0', { agreed: true })
    await run.result(TIMEOUT)
    expect(resultsIn(requests.at(-1)!)).toMatchObject([{ content: '[idempotent replay of t_1_1_0]\n{"agreed":true}' }])
  })
})
