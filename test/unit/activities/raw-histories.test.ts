// What an execution that no worker can replay passes on, according to its raw history.
import type { Client } from '@temporalio/client'
import { defaultPayloadConverter } from '@temporalio/common'
import { afterEach, describe, expect, it } from 'vitest'
import type { EventsInStore } from '../../../src/activities/already-stored.ts'
import { readRepeated, readUnstored } from '../../../src/activities/raw-histories.ts'
import type { SessionEvent } from '../../../src/session/events.ts'
import type { SessionState } from '../../../src/session/state.ts'
import type { HistoryEvent } from '../../../src/connect/histories.ts'

const payloads = (...values: unknown[]) => ({ payloads: values.map((value) => defaultPayloadConverter.toPayload(value)) })
const started = (argument: object): HistoryEvent => ({ workflowExecutionStartedEventAttributes: { input: payloads(argument) } })
const began = (argument: object, originalExecutionRunId: string): HistoryEvent => ({
  workflowExecutionStartedEventAttributes: { input: payloads(argument), originalExecutionRunId },
})
const signalled = (signalName: string, details: object = {}): HistoryEvent => ({
  workflowExecutionSignaledEventAttributes: { signalName, input: payloads(details) },
})
const accepted = (name: string, details: object = {}): HistoryEvent => ({
  workflowExecutionUpdateAcceptedEventAttributes: {
    acceptedRequest: { meta: { updateId: name }, input: { name, args: payloads(details) } },
  },
})
const admitted = (name: string, details: object = {}): HistoryEvent => ({
  workflowExecutionUpdateAdmittedEventAttributes: {
    request: { meta: { updateId: name }, input: { name, args: payloads(details) } },
  },
})
/** The acceptance of an update that was admitted. */
const acceptedAfter = (name: string): HistoryEvent => ({ workflowExecutionUpdateAcceptedEventAttributes: { protocolInstanceId: name } })
const refused = (acceptedAt: number): HistoryEvent => ({
  workflowExecutionUpdateCompletedEventAttributes: { acceptedEventId: acceptedAt as never, outcome: { failure: { message: 'no' } } },
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

/** What the server says of activities that never ended. */
let pending: { activityId: string; heartbeatDetails: ReturnType<typeof payloads> }[] = []
afterEach(() => {
  pending = []
})

function read(stored: number, ...events: HistoryEvent[]) {
  return readWith(stored, [], ...events)
}

/** `known`: the stored events. */
function readWith(stored: number, known: readonly object[], ...events: HistoryEvent[]) {
  return readUnstored('s', 'e', ...sources(stored, known, events))
}

/** `state`: the stored session. */
async function lostIn(stored: number, state: object, ...events: HistoryEvent[]): Promise<string | undefined> {
  const [known, client] = sources(stored, [], events)
  const { lost } = await readUnstored('s', 'e', { ...known, state: async () => state as SessionState }, client)
  return lost
}

function repeatedIn(stored: number, known: readonly object[], ...events: HistoryEvent[]) {
  return readRepeated({ sessionId: 's', executionId: 'e', after: undefined }, ...sources(stored, known, events))
}

function sources(stored: number, known: readonly object[], events: readonly HistoryEvent[]): [EventsInStore, Client] {
  const history = { events: events.map((event, index) => ({ ...event, eventId: (index + 1) as never })) }
  const client = {
    options: { namespace: 'n', loadedDataConverter: { payloadConverter: defaultPayloadConverter, payloadCodecs: [] } },
    workflow: { getHandle: () => ({ fetchHistory: async () => history, describe: async () => ({ raw: { pendingActivities: pending } }) }) },
  } as unknown as Client
  const storedEvents = known.map((event, index) => ({ seq: index + 1, ...event })) as SessionEvent[]
  const after = async function* (seq: number) {
    yield* storedEvents.filter((event) => event.seq > seq)
  }
  return [{ upTo: stored, after, state: async () => null }, client]
}

const namesOf = ({ received }: Awaited<ReturnType<typeof read>>) => received.map(({ name }) => name)

describe('the signals and updates', () => {
  it('signals and updates after the newest stored activity are passed on in order, and a close regardless of when it came', async () => {
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

  it('the signals and updates include a close that an earlier execution had passed on', async () => {
    const carried = { state: { seq: 3 }, closing: { when: 'idle', by: 'ann' } }
    expect(namesOf(await read(3, started({ carried }), asks(1, 1, 3)))).toEqual(['close'])
  })
})

describe('after a flush that was cut off between two activities', () => {
  const said = (messageId: string) => signalled('message', { messageId, content: 'x' })
  const received = (seq: number, messageId: string) => ({ seq, type: 'message_received', messageId, content: 'x' })

  it('requests whose events are stored are not passed on: messages, a rollback, other requests', async () => {
    const known = [
      { seq: 2, type: 'turn_started', run: 1, turn: 1, takes: ['a'] },
      received(3, 'b'),
      { seq: 4, type: 'session_paused' },
      { seq: 5, type: 'rolled_back', toSeq: 1, upToSeq: 2, target: { message: 'a' }, effects: [] },
      { seq: 6, type: 'run_started', run: 2, messageId: 'b' },
    ]
    const history = [
      started({}),
      asks(1, 1, 2),
      said('b'),
      accepted('pause'),
      accepted('rollback', { target: { message: 'a' }, by: 'ann' }),
      accepted('unpause'),
      said('c'),
      accepted('rollback', { target: { message: 'a' } }),
      asks(2, 1, 9),
    ]
    expect(namesOf(await readWith(6, known, ...history))).toEqual(['unpause', 'message', 'rollback'])
    expect(namesOf(await readWith(2, known, ...history))).toHaveLength(6)
  })

  it('an interrupt is not passed on once it has ended its run, or another run has begun', async () => {
    const history = [started({}), asks(1, 1, 2), signalled('interrupt', { reason: 'enough' }), said('b'), asks(2, 1, 9)]
    const interrupted = { seq: 4, type: 'run_interrupted', run: 1, reason: 'enough' }
    expect(namesOf(await readWith(4, [received(3, 'b'), interrupted], ...history))).toEqual([])
    expect(namesOf(await readWith(3, [received(3, 'b')], ...history))).toEqual(['interrupt'])
    const begun = [received(3, 'b'), { seq: 4, type: 'run_completed', run: 1 }, { seq: 5, type: 'run_started', run: 2, messageId: 'b' }]
    expect(namesOf(await readWith(5, begun, ...history))).toEqual([])
  })
})

describe('an update that waits for an activity', () => {
  const looks = (seq: number) => scheduled('findPlace', at(seq))
  const done = (acceptedAt: number): HistoryEvent => ({
    workflowExecutionUpdateCompletedEventAttributes: { acceptedEventId: acceptedAt as never, outcome: { success: {} } },
  })
  const rolledBack = { seq: 4, type: 'rolled_back', toSeq: 1, upToSeq: 2, target: { run: 1 }, effects: [] }
  const history = [started({}), asks(1, 1, 2), accepted('rollback', { target: { run: 1 } }), looks(3)]

  it('an update that waits for an activity is passed on until its event is stored, whether or not it had been answered', async () => {
    for (const rest of [[], [done(3)]]) {
      expect(namesOf(await readWith(3, [], ...history, ...rest))).toEqual(['rollback'])
      expect(namesOf(await readWith(4, [rolledBack], ...history, ...rest))).toEqual([])
    }
  })

  it('an update that waits for an activity is not passed on if it had ended before the stored events', async () => {
    expect(namesOf(await readWith(6, [rolledBack], ...history, done(3), asks(2, 1, 6)))).toEqual([])
  })
})

describe('an update that was refused', () => {
  it('an update that was refused is not passed on, because it might be carried out this time', async () => {
    expect(namesOf(await read(2, started({}), asks(1, 1, 2), accepted('recover'), accepted('pause'), refused(3)))).toEqual(['pause'])
  })
})

describe('an update that a reset sent again', () => {
  it('an update that a reset sent again is passed on, accepted or not, unless it was refused', async () => {
    const history = [started({}), asks(1, 1, 2), admitted('pause'), admitted('raise'), admitted('unpause')]
    const rest = [acceptedAfter('pause'), acceptedAfter('raise'), refused(7)]
    expect(namesOf(await read(2, ...history, ...rest))).toEqual(['pause', 'unpause'])
  })
})

const carriedAt = (seq: number, more: object = {}) => ({ carried: { state: { seq }, ...more } })
const reset: HistoryEvent = { workflowTaskFailedEventAttributes: { cause: 20 } }
const next: HistoryEvent = { workflowTaskScheduledEventAttributes: {} }

describe('requests of other executions', () => {
  it('an equal request to an execution before the reset one does not hide a new request', async () => {
    const known = [
      { seq: 5, type: 'session_paused' },
      { seq: 6, type: 'session_unpaused' },
    ]
    const history = [began(carriedAt(100), 'second'), next, reset, admitted('pause'), signalled('message', { content: 'yes' }), next]
    const old = [{ seq: 3, type: 'message_received', messageId: 'x', content: 'yes' }, ...known]
    expect(await repeatedIn(100, old, ...history)).toEqual({ signals: [], updates: [] })
  })

  it('an equal request to an execution that continued as new does not hide a new request', async () => {
    const old = [
      { seq: 3, type: 'message_received', messageId: 'x', content: 'yes' },
      { seq: 5, type: 'session_paused' },
      { seq: 7, type: 'run_interrupted', run: 1, reason: 'stop' },
    ]
    const history = [
      began(carriedAt(100), 'second'),
      signalled('message', { content: 'yes' }),
      accepted('pause'),
      signalled('interrupt', { reason: 'stop' }),
    ]
    expect(namesOf(await readWith(100, old, ...history))).toEqual(['message', 'pause', 'interrupt'])
  })

  it('answers that a session carried over continue-as-new are inherited again', async () => {
    const inherited = [{ of: 'call', run: 1, turn: 1, callId: 't_1_1_0' }]
    const { answers } = await read(100, started(carriedAt(100, { inherited })), signalled('message', { messageId: 'a' }))
    expect(answers).toEqual(inherited)
  })

  it('an update that was passed on, and that its client sent again, is passed on once', async () => {
    const rollback = { kind: 'update', name: 'rollback', details: { target: { run: 1 } }, id: 'rollback' }
    const history = [
      started({}),
      scheduled('loadSession', {}),
      ended(2, { found: true, requests: [rollback] }),
      accepted('rollback', { target: { run: 1 } }),
    ]
    const rolledBack = { seq: 4, type: 'rolled_back', toSeq: 1, upToSeq: 2, target: { run: 1 }, effects: [] }
    expect(namesOf(await readWith(3, [], ...history))).toEqual(['rollback'])
    expect(namesOf(await readWith(4, [rolledBack], ...history))).toEqual([])
  })

  it('a cancellation that closed the session before a message reopened it is not passed on again', async () => {
    const cancelled: HistoryEvent = { workflowExecutionCancelRequestedEventAttributes: {} }
    const known = [
      { seq: 4, type: 'session_closed', reason: 'requested' },
      { seq: 5, type: 'message_received', messageId: 'b' },
    ]
    const history = [
      started({}),
      asks(1, 1, 2),
      cancelled,
      scheduled('flush', at(4)),
      signalled('message', { messageId: 'b' }),
      asks(2, 1, 7),
    ]
    expect(namesOf(await readWith(7, known, ...history))).toEqual([])
  })

  it('a message that was sent twice with one id, and rolled back, is not sent again', async () => {
    const m = () => signalled('message', { messageId: 'm', content: 'x' })
    const known = [
      { seq: 2, type: 'message_received', messageId: 'm', content: 'x' },
      { seq: 3, type: 'rolled_back', toSeq: 1, upToSeq: 2, target: { run: 1 }, effects: [] },
    ]
    const history = [started({}), next, reset, m(), m(), admitted('rollback', { target: { run: 1 } }), next]
    expect(await repeatedIn(4, known, ...history)).toEqual({ signals: [0, 1], updates: ['rollback'] })
  })
})

describe('what a reset sent again', () => {
  const rollback = { target: { run: 1 } }
  const rolledBack = (seq: number) => ({ seq, type: 'rolled_back', toSeq: 1, upToSeq: 2, ...rollback, effects: [] })
  const known = [{ seq: 2, type: 'session_paused' }, rolledBack(3), { seq: 4, type: 'message_received', messageId: 'b', content: 'x' }]
  const again = [signalled('interrupt', { reason: 'no' }), admitted('rollback', rollback), signalled('message', { messageId: 'b' })]

  it('after a reset, a request whose events are stored counts as a repeat, and one that arrives after the first task counts as new', async () => {
    const history = [
      started({}),
      signalled('message', { messageId: 'a' }),
      asks(1, 1, 2),
      next,
      reset,
      ...again,
      next,
      accepted('rollback', rollback),
    ]
    expect(await repeatedIn(4, known, ...history)).toEqual({ signals: [2], updates: ['rollback'] })
  })

  it('events that were stored before an execution began say nothing about its requests', async () => {
    const resumed = { seq: 4, type: 'session_resumed', executionId: 'first' }
    const history = [began({}, 'first'), next, reset, admitted('rollback', rollback), next]
    expect(await repeatedIn(4, [rolledBack(3), resumed], ...history)).toEqual({ signals: [], updates: [] })
    expect(await repeatedIn(5, [{ ...resumed, seq: 3 }, rolledBack(4)], ...history)).toEqual({ signals: [], updates: ['rollback'] })
  })
})

describe('the answers', () => {
  it('results after the newest stored activity are found; a tool call without one has no result', async () => {
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

  it('the late result of a call without an answer is passed on although events have been stored since it arrived', async () => {
    const answers = [{ of: 'call', run: 1, turn: 1, callId: 't_1_1_0' }]
    const result = (callId: string) => signalled('late_result', { callId, attempt: 1 })
    const loaded = [started({}), scheduled('loadSession', {}), ended(2, { found: true, answers })] as const
    const history = [...loaded, result('t_1_1_0'), result('t_1_1_1'), signalled('message'), scheduled('flush', at(4))]
    const { received } = await read(4, ...history)
    expect(received).toEqual([{ kind: 'signal', name: 'late_result', details: { callId: 't_1_1_0', attempt: 1 } }])
  })

  it('the results include those that the execution inherited, wherever it loaded them', async () => {
    const inherited = { of: 'call', run: 1, turn: 1, callId: 't_1_1_0' }
    const { answers } = await read(
      9,
      started({}),
      scheduled('loadSession', {}),
      ended(2, { found: true, answers: [inherited] }),
      asks(1, 2, 9),
    )
    expect(answers).toEqual([inherited])
  })
})

it('an error that the session left in the same turn is passed on as a failed attempt, so that no message begins another turn', async () => {
  const failed = { kind: 'failed', code: 'down', reason: 'It is down.', failed: [{ attempt: 1 }] }
  const history = [started({}), asks(1, 1, 3), ended(2, failed), asks(1, 1, 5)]
  expect((await read(3, ...history)).answers).toMatchObject([{ result: failed }])
  expect((await read(3, ...history, ended(4, requested))).answers).toMatchObject([
    { result: { kind: 'again', afterMs: 0, failed: [{ attempt: 1 }] } },
    { result: requested },
  ])
})

describe('what an execution had itself from one before it', () => {
  const approve = { kind: 'update', name: 'approve', details: { callId: 't_1_1_0' }, id: 'u1' }
  const message = { kind: 'signal', name: 'message', details: { messageId: 'a', content: 'x' } }
  const loading = [started({}), signalled('message', { messageId: 'b', content: 'y' }), scheduled('loadSession', {})]
  const loaded = ended(3, { found: true, requests: [message, approve] })
  const decided = { seq: 2, type: 'approval_decided', callId: 't_1_1_0', approved: true }

  it('requests that an execution inherited are passed on before its own', async () => {
    const { received } = await read(0, ...loading, loaded)
    expect(received.slice(0, 2)).toEqual([message, approve])
    expect(received[2]).toMatchObject({ name: 'message', details: { messageId: 'b' } })
  })

  it('requests that an execution inherited are not passed on once their events are stored', async () => {
    const received = { seq: 1, type: 'message_received', messageId: 'a', content: 'x' }
    expect(namesOf(await readWith(2, [received, decided], ...loading, loaded, asks(1, 2, 2)))).toEqual([])
    expect(namesOf(await readWith(1, [received], ...loading, loaded, asks(1, 2, 1)))).toEqual(['approve'])
  })

  it('a message with a deadline keeps the time at which the first execution received it', async () => {
    const eventTime = { seconds: 5 as never }
    const { received } = await read(0, started({}), { ...signalled('message', { messageId: 'm', content: 'y', deadlineMs: 9 }), eventTime })
    expect(received).toMatchObject([{ details: { deadlineMs: 9, receivedAt: 5_000 } }])
    const again = { ...signalled('message', { messageId: 'm', content: 'y', deadlineMs: 9, receivedAt: 4_000 }), eventTime }
    expect((await read(0, started({}), again)).received).toMatchObject([{ details: { receivedAt: 4_000 } }])
  })

  it('a message without an id gets the same id wherever it is passed on', async () => {
    const { received } = await read(0, started({}), signalled('message', { content: 'y' }))
    expect(received).toEqual([{ kind: 'signal', name: 'message', details: { content: 'y', messageId: 'e/2' } }])
  })
})

describe('a session would lose', () => {
  it('a session would lose the events that an earlier execution carried over, unless the store has them all', async () => {
    const carried = { state: { seq: 8 }, tail: [{}, {}] }
    const history = [started({ carried }), asks(1, 1, 12)] as const
    expect((await read(10, ...history)).lost).toBeUndefined()
    expect((await read(9, ...history)).lost).toContain('an earlier execution')
  })

  it('a session would lose the unstored calls of a later run, but not those of the first run that follows', async () => {
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

  const IDLE = { status: 'idle', error: null, run: 1, current: null, inbox: [] }
  const asking = (turn: number) => ({ ...IDLE, status: 'running', current: { run: 1, turn, phase: 'model' } })

  it('a session would lose the unstored calls of a run whose message could join the one before, however that one ended', async () => {
    const calls = [asks(3, 1, 8), ended(4, requested), uses(3, 1, 11)] as const
    const failed = { kind: 'failed', code: 'down', reason: 'It is down.' }
    for (const result of [failed, { kind: 'interrupted' }, { kind: 'stopped', hook: 'guard', reason: 'no' }]) {
      const history = [started({}), asks(2, 1, 6), ended(2, result), ...calls]
      expect(await lostIn(4, IDLE, ...history)).toBe('tool calls')
      // The next run is the one of the calls.
      expect(await lostIn(7, { ...IDLE, run: 2 }, ...history)).toBeUndefined()
    }
    // A message whose deadline had passed had a run of which the history shows nothing.
    expect(await lostIn(4, IDLE, started({}), asks(3, 1, 8), ended(2, requested), uses(3, 1, 11))).toBe('tool calls')
  })

  it('a session would lose unstored calls after a turn that has no answer, unless it is the one in which the model is being asked', async () => {
    const failed = { kind: 'failed', code: 'down', reason: 'It is down.' }
    const history = [started({}), asks(1, 1, 3), ended(2, failed), asks(1, 2, 6), ended(4, requested), uses(1, 2, 9)]
    expect(await lostIn(4, asking(1), ...history)).toBeUndefined()
    expect(await lostIn(2, { ...IDLE, run: 0 }, ...history)).toBe('tool calls')
    // A message takes part in the recovery, but not in what followed if its time came first.
    const waiting = { ...asking(1), status: 'error', error: { strategy: 'continue_run', nextAttemptAt: 1 } }
    expect(await lostIn(4, waiting, ...history)).toBe('tool calls')
    const paused = [started({}), asks(1, 1, 3), ended(2, { kind: 'completed', calls: [] }), ...history.slice(3)]
    expect(await lostIn(2, { ...IDLE, run: 0 }, ...paused)).toBeUndefined()
  })

  it('answers that an execution had from one before it, and has used, do not make the calls of a later run unplaceable', async () => {
    const answers = [{ of: 'model', run: 1, turn: 1, result: requested }]
    const loaded = [started({}), scheduled('loadSession', {}), ended(2, { found: true, answers })] as const
    const history = [...loaded, asks(2, 1, 9), ended(4, requested), uses(2, 1, 12)]
    expect(
      await lostIn(9, { ...IDLE, status: 'running', run: 2, current: { run: 2, turn: 1, phase: 'model' } }, ...history),
    ).toBeUndefined()
  })

  it('a session would lose unstored calls between which more than messages arrived', async () => {
    const calls = [asks(2, 1, 6), ended(3, requested), uses(2, 1, 9)] as const
    expect((await read(4, started({}), asks(1, 1, 3), ...calls, signalled('message'))).lost).toBeUndefined()
    expect((await read(4, started({}), asks(1, 1, 3), ...calls, signalled('interrupt'))).lost).toBe('tool calls')
    expect((await read(4, started({}), asks(1, 1, 3), ...calls, accepted('rollback'))).lost).toBe('tool calls')
  })

  it('a session would lose no unstored calls to a checkpoint, a higher budget, or a fork that leaves the run alone', async () => {
    const calls = [asks(2, 1, 6), ended(3, requested), uses(2, 1, 9)] as const
    const lost = async (...rest: HistoryEvent[]) => (await read(4, started({}), asks(1, 1, 3), ...calls, ...rest)).lost
    const beside = [accepted('checkpoint', { reason: 'audit' }), accepted('raise', { maxUsd: 1 }), accepted('fork', { interrupt: false })]
    for (const one of beside) expect(await lost(one)).toBeUndefined()
    expect(await lost(...beside, signalled('message'), accepted('approve'))).toBeUndefined()
    expect(await lost(accepted('fork', {}))).toBe('tool calls')
    expect(await lost(accepted('checkpoint', { reason: 'audit' }), accepted('recover'))).toBe('tool calls')
    const one = [started({}), signalled('message'), ...calls, signalled('interrupt')]
    expect(await lostIn(4, IDLE, ...one, ...beside)).toBeUndefined()
  })

  it('a session would lose no unstored calls to one interrupt or cancellation, unless the model saw more than one message', async () => {
    const [stop, say] = [signalled('interrupt'), signalled('message')]
    const cancelled: HistoryEvent = { workflowExecutionCancelRequestedEventAttributes: {} }
    const calls = [asks(2, 1, 6), ended(3, requested), uses(2, 1, 9)] as const
    const lost = (...rest: HistoryEvent[]) => lostIn(4, IDLE, started({}), say, ...calls, ...rest)
    for (const end of [stop, cancelled]) {
      expect(await lost(end)).toBeUndefined()
      expect(await lost(say, end, say)).toBeUndefined()
    }
    expect(await lost(stop, stop)).toBe('tool calls')
    expect(await lost(accepted('approve'), stop)).toBe('tool calls')
    expect(await lost(say, asks(2, 2, 12), stop)).toBe('tool calls')
    expect(await lostIn(4, { ...IDLE, inbox: [{ messageId: 'stored' }] }, started({}), say, ...calls, stop)).toBe('tool calls')
    // The stop may be meant for the run before.
    expect(await lostIn(4, asking(1), started({}), say, ...calls, stop)).toBe('tool calls')
    const inProgress = [started({}), say, asks(1, 2, 6), ended(3, requested), uses(1, 2, 9), stop]
    expect(await lostIn(4, asking(1), ...inProgress)).toBe('tool calls')
  })
})

it('an update that was passed on counts as done once its event is stored, even if it was refused or changed nothing', async () => {
  const requests = [
    { kind: 'update', name: 'pause', details: {}, id: 'u1' },
    { kind: 'update', name: 'rollback', details: { target: { run: 1 } }, id: 'u2' },
    { kind: 'update', name: 'unpause', details: {}, id: 'u3' },
  ]
  const history = [started({}), scheduled('loadSession', {}), ended(2, { found: true, requests }), asks(1, 1, 2)]
  const known = [
    { type: 'session_resumed', executionId: 'e' },
    { type: 'request_passed_on', id: 'u1', name: 'pause' },
    { type: 'request_passed_on', id: 'u2', name: 'rollback', code: 'invalid_target', reason: 'no' },
  ]
  expect(namesOf(await readWith(3, known, ...history))).toEqual(['unpause'])
})

it('an interrupt that has not ended its run yet is passed on although events have been stored since it arrived', async () => {
  const flushed = scheduled('flush', at(6))
  const begun = [started({}), asks(1, 1, 3), ended(2, requested), uses(1, 1, 5)] as const
  const namesWith = async (run: number, known: readonly object[], ...history: HistoryEvent[]) => {
    const [events, client] = sources(6, known, history)
    const state = { status: 'running', error: null, run, current: { run, turn: 1, phase: 'tools', calls: [] }, inbox: [] }
    return namesOf(await readUnstored('s', 'e', { ...events, state: async () => state as unknown as SessionState }, client))
  }
  const none = Array.from({ length: 6 }, () => ({ type: 'turn_started' }))
  expect(await namesWith(1, none, ...begun, signalled('interrupt'), flushed)).toEqual(['interrupt'])
  expect(await namesWith(1, none, ...begun, signalled('interrupt'), signalled('interrupt'), flushed)).toEqual(['interrupt'])
  // Another run is in progress, or the call had ended before.
  expect(await namesWith(2, none, ...begun, signalled('interrupt'), flushed)).toEqual([])
  expect(await namesWith(1, none, ...begun, ended(4, { kind: 'completed' }), signalled('interrupt'), flushed)).toEqual([])
  // The run failed, which discards the interrupt, and was recovered.
  const failed = [...none.slice(0, 5), { type: 'error_entered', strategy: 'continue_run' }]
  expect(await namesWith(1, failed, ...begun, signalled('interrupt'), flushed)).toEqual([])
})

it('an interrupt is not passed on if the session had already received the answer to every message', async () => {
  const heard = { workflowTaskCompletedEventAttributes: { startedEventId: 5 as never } }
  const unheard = [started({}), signalled('message'), asks(1, 1, 5), ended(3, { kind: 'completed', calls: [] })]
  const answered = [...unheard, { workflowTaskStartedEventAttributes: {} }, heard]
  expect(namesOf(await read(0, ...answered, signalled('interrupt')))).toEqual(['message'])
  expect(namesOf(await read(0, ...unheard, signalled('interrupt')))).toEqual(['message', 'interrupt'])
  expect(namesOf(await read(0, ...answered, signalled('message'), signalled('interrupt')))).toEqual(['message', 'message', 'interrupt'])
  const calling = [started({}), signalled('message'), asks(1, 1, 5), ended(3, requested), { workflowTaskStartedEventAttributes: {} }, heard]
  expect(namesOf(await read(0, ...calling, signalled('interrupt')))).toEqual(['message', 'interrupt'])
})

describe('a call with an effect that ran as part of a model call', () => {
  const answered = { kind: 'completed', calls: [{ index: 0, effect: 'external' }] }
  const report = { attempt: 1, begun: false, failed: [], worker: 'w', riding: { run: 1, turn: 1, callId: 't_1_1_0', index: 0, answered } }
  const lost = [
    { of: 'model', run: 1, turn: 1, result: answered },
    { of: 'call', run: 1, turn: 1, callId: 't_1_1_0' },
  ]

  it('a riding call that was in progress at the end is passed on with the answer, as a call with an unknown outcome', async () => {
    const asked = asks(1, 1, 2)
    Object.assign(asked.activityTaskScheduledEventAttributes ?? {}, { activityId: '7' })
    pending = [{ activityId: '7', heartbeatDetails: payloads(report) }]
    expect((await read(1, started({}), asked)).answers).toEqual(lost)
  })

  it('a riding call whose model call failed is passed on in the same way, before what followed', async () => {
    const failed = { failure: { applicationFailureInfo: { details: payloads(report) } }, scheduledEventId: 2 as never }
    const history = [started({}), asks(1, 1, 2), { activityTaskFailedEventAttributes: failed }, uses(1, 1, 5)]
    expect((await read(1, ...history)).answers).toEqual([...lost, lost[1]])
  })

  it('the outcome of a riding call is passed on with its answer', async () => {
    const result = { ...answered, rides: [{ index: 0, ms: 1, result: { kind: 'completed', attempt: 1 } }] }
    expect((await read(1, started({}), asks(1, 1, 2), ended(2, result))).answers).toEqual([{ of: 'model', run: 1, turn: 1, result }])
  })

  it('a riding call would be lost if the session does not reach its run', async () => {
    const result = { ...answered, rides: [{ index: 0, ms: 1, result: { kind: 'completed', attempt: 1 } }] }
    const idle = { run: 1, status: 'idle', current: null, inbox: [] }
    expect(await lostIn(1, idle, started({}), asks(2, 1, 2), ended(2, result))).toBeUndefined()
    expect(await lostIn(1, idle, started({}), asks(3, 1, 2), ended(2, result))).toBe('tool calls')
  })
})
