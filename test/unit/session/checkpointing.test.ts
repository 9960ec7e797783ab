// Checkpoints by policy: when one is due after an event.
import { describe, expect, it } from 'vitest'
import { checkpointAfter, checkpointAt } from '../../../src/session/checkpointing.ts'
import { NO_USAGE } from '../../../src/session/content.ts'
import type { CheckpointPolicy } from '../../../src/session/agent-facts.ts'
import type { EventBody, SessionEvent } from '../../../src/session/events.ts'
import { apply, initialState } from '../../../src/session/fold/fold.ts'
import { DEFAULT_RECOVERY } from '../../../src/session/recovery/recovery.ts'
import type { SessionState } from '../../../src/session/state.ts'
import { sessionStarted } from '../../support/session-started.ts'

const resolution = {
  tool: 'put',
  effect: 'idempotent' as const,
  inputDigest: 'd',
  schemaDigest: 's',
  timeoutMs: 1,
  retry: { maxRetries: 0, baseDelayMs: 1 },
  verify: false,
}

/** One run of `turns` turns with two calls each, and an answer. Events are one second apart. */
function played(turns: number, policy?: CheckpointPolicy): EventBody[] {
  const about = { model: 'm', attempt: 1, usage: NO_USAGE }
  const turn = (n: number): EventBody[] => [
    { type: 'turn_started', run: 1, turn: n, takes: n === 1 ? ['q'] : [] },
    {
      type: 'model_completed',
      run: 1,
      turn: n,
      ...about,
      content: [0, 1].map((i) => ({ type: 'tool_use' as const, id: `x${i}`, name: 'put', input: {} })),
      stopReason: 'tool_use',
      calls: [0, 1].map((index) => ({ ...resolution, index })),
    },
    ...[0, 1].flatMap((i): EventBody[] => [
      { type: 'milestone_reached', run: 1, turn: n, callId: `t_1_${n}_${i}`, tool: 'put', name: `m${i}` },
      { type: 'emitted', run: 1, turn: n, callId: `t_1_${n}_${i}`, tool: 'put', attempt: 1, name: `e${i}`, data: { i } },
      { type: 'tool_completed', run: 1, turn: n, callId: `t_1_${n}_${i}`, tool: 'put', attempt: 1, value: 1 },
    ]),
  ]
  return [
    sessionStarted({ coreVersion: 2 }),
    { type: 'message_received', messageId: 'q', content: 'q' },
    { type: 'run_started', run: 1, messageId: 'q' },
    ...(policy
      ? [{ type: 'agent_declared' as const, digest: 'd', limits: { maxTurns: 50 }, checkpoint: policy, recovery: DEFAULT_RECOVERY }]
      : []),
    ...Array.from({ length: turns }, (_, n) => turn(n + 1)).flat(),
    { type: 'turn_started', run: 1, turn: turns + 1, takes: [] },
    {
      type: 'model_completed',
      run: 1,
      turn: turns + 1,
      ...about,
      content: [{ type: 'text', text: 'done' }],
      stopReason: 'end_turn',
      calls: [],
    },
    { type: 'run_completed', run: 1, turns: turns + 1, stopReason: 'end_turn', usage: NO_USAGE },
  ]
}

/** A session to which events are added as the workflow adds them. */
function sessionWith(...bodies: EventBody[]) {
  let state: SessionState | undefined
  const checkpoints: string[] = []
  let seq = 0
  const write = (body: EventBody): SessionEvent => {
    const event = { v: 1, seq: ++seq, at: seq * 1_000, ...body } as SessionEvent
    if (event.type === 'session_started') state = initialState(event)
    else if (state) apply(state, event)
    return event
  }
  const add = (body: EventBody): void => {
    const event = write(body)
    const due = state && checkpointAfter(state, event, event.at >= (checkpointAt(state) ?? Number.POSITIVE_INFINITY))
    if (!due) return
    checkpoints.push(`${due.reasons.join(' + ')}${due.by === undefined ? '' : ` by ${due.by}`} after ${event.type}`)
    write({ type: 'checkpoint_made', version: checkpoints.length, ...due })
  }
  for (const body of bodies) add(body)
  return {
    add,
    /** The reasons for each checkpoint, and the type of the event before it. */
    checkpoints,
    get due() {
      return state?.checkpointDue
    },
  }
}

/** The checkpoints that the policy makes. */
const made = (turns: number, policy?: CheckpointPolicy): string[] => sessionWith(...played(turns, policy)).checkpoints

