// Checkpoints by policy: when one is due after an event.
import { describe, expect, it } from 'vitest'
import { checkpointAt, checkpointDue } from '../../../src/session/checkpointing.ts'
import { NO_USAGE } from '../../../src/session/content.ts'
import type { CheckpointPolicy, EventBody, SessionEvent } from '../../../src/session/events.ts'
import { apply, initialState } from '../../../src/session/fold/fold.ts'
import { DEFAULT_RECOVERY } from '../../../src/session/recovery/recovery.ts'
import type { SessionState } from '../../../src/session/state.ts'

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
    { type: 'session_started', sessionId: 's', agent: 'a', context: null, tags: [], executionId: 'e', coreVersion: 2 },
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

/** The checkpoints that the policy makes: the reason for each, and the type of the event before it. */
function made(turns: number, policy?: CheckpointPolicy): string[] {
  let state: SessionState | undefined
  const checkpoints: string[] = []
  let seq = 0
  const add = (body: EventBody): void => {
    const event = { v: 1, seq: ++seq, at: seq * 1_000, ...body } as SessionEvent
    if (event.type === 'session_started') state = initialState(event)
    else if (state) apply(state, event)
    const reason = state && checkpointDue(state, event, event.at >= (checkpointAt(state) ?? Number.POSITIVE_INFINITY))
    if (reason === undefined) return
    checkpoints.push(`${reason} after ${event.type}`)
    add({ type: 'checkpoint_made', version: checkpoints.length, reason })
  }
  for (const body of played(turns, policy)) add(body)
  return checkpoints
}

describe('a checkpoint', () => {
  it('is made after every turn by default', () => {
    expect(made(2)).toEqual(['turn after tool_completed', 'turn after tool_completed', 'turn after run_completed'])
  })

  it('is made after every tool call on request', () => {
    expect(made(1, 'tool_call')).toEqual(['tool_call after tool_completed', 'turn after tool_completed', 'turn after run_completed'])
  })

  it('is made every n turns', () => {
    expect(made(5, { everyTurns: 2 })).toEqual([
      'every_turns after tool_completed',
      'every_turns after tool_completed',
      'every_turns after run_completed',
    ])
    expect(made(1, { everyTurns: 50 })).toEqual([])
  })

  it('is made once enough time has passed, which is checked after each turn', () => {
    expect(made(4, { everyMs: 14_000 })).toEqual(['every_ms after tool_completed', 'every_ms after tool_completed'])
  })

  it('is made at events of one type, or only at those of one tool, milestone or custom event', () => {
    expect(made(1, { on: [{ type: 'milestone_reached', milestone: 'm1' }] })).toEqual(['event:milestone_reached after milestone_reached'])
    expect(made(1, { on: [{ type: 'emitted', name: 'e1' }] })).toEqual(['event:emitted after emitted'])
    expect(made(1, { on: [{ type: 'emitted' }] })).toHaveLength(2)
    expect(made(1, { on: [{ type: 'tool_completed', tool: 'put' }] })).toHaveLength(2)
    expect(made(1, { on: [{ type: 'tool_completed', tool: 'other' }] })).toEqual([])
  })
})
