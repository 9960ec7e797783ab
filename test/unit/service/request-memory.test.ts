// The memory of requests: who waits for whom, and who is refused.
import { setMaxListeners } from 'node:events'
import { describe, expect, it } from 'vitest'
import { requestMemory } from '../../../src/service/request-memory.ts'
import { codeOf } from '../../support/codes.ts'

const never = new AbortController().signal
setMaxListeners(0, never)
const memory = (patienceMs = 60_000) => requestMemory({ totalBytes: 100, callerBytes: 40, patienceMs })

describe('the memory of requests', () => {
  it('a request waits until an earlier one of its caller has released its memory; other callers do not wait', async () => {
    const { reserve } = memory()
    const release = await reserve('ann', 30, never)
    const order: string[] = []
    const second = reserve('ann', 20, never).then((done) => (order.push('second'), done))
    const third = reserve('ann', 5, never).then((done) => (order.push('third'), done))
    await reserve('bob', 40, never)
    expect(order).toEqual([])
    release()
    release()
    ;(await second)()
    await third
    expect(order).toEqual(['second', 'third'])
  })

  it('a request that needs more than its caller may use is answered alone', async () => {
    const { reserve } = memory()
    const release = await reserve('ann', 1_000, never)
    const next = reserve('ann', 1, never)
    release()
    await next
  })

  it('a request that needs nothing never waits', async () => {
    const { reserve } = memory()
    await reserve('ann', 40, never)
    await reserve('ann', 0, never)
  })

  it('a request is refused after a while: because of its caller, or because of all callers', async () => {
    const { reserve } = memory(20)
    for (const caller of ['ann', 'bob']) await reserve(caller, 40, never)
    await expect(reserve('ann', 10, never)).rejects.toMatchObject({ code: 'too_busy', status: 429 })
    await expect(reserve('carol', 30, never)).rejects.toMatchObject({ code: 'too_busy', status: 503 })
    await reserve('carol', 20, never)
  })

  it('a request whose client gives up leaves its place to the next one', async () => {
    const { reserve } = memory()
    const release = await reserve('ann', 40, never)
    const client = new AbortController()
    const given = reserve('ann', 40, client.signal)
    const next = reserve('ann', 40, never)
    client.abort(new Error('gone'))
    await expect(given).rejects.toThrow('gone')
    release()
    await next
  })

  it('a request is refused at once if a thousand of its caller wait already', async () => {
    const { reserve } = memory()
    await reserve('ann', 40, never)
    const stop = new AbortController()
    setMaxListeners(0, stop.signal)
    const waiting = Array.from({ length: 1_000 }, () => codeOf(reserve('ann', 1, stop.signal)))
    expect(await codeOf(reserve('ann', 1, never))).toBe('too_busy')
    stop.abort()
    await Promise.all(waiting)
  })
})
