// The deadline of a model call, as the worker keeps it.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import { type CallDeadline, signalUntil } from '../../../src/jobs/model-call/model-step.ts'
import { unlessAborted } from '../../../src/waiting/unless-aborted.ts'
import { until } from '../../support/until.ts'

const DEADLINE: CallDeadline = { leftMs: () => 100, reason: 'late' }
const never = (): Promise<never> => new Promise(() => undefined)

describe('the signal of a model call', () => {
  it('the signal of a model call aborts at the deadline, even after a garbage collection', async () => {
    setFlagsFromString('--expose-gc')
    const collectGarbage = runInNewContext('gc') as () => void
    const links = Array.from({ length: 50 }, () => new AbortController())
    let aborted = 0
    const call = async (link: AbortController): Promise<void> => {
      const { signal } = signalUntil(DEADLINE, link.signal)
      await unlessAborted(signal, never()).catch(() => aborted++)
    }
    for (const link of links) void call(link)
    await until('all calls were aborted', () => {
      collectGarbage()
      return aborted === links.length
    })
  })

  it('the signal of a model call aborts when the call is stopped, with its reason', () => {
    const link = new AbortController()
    const { signal, end } = signalUntil(DEADLINE, link.signal)
    link.abort(new Error('stopped'))
    end()
    expect(signal.reason).toEqual(new Error('stopped'))
  })
})
