// Random sessions whose events are sound: a driver that does what the workflow's shell does, by `decide` and `admit`, with chosen
// outcomes in place of activities. The choices are numbers, so that a failing session shrinks to a short one.
import fc from 'fast-check'
import { idempotencyKeyOf, inputDigestOf } from '../../../src/agent/keys.ts'
import type { AssistantBlock } from '../../../src/session/content.ts'
import { NO_USAGE } from '../../../src/session/content.ts'
import { admit, decide, type Decision } from '../../../src/session/decide.ts'
import { nextDigest } from '../../../src/session/digest.ts'
import type { EventBody, LogEntry, Resolution, SessionEvent } from '../../../src/session/events.ts'
import { apply, initialState } from '../../../src/session/fold.ts'
import type { Json } from '../../../src/session/json.ts'
import type { CallState, SessionState } from '../../../src/session/state.ts'
import { TOOLS } from './tools.ts'

/** A body that was entered: what a crash must never make happen twice. */
export interface Entered {
  callId: string
  effect: Resolution['effect']
  key: string | undefined
  inputDigest: string
  /** The newest event at that moment. */
  afterSeq: number
}

/** A session as it was played. */
export interface SoundSession {
  events: SessionEvent[]
  entries: LogEntry[]
  entered: Entered[]
  /** Ids of the messages that were accepted, in order. */
  accepted: string[]
  /** What the driver had folded in the end, through all its snapshots. */
  state: SessionState
}

/** Random sound sessions. */
export const soundSessions: fc.Arbitrary<SoundSession> = fc.array(fc.nat(9_999), { minLength: 1, maxLength: 400, size: 'max' }).map(play)

const MAX_TURNS = 6
const INPUTS: Json[] = [{ id: 1 }, { id: 2 }, { note: 'ü', id: 1 }]

