// The output of a run in the pure core: which answers end the run, which are counted, and when the run fails.
import { describe, expect, it } from 'vitest'
import { NO_USAGE, type StopReason } from '../../../src/session/content.ts'
import { decide, dueAt } from '../../../src/session/decide.ts'
import type { EventBody, SessionEvent } from '../../../src/session/events.ts'
import type { Resolution } from '../../../src/session/call-facts.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import { messagesFor } from '../../../src/session/transcript/model-messages.ts'
import { addToTranscript } from '../../../src/session/transcript/adding.ts'
import { emptyTranscript } from '../../../src/session/transcript/transcript.ts'
import { sessionStarted } from '../../support/session-started.ts'

const OPENED: EventBody[] = [
  sessionStarted(),
  { type: 'message_received', messageId: 'm', content: 'go' },
  { type: 'run_started', run: 1, messageId: 'm' },
]
const OUTPUT: Resolution = {
  index: 0,
  tool: 'submit_output',
  effect: 'read',
  builtIn: 'output',
  inputDigest: 'd',
  schemaDigest: '',
  timeoutMs: 0,
  retry: { maxRetries: 0, baseDelayMs: 0 },
  verify: false,
}
const INVALID: Resolution = { ...OUTPUT, invalid: { code: 'invalid_output', message: 'n is missing' } }

/** A turn whose answer makes calls with these resolutions. */
function asked(turn: number, ...calls: Resolution[]): EventBody[] {
  const content = calls.map(({ tool: name }) => ({ type: 'tool_use' as const, id: 'x', name, input: {} }))
  return [
    { type: 'turn_started', run: 1, turn, takes: turn === 1 ? ['m'] : [] },
    { type: 'model_completed', run: 1, turn, attempt: 1, model: 'scripted', content, stopReason: 'tool_use', usage: NO_USAGE, calls },
  ]
}

/** The results of a turn's calls, according to their resolutions. */
const results = (turn: number, ...calls: Resolution[]): EventBody[] =>
  calls.map(({ index, tool, invalid }) => {
    const where = { run: 1, turn, callId: `t_1_${turn}_${index}`, tool, attempt: 0 }
    return invalid ? { type: 'tool_failed', ...where, ...invalid } : { type: 'tool_completed', ...where, value: { n: 1 }, content: 'ok' }
  })

const whole = (turn: number, ...calls: Resolution[]): EventBody[] => [...asked(turn, ...calls), ...results(turn, ...calls)]

/** A turn with a final answer that has no output. */
const missing = (turn: number, stopReason: StopReason = 'end_turn'): EventBody[] => [
  { type: 'turn_started', run: 1, turn, takes: turn === 1 ? ['m'] : [] },
  {
    type: 'model_completed',
    run: 1,
    turn,
    attempt: 1,
    model: 'scripted',
    content: [{ type: 'text', text: 'done' }],
    stopReason,
    usage: NO_USAGE,
    calls: [],
    outputProblem: 'call submit_output',
  },
]

function eventsOf(bodies: readonly EventBody[]): SessionEvent[] {
  return [...OPENED, ...bodies].map((body, index) => ({ v: 1, seq: index + 1, at: 1, ...body }) as SessionEvent)
}

const next = (...bodies: EventBody[]) => decide(fold(undefined, eventsOf(bodies)) ?? expect.fail(), dueAt(0))
const bad = (count: number): EventBody[] => Array.from({ length: count }, (_, index) => whole(index + 1, INVALID)).flat()

