// Calls with an unknown outcome: pawl asks `verify` first, then a person, and acts on what the person says.
import { ToolError } from 'pawl'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { codeOf } from '../support/codes.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { foldedState } from '../support/folded.ts'
import { pendingOf, type ApprovalScene, type ApprovalStage, approvalStage, once } from '../support/approvals.ts'
import { inOrder, resultsIn, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

let here: Deployment
let asker: ApprovalStage

beforeAll(async () => {
  here = await deploy()
  asker = approvalStage()
  await here.startWorker({ agents: [asker.agent] })
})
afterAll(() => here?.stop())

const TIMEOUT = { timeout: 30_000 }

/** Loses the reply to the first attempt. */
const lostOnce: NonNullable<ApprovalScene['body']> = (tool, _input, { attempt }) => {
  if (attempt === 1 && /^(wire|post|mail)$/.test(tool)) throw new Error('the line broke')
  return undefined
}

async function left(scene: Partial<ApprovalScene> & Pick<ApprovalScene, 'model'>) {
  const played = asker.play(here.pawl, { body: lostOnce, ...scene })
  const run = await played.session.send('go')
  return { ...played, run }
}

describe('verify', () => {
  it('a verify that throws is called again, as often as its tool says, and then a person is asked', async () => {
    const { run, entered } = await left({
      model: once(['wire', 'a']),
      verify: () => Promise.reject(new Error('the bank is closed')),
    })
    expect(await pendingOf(run)).toMatchObject([{ kind: 'unknown', callId: 't_1_1_0', tool: 'wire' }])
    expect(entered()).toEqual(['wire a', 'verify a', 'verify a'])
  })

  it('the attempt whose outcome is unknown is in SQL while verify is asked', async () => {
    const asked = gate()
    const { run, session } = await left({
      model: once(['wire', 'a']),
      verify: async (_input, { signal }) => {
        await asked.pass(signal)
        return { happened: true, result: 'found' }
      },
    })
    await asked.reached
    const failed = await until('its row is there', async () => {
      const { items } = await here.pawl.errors({ session: session.id })
      return items.length > 0 && items
    })
    expect(failed).toMatchObject([{ callId: 't_1_1_0', attempt: 1 }])
    asked.open()
    expect(await run.result(TIMEOUT)).toMatchObject({ run: 1 })
  })

  it('a verify that does not answer within its own timeout is called again', async () => {
    let asked = 0
    const { run, session, entered } = await left({
      model: once(['wire', 'a']),
      async verify(_input, { signal }) {
        asked += 1
        if (asked === 1) await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
        return { happened: true, result: 'found' }
      },
    })
    expect(await run.result(TIMEOUT)).toMatchObject({ run: 1 })
    expect(entered()).toEqual(['wire a', 'verify a', 'verify a'])
    expect(ofType(await eventsOf(session), 'tool_completed')).toMatchObject([{ value: 'found' }])
  })

  it('verify runs on another worker if the one that has the session does not serve the tool', { timeout: 120_000 }, async () => {
    const own = await deploy()
    try {
      const [mine, others] = [approvalStage(), stage({ name: 'other' })]
      // It is the only worker when the session begins, so it keeps the workflow and would receive all that may run in its process.
      await own.startWorker({ agents: [others.agent] })
      const { session, entered } = mine.play(own.pawl, {
        model: once(['wire', 'a']),
        body: lostOnce,
        verify: () => ({ happened: true, result: 'found' }),
      })
      const run = await session.send('go')
      await own.startWorker({ agents: [mine.agent] })
      await run.result({ timeout: 90_000 })
      expect(entered()).toEqual(['wire a', 'verify a'])
      expect(ofType(await eventsOf(session), 'tool_completed')).toMatchObject([{ value: 'found' }])
    } finally {
      await own.stop()
    }
  })

  it('a verify that cannot tell leaves the decision to a person, and the session waits', async () => {
    const { run, session } = await left({ model: once(['wire', 'a']), verify: () => ({ happened: 'unknown' }) })
    expect(await pendingOf(run)).toMatchObject([{ kind: 'unknown', input: { what: 'a' } }])
    expect(await session.state()).toMatchObject({ status: 'waiting' })
    expect(ofType(await eventsOf(session), 'tool_unknown')).toMatchObject([{ ask: true, attempt: 1 }])
  })
})

describe('a person says', () => {
  it('a person says that an unknown call happened: the given result is used, and the call counts as completed', async () => {
    const { run, session, entered, requests } = await left({ model: inOrder([use('post', 'a')], [use('post', 'a')]) })
    await pendingOf(run)
    await session.resolve('t_1_1_0', { happened: true, result: { id: 'po-1' } }, { by: 'ann', note: 'saw it in the books' })
    await run.result(TIMEOUT)
    expect(entered()).toEqual(['post a'])
    expect(resultsIn(requests[1]!)).toEqual([{ id: 't_1_1_0', content: '{"id":"po-1"}', isError: false }])
    expect(resultsIn(requests[2]!)).toMatchObject([{ content: '[idempotent replay of t_1_1_0]\n{"id":"po-1"}' }])
    expect(ofType(await eventsOf(session), 'tool_resolved')).toMatchObject([
      { by: 'person', happened: true, decidedBy: 'ann', note: 'saw it in the books' },
    ])
    const row = await until('it is stored', async () => {
      const [found] = await session.toolCalls()
      return found?.status === 'completed' && found
    })
    expect(row).toMatchObject({ resolvedBy: 'ann', note: 'saw it in the books', result: { id: 'po-1' } })
  })

  for (const [says, resolution] of [
    ['that it did not happen', { happened: false }],
    ['to try again', 'retry'],
  ] as const) {
    it(`${says}: the call is executed again, and its attempts continue the count`, async () => {
      const { run, session, entries, requests } = await left({ model: once(['post', 'a']) })
      await pendingOf(run)
      await session.resolve('t_1_1_0', resolution, { by: 'ann' })
      await run.result(TIMEOUT)
      expect(entries.map(({ attempt }) => attempt)).toEqual([1, 2])
      expect(new Set(entries.map(({ key }) => key)).size).toBe(1)
      expect(resultsIn(requests.at(-1)!)).toMatchObject([{ content: 'post a done', isError: false }])
      const events = await eventsOf(session)
      expect(ofType(events, 'tool_attempt_failed')).toMatchObject([{ error: { attempt: 1, message: 'the line broke' } }])
      expect(ofType(events, 'tool_completed')).toMatchObject([{ attempt: 2 }])
      expect(ofType(events, 'tool_resolved')).toMatchObject([{ happened: false, decidedBy: 'ann' }])
    })
  }

  it('a person skips an unknown call: the model is told that the outcome is unknown, and it stays unknown', async () => {
    const { run, session, entered, requests } = await left({ model: inOrder([use('post', 'a')], [use('post', 'a')]) })
    await pendingOf(run)
    await session.resolve('t_1_1_0', 'skip', { by: 'ann', note: 'not worth it' })
    await run.result(TIMEOUT)
    expect(entered()).toEqual(['post a'])
    expect(resultsIn(requests[1]!)).toMatchObject([{ isError: true, content: expect.stringContaining('It is not known') }])
    // The model requests it again, but it is not executed.
    expect(resultsIn(requests[2]!)).toMatchObject([{ isError: true, content: expect.stringContaining('unknown') }])
    const row = await until('it is stored', async () => {
      const [found] = await session.toolCalls()
      return found?.status === 'skipped' && found
    })
    expect(row).toMatchObject({ resolvedBy: 'ann', note: 'not worth it', error: { code: 'skipped' } })
    // A person who finds out later can still resolve it.
    await session.resolve('t_1_1_0', { happened: true, result: 'late' })
    expect((await foldedState(session)).unknown).toEqual({})
  })

  it('a person’s result that does not match the output schema is refused with an explanation', async () => {
    const { run, session } = await left({
      model: once(['book', 'a']),
      body: () => {
        throw new Error('the line broke')
      },
    })
    await pendingOf(run)
    const { seq } = await session.state()
    for (const result of ['B-1', { happened: true, result: { id: 'B-1' } }]) {
      await expect(session.resolve('t_1_1_0', { happened: true, result })).rejects.toMatchObject({
        code: 'invalid_resolution',
        message: expect.stringMatching(/output schema of the tool "book".*a booking, such as \{ id: "B-1" \}\. Pass what/),
      })
    }
    expect((await session.state()).seq).toBe(seq)
    await session.resolve('t_1_1_0', { happened: true, result: { id: 'B-1' } })
    await run.result(TIMEOUT)
    expect(ofType(await eventsOf(session), 'tool_completed')).toMatchObject([{ value: { id: 'B-1' } }])
  })

  it('a person’s decision that is repeated or malformed is refused, and nothing changes', async () => {
    const { run, session, entered } = await left({ model: once(['post', 'a']) })
    await pendingOf(run)
    const { seq } = await session.state()
    const wrong = ['again', null, 7, {}, { happened: 'maybe' }, { happened: true }, []]
    for (const resolution of wrong) expect(await codeOf(session.resolve('t_1_1_0', resolution as never))).toBe('invalid_resolution')
    for (const callId of ['t_9_9_9', '__proto__', 'constructor', '']) {
      expect(await codeOf(session.resolve(callId, 'retry'))).toBe('call_not_found')
    }
    expect(await codeOf(session.resolve({} as never, 'retry'))).toBe('invalid_option')
    expect(await codeOf(session.approve('t_1_1_0', { digest: 'x' }))).toBe('not_waiting')
    expect((await session.state()).seq).toBe(seq)
    const both = await Promise.all([
      codeOf(session.resolve('t_1_1_0', 'skip')),
      codeOf(session.resolve('t_1_1_0', { happened: true, result: 1 })),
    ])
    expect(both.filter((outcome) => outcome === 'accepted').length).toBeGreaterThan(0)
    await run.result(TIMEOUT)
    expect(await codeOf(session.resolve('t_1_1_0', 'retry'))).toMatch(/not_unknown|call_has_ended/)
    expect(entered()).toEqual(['post a'])
  })
})

describe('the other calls of the turn', () => {
  it('while a call waits for a person, the calls of its turn continue except later effects, and none is lost', async () => {
    const { run, session, entered, requests } = await left({
      model: once(['look', 'x'], ['post', 'a'], ['put', 'b'], ['look', 'y'], ['post', 'c']),
    })
    await until('the read behind it is done', () => entered().includes('look y'))
    await until('it waits', async () => (await pendingOf(run)).length === 1)
    expect(entered()).toEqual(['look x', 'post a', 'look y'])
    await session.resolve('t_1_1_1', 'retry')
    await until('the second is lost too', async () => (await pendingOf(run)).some(({ callId }) => callId === 't_1_1_4'))
    await session.resolve('t_1_1_4', { happened: true, result: 'c it is' })
    await run.result(TIMEOUT)
    expect(entered().filter((what) => !what.startsWith('look'))).toEqual(['post a', 'post a', 'put b', 'post c'])
    expect(resultsIn(requests.at(-1)!).map(({ content }) => content)).toEqual([
      'look x done',
      'post a done',
      'put b done',
      'look y done',
      'c it is',
    ])
  })
})

describe('a call whose model was told that its outcome is unknown', () => {
  it('a call that the model was told is unknown can be resolved later, once, and only by whether it happened', async () => {
    const { run, session, entered, requests } = await left({ model: inOrder([use('mail', 'a')], 'told', [use('mail', 'a')], 'told again') })
    expect(await run.result(TIMEOUT)).toMatchObject({ text: 'told' })
    expect(resultsIn(requests[1]!)).toMatchObject([{ isError: true, content: expect.stringContaining('unknown') }])
    expect(await codeOf(session.resolve('t_1_1_0', 'retry'))).toBe('call_has_ended')
    expect(await codeOf(session.resolve('t_1_1_0', 'skip'))).toBe('call_has_ended')
    await session.resolve('t_1_1_0', { happened: false }, { by: 'ann' })
    expect(await codeOf(session.resolve('t_1_1_0', { happened: false }))).toBe('not_unknown')
    const row = await until('it is stored', async () => {
      const [found] = await session.toolCalls()
      return found?.status === 'failed' && found
    })
    expect(row).toMatchObject({ resolvedBy: 'ann', error: { code: 'did_not_happen' } })
    // It certainly did not happen, so it may be executed now.
    const second = await session.send('do it then')
    await second.result(TIMEOUT)
    expect(entered()).toEqual(['mail a', 'mail a'])
  })
})

describe('a run', () => {
  it('a run that is stopped while it waits for a person leaves the outcome unknown, and accepts the answer later', async () => {
    const { run, session, entered, requests } = await left({ model: inOrder([use('post', 'a')], 'and now?', 'fine') })
    await pendingOf(run)
    await session.interrupt({ by: 'ann' })
    expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'interrupted' })
    await (await session.send('two')).result(TIMEOUT)
    expect(resultsIn(requests.at(-1)!)).toMatchObject([
      { isError: true, content: expect.stringContaining('may or may not have taken effect') },
    ])
    expect(await codeOf(session.resolve('t_1_1_0', 'retry'))).toBe('call_has_ended')
    await session.resolve('t_1_1_0', { happened: true, result: 'done' })
    expect(entered()).toEqual(['post a'])
  })

  it('a run that is stopped during an attempt still leaves the call for a person to resolve', async () => {
    const door = gate()
    const { run, session } = await left({
      model: once(['post', 'a']),
      async body(_tool, _input, { signal }) {
        await door.pass(signal)
      },
    })
    await door.reached
    await session.interrupt()
    expect(await run.settled(TIMEOUT)).toMatchObject({ status: 'interrupted' })
    expect((await foldedState(session)).unknown).toHaveProperty('t_1_1_0')
    await session.resolve('t_1_1_0', { happened: false })
    expect((await foldedState(session)).unknown).toEqual({})
  })

  it('a run does not wait for a person if the body certainly did nothing', async () => {
    const { run, requests } = await left({
      model: once(['post', 'a']),
      body() {
        throw new ToolError('no such box', { happened: false, retryable: false })
      },
    })
    await run.result(TIMEOUT)
    expect(resultsIn(requests.at(-1)!)).toMatchObject([{ isError: true, content: 'no such box' }])
  })
})
