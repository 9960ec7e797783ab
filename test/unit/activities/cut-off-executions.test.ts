// What is read of executions that were ended from outside, by their histories.
import { defaultPayloadConverter } from '@temporalio/common'
import { expect, it } from 'vitest'
import { storeCutOffExecutions } from '../../../src/activities/cut-off-executions.ts'

const payloads = (...values: unknown[]) => ({ payloads: values.map((value) => defaultPayloadConverter.toPayload(value)) })
const numbered = (events: object[]) => events.map((event, index) => ({ ...event, eventId: index + 1 }))
/** By execution: status, and history. */
type KnownExecutions = Record<string, { status: string; events: object[] }>
function needsOf(known: KnownExecutions, last: string, codec?: object) {
  const client = {
    options: { namespace: 'n', loadedDataConverter: { payloadConverter: defaultPayloadConverter, payloadCodecs: codec ? [codec] : [] } },
    connection: {
      workflowService: {
        getWorkflowExecutionHistory: async ({ execution }: { execution: { runId: string } }) => ({
          history: { events: numbered(known[execution.runId]!.events).slice(-1) },
        }),
      },
    },
    workflowService: {
      getWorkflowExecutionHistoryReverse: async ({ execution }: { execution: { runId: string } }) => ({
        history: { events: numbered(known[execution.runId]!.events).reverse() },
      }),
    },
    workflow: {
      getHandle: (_: string, id: string) => ({
        fetchHistory: async () => ({ events: numbered(known[id]!.events) }),
        describe: async () => ({ status: { name: known[id]!.status }, startTime: new Date(Object.keys(known).indexOf(id)) }),
      }),
      list: async function* () {
        for (const runId of [...Object.keys(known), 'third']) yield { runId }
      },
    },
  }
  const store = {
    lastExecution: async () => ({ executionId: last, erasedAt: null }),
    head: async () => ({ seq: 10, digest: 'd' }),
    events: async () => [],
  }
  const logger = { debug() {}, info() {}, warn() {}, error() {} }
  return { store, client, reader: {}, logger, abandoned: false } as unknown as Parameters<typeof storeCutOffExecutions>[2]
}
const said = { seq: 11, type: 'message_received', messageId: 'm', content: 'hello' }
const chain = (): KnownExecutions => ({
  first: {
    status: 'CONTINUED_AS_NEW',
    events: [
      { workflowExecutionStartedEventAttributes: { input: payloads({}) } },
      { workflowExecutionContinuedAsNewEventAttributes: { newExecutionRunId: 'second' } },
    ],
  },
  second: {
    status: 'TERMINATED',
    events: [
      {
        workflowExecutionStartedEventAttributes: {
          input: payloads({ carried: { state: { seq: 10 }, digest: 'd', tail: [said], previous: 'first' } }),
          continuedExecutionRunId: 'first',
        },
      },
      { workflowTaskScheduledEventAttributes: {} },
      { workflowTaskFailedEventAttributes: { cause: 1 } },
      { workflowExecutionTerminatedEventAttributes: {} },
    ],
  },
})
it.each([{ named: {} }, { named: { unreplayable: { executionId: 'second', reason: 'x' } } }])(
  'a message that was carried over continue-as-new is not lost silently if no worker could begin the new execution: %o',
  async ({ named }) => {
    await expect(storeCutOffExecutions('s', 'third', needsOf(chain(), 'first'), named)).rejects.toMatchObject({
      code: 'execution_unreadable',
      message: expect.stringContaining('events that an earlier execution passed on to it'),
    })
  },
)

it('an execution that no key can decode is reported, and can be abandoned by a person, if there are two', async () => {
  const codec = {
    encode: async (p: unknown) => p,
    decode: async () => {
      throw new Error('no key')
    },
  }
  const known: KnownExecutions = {
    a: { status: 'TERMINATED', events: chain().second!.events },
    b: {
      status: 'TERMINATED',
      events: [
        ...chain().second!.events.slice(0, 2),
        { workflowTaskCompletedEventAttributes: {} },
        { activityTaskScheduledEventAttributes: { activityType: { name: 'flush' }, input: payloads({}) } },
      ],
    },
  }
  const needs = needsOf(known, 'a', codec)
  await expect(storeCutOffExecutions('s', 'third', needs, {})).rejects.toMatchObject({ code: 'execution_unreadable' })
  expect(await storeCutOffExecutions('s', 'third', { ...needs, abandoned: true }, {})).toEqual({})
})
