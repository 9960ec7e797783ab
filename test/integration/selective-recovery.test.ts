// The `selective` recovery: of the failed turn's calls, some are kept, others skipped or redone.
import { ModelError, ToolError } from 'pawl'
import { RequestRefusedError, type SessionHandle } from 'pawl/client'
import type { ScriptedAnswer } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { codeOf } from '../support/codes.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { answersIn, notesIn, resultsIn, saidIn, type Scene, type Stage, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'

let here: Deployment
let player: Stage

beforeAll(async () => {
  here = await deploy()
  player = stage()
  await here.startWorker({ agents: [player.agent] })
})
afterAll(() => here?.stop())

/** A model that requests these calls, then fails until it is fixed. */
function failsAfter(calls: ScriptedAnswer): Scene & { fixed?: boolean } {
  const scene: Scene & { fixed?: boolean } = {
    model(request) {
      if (answersIn(request) === 0) return calls
      if (scene.fixed) return 'done'
      throw new ModelError('broken', 'it is broken', { retryable: false })
    },
  }
  return scene
}

/** The ledger's rows of the session, by call. */
async function ledgerOf(session: SessionHandle) {
  const calls = await session.toolCalls()
  return Object.fromEntries(calls.map(({ callId, status, key, attempt }) => [callId, { status, key, attempt }]))
}

const FOUR = [use('put', 'one'), use('look', 'two'), use('put', 'three'), use('wire', 'four')]

describe('of the four calls of a turn', () => {
  it('of a turn’s four calls, two are kept, one is skipped and one is redone if the next model call failed', async () => {
    const scene = failsAfter(FOUR)
    const threw = new Set(['three', 'four'])
    scene.put = ({ what }) => {
      if (threw.has(what)) throw new Error(`${what} is down`)
      return `${what} done`
    }
    scene.wire = () => {
      if (threw.has('four')) throw new Error('lost')
      return 'wired'
    }
    const { session, id, requests, entries } = player.play(here.pawl, scene)
    const door = gate()
    scene.look = async (_input, ctx) => {
      await door.pass(ctx.signal)
      return 'seen'
    }
    const run = await session.send('go')
    await door.reached
    // A message for the next turn stays after the results.
    await session.send('and hurry')
    door.open()
    expect(await run.settled({ timeout: 20_000 })).toMatchObject({ status: 'failed', code: 'broken', strategy: 'manual' })
    expect((await session.state()).error).toMatchObject({ turn: 2, options: ['selective', 'abandon', 'manual'] })
    threw.clear()
    scene.fixed = true
    await session.recover({
      strategy: 'selective',
      keep: ['t_1_1_0', 't_1_1_1'],
      skip: ['t_1_1_2'],
      redo: ['t_1_1_3'],
      by: 'ann',
      reason: 'the bank is back',
    })
    expect(await run.result({ timeout: 20_000 })).toMatchObject({ run: 1, text: 'done' })

    const last = requests.at(-1)!
    expect(resultsIn(last)).toEqual([
      { id: 't_1_1_0', content: 'one done', isError: false },
      { id: 't_1_1_1', content: 'seen', isError: false },
      { id: 't_1_1_2', content: expect.stringMatching(/a person decided to skip it.* Reason: the bank is back/), isError: true },
      { id: 't_1_1_3', content: 'wired', isError: false },
    ])
    expect(last.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'user', 'user'])
    expect(saidIn(last)).toEqual(['go', 'and hurry'])
    expect(notesIn(last)).toEqual([expect.stringMatching(/made again at the request of a person.*\n.*unknown.*\n- wire \(t_1_1_3\)/)])
    expect(entries.filter(({ input }) => input.what === 'one')).toHaveLength(1)

    const events = await eventsOf(session)
    expect(ofType(events, 'recovery_started')).toMatchObject([
      { turn: 1, keep: ['t_1_1_0', 't_1_1_1'], skip: ['t_1_1_2'], redo: [{ callId: 't_1_1_3', as: 't_1_1_3#2' }], by: 'ann' },
    ])
    expect(ofType(events, 'turn_started').map(({ turn }) => turn)).toEqual([1, 2, 3])
    await rowsMatchEvents(here.stack, id)
    const ledger = await ledgerOf(session)
    expect(ledger).toMatchObject({
      t_1_1_0: { status: 'completed' },
      t_1_1_1: { status: 'completed' },
      t_1_1_2: { status: 'skipped' },
      t_1_1_3: { status: 'unknown' },
      't_1_1_3#2': { status: 'completed' },
    })
    // If the first call took effect after all, a downstream that knows the key does not repeat it.
    expect(ledger['t_1_1_3#2']?.key).toBe(ledger.t_1_1_3?.key)
  })

  it('of a turn’s four calls, two are kept, one is skipped and one is redone if the deadline passed during the calls', async () => {
    const own = await deploy()
    try {
      const door = gate()
      const hurried = stage({ name: 'hurried', limits: { deadline: '6s' } })
      const patient = stage({ name: 'hurried', limits: { deadline: '10m' } })
      const calls = [use('put', 'one'), use('look', 'two'), use('wire', 'three'), use('put', 'four')]
      const scene: Scene = {
        model: (request) => (answersIn(request) === 0 ? calls : 'done'),
        wire: (_input, ctx) => door.pass(ctx.signal),
      }
      const worker = await own.startWorker({ agents: [hurried.agent] })
      const { session, id } = hurried.play(own.pawl, scene)
      const run = await session.send('go')
      expect(await run.settled({ timeout: 20_000 })).toMatchObject({ status: 'failed', code: 'deadline_exceeded' })
      const { current } = await session.state()
      expect(current?.calls.map(({ status }) => status)).toEqual(['completed', 'completed', 'unknown', 'requested'])
      await worker.stop()
      door.open()
      const { requests } = patient.play(own.pawl, scene, { id })
      await own.startWorker({ agents: [patient.agent] })
      await session.recover({ keep: ['t_1_1_0', 't_1_1_1'], skip: ['t_1_1_3'], redo: ['t_1_1_2'] })
      expect(await run.result({ timeout: 20_000 })).toMatchObject({ run: 1, text: 'done' })
      expect(resultsIn(requests.at(-1)!).map(({ isError }) => isError)).toEqual([false, false, false, true])
      await rowsMatchEvents(own.stack, id)
      expect(await ledgerOf(session)).toMatchObject({ 't_1_1_2#2': { status: 'completed' }, t_1_1_3: { status: 'skipped' } })
    } finally {
      await own.stop()
    }
  })
})

