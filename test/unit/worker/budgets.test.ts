// The cost of a model call under a budget if its executor dies or loses the job, as far as its orchestrator has seen it.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { ModelAnswer } from '../../../src/calls/jobs.ts'
import type { HeldJobReport } from '../../../src/worker/protocol.ts'
import { order, type Played, settled, startCrew, watched } from './support/crew.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const reservation = { inputTokens: 100, outputTokens: 1_000, inputUsd: 0.1, outputUsd: 1 }
const call = () => order('model:1:1', { kind: 'callModel' })

/** The executor has accepted its newest job, and what it sets aside is recorded. */
async function reserves(executor: Played): Promise<string> {
  const job = executor.jobs().at(-1) ?? expect.fail('no job')
  await executor.accept(job)
  expect(await executor.ask({ ask: 'reserve', job, reservation })).toMatchObject({ type: 'answer', value: true })
  return job
}

describe('an executor that dies', () => {
  it('an executor that dies is charged for what it had streamed, and for what was in transit', async () => {
    const { pool, executor, leases } = startCrew()
    const one = await executor(1)
    const seen = watched(pool.dispatch(call()))
    await settled()
    const job = await reserves(one)
    expect(leases.get('model:1:1')?.recorded).toEqual([{ reserved: reservation }])
    await one.say({ type: 'tokens_so_far', job, tokens: 40 })
    await one.say({ type: 'tokens_so_far', job, tokens: 144 })
    await one.die()
    expect(seen.error).toMatchObject({ type: 'WorkerDied', details: [{ attempt: 1, spent: { tokens: 500, usd: 0.5 } }] })
  })

  it('an executor that dies costs nothing if it had set nothing aside', async () => {
    const { pool, executor } = startCrew()
    const one = await executor(1)
    const seen = watched(pool.dispatch(call()))
    await settled()
    await one.accept(one.jobs()[0] ?? '')
    await one.die()
    expect(seen.error).toMatchObject({ type: 'WorkerDied' })
    expect((seen.error as { details: object[] }).details[0]).not.toHaveProperty('spent')
  })

  it('a dying executor’s reservation passes to the attempt that uses its answer, which only this process has', async () => {
    const { pool, executor, leases } = startCrew()
    const [one, two] = [await executor(1), await executor(2)]
    void pool.dispatch(call())
    await settled()
    const job = await reserves(one)
    const answer: ModelAnswer = {
      content: [{ type: 'tool_use', id: 'x', name: 'look', input: {} }],
      stopReason: 'tool_use',
      usage: { input_tokens: 1, output_tokens: 2, cache_creation_input_tokens: 3, cache_read_input_tokens: 4 },
      model: 'm',
      price: { input: 0, output: 1_000_000 },
    }
    await one.say({ type: 'answered', job, answer })
    await one.die()
    const [, death] = leases.get('model:1:1')?.recorded ?? []
    expect(death).toMatchObject({ attempt: 2, failed: [{ attempt: 1, class: 'WorkerDied' }] })
    expect(death).not.toHaveProperty('reserved')
    expect(death?.failed?.[0]).not.toHaveProperty('spent')
    expect(two.received.at(-1)).toMatchObject({ type: 'job', order: { answer } })
  })

  it('an executor that dies after a change of orchestrator is charged for what it had reported to the new one', async () => {
    const { executor, adopted } = startCrew()
    const holding: HeldJobReport[] = [{ job: 'j', order: call(), begun: false, reserved: reservation, tokensSoFar: 144 }]
    const one = await executor(1, { holding })
    await one.die()
    await expect(adopted[0]?.running).rejects.toMatchObject({
      type: 'WorkerDied',
      details: [{ reserved: reservation, spent: { tokens: 500, usd: 0.5 } }],
    })
  })
})

it('an answer that a repeated attempt uses is paid for once: no cost is assumed for the attempt that received it', async () => {
  const { pool, executor } = startCrew()
  const one = await executor(1)
  void pool.dispatch(call())
  await settled()
  const job = await reserves(one)
  const final = { content: [{ type: 'text', text: 'done' }], stopReason: 'end_turn', usage: {}, model: 'm' }
  await one.answer(job, { kind: 'completed', attempt: 1, ...final, calls: [] })
  // The server did not receive it, and repeats the call.
  const lost = {
    attempt: 1,
    class: 'HeartbeatTimeout',
    message: 'lost',
    retryable: true,
    spent: { tokens: 1_100, usd: 1.1, assumed: true },
  }
  const again = order('model:1:1', { kind: 'callModel', attempt: 2 })
  const failed = [lost] as (typeof again)['attempt']['failed']
  void pool.dispatch({
    ...again,
    attempt: { ...again.attempt, failed },
    ticket: { ...again.ticket, report: { ...again.ticket.report, failed } },
  })
  await settled()
  const { spent: _, ...unpaid } = lost
  expect(one.received.at(-1)).toMatchObject({ type: 'job', order: { answer: final, attempt: { number: 2 } } })
  const given = one.received.at(-1)
  const { attempt, ticket } = given?.type === 'job' ? given.order : expect.fail('no job')
  expect([attempt.failed, ticket.report.failed]).toEqual([[unpaid], [unpaid]])
})

it('a call that is withdrawn from its executor has a cost: a failed attempt records it, and the next makes its own reservation', async () => {
  const { pool, executor, leases } = startCrew()
  const one = await executor(1)
  void pool.dispatch(order('overdue', { once: true })).catch(() => undefined)
  void pool.dispatch(call())
  await settled()
  await one.accept(one.jobs()[0] ?? '')
  const job = await reserves(one)
  await one.say({ type: 'tokens_so_far', job, tokens: 144 })
  const two = await executor(2)
  const [held] = pool.executors()
  pool.endFor(held ?? expect.fail('no executor'), new Set([one.jobs()[0] ?? '']))
  await settled()
  const failed = [{ attempt: 1, class: 'WorkerDied', code: 'neighbour', spent: { tokens: 500, usd: 0.5 } }]
  expect(leases.get('model:1:1')?.recorded.at(-1)).toMatchObject({ attempt: 2, failed, reserved: undefined })
  expect(two.received.at(-1)).toMatchObject({ type: 'job', order: { attempt: { number: 2, failed } } })
})

it('the share of a model call whose executor dies is released with what the call may have cost', async () => {
  const ended: [string, number][] = []
  const shared = {
    prepay: ({ sessionId }: { sessionId: string }) => ({ token: `of ${sessionId}`, usd: 3 }),
    settle: () => undefined,
    ended: (job: string, usd: number) => void ended.push([job, usd]),
  }
  const { pool, executor } = startCrew({ shared })
  const one = await executor(1)
  watched(pool.dispatch(call()))
  await settled()
  const [job = ''] = one.jobs()
  expect(one.received.at(-1)).toMatchObject({ type: 'job', share: { token: 'of s', usd: 3 } })
  await one.accept(job)
  await one.say({ type: 'reserved', job, reservation })
  await one.say({ type: 'tokens_so_far', job, tokens: 144 })
  await one.die()
  expect(ended).toEqual([[job, 0.5]])
})
