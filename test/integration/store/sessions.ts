// Sessions for the store's tests: events as a workflow would create them, and random ones, with text that Postgres cannot hold.
import fc from 'fast-check'
import type { AssistantBlock } from '../../../src/session/content.ts'
import { nextDigest } from '../../../src/session/digest.ts'
import { callIdOf } from '../../../src/session/ids.ts'
import type { EventBody, LogEntry, SessionEvent } from '../../../src/session/events.ts'
import type { FailedAttempt, Resolution } from '../../../src/session/call-facts.ts'
import type { Json } from '../../../src/session/json.ts'

export const EPOCH = 'execution-1'
const START = Date.UTC(2026, 10, 21)

/** The log of a session: numbered, timestamped and digested. */
export function logOf(bodies: readonly EventBody[], after: { seq: number; digest: string } = { seq: 0, digest: '' }): LogEntry[] {
  let { seq, digest: prev } = after
  return bodies.map((body) => {
    seq += 1
    const json = JSON.stringify({ v: 1, seq, at: START + seq, ...body })
    const entry = { seq, prev, digest: nextDigest(prev, json), json }
    prev = entry.digest
    return entry
  })
}

/** The events of a log. */
export function eventsOf(log: readonly LogEntry[]): SessionEvent[] {
  return log.map((entry) => JSON.parse(entry.json) as SessionEvent)
}

export function started(more: Partial<EventBody & { type: 'session_started' }> = {}): EventBody {
  return {
    type: 'session_started',
    sessionId: 's',
    agent: 'support',
    context: { tenant: 't1' },
    tags: ['vip'],
    executionId: EPOCH,
    coreVersion: 1,
    ...more,
  }
}

export function received(messageId: string, content = `text of ${messageId}`): EventBody {
  return { type: 'message_received', messageId, content }
}

const USAGE = { input_tokens: 10, output_tokens: 5, cache_creation_input_tokens: 2, cache_read_input_tokens: 3 }

/** A model's answer that requests `inputs.length` calls of the tool `refund`. */
export function answered(run: number, turn: number, inputs: readonly Json[], text = 'Let me see.'): EventBody {
  const content: AssistantBlock[] = [
    { type: 'text', text },
    ...inputs.map((input, index) => ({ type: 'tool_use' as const, id: `toolu_${index % 2}`, name: 'refund', input })),
  ]
  const calls: Resolution[] = inputs.map((_, index) => ({
    index,
    tool: 'refund',
    effect: 'external',
    key: `key-${run}-${turn}-${index}`,
    inputDigest: 'd',
    schemaDigest: 's',
    timeoutMs: 1_000,
    retry: { maxRetries: 3, baseDelayMs: 500 },
    verify: false,
  }))
  const stopReason = inputs.length > 0 ? 'tool_use' : 'end_turn'
  return {
    type: 'model_completed',
    run,
    turn,
    attempt: 1,
    model: 'scripted',
    content,
    stopReason,
    usage: USAGE,
    calls,
  }
}

export function issued(run: number, turn: number, index: number, input: Json = { order: 7 }): EventBody {
  const callId = callIdOf(run, turn, index)
  return {
    type: 'tool_issued',
    run,
    turn,
    callId,
    index,
    tool: 'refund',
    effect: 'external',
    key: `key-${callId}`,
    input,
    inputDigest: 'd',
  }
}

export function completed(run: number, turn: number, index: number, value: Json = 'done'): EventBody {
  const callId = callIdOf(run, turn, index)
  return {
    type: 'tool_completed',
    run,
    turn,
    callId,
    tool: 'refund',
    attempt: 1,
    value,
    effectId: `re_${index}`,
    startedAt: START,
    worker: 'host:1',
  }
}

export function failedAttempt(attempt: number, message = 'overloaded'): FailedAttempt {
  return { attempt, class: 'ModelError', code: 'overloaded_error', message, retryable: true, nextDelayMs: 500.4, worker: 'host:1' }
}

/** A run of one turn with one call and a final answer. */
export function oneRun(run: number, messageId: string): EventBody[] {
  return [
    received(messageId),
    { type: 'run_started', run, messageId },
    { type: 'turn_started', run, turn: 1, takes: [messageId] },
    answered(run, 1, [{ order: 7 }]),
    issued(run, 1, 0),
    completed(run, 1, 0),
    { type: 'turn_started', run, turn: 2, takes: [] },
    answered(run, 2, [], 'Done.'),
    { type: 'run_completed', run, turns: 2, stopReason: 'end_turn', usage: USAGE },
  ]
}

/** Text that text and jsonb columns refuse, or that looks like escapes of such text. */
const wildText = fc.string({
  unit: fc.constantFrom('\0', '\ud800', '\udfff', '😀', '\\', '\\u0000', '\\ud800', '"', "'", 'a', 'é', '\u001f', '\n', '{', ','),
  maxLength: 12,
})

/** JSON with such text in its values and keys. */
export const wildJson: fc.Arbitrary<Json> = fc
  .anything({
    key: fc.oneof(wildText, fc.constant('__proto__'), fc.constant('constructor')),
    values: [wildText, fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.boolean(), fc.constant(null)],
    maxDepth: 4,
  })
  .map((value) => JSON.parse(JSON.stringify(value) ?? 'null') as Json)