describe('a run with an output', () => {
  it('a run with an output completes with the result of the call', () => {
    expect(next(...whole(1, OUTPUT))).toMatchObject({ do: 'complete_run', run: 1, outputCall: 't_1_1_0' })
  })

  it('a run with an output makes the call first: the model’s answer is not the output until the call is recorded', () => {
    expect(next(...asked(1, OUTPUT))).toMatchObject({ do: 'run_calls' })
  })

  it('a run with an output continues after a call that is not accepted, and after an answer without one', () => {
    expect(next(...whole(1, INVALID))).toMatchObject({ do: 'start_turn', turn: 2 })
    expect(next(...missing(1))).toMatchObject({ do: 'start_turn', turn: 2 })
  })

  it('a run with an output returns three invalid answers to the model, and fails on the fourth', () => {
    expect(next(...bad(3))).toMatchObject({ do: 'start_turn', turn: 4 })
    expect(next(...bad(4))).toEqual({
      do: 'fail_run',
      run: 1,
      code: 'invalid_output',
      reason: expect.stringMatching(/^4 answers.*n is missing$/),
    })
    expect(next(...bad(3), ...missing(4))).toMatchObject({ do: 'fail_run', code: 'invalid_output' })
    expect(next(...bad(3), ...whole(4, OUTPUT))).toMatchObject({ do: 'complete_run' })
  })

  it('a run with an output counts an answer with two invalid calls once, and never counts a call that a hook denied', () => {
    expect(next(...[1, 2, 3].flatMap((turn) => whole(turn, INVALID, { ...INVALID, index: 1 })))).toMatchObject({ do: 'start_turn' })
    const denied: Resolution = { ...OUTPUT, invalid: { code: 'denied', message: 'no' } }
    expect(next(...[1, 2, 3, 4, 5].flatMap((turn) => whole(turn, denied)))).toMatchObject({ do: 'start_turn', turn: 6 })
  })

  it('a run with an output fails at once if the model refuses to answer', () => {
    expect(next(...missing(1, 'refusal'))).toMatchObject({ do: 'fail_run', code: 'invalid_output' })
  })

  it('a run with an output starts counting from zero again when it is recovered', () => {
    const failed: EventBody[] = [
      ...bad(4),
      { type: 'error_entered', run: 1, code: 'invalid_output', reason: 'r', strategy: 'continue_run' },
      { type: 'recovery_started', run: 1, strategy: 'continue_run' },
      { type: 'recovery_ended', run: 1, strategy: 'continue_run' },
    ]
    expect(next(...failed)).toMatchObject({ do: 'start_turn', turn: 5 })
    expect(next(...failed, ...whole(5, INVALID))).toMatchObject({ do: 'start_turn', turn: 6 })
  })

  it('a run with an output continues if a hook adds something to the output, unless it has reached its limit of turns', () => {
    const facts = {
      digest: 'd',
      checkpoint: 'turn',
      recovery: { automatic: [], maxAttempts: 1, baseDelayMs: 1, maxDelayMs: 1, perHour: 1 },
    } as const
    const said: EventBody = {
      type: 'hook_answered',
      run: 1,
      turn: 1,
      on: 'agentStop',
      hook: 'h',
      attempt: 1,
      answer: { appendContext: 'again' },
    }
    const run = (maxTurns: number): EventBody[] => {
      const declared: EventBody = { type: 'agent_declared', ...facts, recovery: { ...facts.recovery, automatic: [] }, limits: { maxTurns } }
      return [declared, ...asked(1, OUTPUT), said, ...results(1, OUTPUT)]
    }
    expect(next(...run(2))).toMatchObject({ do: 'start_turn', turn: 2 })
    expect(next(...run(2), ...whole(2, OUTPUT))).toMatchObject({ do: 'complete_run', outputCall: 't_1_2_0' })
    expect(next(...run(1))).toMatchObject({ do: 'complete_run', outputCall: 't_1_1_0' })
  })

  it('a run with an output shows the model what is wrong with an answer, right after that answer', () => {
    const transcript = emptyTranscript()
    for (const event of eventsOf([...missing(1), ...whole(2, OUTPUT)])) addToTranscript(transcript, event)
    const shown = messagesFor(transcript)
    expect(shown.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant', 'user'])
    expect(shown[2]?.content).toBe('[From the system, not from the user]\ncall submit_output')
  })
})
