// The `endHooks` job when it cannot read the session.
import { describe, expect, it } from 'vitest'
import type { Agent } from '../../../src/agent/agent.ts'
import { endHooks } from '../../../src/jobs/end-hooks.ts'
import { ArchiveUnavailable, StaleWatermark } from '../../../src/calls/errors.ts'
import type { Job, JobNeeds } from '../../../src/jobs/needs.ts'

const JOB = { sessionId: 's', executionId: 'e', attempt: { number: 1, failed: [], failures: 0 } } as unknown as Job
const INPUT = { agent: 'a', epoch: 'e', watermark: { seq: 1, digest: 'd' }, run: 1, turn: 1 }

const needs = (error: Error, agents: string[] = ['a']): JobNeeds =>
  ({
    agents: new Map(agents.map((name) => [name, { name, hooks: [] } as unknown as Agent])),
    views: { view: () => Promise.reject(error) },
  }) as unknown as JobNeeds

describe('hooks at the end of a run have to be requested again', () => {
  it.each([
    ['stale_watermark', new StaleWatermark('the log differs')],
    ['archive_unavailable', new ArchiveUnavailable({ cause: new Error('Postgres does not answer') })],
  ])('hooks at the end of a run have to be requested again because of %s', async (kind, error) => {
    expect(await endHooks(needs(error), JOB, INPUT)).toEqual({ kind })
  })

  it('hooks at the end of a run have to be requested again because this worker does not serve the agent', async () => {
    expect(await endHooks(needs(new Error('not read'), []), JOB, INPUT)).toEqual({ kind: 'not_served' })
  })
})