/** A whole random session. */
export const anySession: fc.Arbitrary<LogEntry[]> = fc.gen().map((draw) => logOf(randomBodies(draw)))

type Draw = fc.GeneratorValue

function randomBodies(draw: Draw): EventBody[] {
  const bodies: EventBody[] = [started({ agent: draw(() => wildText), context: draw(() => wildJson), tags: [draw(() => wildText)] })]
  const session: RandomSession = { draw, bodies, waiting: [], messages: 0, run: 0, completed: [] }
  const chances = draw(fc.integer, { min: 1, max: 4 })
  for (let step = 0; step < chances; step++) {
    receive(session)
    randomRun(session)
  }
  if (draw(fc.boolean)) bodies.push({ type: 'session_closed', reason: 'idle' })
  return bodies
}

interface RandomSession {
  draw: Draw
  bodies: EventBody[]
  waiting: string[]
  messages: number
  run: number
  completed: string[]
}

function receive(session: RandomSession): void {
  const { draw, bodies } = session
  const messageId = `${draw(() => wildText)}${session.messages++}`
  const metadata = draw(fc.boolean) ? { metadata: { note: draw(() => wildJson) } } : {}
  const content = draw(fc.boolean) ? draw(() => wildText) : [{ type: 'text' as const, text: draw(() => wildText) }]
  bodies.push({ type: 'message_received', messageId, content, ...metadata })
  session.waiting.push(messageId)
}

function randomRun(session: RandomSession): void {
  const { draw, bodies } = session
  const run = ++session.run
  bodies.push({ type: 'run_started', run, messageId: session.waiting[0] ?? '' })
  const taken: string[] = []
  const turns = draw(fc.integer, { min: 1, max: 3 })
  for (let turn = 1; turn <= turns; turn++) {
    taken.push(...session.waiting)
    bodies.push({ type: 'turn_started', run, turn, takes: session.waiting.splice(0) })
    randomTurn(session, run, turn)
  }
  endRun(session, run, turns, taken)
}

function randomTurn(session: RandomSession, run: number, turn: number): void {
  const { draw, bodies } = session
  if (draw(fc.boolean))
    bodies.push({
      type: 'model_attempt_failed',
      run,
      turn,
      error: failedAttempt(
        1,
        draw(() => wildText),
      ),
    })
  const inputs = draw(() => fc.array(wildJson, { maxLength: 3 }))
  bodies.push(
    answered(
      run,
      turn,
      inputs,
      draw(() => wildText),
    ),
  )
  for (const [index, input] of inputs.entries()) {
    if (draw(fc.integer, { min: 0, max: 9 }) === 0) return
    bodies.push(issued(run, turn, index, input))
    if (draw(fc.boolean)) receive(session)
    bodies.push(...randomOutcome(session, run, turn, index))
  }
}

function randomOutcome(session: RandomSession, run: number, turn: number, index: number): EventBody[] {
  const { draw } = session
  const where = { run, turn, callId: callIdOf(run, turn, index), tool: 'refund' }
  const failed: EventBody = {
    type: 'tool_attempt_failed',
    ...where,
    error: failedAttempt(
      1,
      draw(() => wildText),
    ),
  }
  const earlier = session.completed[0]
  switch (draw(fc.integer, { min: 0, max: 5 })) {
    case 0:
      return [failed, { type: 'tool_failed', ...where, attempt: 1, code: draw(() => wildText), message: draw(() => wildText) }]
    case 1:
      return [{ type: 'tool_unknown', ...where, attempt: 1, message: draw(() => wildText) }]
    case 2:
      return [
        failed,
        { type: 'tool_resolved', ...where, by: 'verify', happened: false },
        completed(
          run,
          turn,
          index,
          draw(() => wildJson),
        ),
      ]
    case 3:
      if (earlier !== undefined) return [{ type: 'tool_completed', ...where, attempt: 0, replayOf: earlier }]
      return [failed]
    default:
      session.completed.push(where.callId)
      return [
        {
          ...completed(
            run,
            turn,
            index,
            draw(() => wildJson),
          ),
          effectId: draw(() => wildText),
        } as EventBody,
      ]
  }
}

function endRun(session: RandomSession, run: number, turns: number, taken: string[]): void {
  const { draw, bodies } = session
  const failure: EventBody = { type: 'error_entered', run, code: 'max_turns', reason: draw(() => wildText), strategy: 'manual' }
  switch (draw(fc.integer, { min: 0, max: 4 })) {
    case 0:
      bodies.push({ type: 'run_interrupted', run })
      return
    case 1:
      bodies.push(failure)
      return
    case 2:
      bodies.push(failure, { type: 'recovery_started', run, strategy: 'abandon' }, { type: 'recovery_ended', run, strategy: 'abandon' })
      return
    case 3:
      bodies.push(
        failure,
        { type: 'recovery_started', run, strategy: 'restart_run' },
        { type: 'recovery_ended', run, strategy: 'restart_run' },
      )
      session.waiting.unshift(...taken)
      return
    default:
      bodies.push({ type: 'run_completed', run, turns, stopReason: 'end_turn', usage: USAGE })
  }
}