describe('a completed effect', () => {
  it('a completed effect is repeated only with force and a name; the first key then leads to the new result', async () => {
    const scene = failsAfter([use('put', 'it')])
    let times = 0
    scene.put = () => `paid ${++times}`
    const { session, id, requests, entries } = player.play(here.pawl, scene)
    const run = await session.send('go')
    await run.settled({ timeout: 20_000 })
    for (const options of [{ by: 'ann' }, { force: true }]) {
      await expect(session.recover({ redo: ['t_1_1_0'], ...options })).rejects.toMatchObject({
        code: 'would_repeat_effect',
        message: expect.stringContaining('t_1_1_0'),
      })
    }
    scene.model = (request) => {
      const answers = answersIn(request)
      return answers === 1 ? [use('put', 'it')] : answers === 2 ? 'done' : [use('put', 'it')]
    }
    await session.recover({ redo: ['t_1_1_0'], force: true, by: 'ann', reason: 'the first one bounced' })
    expect(await run.result({ timeout: 20_000 })).toMatchObject({ run: 1, text: 'done' })
    expect(entries.map(({ callId }) => callId)).toEqual(['t_1_1_0', 't_1_1_0#2'])
    expect(resultsIn(requests.at(-1)!)[0]?.content).toBe('[idempotent replay of t_1_1_0#2]\npaid 2')
    expect(notesIn(requests.at(-1)!)).toEqual([expect.stringMatching(/made again.*\n.*completed.*\n- put \(t_1_1_0\): paid 1$/)])
    await rowsMatchEvents(here.stack, id)
    const ledger = await ledgerOf(session)
    const key = ledger.t_1_1_0?.key
    expect(ledger).toMatchObject({
      t_1_1_0: { status: 'completed', key },
      't_1_1_0#2': { status: 'completed', key: `${key}#2` },
      t_1_3_0: { status: 'replayed', key },
    })
    expect(ofType(await eventsOf(session), 'recovery_started')).toMatchObject([{ force: true, by: 'ann', reason: 'the first one bounced' }])
  })
})

