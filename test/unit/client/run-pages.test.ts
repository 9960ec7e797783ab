// What the handle of a message says about events that it reads page by page, from the store alone.
import { type Client, WorkflowNotFoundError } from '@temporalio/client'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { runHandle } from '../../../src/client/session/run.ts'
import { watchRun } from '../../../src/client/session/run-outcome.ts'
import type { SettledRun } from '../../../src/client/types.ts'
import type { EventBody, SessionEvent } from '../../../src/session/events.ts'
import type { Store } from '../../../src/store/store.ts'
import { eventfulSessions } from '../session/sound-session.ts'
import { sessionStarted } from '../../support/session-started.ts'

/** How the message's run has settled in a session whose workflow is gone and whose store returns at most `pageSize` events at a time. */
async function settledIn(events: readonly SessionEvent[], messageId: string, pageSize: number): Promise<SettledRun> {
  const store: Pick<Store, 'events' | 'locateMessage' | 'watch' | 'hasHeardWithin'> = {
    async events(_id, { after = 0, limit = pageSize, types } = {}) {
      const next = events.filter(({ seq, type }) => seq > after && (types === undefined || types.includes(type)))
      return next.slice(0, Math.min(limit, pageSize))
    },
    locateMessage: async () => ({ after: 0 }),
    watch: () => () => undefined,
    hasHeardWithin: () => true,
  }
  const gone = async (): Promise<never> => {
    throw new WorkflowNotFoundError('it is gone', 'pawl:s', undefined)
  }
  const client = {
    withDeadline: (_until: number, work: () => unknown) => work(),
    workflow: { getHandle: () => ({ query: gone, describe: gone }) },
  }
  const closed = new AbortController().signal
  const source = { sessionId: 's', client: client as unknown as Client, store: store as Store, closed, seen: { seq: 0 } }
  return runHandle(source, messageId).settled({ timeout: 5_000 })
}

const numbered = (...bodies: EventBody[]): SessionEvent[] =>
  bodies.map((body, index) => ({ v: 1, seq: index + 1, at: index, ...body }) as SessionEvent)

describe('the handle of a message whose events fill several pages', () => {
  it('a handle reports the same about a run for every page size', async () => {
    await fc.assert(
      fc.asyncProperty(eventfulSessions, fc.integer({ min: 1, max: 5 }), async ({ events }, pageSize) => {
        for (const event of events) {
          if (event.type !== 'message_received') continue
          const whole = watchRun(event.messageId).take(events)?.settled
          if (whole) expect(await settledIn(events, event.messageId, pageSize)).toEqual(whole)
        }
      }),
      { numRuns: 60 },
    )
  })

  it('a failed run that a recovery on the next page continues is not reported as failed', async () => {
    const usage = { input_tokens: 1, output_tokens: 1, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
    const events = numbered(
      sessionStarted(),
      { type: 'message_received', messageId: 'm', content: 'go' },
      { type: 'run_started', run: 1, messageId: 'm' },
      { type: 'turn_started', run: 1, turn: 1, takes: ['m'] },
      { type: 'error_entered', run: 1, turn: 1, code: 'x', reason: 'it failed', strategy: 'continue_run' },
      { type: 'recovery_started', run: 1, strategy: 'continue_run' },
      { type: 'run_completed', run: 1, turns: 1, stopReason: 'end_turn', usage },
    )
    expect(await settledIn(events, 'm', 5)).toMatchObject({ status: 'completed', run: 1 })
  })
})
