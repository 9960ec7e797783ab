// The flushing of a workflow: everything that is requested is stored, whenever it is requested.
import type * as workflow from '@temporalio/workflow'
import { describe, expect, it, vi } from 'vitest'
import type { FlushInput } from '../../../src/calls/activities.ts'
import type { Journal } from '../../../src/workflows/journal.ts'
import { startFlushing } from '../../../src/workflows/flushing.ts'

const server = vi.hoisted(() => ({ flush: undefined as unknown as (input: unknown) => Promise<{ seq: number }> }))
vi.mock('../../../src/workflows/scheduling.ts', () => ({ flush: (input: unknown) => server.flush(input) }))
vi.mock('@temporalio/workflow', async (original) => ({
  ...(await original<typeof workflow>()),
  // Outside a workflow there is no scope to run in: what matters here is that there is a promise in between.
  CancellationScope: { nonCancellable: async <T>(run: () => Promise<T>): Promise<T> => await run() },
  sleep: () => Promise.resolve(),
  condition: () => new Promise(() => {}),
}))

describe('a nudge', () => {
  it.each(Array.from({ length: 12 }, (_, steps) => steps))(
    'a nudge %i microtasks after a flush was answered is not lost',
    async (steps) => {
      let seq = 1
      const stored: number[] = []
      let answer = (): void => undefined
      server.flush = (input) => {
        const asked = (input as FlushInput).watermark.seq
        return new Promise((resolve) => {
          answer = () => {
            stored.push(asked)
            resolve({ seq: asked })
          }
        })
      }
      const journal = { state: { epoch: 'e' }, watermark: () => ({ seq, digest: '' }) } as Journal
      const flushing = startFlushing(journal, 0, () => undefined)
      flushing.nudge()
      answer()
      for (let step = 0; step < steps; step++) await Promise.resolve()
      seq = 2
      flushing.nudge()
      // Long after the window that is tested here.
      for (let step = 0; step < 40; step++) await Promise.resolve()
      answer()
      expect(stored).toEqual([1, 2])
    },
  )
})

it('a session whose store has another past waits without spinning when it closes', async () => {
  server.flush = () => Promise.resolve({ seq: 0, foreign: true } as never)
  const journal = { state: { epoch: 'e' }, watermark: () => ({ seq: 1, digest: '' }) } as Journal
  let isForeign = false
  const flushing = startFlushing(journal, 0, () => (isForeign = true))
  let hasEnded = false
  void flushing.drained().then(() => (hasEnded = true))
  // A timer fires only if no chain of microtasks keeps the event loop from it.
  await new Promise((resolve) => setTimeout(resolve, 10))
  expect({ isForeign, hasEnded }).toEqual({ isForeign: true, hasEnded: false })
})