/** Plays the session that `choices` stand for; when they are used up, all goes well and the session comes to rest. */
function play(choices: readonly number[]): SoundSession {
  const left = [...choices]
  const events: SessionEvent[] = []
  const entries: LogEntry[] = []
  const entered: Entered[] = []
  const accepted: string[] = []
  let last = { seq: 0, digest: '' }
  let clock = 1_000
  let state: SessionState | undefined
  let interrupted = false

  /** One of `n`; the first where nothing is left to choose by. */
  const pick = (n: number): number => (left.shift() ?? 0) % n
  const chance = (oneIn: number): boolean => pick(oneIn) === oneIn - 1

  function append(body: EventBody): void {
    clock += pick(3)
    const event = { v: 1, seq: last.seq + 1, at: clock, ...body } as SessionEvent
    const json = JSON.stringify(event)
    const digest = nextDigest(last.digest, json)
    if (event.type === 'session_started') state = initialState(event)
    else apply(now(), event)
    events.push(event)
    entries.push({ seq: event.seq, prev: last.digest, digest, json })
    last = { seq: event.seq, digest }
    if (event.type === 'message_received') accepted.push(event.messageId)
  }

  function now(): SessionState {
    if (!state) throw new Error('no session yet')
    return state
  }

  function receive(): void {
    const id = `message-${accepted.length}`
    append({ type: 'message_received', messageId: id, content: `text of ${id}`, ...(chance(3) && { metadata: { nth: accepted.length } }) })
  }

  /** What anyone outside may do at any moment. */
  function outside(): void {
    switch (pick(12)) {
      case 1:
      case 2:
        return receive()
      case 3:
        return append({ type: 'message_rejected', code: 'empty_message', reason: 'empty' })
      case 4:
        interrupted = now().current !== null && isGoingOn(now())
        return
      default:
        return
    }
  }

  /** Continue-as-new: the snapshot is all that goes on. */
  function snapshot(): void {
    if (chance(4)) state = JSON.parse(JSON.stringify(now())) as SessionState
  }

  function step(decision: Decision): void {
    switch (decision.do) {
      case 'wait':
        return atRest()
      case 'start_run': {
        snapshot()
        const { messageId, metadata } = decision.message
        return append({ type: 'run_started', run: decision.run, messageId, ...(metadata && { metadata }) })
      }
      case 'start_turn': {
        snapshot()
        const { run, turn, takes } = decision
        // A run that is to be stopped takes in what opened it and no more.
        return append({
          type: 'turn_started',
          run,
          turn,
          takes: interrupted ? takes.filter((id) => id === now().current?.messageId) : takes,
        })
      }
      case 'call_model':
        return stoppable(decision.run, () => callModel(decision.run, decision.turn))
      case 'run_calls':
        return stoppable(decision.run, () => runCalls(decision.run, decision.turn, decision.calls))
      case 'complete_run': {
        const { run, turns, stopReason, usage } = decision
        interrupted = false
        return append({ type: 'run_completed', run, turns, stopReason, usage })
      }
      case 'fail_run':
        return failRun(decision.run, decision.code)
    }
  }

  function stoppable(run: number, body: () => void): void {
    if (!interrupted) body()
    if (!interrupted || !isGoingOn(now())) return
    interrupted = false
    append({ type: 'run_interrupted', run })
  }

  function failRun(run: number, code: string): void {
    const strategy = now().current?.effects.length ? 'abandon' : 'restart_run'
    append({ type: 'error_entered', run, code, reason: code, strategy })
    interrupted = false
  }

  /** Nothing to do: somebody recovers, closes and speaks again, or speaks. */
  function atRest(): void {
    const { status, current, run } = now()
    switch (pick(5)) {
      case 1:
      case 2:
        if (status !== 'error') return receive()
        return recover(current && current.effects.length === 0 && !chance(4) ? 'restart_run' : 'abandon', run)
      case 3: {
        append({ type: 'session_closed', reason: 'idle' })
        const fromEpoch = now().epoch
        const executionId = `execution-${last.seq}`
        state = { ...(JSON.parse(JSON.stringify(now())) as SessionState), epoch: executionId }
        append({ type: 'session_resumed', executionId, fromEpoch, coreVersion: 1 })
        if (now().current) append({ type: 'run_interrupted', run: now().run, reason: 'its workflow had ended' })
        return
      }
      default:
        return receive()
    }
  }

  function recover(strategy: 'restart_run' | 'abandon', run: number): void {
    append({ type: 'recovery_started', strategy, run, by: 'somebody' })
    append({ type: 'recovery_ended', strategy, run })
  }

  function callModel(run: number, turn: number): void {
    for (let attempt = 1; ; attempt++) {
      outside()
      if (interrupted) return
      switch (pick(12)) {
        case 0:
          return answer(run, turn, attempt, [{ type: 'text', text: `answer of ${run}.${turn}` }])
        case 1:
          return answer(run, turn, attempt, [])
        case 2:
          return answer(run, turn, attempt, [{ type: 'text', text: 'and then' }], 'pause_turn')
        case 3:
          append({
            type: 'model_attempt_failed',
            run,
            turn,
            error: { attempt, class: 'ModelError', message: 'overloaded', retryable: true },
          })
          continue
        case 4:
        case 5:
          return failRun(run, 'model_call_failed')
        case 6:
          if (now().status === 'error') continue
          append({ type: 'error_entered', run, code: 'agent_not_served', reason: 'nobody', strategy: 'automatic' })
          outside()
          if (interrupted) return
          append({ type: 'recovery_ended', run, strategy: 'automatic' })
          continue
        default: {
          const thinking: AssistantBlock[] = chance(3) ? [{ type: 'thinking', thinking: 'hm', signature: 's' }] : []
          const uses = Array.from({ length: 1 + pick(4) }, toolUse)
          return answer(run, turn, attempt, [...thinking, ...uses])
        }
      }
    }
  }

  function toolUse(): AssistantBlock {
    const name = ['look', 'set', 'put', 'pay', 'mail', 'there_is_no_such_tool'][pick(6)] ?? 'look'
    // Models repeat the ids of their calls.
    return { type: 'tool_use', id: `toolu_${pick(2)}`, name, input: INPUTS[pick(INPUTS.length)] ?? null }
  }

  function answer(
    run: number,
    turn: number,
    attempt: number,
    content: AssistantBlock[],
    stop: 'end_turn' | 'pause_turn' = 'end_turn',
  ): void {
    const uses = content.flatMap((block) => (block.type === 'tool_use' ? [block] : []))
    const calls = uses.map((use, index) => resolve(use.name, use.input, { run, turn, index }))
    const stopReason = calls.length > 0 ? 'tool_use' : stop
    const limits = { maxTurns: MAX_TURNS, ...(chance(10) && { deadlineMs: 1 + pick(60) }) }
    const usage = { ...NO_USAGE, input_tokens: pick(100), output_tokens: 1 }
    append({ type: 'model_completed', run, turn, attempt, model: 'scripted', content, stopReason, usage, calls, limits })
  }

  function resolve(name: string, input: Json, place: { run: number; turn: number; index: number }): Resolution {
    const tool = TOOLS.get(name)
    const known = {
      index: place.index,
      tool: name,
      inputDigest: inputDigestOf(name, input),
      schemaDigest: tool?.schemaDigest ?? '',
      timeoutMs: 1_000,
    }
    const retry = { maxRetries: 3, baseDelayMs: 10 }
    if (!tool) return { ...known, retry, effect: 'read', verify: false, invalid: { code: 'unknown_tool', message: 'no such tool' } }
    const key = idempotencyKeyOf(tool, { sessionId: 's', ...place, rawInput: input, input })
    return { ...known, retry, effect: tool.effect, verify: tool.verify !== undefined, ...(key !== undefined && { key }) }
  }

  /** Calls of one step begin together and end in any order. */
  function runCalls(run: number, turn: number, calls: readonly CallState[]): void {
    const running = calls.filter((call) => begin(run, turn, call))
    while (running.length > 0) {
      outside()
      const [call] = running.splice(pick(running.length), 1)
      if (call) end(run, turn, call)
    }
  }

  const placeOf = (run: number, turn: number, { callId, resolution: { tool } }: CallState) => ({ run, turn, callId, tool })

  /** Issues the call and answers it without running it, if so admitted; says whether its body is to run. */
  function begin(run: number, turn: number, call: CallState): boolean {
    const where = placeOf(run, turn, call)
    const { effect, inputDigest, index, key } = call.resolution
    append({ type: 'tool_issued', ...where, effect, inputDigest, index, ...(key && { key }), input: call.input ?? null })
    for (;;) {
      const admission = admit(now(), call)
      switch (admission.as) {
        case 'execute':
          return true
        case 'invalid':
          append({ type: 'tool_failed', ...where, attempt: 0, code: admission.code, message: admission.message })
          return false
        case 'replay':
          append({ type: 'tool_completed', ...where, attempt: 0, replayOf: admission.of })
          return false
        case 'verify_first':
          if (resolveEarlier(admission.of)) continue
          append({ type: 'tool_unknown', ...where, attempt: 0, message: 'unknown', again: admission.of })
          return false
      }
    }
  }

  function resolveEarlier(callId: string): boolean {
    const earlier = now().unknown[callId]
    if (!earlier?.resolution.verify || chance(2)) return false
    const where = { run: earlier.run, turn: earlier.turn, callId, tool: earlier.resolution.tool }
    const happened = chance(2)
    append({ type: 'tool_resolved', ...where, by: 'verify', happened, ...(happened && { value: { found: callId } }) })
    return true
  }

  function end(run: number, turn: number, call: CallState): void {
    const where = placeOf(run, turn, call)
    const { effect, key, inputDigest, verify } = call.resolution
    for (let attempt = 1; ; attempt++) {
      if (interrupted) return append({ type: 'tool_failed', ...where, attempt: attempt - 1, code: 'interrupted', message: 'interrupted' })
      entered.push({ callId: call.callId, effect, key, inputDigest, afterSeq: last.seq })
      const ends = pick(5)
      if (ends <= 1) {
        append({
          type: 'tool_completed',
          ...where,
          attempt,
          value: { result: call.callId },
          ...(chance(3) && { content: `did ${call.callId}` }),
        })
        return
      }
      if (ends === 2) return append({ type: 'tool_failed', ...where, attempt, code: 'tool_failed', message: 'it threw' })
      append({ type: 'tool_attempt_failed', ...where, error: { attempt, class: 'WorkerDied', message: 'died', retryable: true } })
      if (effect !== 'external') continue
      const verdict = verify ? pick(3) : 2
      if (verdict === 2) return append({ type: 'tool_unknown', ...where, attempt, message: 'unknown' })
      append({ type: 'tool_resolved', ...where, by: 'verify', happened: verdict === 0 })
      if (verdict === 0) return append({ type: 'tool_completed', ...where, attempt, value: { found: call.callId } })
    }
  }

  append({ type: 'session_started', sessionId: 's', agent: 'a', context: null, tags: [], executionId: 'execution-0', coreVersion: 1 })
  for (;;) {
    outside()
    const decision = decide(now(), clock)
    if (decision.do === 'wait' && left.length === 0) return { events, entries, entered, accepted, state: now() }
    step(decision)
  }
}

function isGoingOn(state: SessionState): boolean {
  return state.current !== null && (state.status === 'running' || state.error?.strategy === 'automatic')
}
