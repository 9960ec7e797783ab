// Which reads ride on the model call that requests them.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { defineAgent } from '../../../src/agent/define-agent.ts'
import { defineSlice } from '../../../src/agent/define-slice.ts'
import { defineTool } from '../../../src/agent/define-tool.ts'
import type { CallModelInput } from '../../../src/calls/activities.ts'
import { mayRide, startLimit, takesRides } from '../../../src/jobs/model-call/riding.ts'
import type { Job } from '../../../src/jobs/needs.ts'
import { MEASURED, measureTools, QUICK_TOOLS, type QuickTools } from '../../../src/jobs/quick-tools.ts'
import { lostAttempt, noAttempts, tallied } from '../../../src/session/attempts.ts'
import type { FailedAttempt, Resolution } from '../../../src/session/call-facts.ts'
import { scripted } from '../../../src/testing/scripted.ts'
import { quickCalls } from '../../../src/worker/quick-calls.ts'

const common = { description: 'T.', input: z.object({}), execute: () => null }
const tools = [
  defineTool({ ...common, name: 'look', effect: 'read' }),
  defineTool({ ...common, name: 'find', effect: 'read' }),
  defineTool({ ...common, name: 'own', effect: 'read', quick: false }),
  defineTool({ ...common, name: 'limited', effect: 'read', concurrency: { max: 1 } }),
  defineTool({ ...common, name: 'put', effect: 'idempotent' }),
]
const folding = (type: 'tool_completed' | 'tool_issued') =>
  defineSlice({ name: 'count', version: 1, schema: z.number(), initial: 0, on: { [type]: (count: number) => count + 1 } })
const agent = defineAgent({ name: 'a', instructions: '', model: scripted(() => ''), tools })

/** Tools of which each has been measured often enough. */
function quick() {
  const quickTools = measureTools()
  for (const { name } of tools) for (let n = 0; n < MEASURED; n += 1) quickTools.measure('a', name)(false)
  return { quickTools }
}

const call = (tool: string, more: Partial<Resolution> = {}): Resolution => ({
  index: 0,
  tool,
  effect: tool === 'put' ? 'idempotent' : 'read',
  inputDigest: '',
  schemaDigest: '',
  timeoutMs: 1_000,
  retry: { maxRetries: 0, baseDelayMs: 0 },
  verify: false,
  ...more,
})

describe('the reads of an answer', () => {
  it('reads ride if all of them are of quick tools', () => {
    expect(mayRide(agent, [call('look'), call('find')], quick())).toBe(true)
    expect(mayRide(agent, [], quick())).toBe(false)
  })

  it.each([
    ['has an effect', [call('look'), call('put')]],
    ['cannot run', [call('look', { invalid: { code: 'denied', message: 'no' } })]],
    ['needs an approval', [call('look', { approval: { expiresMs: 1, onExpiry: 'deny' } })]],
    ['is answered by a client', [call('look', { client: {} })]],
    ['is of a tool of pawl', [call('look', { builtIn: 'plan' as NonNullable<Resolution['builtIn']> })]],
    ['is of a tool with `quick: false`', [call('own')]],
    ['is of a tool with a limit', [call('limited')]],
    ['is of a tool that this build lacks', [call('gone')]],
  ])('reads do not ride if one of the calls %s', (_, calls) => {
    expect(mayRide(agent, calls, quick())).toBe(false)
  })

  it('reads ride up to the number of reads that run in parallel', () => {
    const reads = (count: number) => Array.from({ length: count }, () => call('look'))
    expect([mayRide(agent, reads(20), quick()), mayRide(agent, reads(21), quick())]).toEqual([true, false])
  })

  it('reads do not ride if executors have died during calls of one of the tools', () => {
    expect(mayRide(agent, [call('look'), call('find')], quick(), ['find'])).toBe(false)
    expect(mayRide(agent, [call('look')], quick(), ['find'])).toBe(true)
  })

  it('reads do not ride if a slice of the agent would have another value once they are recorded', () => {
    expect(mayRide({ ...agent, slices: [folding('tool_completed')] }, [call('look')], quick())).toBe(true)
    expect(mayRide({ ...agent, slices: [folding('tool_issued')] }, [call('look')], quick())).toBe(false)
  })

  it('reads do not ride while riding reads are off', () => {
    expect(mayRide(agent, [call('look')], { quickTools: QUICK_TOOLS.off() })).toBe(false)
  })
})

