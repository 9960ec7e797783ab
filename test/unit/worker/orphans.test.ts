// What a new orchestrator takes for never given to an executor: of anything else, somebody knows more.
import { ActivityNotFoundError, type Client } from '@temporalio/client'
import { describe, expect, it } from 'vitest'
import { identityOf, releaseOrphans } from '../../../src/worker/orchestrator/orphans.ts'

const EXECUTION = { workflowId: 'pawl:s', executionId: 'x' }
const LOG = { debug() {}, info() {}, warn() {}, error() {} }
const ORPHAN = { activityId: '7', activityType: { name: 'executeTool' }, state: 2, attempt: 1, lastWorkerIdentity: identityOf(11) }

/** The failures that the activity is answered with, where orchestrator 11 is dead; `held`: an executor has the activity. */
async function answers(activity: object, { held = false, answer = () => {} } = {}) {
  const failures: { type?: string; nonRetryable?: boolean }[] = []
  const client = {
    workflow: { getHandle: () => ({ describe: async () => ({ raw: { pendingActivities: [{ ...ORPHAN, ...activity }] } }) }) },
    activity: {
      async fail(_: object, failure: { type?: string; nonRetryable?: boolean }) {
        answer()
        failures.push(failure)
      },
    },
  } as unknown as Client
  await releaseOrphans(client, EXECUTION, { predecessors: [11], isHeld: () => held }, LOG)
  return failures
}

describe('an attempt that a dead orchestrator was handed', () => {
  it.each(['callModel', 'executeTool', 'verifyTool'])('is said not to have begun if nobody has it (%s)', async (name) => {
    expect(await answers({ activityType: { name } })).toMatchObject([{ type: 'NotFoundError', nonRetryable: true }])
  })

  it.each(['resolveTool', 'checkAnswer'])('is made again by Temporal if its sender waits for the answer (%s)', async (name) => {
    expect(await answers({ activityType: { name } })).toMatchObject([{ type: 'NotFoundError', nonRetryable: false }])
  })

  it.each<[string, object, { held?: boolean }]>([
    ['an executor has it', {}, { held: true }],
    ['another orchestrator was handed it', { lastWorkerIdentity: identityOf(12) }, {}],
    ['a heartbeat has told of it', { heartbeatDetails: { payloads: [{}] } }, {}],
    ['earlier attempts of it were lost', { attempt: 2 }, {}],
    ['nobody has been handed it yet', { state: 1 }, {}],
    ['it is not the work of executors', { activityType: { name: 'flush' } }, {}],
  ])('is left alone if %s', async (_, activity, more) => {
    expect(await answers(activity, more)).toEqual([])
  })

  it('may have been answered for meanwhile', async () => {
    const answer = (): never => {
      throw new ActivityNotFoundError('gone')
    }
    await expect(answers({}, { answer })).resolves.toEqual([])
  })
})
