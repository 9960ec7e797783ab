// Executors that end after they received a model's answer and before its calls are resolved.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type ModelAnswer, nameOfSubject } from '../../../src/calls/jobs.ts'
import type { HeldJobReport } from '../../../src/worker/protocol.ts'
import { order, type Played, settled, startCrew, watched } from './support/crew.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const ANSWER: ModelAnswer = {
  content: [{ type: 'tool_use', id: 'x', name: 'look', input: {} }],
  stopReason: 'tool_use',
  usage: {} as ModelAnswer['usage'],
  model: 'm',
}
const call = (more: object = {}) => ({ ...order('model:1:1', { kind: 'callModel' }), ...more })
const ordersOf = ({ received }: Played) => received.flatMap((message) => (message.type === 'job' ? [message.order] : []))

/** The executor has accepted its newest job and handed the answer over. */
async function answers(executor: Played): Promise<void> {
  const job = executor.jobs().at(-1) ?? expect.fail('no job')
  await executor.accept(job)
  await executor.say({ type: 'answered', job, answer: ANSWER })
}

describe('an answer whose executor dies', () => {
  it('an answer whose executor dies goes to another one, and the death is recorded as a failed attempt', async () => {
    const { pool, executor, leases } = startCrew()
    const [one, two] = [await executor(1), await executor(2)]
    const seen = watched(pool.dispatch(call()))
    await settled()
    await answers(one)
    await one.die()
    const failed = [
      {
        attempt: 1,
        class: 'WorkerDied',
        message: 'Executor host:1001 died (crash) during model:1:1.',
        retryable: true,
        worker: 'host:1001',
      },
    ]
    expect(ordersOf(two)).toMatchObject([{ answer: ANSWER, attempt: { number: 2, failed }, ticket: { report: { attempt: 2, failed } } }])
    expect(leases.get('model:1:1')?.recorded).toEqual([{ attempt: 2, failed }])
    await two.answer(two.jobs()[0] ?? '', 'resolved')
    expect(seen).toEqual({ outcome: { result: 'resolved' } })
  })

  it('an answer whose executor dies waits longer than other jobs, but not forever: then its call fails', async () => {
    const { pool, executor } = startCrew()
    const one = await executor(1)
    const seen = watched(pool.dispatch(call()))
    await settled()
    await answers(one)
    await one.die()
    await vi.advanceTimersByTimeAsync(20_000)
    expect(seen).toEqual({})
    await vi.advanceTimersByTimeAsync(11_000)
    expect(seen.error).toMatchObject({ type: 'WorkerDied', details: [{ attempt: 1, failed: [], worker: 'host:1001', cause: 'crash' }] })
  })

  it('an answer whose executor died no longer waits once its attempt must stop', async () => {
    const { pool, executor, leases } = startCrew()
    const one = await executor(1)
    const seen = watched(pool.dispatch(call()))
    await settled()
    await answers(one)
    await one.die()
    leases.get('model:1:1')?.stop('cancelled')
    await vi.advanceTimersByTimeAsync(1_000)
    expect(seen.error).toMatchObject({ type: 'WorkerDied' })
  })

  it('an answer whose executors die is given up with the fifth one, counting those before this activity', async () => {
    const { pool, executor } = startCrew()
    let one = await executor(1)
    const { input } = call()
    const seen = watched(
      pool.dispatch(
        call({ input: { ...input, prior: { attempts: 2, failures: 0, deaths: 2 } }, attempt: { number: 3, failed: [], failures: 0 } }),
      ),
    )
    await settled()
    for (const successor of [2, 3, 4]) {
      await answers(one)
      await one.die()
      one = await executor(successor)
    }
    expect(seen.error).toMatchObject({ type: 'WorkerDied' })
    const [report] = (seen.error as { details: { attempt: number; failed: { attempt: number }[] }[] }).details
    expect([report?.attempt, report?.failed.map(({ attempt }) => attempt)]).toEqual([5, [3, 4]])
  })

  it('an answer whose executor dies goes to another executor even if it was received under the previous orchestrator', async () => {
    const { executor, adopted } = startCrew()
    const holding: HeldJobReport[] = [{ job: 'j', order: call(), begun: false, answer: ANSWER }]
    const [one, two] = [await executor(1, { holding }), await executor(2)]
    await one.die()
    expect(ordersOf(two)).toMatchObject([{ answer: ANSWER, attempt: { number: 2 } }])
    await two.answer(two.jobs()[0] ?? '', 'resolved')
    expect(await adopted[0]?.running).toEqual({ result: 'resolved' })
  })
})

it('an answer whose executor must end because of another call continues in the same attempt', async () => {
  const { pool, executor, leases } = startCrew()
  const one = await executor(1)
  void pool.dispatch(order('overdue', { once: true })).catch(() => undefined)
  void pool.dispatch(call())
  await settled()
  await one.accept(one.jobs()[0] ?? '')
  await answers(one)
  const two = await executor(2)
  const [held] = pool.executors()
  pool.endFor(held ?? expect.fail('no executor'), new Set([one.jobs()[0] ?? '']))
  await settled()
  expect(ordersOf(two)).toMatchObject([{ answer: ANSWER, attempt: { number: 1, failed: [] } }])
  expect(leases.get('model:1:1')?.recorded).toEqual([])
})

it('the next attempt uses an answer if the server gave up the previous attempt while its executor was still working', async () => {
  const { pool, executor } = startCrew()
  const holding: HeldJobReport[] = [{ job: 'j', order: call(), begun: false, answer: ANSWER }]
  const crew = [await executor(1, { holding }), await executor(2)]
  const again = order('model:1:1', { kind: 'callModel', attempt: 2 })
  void pool.dispatch(again)
  void pool.dispatch(order('model:1:2', { kind: 'callModel', attempt: 2 }))
  await settled()
  const given = crew.flatMap(ordersOf)
  expect(given.find(({ ticket }) => nameOfSubject(ticket.subject) === 'model:1:1')).toMatchObject({
    answer: ANSWER,
    attempt: { number: 2 },
  })
  expect(given.find(({ ticket }) => nameOfSubject(ticket.subject) === 'model:1:2')).not.toHaveProperty('answer')
})

describe('a model call that has ended and whose result the server did not receive', () => {
  const final = { content: [{ type: 'text', text: 'done' }], stopReason: 'end_turn', usage: {}, model: 'm' }
  const repeated = () => order('model:1:1', { kind: 'callModel', attempt: 2 })

  it('a repeated model call whose result the server did not receive gets the answer of the previous attempt', async () => {
    const { pool, executor } = startCrew()
    const one = await executor(1)
    void pool.dispatch(call())
    await settled()
    await one.answer(one.jobs()[0] ?? '', { kind: 'completed', attempt: 1, ...final, calls: [] })
    void pool.dispatch(repeated())
    await settled()
    expect(ordersOf(one)).toMatchObject([{ attempt: { number: 1 } }, { attempt: { number: 2 }, answer: final }])
  })

  it('a repeated model call whose previous attempt failed asks the model again', async () => {
    const { pool, executor } = startCrew()
    const one = await executor(1)
    void pool.dispatch(call())
    await settled()
    await one.answer(one.jobs()[0] ?? '', { kind: 'failed', code: 'overloaded_error', reason: 'overloaded' })
    void pool.dispatch(repeated())
    await settled()
    expect(ordersOf(one)[1]).not.toHaveProperty('answer')
  })
})
