// What is measured of jobs and of executors that die.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { measureJobs } from '../../../src/worker/orchestrator/telemetry/measure-jobs.ts'
import type { JobOrder } from '../../../src/calls/jobs.ts'
import { order, settled, startCrew } from './support/crew.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** A crew whose jobs are measured. */
function measuredCrew() {
  const found: [name: string, value: number, labels: object][] = []
  const measured = measureJobs((name, value, labels) => void found.push([name, value, labels]))
  return { found, ...startCrew({ measured }) }
}

function called(call: string, { attempt = 1, once }: { attempt?: number; once?: true } = {}): JobOrder {
  const input = { agent: 'support', resolution: { tool: 'look' } } as unknown as JobOrder['input']
  const made = order(call, { attempt, ...(once && { once }) })
  return { ...made, input: { ...made.input, ...input } }
}

describe('a job', () => {
  it('the time in the body of a job is measured, with how it ended', async () => {
    const { pool, executor, found } = measuredCrew()
    const one = await executor(1)
    void pool.dispatch(called('a'))
    await settled()
    const [job = ''] = one.jobs()
    await one.accept(job)
    await one.say({ type: 'entered', job, timeoutMs: 60_000 })
    await vi.advanceTimersByTimeAsync(1_500)
    await one.answer(job, { kind: 'failed', code: 'no_such_order', message: '' })
    expect(found).toEqual([
      ['gen_ai.execute_tool.duration', 1.5, expect.objectContaining({ 'gen_ai.tool.name': 'look', 'error.type': 'no_such_order' })],
    ])
  })

  it('riding reads are measured like calls of their own', async () => {
    const { pool, executor, found } = measuredCrew()
    const one = await executor(1)
    void pool.dispatch({ ...called('a'), kind: 'callModel' })
    await settled()
    const [job = ''] = one.jobs()
    await one.accept(job)
    const rides = [
      { index: 1, ms: 20, result: { kind: 'failed', attempt: 1, code: 'no_such_order', message: '' } },
      { index: 0, ms: 10, result: { kind: 'completed', attempt: 1, startedAt: 1, worker: 'w', value: 1 } },
    ]
    await one.answer(job, { kind: 'completed', calls: [{ tool: 'look' }, { tool: 'find' }], rides })
    expect(found).toEqual([
      ['gen_ai.execute_tool.duration', 0.02, expect.objectContaining({ 'gen_ai.tool.name': 'find', 'error.type': 'no_such_order' })],
      ['gen_ai.execute_tool.duration', 0.01, expect.objectContaining({ 'gen_ai.agent.name': 'support', 'gen_ai.tool.name': 'look' })],
    ])
  })

  it('the death of an executor is counted, and the time until another one runs its call is measured', async () => {
    const { pool, executor, found } = measuredCrew()
    const one = await executor(1)
    void pool.dispatch(called('a', { once: true })).catch(() => undefined)
    await settled()
    await one.accept(one.jobs()[0] ?? '')
    await one.die()
    const two = await executor(2)
    void pool.dispatch(called('a', { attempt: 2 }))
    await vi.advanceTimersByTimeAsync(250)
    await two.accept(two.jobs()[0] ?? '')
    expect(found).toEqual([
      ['pawl.executor.deaths', 1, { 'pawl.cause': 'crash' }],
      ['pawl.resume.duration', expect.closeTo(0.25), { 'gen_ai.operation.name': 'execute_tool' }],
    ])
  })

  it('the request of a model call is measured, and so is its first piece if it streams', async () => {
    const { pool, executor, found } = measuredCrew()
    const one = await executor(1)
    void pool.dispatch({ ...called('a'), kind: 'callModel' })
    await settled()
    const [job = ''] = one.jobs()
    await one.accept(job)
    await one.say({ type: 'asked', job, timed: { model: 'claude-sonnet-4-5', ms: 2_000, firstMs: 500 } })
    expect(found.map(([name, value]) => [name, value])).toEqual([
      ['gen_ai.client.operation.duration', 2],
      ['gen_ai.client.operation.time_to_first_chunk', 0.5],
    ])
  })
})

it('an executor that was told to end and had no jobs does not count as dead', async () => {
  const { pool, executor, found } = measuredCrew()
  const one = await executor(1)
  pool.retire(1)
  await one.die()
  expect(found).toEqual([])
})
