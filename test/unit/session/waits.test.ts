// What a session is reported to wait for, from its state and from the steps that are pending on the server.
import { describe, expect, it } from 'vitest'
import { NO_USAGE } from '../../../src/session/content.ts'
import type { EventBody, SessionEvent } from '../../../src/session/events.ts'
import type { Resolution } from '../../../src/session/call-facts.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import type { SessionState } from '../../../src/session/state.ts'
import { type WaitContext, waitsOf } from '../../../src/session/watching/waits.ts'
import { sessionStarted } from '../../support/session-started.ts'

const IDLE: EventBody[] = [sessionStarted()]
const MODEL: EventBody[] = [
  ...IDLE,
  { type: 'message_received', messageId: 'm', content: 'go' },
  { type: 'run_started', run: 1, messageId: 'm' },
  { type: 'turn_started', run: 1, turn: 1, takes: ['m'] },
]
const resolution = (tool: string, index: number): Resolution => ({
  index,
  tool,
  effect: 'external',
  key: `k${index}`,
  inputDigest: 'd',
  schemaDigest: 's',
  timeoutMs: 1_000,
  retry: { maxRetries: 0, baseDelayMs: 10 },
  verify: false,
})
const call = (tool: string, index = 0) => ({ run: 1, turn: 1, callId: `t_1_1_${index}`, tool })

/** The model has requested these tools, and the first of them is under way. */
function asked(...tools: string[]): EventBody[] {
  const answer: EventBody = {
    type: 'model_completed',
    run: 1,
    turn: 1,
    attempt: 1,
    model: 'scripted',
    content: tools.map((name) => ({ type: 'tool_use', id: 'x', name, input: {} })),
    stopReason: 'tool_use',
    usage: NO_USAGE,
    calls: tools.map(resolution),
  }
  const [first = ''] = tools
  return [...MODEL, answer, { type: 'tool_issued', ...call(first), index: 0, effect: 'external', inputDigest: 'd', input: {} }]
}

const failed = (code: string, strategy: (EventBody & { type: 'error_entered' })['strategy']): EventBody => ({
  type: 'error_entered',
  run: 1,
  turn: 1,
  code,
  reason: 'r',
  strategy,
})
const unknown = (ask?: true): EventBody => ({ type: 'tool_unknown', ...call('pay'), attempt: 1, message: 'lost', ...(ask && { ask }) })
const APPROVAL = { digest: 'd', reason: 'large', expiresAt: 99, onExpiry: 'deny' as const }
const busy = (step: 'model' | 'tool', more: object = {}): WaitContext => ({ steps: [{ step, attempt: 1, since: 5, worker: 'w', ...more }] })
const unserved = { heldUp: { for: 'worker' as const, reason: 'w does not serve it', until: 7 }, worker: undefined }

function stateOf(bodies: readonly EventBody[]): SessionState {
  const events = bodies.map((body, index) => ({ v: 1, seq: index + 1, at: index + 1, ...body }) as SessionEvent)
  return fold(undefined, events) ?? expect.fail()
}

describe('a session waits', () => {
  it.each<[string, EventBody[], WaitContext | undefined, object[]]>([
    ['for a message', IDLE, undefined, [{ for: 'message' }]],
    ['for the model', MODEL, undefined, [{ for: 'model', attempt: 1 }]],
    ['for the model, on that worker', MODEL, busy('model'), [{ for: 'model', attempt: 1, since: 5, worker: 'w' }]],
    [
      'for a worker that takes the model call up',
      MODEL,
      busy('model', unserved),
      [{ for: 'worker', reason: 'w does not serve it', until: 7 }],
    ],
    ['for the next attempt of the model call', MODEL, { steps: [], retryAt: 8 }, [{ for: 'next_attempt', until: 8, attempt: 1 }]],
    [
      'for its turn at the rate gate of the model’s account',
      MODEL,
      { steps: [], calls: [{ for: 'gate', reason: 'refused', account: 'p a', since: 5, until: 9 }] },
      [{ for: 'gate', reason: 'refused', account: 'p a', since: 5, until: 9, attempt: 1 }],
    ],
    ['for a tool', asked('pay'), busy('tool'), [{ for: 'tool', callId: 't_1_1_0', tool: 'pay', attempt: 1, worker: 'w' }]],
    [
      'for the next attempt of a tool call',
      asked('pay'),
      { steps: [], retryAt: 8 },
      [{ for: 'next_attempt', callId: 't_1_1_0', until: 8 }],
    ],
    [
      'for a person who approves',
      [...asked('pay'), { type: 'approval_requested', ...call('pay'), ...APPROVAL }],
      undefined,
      [{ for: 'person', to: 'approve', callId: 't_1_1_0', tool: 'pay', digest: 'd', reason: 'large', until: 99 }],
    ],
    ['for a person who resolves', [...asked('pay'), unknown(true)], undefined, [{ for: 'person', to: 'resolve', callId: 't_1_1_0' }]],
    [
      'for a person who unpauses it, beside everything else',
      [...MODEL, { type: 'session_paused', by: 'ann', reason: 'a deploy' }],
      undefined,
      [{ for: 'person', to: 'unpause', reason: 'a deploy', since: 5 }, { for: 'model' }],
    ],
    [
      'for a client',
      [...asked('ask'), { type: 'answer_requested', ...call('ask'), expiresAt: 9 }],
      undefined,
      [{ for: 'client', to: 'answer', callId: 't_1_1_0', until: 9 }],
    ],
    ['for a person who recovers it', [...MODEL, failed('bad_request', 'restart_run')], undefined, [{ for: 'person', to: 'recover' }]],
    [
      'first for a person who resolves what is unknown, then for one who recovers it',
      [...asked('pay'), unknown(), failed('bad_request', 'manual')],
      undefined,
      [
        { for: 'person', to: 'resolve', callId: 't_1_1_0', tool: 'pay' },
        { for: 'person', to: 'recover' },
      ],
    ],
    [
      'for a worker that serves its agent',
      [...MODEL, failed('agent_not_served', 'automatic')],
      busy('model', unserved),
      [{ for: 'worker', reason: 'w does not serve it' }],
    ],
    [
      'for its next attempt',
      [...MODEL, { ...failed('overloaded_error', 'continue_run'), nextAttemptAt: 9 } as EventBody],
      undefined,
      [{ for: 'next_attempt', until: 9 }],
    ],
    ['for Postgres', [...MODEL, failed('archive_unavailable', 'automatic')], undefined, [{ for: 'postgres' }]],
  ])('a session waits %s', (_, bodies, seen, waits) => {
    const found = waitsOf(stateOf(bodies), seen)
    expect(found).toHaveLength(waits.length)
    expect(found).toMatchObject(waits)
  })

  it('a session’s wait for a worker is listed in addition to its calls if the server does not say which call it is for', () => {
    const both = [
      ...asked('pay', 'put'),
      { type: 'tool_issued', ...call('put', 1), index: 1, effect: 'read', inputDigest: 'd', input: {} } as EventBody,
    ]
    const steps = [...busy('tool').steps, ...busy('tool', unserved).steps]
    expect(waitsOf(stateOf(both), { steps }).map((wait) => [wait.for, wait.callId])).toEqual([
      ['worker', undefined],
      ['tool', 't_1_1_0'],
      ['tool', 't_1_1_1'],
    ])
  })
})
