// Kept histories of real sessions, replayed by the current workflow code (promise P9): it must follow the same path through them and make
// exactly the same events. If this fails, the change needs a new CORE_VERSION and a gate (see docs/internals/rules.md); only histories that no
// release has written may be recorded again (test/replay/record.ts).
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { CallModelResult } from '../../src/calls/activities.ts'
import { continues } from '../../src/session/digest.ts'
import type { SessionEvent } from '../../src/session/events.ts'
import { CORE_VERSION } from '../../src/session/protocol/protocol.ts'
import { type KeptExecution, type KeptSession, keptSessions } from './recording/kept.ts'
import { type Replayed, type Replayer, startReplayer } from './replay.ts'
import { seed, variants } from '../support/sizes.ts'

const sessions = keptSessions()
const executions = sessions.flatMap(({ name, workflowId, executions, recorded: { coreVersion } }) =>
  executions.map((execution, index) => ({
    session: name,
    name: `${name}, execution ${index + 1} of ${executions.length}`,
    workflowId,
    execution,
    coreVersion,
  })),
)

let replayer: Replayer
beforeAll(async () => {
  replayer = await startReplayer()
})
afterAll(() => replayer?.close())

/** Sessions in which a signal arrived during a workflow task: the repeated task had another time than its replays have. */
const REDONE = new Set(['steady'])

const asText = (event: SessionEvent): string => JSON.stringify(event)
const withoutTime = (event: SessionEvent): string => JSON.stringify({ ...event, at: 0 })

/** Expects the workflow code to make the same events from an execution's history as when it was recorded. */
function expectTheSame({ error, entries }: Replayed, { base, end, events }: KeptExecution, told = asText): void {
  expect(error).toBeUndefined()
  expect(entries.map((entry) => told(JSON.parse(entry.json) as SessionEvent))).toEqual(events.map(told))
  expect(continues(base, entries)).toBe(true)
  expect(entries.at(-1)).toMatchObject(end)
}

describe('a kept history', () => {
  it.each(executions)('a kept history replays to the same events: $name', async ({ session, workflowId, execution }) => {
    expectTheSame(await replayer.replay(workflowId, execution), execution, REDONE.has(session) ? withoutTime : asText)
  })

  it.each(sessions)(
    'a kept history is a whole session in which each execution continues where the one before ended: $name',
    ({ executions }) => {
      // A fork begins with another session's past.
      const first = executions[0]
      let end = first?.events[0]?.type === 'forked' ? first.base : { seq: 0, digest: '' }
      let before: SessionEvent[] = []
      for (const { base, end: next, events } of executions) {
        // Both executions have the events that arrived while the one before was about to end.
        const tail = before.filter(({ seq }) => seq > base.seq)
        expect(base.seq + tail.length).toBe(end.seq)
        if (tail.length === 0) expect(base).toEqual(end)
        expect(events.slice(0, tail.length).map(withoutTime)).toEqual(tail.map(withoutTime))
        end = next
        before = events
      }
    },
  )
})

/** The execution with other workflow task times: after a sticky queue's timeout, the SDK gives a task and its replay different times. */
function timed(execution: KeptExecution, change: (at: number, task: number) => number): KeptExecution {
  const { history } = structuredClone(execution) as { history: { events: { eventType?: string; eventTime?: string }[] } }
  const started = history.events.filter(({ eventType }) => eventType === 'EVENT_TYPE_WORKFLOW_TASK_STARTED')
  for (const [task, event] of started.entries()) event.eventTime = new Date(change(Date.parse(event.eventTime ?? ''), task)).toISOString()
  return { ...execution, history }
}

describe(`a kept history with other workflow task times (seed ${seed}, again with PAWL_SEED)`, () => {
  const HOUR = 3_600_000
  const WAYS: [string, (at: number, task: number) => number][] = [
    ['each second one has that of the one before', (at, task) => (task % 2 === 0 ? at : at - HOUR)],
    ['the others have that of the one before', (at, task) => (task % 2 === 1 ? at : at - HOUR)],
    ['an hour lies between any two', (at, task) => at + task * HOUR],
    ['no time passes', (at, task) => at - task * HOUR],
    ...[1, 3, 8, 21].map((from): (typeof WAYS)[number] => [
      `an hour passes before task ${from}`,
      (at, task) => (task < from ? at : at + HOUR),
    ]),
  ]
  const ways = variants(WAYS, 3)
  const newest = executions.filter(({ coreVersion }) => coreVersion === CORE_VERSION)

  it.each(newest)(
    'a kept history with other workflow task times follows the same path to the same digest: $name',
    async ({ workflowId, execution }) => {
      const wrong: string[] = []
      for (const [way, change] of ways) {
        const { error, entries } = await replayer.replay(workflowId, timed(execution, change))
        if (error) wrong.push(`${way}: ${error.message}`)
        else if (entries.at(-1)?.digest !== execution.end.digest) wrong.push(`${way}: ${entries.map(({ json }) => json).join('\n')}`)
      }
      expect(wrong).toEqual([])
    },
  )

  it('a kept history with other workflow task times has other times in its events', async () => {
    const { workflowId, execution } = newest[0]!
    const { entries } = await replayer.replay(
      workflowId,
      timed(execution, (at, task) => at + task * HOUR),
    )
    expect(entries.map((entry) => entry.json)).not.toEqual(execution.events.map((event) => JSON.stringify(event)))
  })
})