describe('the wait for riding reads', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  /** A wait, and the outcome of the reads that it does not wait for, as soon as it is known. */
  function wait(stopped: AbortSignal) {
    const limit = startLimit({ worker: 'w' }, stopped)
    const outcome = vi.fn()
    void limit.early.then(outcome)
    return { ...limit, outcome }
  }

  it('the wait for riding reads ends after a second, and they continue as activities at once', async () => {
    const { outcome, signal, isOver } = wait(new AbortController().signal)
    await vi.advanceTimersByTimeAsync(999)
    expect([signal.aborted, isOver(), outcome.mock.calls.length]).toEqual([false, false, 0])
    await vi.advanceTimersByTimeAsync(1)
    expect([signal.aborted, isOver()]).toEqual([true, true])
    expect(outcome).toHaveBeenCalledWith({
      kind: 'again',
      attempt: 1,
      afterMs: 0,
      failed: [expect.objectContaining({ class: 'LeftModelCall' })],
    })
  })

  it.each(['before it', 'during it'])(
    'an interrupt %s ends the wait for riding reads after 50 ms, which does not count against their tools',
    async (when) => {
      const stop = new AbortController()
      if (when === 'before it') stop.abort()
      const { outcome, signal, isOver } = wait(stop.signal)
      await vi.advanceTimersByTimeAsync(0)
      stop.abort()
      expect(signal.aborted).toBe(true)
      await vi.advanceTimersByTimeAsync(49)
      expect(outcome).not.toHaveBeenCalled()
      await vi.advanceTimersByTimeAsync(1)
      expect(outcome).toHaveBeenCalledWith({ kind: 'interrupted', attempt: 1, begun: true })
      expect(isOver()).toBe(false)
    },
  )

  it('a wait for riding reads that has ended leaves no timer behind', () => {
    const stop = new AbortController()
    const { end } = wait(stop.signal)
    stop.abort()
    end()
    expect(vi.getTimerCount()).toBe(0)
  })
})

describe('a tool', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  /** Measures a body that takes so long, and whose end the process notices only `busyMs` later. */
  function run(
    quickTools: QuickTools,
    tool: string,
    { ms, busyMs = 0, isStopped = false }: { ms: number; busyMs?: number; isStopped?: boolean },
  ) {
    const end = quickTools.measure('a', tool)
    vi.advanceTimersByTime(ms)
    if (busyMs > 0) {
      const clock = vi.spyOn(performance, 'now').mockReturnValue(performance.now() + busyMs)
      vi.advanceTimersToNextTimer()
      clock.mockRestore()
    }
    end(isStopped)
  }

  it('a tool is quick once its newest bodies have all taken less than 100 ms', () => {
    const measured = measureTools()
    for (let n = 1; n < MEASURED; n += 1) run(measured, 'look', { ms: 99 })
    expect(measured.isQuick('a', 'look')).toBe(false)
    run(measured, 'look', { ms: 99 })
    expect([measured.isQuick('a', 'look'), measured.isQuick('b', 'look'), measured.isQuick('a', 'find')]).toEqual([true, false, false])
  })

  it('a tool is no longer quick after one slow body, until as many quick ones have followed', () => {
    const { quickTools } = quick()
    run(quickTools, 'look', { ms: 100 })
    for (let n = 1; n < MEASURED; n += 1) run(quickTools, 'look', { ms: 1 })
    expect(quickTools.isQuick('a', 'look')).toBe(false)
    run(quickTools, 'look', { ms: 1 })
    expect(quickTools.isQuick('a', 'look')).toBe(true)
    quickTools.wasSlow('a', 'look')
    expect(quickTools.isQuick('a', 'look')).toBe(false)
  })

  it('a tool is as quick on a busy machine: time in which the process could not run does not count', () => {
    const { quickTools } = quick()
    run(quickTools, 'look', { ms: 50, busyMs: 5_000 })
    expect(quickTools.isQuick('a', 'look')).toBe(true)
  })

  it('a body that is stopped early does not count as a measurement of its tool', () => {
    const { quickTools } = quick()
    run(quickTools, 'look', { ms: 100, isStopped: true })
    expect(quickTools.isQuick('a', 'look')).toBe(true)
  })
})

describe('a model call', () => {
  const input = (more: Partial<CallModelInput> = {}) => ({ rides: true, ...more }) as CallModelInput
  const job = (failed: FailedAttempt[] = [], more: object = {}) =>
    ({
      attempt: { number: failed.length + 1, failed, failures: 0 },
      link: { signal: new AbortController().signal },
      ...more,
    }) as unknown as Job
  const threw: FailedAttempt = { attempt: 1, class: 'ModelError', message: 'overloaded', retryable: true }
  const died: FailedAttempt = { attempt: 1, class: 'WorkerDied', message: 'died', retryable: true }

  it('a model call has riding reads if its workflow accepts them, even after an attempt that threw', () => {
    expect([takesRides(job(), input()), takesRides(job([threw]), input({ prior: tallied(noAttempts(), [threw]) }))]).toEqual([true, true])
    expect(takesRides(job(), {} as CallModelInput)).toBe(false)
  })

  it('a model call has no riding reads after a lost attempt, or with an answer that outlived its executor', () => {
    expect(takesRides(job([died]), input())).toBe(false)
    expect(takesRides(job([{ ...died, code: 'neighbour' }]), input())).toBe(false)
    expect(takesRides(job([lostAttempt(2, undefined)]), input())).toBe(false)
    expect(takesRides(job(), input({ prior: tallied(noAttempts(), [died]) }))).toBe(false)
    expect(takesRides(job([], { answer: {} }), input())).toBe(false)
  })
})

it('PAWL_QUICK_CALLS is on by default, can be off or always, and is refused otherwise', () => {
  const choices = ['on', 'off', 'always'] as const
  expect(choices.map((choice) => quickCalls({ PAWL_QUICK_CALLS: choice }))).toEqual(choices)
  expect(quickCalls({})).toBe('on')
  expect(() => quickCalls({ PAWL_QUICK_CALLS: '0' })).toThrow(
    /PAWL_QUICK_CALLS is "0"\. Set it to "on" \(the default\), "off" or "always"\./,
  )
})
