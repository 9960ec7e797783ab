// Which attempts a new orchestrator treats as never given to an executor: those about which no other process knows more.
import { hostname } from 'node:os'
import { defaultPayloadConverter } from '@temporalio/common'
import { ActivityNotFoundError, type Client } from '@temporalio/client'
import { describe, expect, it } from 'vitest'
import { identityOf, releaseOrphans } from '../../../src/worker/orchestrator/executors/orphans.ts'

const EXECUTION = { workflowId: 'pawl:s', executionId: 'x' }
const LOG = { debug() {}, info() {}, warn() {}, error() {} }
const ORPHAN = { activityId: '7', activityType: { name: 'executeTool' }, state: 2, attempt: 1, lastWorkerIdentity: identityOf(11, 'mine') }

const DEAD = `${hostname()}:21`
const heartbeat = (more: { executor?: string }) => ({
  payloads: [defaultPayloadConverter.toPayload({ attempt: 3, begun: true, failed: [], worker: 'host:11', ...more })],
})

/** The failures that the activity is answered with if orchestrator 11 is dead. `held`: an executor has the activity. */
async function answers(activity: object, { held = false, mayHaveHeld = false, answer = () => {} } = {}) {
  const failures: { type?: string; nonRetryable?: boolean; details?: unknown[] | null }[] = []
  const client = {
    options: { loadedDataConverter: { payloadConverter: defaultPayloadConverter, payloadCodecs: [] } },
    workflow: { getHandle: () => ({ describe: async () => ({ raw: { pendingActivities: [{ ...ORPHAN, ...activity }] } }) }) },
    activity: {
      async fail(_: object, failure: (typeof failures)[number]) {
        answer()
        failures.push(failure)
      },
    },
  } as unknown as Client
  await releaseOrphans(client, EXECUTION, { workerSecret: 'mine', predecessors: [11], exited: [21], mayHaveHeld, isHeld: () => held }, LOG)
  return failures
}

describe('an attempt that a dead orchestrator was handed', () => {
  it.each(['callModel', 'executeTool', 'verifyTool'])(
    'an attempt that a dead orchestrator had received is reported as not begun if no executor has it (%s)',
    async (name) => {
      expect(await answers({ activityType: { name } })).toMatchObject([{ type: 'NotFoundError', nonRetryable: true }])
    },
  )

  it.each<[string, boolean]>([
    ['callModel', true],
    ['executeTool', true],
    ['resolveTool', false],
  ])(
    'an attempt that a dead orchestrator had received died with an executor that no orchestrator saw die, if no executor has it (%s)',
    async (name, nonRetryable) => {
      const [failure] = await answers({ activityType: { name } }, { mayHaveHeld: true })
      expect(failure).toMatchObject({ type: 'WorkerDied', nonRetryable })
      expect(failure?.details ?? []).toEqual([])
    },
  )

  it.each(['resolveTool', 'checkAnswer'])(
    'an attempt that a dead orchestrator had received is retried by Temporal if its sender waits for the answer (%s)',
    async (name) => {
      expect(await answers({ activityType: { name } })).toMatchObject([{ type: 'NotFoundError', nonRetryable: false }])
    },
  )

  it.each<[string, object, { held?: boolean }]>([
    ['an executor has it', {}, { held: true }],
    ['another orchestrator was handed it', { lastWorkerIdentity: identityOf(12, 'mine') }, {}],
    ['an orchestrator with that pid in another container was handed it', { lastWorkerIdentity: identityOf(11, 'another') }, {}],
    ['a heartbeat names an executor that lives', { heartbeatDetails: heartbeat({ executor: `${hostname()}:22` }) }, {}],
    ['a heartbeat names none', { heartbeatDetails: heartbeat({}) }, {}],
    ['a heartbeat is unreadable', { heartbeatDetails: { payloads: [{}] } }, {}],
    ['an executor has it, although another one that it names is dead', { heartbeatDetails: heartbeat({ executor: DEAD }) }, { held: true }],
    ['earlier attempts of it were lost', { attempt: 2 }, {}],
    ['no orchestrator has been handed it yet', { state: 1 }, {}],
    ['it is not the work of executors', { activityType: { name: 'flush' } }, {}],
  ])('an attempt that a dead orchestrator had received is left alone if %s', async (_, activity, more) => {
    expect(await answers(activity, more)).toEqual([])
  })

  it.each<[string, boolean]>([
    ['callModel', true],
    ['executeTool', true],
    ['checkAnswer', false],
  ])(
    'an orphaned attempt died with its executor if its heartbeat names a dead one, whichever attempt it is (%s)',
    async (name, nonRetryable) => {
      const heartbeatDetails = heartbeat({ executor: DEAD })
      const [failure] = await answers({ activityType: { name }, attempt: 2, heartbeatDetails })
      expect(failure).toMatchObject({ type: 'WorkerDied', nonRetryable })
      expect(failure?.details).toMatchObject([{ attempt: 3, begun: true, worker: DEAD, cause: 'crash' }])
    },
  )

  it('an attempt that a dead orchestrator had received may have been answered in the meantime', async () => {
    const answer = (): never => {
      throw new ActivityNotFoundError('gone')
    }
    await expect(answers({}, { answer })).resolves.toEqual([])
  })
})