describe('a history whose model calls have riding reads', () => {
  const byName = (name: string): KeptSession => sessions.find((one) => one.name === name)!

  /** The execution as if its executors had been of a build whose reads ride, and its workflow of one that ignores them. */
  function withIgnoredRides(execution: KeptExecution): { execution: KeptExecution; rides: number } {
    const { history } = structuredClone(execution) as { history: { events: HistoryEvent[] } }
    let rides = 0
    const payloads = history.events.flatMap((event) => event.activityTaskCompletedEventAttributes?.result?.payloads ?? [])
    for (const payload of payloads) {
      const result = JSON.parse(Buffer.from(payload.data, 'base64').toString()) as Partial<CallModelResult & { kind: 'completed' }>
      if (!result.calls?.length) continue
      rides += result.calls.length
      result.rides = result.calls.map(({ index }) => ({
        index,
        ms: 1,
        result: { kind: 'completed', attempt: 1, startedAt: 1, worker: 'w', value: 'ridden' },
      }))
      payload.data = Buffer.from(JSON.stringify(result)).toString('base64')
    }
    return { execution: { ...execution, history }, rides }
  }

  interface HistoryEvent {
    activityTaskCompletedEventAttributes?: { result?: { payloads: { data: string }[] } }
  }

  it('a history whose workflow ignored riding reads, as that of an earlier build does, replays to the same events', async () => {
    const { workflowId, executions } = byName('turns')
    const { execution, rides } = withIgnoredRides(executions[0]!)
    expect(rides).toBeGreaterThan(1)
    expectTheSame(await replayer.replay(workflowId, execution), execution)
  })

  it('a history whose workflow recorded riding reads has fewer activities than calls', () => {
    const { executions } = byName('riding')
    const calls = executions.flatMap(({ events }) => events.filter(({ type }) => type === 'tool_issued')).length
    const text = JSON.stringify(executions.map(({ history }) => history))
    const activities = text.split('"activityType":{"name":"executeTool"}').length - 1
    // The second attempts of those that threw or took too long.
    expect([calls, activities]).toEqual([10, 3])
  })
})

describe('the kept histories', () => {
  /** What an event proves to be covered. */
  function exercises(event: SessionEvent): string[] {
    switch (event.type) {
      case 'tool_issued':
        return [event.type, event.effect]
      case 'tool_completed':
        return [
          event.type,
          ...(event.replayOf === undefined ? [] : ['replayed']),
          ...(event.content === undefined ? [] : ['shown otherwise']),
        ]
      case 'hook_answered': {
        const said = event.error ? 'failed' : Object.keys(event.answer ?? { nothing: true })[0]
        return [event.type, `${event.on}: ${said}`]
      }
      case 'emitted':
        return [event.type, event.hook === undefined ? 'by a tool' : `by ${event.on}`]
      case 'tool_failed':
      case 'error_entered':
      case 'message_rejected':
        return [event.type, event.code]
      case 'tool_unknown':
        return [event.type, ...(event.again === undefined ? [] : ['unknown again'])]
      case 'tool_resolved':
        return [event.type, event.by, event.decision ?? (event.happened ? 'happened' : 'did not happen')]
      case 'tool_attempt_failed':
      case 'model_attempt_failed':
        return [event.type, event.error.class]
      case 'turn_started':
        return [event.type, ...(event.turn > 1 && event.takes.length > 0 ? ['steered'] : [])]
      case 'recovery_started':
      case 'recovery_ended':
        return [event.type, event.strategy]
      case 'approval_decided':
        return [
          event.type,
          event.expired ? 'expired' : event.approved ? 'approved' : 'denied',
          ...(event.input === undefined ? [] : ['changed']),
        ]
      case 'rolled_back':
        return [event.type, event.keepsRun ? 'a turn' : 'more']
      case 'checkpoint_made':
        return [event.type, ...event.reasons]
      case 'session_closed':
        return [event.type, event.reason]
      default:
        return [event.type]
    }
  }

  it('the kept histories cover every event type and every way that a call or a run can go', () => {
    const exercised = new Set(sessions.flatMap(({ executions }) => executions.flatMap(({ events }) => events.flatMap(exercises))))
    expect([...exercised].sort()).toEqual(
      expect.arrayContaining([
        'session_started',
        'session_resumed',
        'session_closed',
        'requested',
        'message_received',
        'message_rejected',
        'undecodable',
        'empty_message',
        'agent_mismatch',
        'run_started',
        'run_completed',
        'run_interrupted',
        'turn_started',
        'steered',
        'model_attempt_failed',
        'ModelError',
        'model_completed',
        'tool_issued',
        'read',
        'idempotent',
        'external',
        'tool_attempt_failed',
        'WorkerDied',
        'LeftModelCall',
        'tool_completed',
        'replayed',
        'shown otherwise',
        'tool_failed',
        'unknown_tool',
        'invalid_arguments',
        'broken',
        'refused',
        'interrupted',
        'tool_unknown',
        'unknown again',
        'tool_resolved',
        'happened',
        'did not happen',
        'error_entered',
        'invalid_request_error',
        'max_turns',
        'deadline_exceeded',
        'agent_not_served',
        'recovery_started',
        'recovery_ended',
        'restart_run',
        'abandon',
        'automatic',
        'checkpoint_made',
        'turn',
        'every_ms',
        'event:milestone_reached',
        'event:tool_completed',
        'by hand',
        'checkpoint_requested',
        'within a turn',
        'milestone_reached',
        'tool_progress',
        'rolled_back',
        'a turn',
        'more',
        'forked',
        'approval_requested',
        'approval_decided',
        'approved',
        'changed',
        'denied',
        'expired',
        'approval_expired',
        'answer_requested',
        'answer_received',
        'answer_timeout',
        'person',
        'retry',
        'skip',
        'hook_answered',
        'agentStart: stop',
        'agentStart: appendContext',
        'turnStart: systemMessage',
        'turnEnd: nothing',
        'preToolUse: deny',
        'preToolUse: modify',
        'preToolUse: failed',
        'postToolUse: appendContext',
        'postToolUseFailure: failed',
        'agentStop: appendContext',
        'hooks_ended',
        'emitted',
        'by a tool',
        'by agentStart',
        'by turnEnd',
        'by preToolUse',
        'by postToolUse',
      ]),
    )
  })

  it('the kept histories include executions that continued as new in the middle of a run, and sessions that were resumed', () => {
    const continued = sessions.flatMap(({ executions }) =>
      executions.filter(({ base, events }) => base.seq > 0 && events[0]?.type === 'turn_started'),
    )
    const resumed = sessions.flatMap(({ executions }) => executions.filter(({ events }) => events[0]?.type === 'session_resumed'))
    expect(continued).not.toEqual([])
    expect(resumed).not.toEqual([])
  })

  it('the kept histories include executions that began with events of the one before that were not yet stored', () => {
    const overlapping = sessions.flatMap(({ executions }) =>
      executions.filter(({ base }, index) => base.seq > 0 && base.seq < (executions[index - 1]?.end.seq ?? 0)),
    )
    expect(overlapping).not.toEqual([])
  })
})

