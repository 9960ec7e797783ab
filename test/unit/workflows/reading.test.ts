// Activities that read a session for the sender of an update: how they are tried again, and how a failure reaches the sender.
import { ApplicationFailure, CancelledFailure } from '@temporalio/common'
import { describe, expect, it } from 'vitest'
import type { SessionEvent } from '../../../src/session/events.ts'
import { readFor, readWhileStill } from '../../../src/workflows/requests/reading.ts'

type Answer = { kind: 'found'; at: number } | { kind: 'stale_watermark'; reason?: string }

/** Cannot read that many times, then can. */
function readableAfter(times: number): () => Promise<Answer> {
  let asked = 0
  return async () =>
    ++asked > times ? { kind: 'found', at: asked } : { kind: 'stale_watermark', reason: 'the execution is still loading' }
}

describe('a session that cannot be read yet', () => {
  it('reading a session is retried if it cannot be read yet', async () => {
    expect(await readFor(readableAfter(2))).toEqual({ kind: 'found', at: 3 })
  })

  it('if a session still cannot be read, the request is refused with the last reason', async () => {
    const refused = readFor(readableAfter(100))
    const message = expect.stringContaining('could not be read back: the execution is still loading. Try again.')
    await expect(refused).rejects.toMatchObject({ type: 'stale_watermark', nonRetryable: true, details: [{ message }] })
  })

  it('if a worker of an earlier build gave no reason, a request for an unreadable session is refused without one', async () => {
    const message = expect.stringContaining('could not be read back. Try again.')
    await expect(readFor(async () => ({ kind: 'stale_watermark' }))).rejects.toMatchObject({ details: [{ message }] })
  })

  it('if a session is cancelled while it cannot be read, the request is refused', async () => {
    const refused = readFor(() => Promise.reject(new CancelledFailure('cancelled')))
    await expect(refused).rejects.toBeInstanceOf(ApplicationFailure)
    await expect(refused).rejects.toMatchObject({
      type: 'events_unavailable',
      details: [{ message: expect.stringContaining('cancelled') }],
    })
  })
})

it('a search is made again if an outcome arrives during it, and not if something else does', async () => {
  const events: SessionEvent[] = []
  const journal = {
    watermark: () => ({ seq: events.length, digest: '' }),
    since: (seq: number) => events.slice(seq),
  }
  const arriving = ['tool_resolved', 'message_received', 'tool_resolved'].map((type) => ({ type }) as SessionEvent)
  const found = await readWhileStill(
    journal,
    async () => {
      const known = events.length
      const [next] = arriving.splice(0, 1)
      if (next) events.push(next)
      return known
    },
    ({ type }) => type === 'tool_resolved',
  )
  expect(found).toBe(1)
})
