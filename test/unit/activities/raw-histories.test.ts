// What an execution that no worker can replay passes on, according to its raw history.
import type { Client } from '@temporalio/client'
import { defaultPayloadConverter } from '@temporalio/common'
import { describe, expect, it } from 'vitest'
import { readUnstored } from '../../../src/activities/raw-histories.ts'
import type { HistoryEvent } from '../../../src/connect/histories.ts'

const payloads = (...values: unknown[]) => ({ payloads: values.map((value) => defaultPayloadConverter.toPayload(value)) })
const started = (argument: object): HistoryEvent => ({ workflowExecutionStartedEventAttributes: { input: payloads(argument) } })
const signalled = (signalName: string): HistoryEvent => ({ workflowExecutionSignaledEventAttributes: { signalName, input: payloads({}) } })
const accepted = (name: string): HistoryEvent => ({
  workflowExecutionUpdateAcceptedEventAttributes: { acceptedRequest: { meta: { updateId: name }, input: { name } } },
})
const scheduled = (name: string, input: object): HistoryEvent => ({
  activityTaskScheduledEventAttributes: { activityType: { name }, input: payloads(input) },
})
const ended = (scheduledAt: number, result: unknown): HistoryEvent => ({
  activityTaskCompletedEventAttributes: { scheduledEventId: scheduledAt as never, result: payloads(result) },
})
const at = (seq: number) => ({ watermark: { seq, digest: 'd' } })
const asks = (run: number, turn: number, seq: number) => scheduled('callModel', { run, turn, ...at(seq) })
const uses = (run: number, turn: number, seq: number) =>
  scheduled('executeTool', { run, turn, resolution: { index: 0, tool: 'pay', effect: 'external' }, ...at(seq) })
const requested = { kind: 'completed', calls: [{}] }

function read(stored: number, ...events: HistoryEvent[]) {
  const history = { events: events.map((event, index) => ({ ...event, eventId: (index + 1) as never })) }
  const client = {
    options: { namespace: 'n', loadedDataConverter: { payloadConverter: defaultPayloadConverter, payloadCodecs: [] } },
    workflow: { getHandle: () => ({ fetchHistory: async () => history }) },
  } as unknown as Client
  return readUnstored('s', 'e', stored, client)
}

const namesOf = ({ received }: Awaited<ReturnType<typeof read>>) =>
  received.map((one) => (one.kind === 'signal' ? one.name : one.request.input?.name))

describe('the signals and updates', () => {
  it('that came after the newest stored activity are passed on in their order, and a close whenever it came', async () => {
    const unstored = await read(
      5,
      started({}),
      signalled('close'),
      signalled('message'),
      asks(1, 1, 5),
      signalled('message'),
      accepted('pause'),
    )
    expect(namesOf(unstored)).toEqual(['close', 'message', 'pause'])
    expect(unstored.lost).toBeUndefined()
  })

  it('include a close that an earlier execution had passed on', async () => {
    const carried = { state: { seq: 3 }, closing: { when: 'idle', by: 'ann' } }
    expect(namesOf(await read(3, started({ carried }), asks(1, 1, 3)))).toEqual(['close'])
  })
})

describe('the answers', () => {
  it('are those that arrived after the newest stored activity; a tool call that has none is listed without a result', async () => {
    const { answers, lost } = await read(
      7,
      started({}),
      asks(1, 1, 3),
      ended(2, requested),
      uses(1, 1, 7),
      ended(4, { kind: 'completed' }),
      uses(1, 1, 9),
    )
    expect(answers).toMatchObject([{ of: 'call', callId: 't_1_1_0', result: { kind: 'completed' } }, { of: 'call' }])
    expect(answers[1]).not.toHaveProperty('result')
    expect(lost).toBeUndefined()
  })

  it('include those that the execution had itself from one before it, wherever it loaded them', async () => {
    const inherited = { of: 'call', run: 1, turn: 1, callId: 't_1_1_0' }
    const { answers } = await read(9, started({}), scheduled('loadSession', {}), ended(2, { answers: [inherited] }), asks(1, 2, 9))
    expect(answers).toEqual([inherited])
  })
})

describe('a session would lose', () => {
  it('nothing if the store has all that an earlier execution carried over, and its events otherwise', async () => {
    const carried = { state: { seq: 8 }, tail: [{}, {}] }
    const history = [started({ carried }), asks(1, 1, 12)] as const
    expect((await read(10, ...history)).lost).toBeUndefined()
    expect((await read(9, ...history)).lost).toContain('an earlier execution')
  })

  it('nothing if the unstored calls are of the first run that follows, and the calls of a later run', async () => {
    const first = [started({}), asks(1, 1, 3), asks(2, 1, 6), ended(3, requested), uses(2, 1, 9)]
    expect((await read(4, ...first)).lost).toBeUndefined()
    const second = [
      started({}),
      asks(1, 1, 3),
      asks(2, 1, 6),
      ended(3, { kind: 'completed', calls: [] }),
      asks(3, 1, 9),
      ended(5, requested),
      uses(3, 1, 12),
    ]
    expect((await read(4, ...second)).lost).toBe('tool calls')
  })

  it('unstored calls between which more than messages arrived', async () => {
    const calls = [asks(2, 1, 6), ended(3, requested), uses(2, 1, 9)] as const
    expect((await read(4, started({}), asks(1, 1, 3), ...calls, signalled('message'))).lost).toBeUndefined()
    expect((await read(4, started({}), asks(1, 1, 3), ...calls, signalled('interrupt'))).lost).toBe('tool calls')
    expect((await read(4, started({}), asks(1, 1, 3), ...calls, accepted('rollback'))).lost).toBe('tool calls')
  })
})