describe('the replay test', () => {
  const kept = (name: string): KeptSession => structuredClone(sessions.find((session) => session.name === name) as KeptSession)

  /** The execution of the session `effects` with its history changed in one place. */
  function tampered(change: (history: string) => string): { workflowId: string; execution: KeptExecution } {
    const { workflowId, executions } = kept('effects')
    const execution = executions[0] as KeptExecution
    const before = JSON.stringify(execution.history)
    const after = change(before)
    expect(after).not.toBe(before)
    return { workflowId, execution: { ...execution, history: JSON.parse(after) as KeptExecution['history'] } }
  }

  it('the replay test refuses a history in which a different activity was scheduled', async () => {
    const { workflowId, execution } = tampered((history) =>
      history.replace('"activityType":{"name":"executeTool"}', '"activityType":{"name":"verifyTool"}'),
    )
    const replayed = await replayer.replay(workflowId, execution)
    expect(replayed.error).toHaveProperty('name', 'DeterminismViolationError')
    expect(() => expectTheSame(replayed, execution)).toThrow()
  })

  it('the replay test refuses a history that begins differently', async () => {
    const { workflowId, execution } = tampered((history) => history.replace(/"input":\{"payloads":\[.*?\]\},/, ''))
    const replayed = await replayer.replay(workflowId, execution)
    expect(() => expectTheSame(replayed, execution)).toThrow()
  })

  it('the replay test notices a changed activity result, which no determinism check detects', async () => {
    const { workflowId, execution } = tampered((history) =>
      history.replaceAll(/"data":"([^"]+)"/g, (_, data: string) => {
        const text = Buffer.from(data, 'base64').toString().replace('"value":"a done"', '"value":"x done"')
        return `"data":"${Buffer.from(text).toString('base64')}"`
      }),
    )
    const replayed = await replayer.replay(workflowId, execution)
    expect(replayed.error).toBeUndefined()
    expect(replayed.entries.filter((entry) => entry.json.includes('x done'))).toHaveLength(1)
    expect(() => expectTheSame(replayed, execution)).toThrow('deeply equal')
  })

  it('the replay test notices an event that the workflow code no longer makes in the same way', async () => {
    const { workflowId, executions } = kept('plain')
    const execution = executions[0] as KeptExecution
    const replayed = await replayer.replay(workflowId, execution)
    const changed = execution.events.map((event) => (event.type === 'run_completed' ? { ...event, turns: event.turns + 1 } : event))
    expect(() => expectTheSame(replayed, { ...execution, events: changed })).toThrow()
    expect(() => expectTheSame(replayed, { ...execution, events: execution.events.slice(1) })).toThrow()
    expect(() => expectTheSame(replayed, { ...execution, end: { ...execution.end, digest: '0'.repeat(32) } })).toThrow()
  })
})