describe('an impossible choice', () => {
  it('an impossible choice is refused with a code and the possible choices, is recorded, and changes nothing', async () => {
    const scene = failsAfter([use('put', 'one'), use('wire', 'two')])
    scene.wire = () => {
      throw new Error('lost')
    }
    const { session, id } = player.play(here.pawl, scene)
    await (await session.send('go')).settled({ timeout: 20_000 })
    const before = await session.state()
    const refusals: [Parameters<SessionHandle['recover']>[0], string, string][] = [
      [{ strategy: 'continue_run', redo: ['t_1_1_1'] }, 'invalid_calls', 'selective'],
      [{ strategy: 'selective' }, 'choose_calls', 't_1_1_0 (put, completed), t_1_1_1 (wire, unknown)'],
      [{ keep: ['t_7_1_0'], skip: ['t_1_1_1'] }, 'call_not_found', 't_1_1_0 (put, completed)'],
      [{ keep: ['t_1_1_0'] }, 'outcome_unknown', 't_1_1_1'],
      [{ skip: ['t_1_1_0', 't_1_1_1'] }, 'already_completed', 't_1_1_0'],
      [{ keep: ['t_1_1_0'], skip: ['t_1_1_0'] }, 'invalid_calls', 'each id once'],
      [{ redo: ['t_1_1_0'], skip: ['t_1_1_1'], force: true, by: ' ' }, 'would_repeat_effect', 'set `force` and `by`'],
      [{ strategy: 'continue_run', force: true, by: 'ann' }, 'invalid_calls', 'belong to the strategy selective'],
    ]
    for (const [options, code, says] of refusals) {
      const refused = await session.recover(options).catch((error: unknown) => error)
      expect(refused).toBeInstanceOf(RequestRefusedError)
      expect(refused).toMatchObject({ code, message: expect.stringContaining(says) })
    }
    expect(await session.state()).toMatchObject({ status: 'error', error: before.error, current: before.current })
    expect(ofType(await eventsOf(session), 'recovery_refused').map(({ code }) => code)).toEqual(refusals.map(([, code]) => code))
    await rowsMatchEvents(here.stack, id)
  })
})

it('calls of an earlier run or turn cannot be chosen', async () => {
  let failsNow = false
  const { session, id, count } = player.play(here.pawl, {
    model(request) {
      const answers = answersIn(request)
      if (answers === 1) return 'so far'
      if (answers === 4 && failsNow) throw new ModelError('broken', 'it is broken', { retryable: false })
      return answers === 4 ? 'done' : [use('put', `thing ${answers}`)]
    },
  })
  failsNow = true
  const first = await session.send('one')
  await first.settled({ timeout: 20_000 })
  const run = await session.send('two')
  await run.settled({ timeout: 20_000 })
  const strange = ['t_1_1_0', 't_2_1_0', 't_2_2_0#2', 't_2_2_1']
  for (const callId of strange) {
    await expect(session.recover({ redo: [callId], force: true, by: 'ann' })).rejects.toMatchObject({
      code: 'call_not_found',
      message: expect.stringMatching(/The turn's calls: t_2_2_0 \(put, completed\)\..* Possible now: .*selective/),
    })
  }
  failsNow = false
  // Two people choose at the same moment.
  const other = (await here.connect()).session(id)
  const outcomes = await Promise.all(
    [session, other].map((one, index) => codeOf(one.recover({ redo: ['t_2_2_0'], force: true, by: `person ${index}` }))),
  )
  expect(outcomes.toSorted()).toEqual(['accepted', 'not_in_error'])
  await run.result({ timeout: 20_000 })
  expect(count('put')).toBe(4)
  const { rows } = await rowsMatchEvents(here.stack, id)
  const told = rows.recoveries.toSorted((one, another) => Number(one.seq) - Number(another.seq))
  expect(told.map(({ kind, by, details }) => [kind, by, (details as { code?: string; force?: boolean }).force ?? null])).toEqual([
    ...strange.map(() => ['recovery_refused', 'ann', null]),
    ['recovery_started', `person ${outcomes.indexOf('accepted')}`, true],
  ])
})

it('a call that is being redone survives a restart of its worker', async () => {
  const own = await deploy()
  try {
    const scene = failsAfter([use('put', 'it'), use('look', 'around')])
    scene.put = () => {
      throw new Error('it is down')
    }
    const worker = await own.startWorker({ agents: [player.agent] })
    const { session, id, requests, entries } = player.play(own.pawl, scene)
    const run = await session.send('go')
    await run.settled({ timeout: 20_000 })
    scene.fixed = true
    scene.put = () => {
      throw new ToolError('come back later', { retryAfter: '2s' })
    }
    const attempts = entries.length
    await session.recover({ redo: ['t_1_1_0'] })
    await until('it was tried', () => entries.length > attempts)
    // Changed before the stop, so that a slow stop makes no difference.
    scene.put = () => 'done at last'
    await worker.stop()
    await own.startWorker({ agents: [player.agent] })
    expect(await run.result({ timeout: 20_000 })).toMatchObject({ run: 1, text: 'done' })
    const again = entries.slice(attempts)
    expect(again.map(({ callId }) => callId)).toEqual(['t_1_1_0#2', 't_1_1_0#2'])
    expect(new Set(entries.filter(({ tool }) => tool === 'put').map(({ key }) => key)).size).toBe(1)
    expect(resultsIn(requests.at(-1)!)[0]).toMatchObject({ id: 't_1_1_0', content: 'done at last' })
    await rowsMatchEvents(own.stack, id)
  } finally {
    await own.stop()
  }
})