describe('a checkpoint', () => {
  it('a checkpoint is made after every turn by default', () => {
    expect(made(2)).toEqual(['turn after tool_completed', 'turn after tool_completed', 'turn after run_completed'])
  })

  it('the policy tool_call makes a checkpoint when a turn with calls has closed, and after every turn without calls', () => {
    expect(made(1, 'tool_call')).toEqual(['tool_call after tool_completed', 'turn after run_completed'])
  })

  it('a checkpoint is made every n turns', () => {
    expect(made(5, { everyTurns: 2 })).toEqual([
      'every_turns after tool_completed',
      'every_turns after tool_completed',
      'every_turns after run_completed',
    ])
    expect(made(1, { everyTurns: 50 })).toEqual([])
  })

  it('a checkpoint is made once enough time has passed, which is checked after each turn', () => {
    expect(made(4, { everyMs: 14_000 })).toEqual(['every_ms after tool_completed', 'every_ms after tool_completed'])
  })

  it('a policy makes checkpoints at events of one type, or of one tool, milestone or custom event, when the turn closes', () => {
    expect(made(1, { on: [{ type: 'milestone_reached', milestone: 'm0' }] })).toEqual(['event:milestone_reached after tool_completed'])
    expect(made(1, { on: [{ type: 'emitted', name: 'e1' }] })).toEqual(['event:emitted after tool_completed'])
    expect(made(1, { on: [{ type: 'emitted' }] })).toHaveLength(1)
    expect(made(1, { on: [{ type: 'tool_completed', tool: 'put' }] })).toHaveLength(1)
    expect(made(1, { on: [{ type: 'tool_completed', tool: 'other' }] })).toEqual([])
  })

  it('a checkpoint is made at once at an event between turns', () => {
    expect(made(1, { on: [{ type: 'run_started' }, { type: 'run_completed' }] })).toEqual(['event:run_completed after run_completed'])
  })

  it('a checkpoint lists everything that asked for it within the turn', () => {
    const on: CheckpointPolicy = { on: [{ type: 'milestone_reached' }, { type: 'emitted', name: 'e0' }] }
    expect(made(1, on)).toEqual(['event:milestone_reached + event:emitted after tool_completed'])
  })
})

describe('a checkpoint that is asked for within a turn', () => {
  const ASKED: EventBody = { type: 'checkpoint_requested', reason: 'audit', by: 'ann' }
  const call = (index: number) => ({ run: 1, turn: 1, callId: `t_1_1_${index}`, tool: 'put', attempt: 1 })
  /** The first of two calls has its result, and a person has asked for a checkpoint. */
  const asked = () => sessionWith(...played(1, { on: [] }).slice(0, 9), ASKED)
  const ENDED: EventBody = { type: 'tool_completed', ...call(1), value: 1 }
  const FAILED: EventBody = { type: 'error_entered', run: 1, turn: 1, code: 'deadline_exceeded', reason: 'r', strategy: 'continue_run' }
  const recovered = (strategy: 'continue_run' | 'restart_run' | 'abandon' | 'restart_from_last_effect'): EventBody[] => [
    { type: 'recovery_started', run: 1, strategy, ...(strategy === 'restart_from_last_effect' && { toSeq: 11 }) },
    { type: 'recovery_ended', run: 1, strategy },
  ]

  it('a checkpoint that is asked for within a turn waits for the last result of the turn', () => {
    const session = asked()
    expect(session.checkpoints).toEqual([])
    expect(session.due).toEqual({ reasons: ['audit'], by: 'ann' })
    session.add(ENDED)
    expect(session.checkpoints).toEqual(['audit by ann after tool_completed'])
    expect(session.due).toBeUndefined()
  })

  it('a checkpoint that is asked for within a turn is made where an interrupt leaves the session', () => {
    const session = asked()
    session.add({ type: 'run_interrupted', run: 1 })
    expect(session.checkpoints).toEqual(['audit by ann after run_interrupted'])
  })

  it('a requested checkpoint stays due in an error, and is made when the run continues or where it was abandoned', () => {
    for (const [strategy, before, after] of [
      ['continue_run', [], ['audit by ann after tool_completed']],
      ['abandon', ['audit by ann after recovery_ended'], ['audit by ann after recovery_ended']],
    ] as const) {
      const session = asked()
      session.add(FAILED)
      expect(session.checkpoints).toEqual([])
      for (const body of recovered(strategy)) session.add(body)
      expect(session.checkpoints).toEqual(before)
      if (strategy === 'continue_run') session.add(ENDED)
      expect(session.checkpoints).toEqual(after)
    }
  })

  it('a requested checkpoint survives a recovery within the turn, but not a restart of the run, a rollback or a fork', () => {
    const effect = asked()
    for (const body of [FAILED, ...recovered('restart_from_last_effect')]) effect.add(body)
    expect(effect.checkpoints).toEqual(['audit by ann after recovery_ended'])
    const back: EventBody = { type: 'rolled_back', toSeq: 4, upToSeq: 11, effects: [] }
    const about = { sessionId: 'f', executionId: 'f', coreVersion: 1, from: { sessionId: 's', seq: 11 }, keys: 'carried' } as const
    for (const bodies of [[FAILED, ...recovered('restart_run')], [FAILED, back], [{ type: 'forked', ...about } as EventBody]]) {
      const session = asked()
      for (const body of bodies) session.add(body)
      expect(session.checkpoints).toEqual([])
      expect(session.due).toBeUndefined()
    }
  })

  it('a checkpoint that is asked for within a turn is made where the turn was abandoned because its workflow had ended', () => {
    const session = asked()
    session.add({ type: 'rolled_back', toSeq: 5, upToSeq: 11, keepsRun: true, effects: [] })
    expect(session.checkpoints).toEqual(['audit by ann after rolled_back'])
  })

  it('a checkpoint that is asked for within a turn keeps as many reasons as a bounded state can hold', () => {
    const session = asked()
    for (let n = 0; n < 20; n++) session.add({ type: 'checkpoint_requested', reason: `${n}`.padEnd(1_000, 'x') })
    expect(JSON.stringify(session.due).length).toBeLessThan(6_200)
    expect(session.due?.reasons.slice(0, 2)).toEqual(['audit', '0'.padEnd(1_000, 'x')])
  })
})
