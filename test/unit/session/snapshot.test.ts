// The bounds of a session's snapshot: it fits, whatever clients, models and tools have said.
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { NO_USAGE } from '../../../src/session/content.ts'
import { defined } from '../../../src/session/defined.ts'
import { callIdOf } from '../../../src/session/ids.ts'
import type { EventBody, SessionEvent } from '../../../src/session/events.ts'
import type { Resolution } from '../../../src/session/call-facts.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import { type Json, jsonBytes } from '../../../src/session/json.ts'
import { DEFAULT_RECOVERY, problemWith, AUTOMATIC } from '../../../src/session/recovery/recovery.ts'
import { roomForMemory, roomForPlan } from '../../../src/session/fold/kept.ts'
import { answerOnMemory } from '../../../src/session/built-in-tools/memory-tools.ts'
import { answerOnPlan, PLAN_LIMITS } from '../../../src/session/built-in-tools/plan-tools.ts'
import { hasRoomFor } from '../../../src/session/fold/queue.ts'
import { lacksCalls, MAX_CALLS, putCallsBack, SNAPSHOT_BYTES, snapshotOf } from '../../../src/session/fold/snapshot.ts'
import type { SessionState } from '../../../src/session/state.ts'
import { boundedText, cutText, TEXT_BYTES, textProblem } from '../../../src/session/protocol/texts.ts'
import { size } from '../../support/sizes.ts'
import { sessionStarted } from '../../support/session-started.ts'

/** Text of about `bytes` bytes of JSON, made of a character that has one to six of them. */
function textOfBytes(bytes: number, character: string): string {
  const each = jsonBytes(character) - 2
  return character.repeat(Math.max(1, Math.floor((bytes - 2) / each)))
}

const characters = fc.constantFrom('x', '"', 'ü', '€', '\u0001', '\ud800', '😀')
/** Any amount up to the limit, and often all of it. */
const upTo = (max: number) => fc.oneof(fc.constant(max), fc.integer({ min: 1, max }))
const sized = (max: number) => fc.tuple(upTo(max), characters).map(([bytes, character]) => textOfBytes(bytes, character))
const idOf = (n: number, character: string): string => `${n}${character.repeat(200)}`.slice(0, 200)

/** One call, as a model may request it and a worker may resolve it. */
const callsWith = (inputBytes: number) =>
  fc
    .record({
      input: sized(inputBytes),
      tool: fc.oneof(fc.constant('t'.repeat(64)), sized(TEXT_BYTES.name)),
      effect: fc.constantFrom('read' as const, 'idempotent' as const, 'external' as const),
      key: fc.option(sized(2_000), { nil: undefined }),
      text: fc.option(sized(2_000), { nil: undefined }),
      fate: fc.constantFrom('requested', 'waits', 'asked', 'unknown', 'completed', 'failed'),
      progress: fc.option(sized(16_000), { nil: undefined }),
    })
    .map(({ input, ...call }) => ({ ...call, input: input as Json }))
type Call = ReturnType<typeof callsWith> extends fc.Arbitrary<infer T> ? T : never

/** A session in which everything may be as large as allowed. */
const largeSessions = fc.record({
  context: sized(100_000),
  tags: sized(15_990),
  metadata: sized(15_980),
  idCharacter: characters,
  messages: fc.integer({ min: 1, max: 700 }),
  deadlines: fc.boolean(),
  taken: fc.integer({ min: 0, max: 700 }),
  calls: fc.oneof(
    fc.array(callsWith(300_000), { maxLength: 3 }),
    fc.array(callsWith(5_000), { minLength: MAX_CALLS, maxLength: MAX_CALLS }),
  ),
  earlier: fc.array(callsWith(5_000), { maxLength: 60 }),
  plans: fc.tuple(fc.array(sized(PLAN_LIMITS.title), { maxLength: 200 }), fc.array(sized(PLAN_LIMITS.title), { maxLength: 200 })),
  memory: fc.tuple(sized(30_000), sized(30_000)),
  asked: fc.array(fc.record({ reason: sized(6_000), by: sized(TEXT_BYTES.by) }), { maxLength: 3 }),
  error: fc.option(sized(TEXT_BYTES.reason), { nil: undefined }),
  paused: fc.option(fc.record({ by: sized(TEXT_BYTES.by), reason: sized(TEXT_BYTES.reason) }), { nil: undefined }),
})

function resolutionOf({ tool, effect, key, text }: Call, index: number): Resolution {
  return {
    index,
    tool,
    effect,
    ...defined({ key }),
    inputDigest: 'd'.repeat(32),
    schemaDigest: 's'.repeat(32),
    timeoutMs: 600_000,
    retry: { maxRetries: 3, baseDelayMs: 1_000 },
    verify: true,
    onUnknown: 'ask',
    ...(text !== undefined && { approval: { reason: text, expiresMs: 1_000, onExpiry: 'error' as const } }),
  }
}

/** The states of such a session, one after each event. */
function* states(large: typeof largeSessions extends fc.Arbitrary<infer T> ? T : never): Generator<SessionState> {
  let state: SessionState | undefined
  let seq = 0
  const add = (body: EventBody): SessionState => {
    seq += 1
    state = fold(state, [{ v: 1, seq, at: 1_795_249_253_107 + seq, ...body } as SessionEvent])
    if (!state) throw new Error('no session')
    return state
  }
  /** Like the workflow, it does not accept a message that does not fit. */
  const say = (n: number): string | undefined => {
    const messageId = idOf(n, large.idCharacter)
    const deadline = large.deadlines && { deadlineMs: 2_000_000_000 }
    if (state && !hasRoomFor(state, { messageId, ...deadline })) return undefined
    add({ type: 'message_received', messageId, content: 'hi', metadata: { m: large.metadata }, ...deadline })
    return messageId
  }
  const answer = (turn: number, asked: readonly Call[], metadata?: string): SessionState =>
    add({
      type: 'model_completed',
      run: 1,
      turn,
      attempt: 1,
      model: 'm',
      stopReason: 'tool_use',
      usage: NO_USAGE,
      content: asked.map(({ tool, input }) => ({ type: 'tool_use', id: 'x', name: tool, input })),
      calls: asked.map(resolutionOf),
      ...(metadata !== undefined && { metadata: { m: metadata } }),
    })
  /** Like the workflow, it refuses a plan that does not fit. */
  const plan = (titles: readonly string[]): void => {
    if (!state) return
    const steps = titles.map((title, n) => ({ id: `${n}`, title }))
    const answered = answerOnPlan('plan_setup', { objective: 'o', steps, replace: true }, state.plan, roomForPlan(state))
    const change = 'problem' in answered ? undefined : answered.change
    if (change) {
      const version = (state.plan?.version ?? 0) + 1
      add({ type: 'plan_changed', run: 1, turn: 1, callId: 't_1_1_0', tool: 'plan_setup', version, change })
    }
  }
  /** The same for the memory. */
  const remember = (content: string): void => {
    if (!state) return
    const limits = [{ block: 'notes', maxChars: 30_000 }]
    const answered = answerOnMemory('memory_replace', { block: 'notes', content }, state.memory, { limits, room: roomForMemory(state) })
    const change = 'problem' in answered ? undefined : answered.change
    if (change) {
      const version = (state.memory?.version ?? 0) + 1
      add({ type: 'memory_changed', run: 1, turn: 1, callId: 't_1_1_0', tool: 'memory_replace', version, change })
    }
  }
  const startTurn = (turn: number): SessionState =>
    add({ type: 'turn_started', run: 1, turn, takes: (state?.inbox ?? []).map(({ messageId }) => messageId) })
  const executionId = '01a20170-1111-2222-3333-444444444444'
  const { context, tags, metadata } = large
  yield add(sessionStarted({ sessionId: 's'.repeat(200), agent: 'a'.repeat(100), context, tags: [tags], executionId, coreVersion: 2 }))
  const opener = say(0)
  if (opener === undefined) throw new Error('not even one message has room')
  yield add({ type: 'run_started', run: 1, messageId: opener })
  yield startTurn(1)
  const recovery = { ...DEFAULT_RECOVERY, automatic: [...AUTOMATIC] }
  yield add({
    type: 'agent_declared',
    digest: 'd'.repeat(16),
    limits: { maxTurns: 50, deadlineMs: 1_000_000 },
    checkpoint: 'turn',
    recovery,
    memory: Array.from({ length: 20 }, (_, n) => ({ block: `${n}`.padEnd(64, 'b'), maxChars: 1_500 })),
  })
  yield answer(1, large.earlier.slice(0, MAX_CALLS), metadata)
  for (const [index, call] of large.earlier.slice(0, MAX_CALLS).entries()) {
    const where = { run: 1, turn: 1, callId: callIdOf(1, 1, index), tool: call.tool }
    if (call.fate === 'completed') add({ type: 'tool_completed', ...where, attempt: 1, value: null })
    else add({ type: 'tool_unknown', ...where, attempt: 1, message: 'nobody knows' })
  }
  plan(large.plans[0])
  remember(large.memory[0])
  for (let n = 1; n <= large.taken; n++) say(n)
  if (state) yield state
  yield startTurn(2)
  if (large.paused) yield add({ type: 'session_paused', ...large.paused })
  yield answer(2, large.calls)
  if (large.calls.length > 0) for (const request of large.asked) add({ type: 'checkpoint_requested', ...request })
  for (const [index, call] of large.calls.entries()) {
    const where = { run: 1, turn: 2, callId: callIdOf(1, 2, index), tool: call.tool }
    if (call.progress !== undefined) add({ type: 'tool_progress', ...where, attempt: 1, value: call.progress })
    const digest = 'd'.repeat(32)
    switch (call.fate) {
      case 'waits':
        add({
          type: 'approval_requested',
          ...where,
          digest,
          expiresAt: 1_795_249_253_107,
          onExpiry: 'error',
          ...(call.text && { reason: call.text }),
        })
        break
      case 'asked':
        add({ type: 'tool_unknown', ...where, attempt: 1, message: 'nobody knows', ask: true })
        break
      case 'unknown':
        add({ type: 'tool_unknown', ...where, attempt: 1, message: 'nobody knows' })
        break
      case 'completed':
        add({ type: 'tool_completed', ...where, attempt: 1, value: null })
        break
      case 'failed':
        add({ type: 'tool_failed', ...where, attempt: 1, code: 'x', message: 'x' })
        break
      case 'requested':
        break
    }
  }
  if (state) yield state
  for (let n = 1; n <= large.messages; n++) say(10_000 + n)
  if (state) yield state
  const before = { plan: state?.plan?.current ?? null, memory: state?.memory?.current ?? null }
  plan(large.plans[1])
  remember(large.memory[1])
  if (state) yield state
  // Going back restores an earlier plan, which may be the largest.
  yield add({ type: 'recovery_started', run: 1, strategy: 'continue_run', restored: before })
  if (large.error !== undefined) yield add({ type: 'error_entered', run: 1, code: 'x', reason: large.error, strategy: 'automatic' })
}

const LOOK_EVERY = 40

/** Every `count`th of the states, and the last one. */
function* everyOf(count: number, all: Iterable<SessionState>): Generator<SessionState> {
  let index = 0
  let last: SessionState | undefined
  for (const state of all) {
    last = state
    if (index++ % count === 0) yield state
  }
  if (last) yield last
}

describe('a snapshot', () => {
  it('a snapshot of any session is within its bounds', () => {
    let largest = 0
    // Whatever else is drawn, one of the sessions is almost as large as it may be.
    const examples = fc.sample(largeSessions, { seed: 1, numRuns: 1 }).map((large): [typeof large] => [large])
    fc.assert(
      fc.property(largeSessions, (large) => {
        // Measuring every state of a session with thousands of messages would take a minute.
        for (const state of everyOf(LOOK_EVERY, states(large))) {
          const bytes = jsonBytes(snapshotOf(state))
          largest = Math.max(largest, bytes)
          expect(bytes).toBeLessThanOrEqual(SNAPSHOT_BYTES.total)
        }
      }),
      { numRuns: size(6, 12), examples },
    )
    // The bound is tight.
    expect(largest).toBeGreaterThan(0.9 * SNAPSHOT_BYTES.total)
  })

  it('a snapshot equals the state once the omitted calls are put back', () => {
    fc.assert(
      fc.property(largeSessions, (large) => {
        for (const state of states({ ...large, messages: 1, taken: 1 })) {
          const snapshot = structuredClone(snapshotOf(state))
          expect(lacksCalls(snapshot)).toBe(snapshot.current?.leftOut !== undefined && snapshot.current.phase === 'tools')
          for (const { callId, status } of snapshot.current?.leftOut ?? []) {
            expect(state.current?.calls.find((call) => call.callId === callId)?.status).toBe(status)
          }
          putCallsBack(snapshot, state.current?.calls ?? [])
          // `toEqual` is slow and is needed only to show the difference.
          if (!isDeepStrictEqual(snapshot, state)) expect(snapshot).toEqual(state)
        }
      }),
      { numRuns: size(6, 20) },
    )
  })
})

describe('a session with many waiting messages', () => {
  const started: EventBody = sessionStarted({ coreVersion: 2 })
  const at = (seq: number, body: EventBody): SessionEvent => ({ v: 1, seq, at: seq, ...body }) as SessionEvent

  it('a session with many waiting messages has room for 1,900 of them with ids like those that clients generate', () => {
    const state = fold(undefined, [at(1, started)]) ?? expect.fail()
    for (let n = 0; n < 1_900; n++) {
      const messageId = `01a20170-1111-2222-3333-${String(n).padStart(12, '0')}`
      expect(hasRoomFor(state, { messageId })).toBe(true)
      fold(state, [at(n + 2, { type: 'message_received', messageId, content: 'hi' })])
    }
  })

  it('a session with many waiting messages cannot restart a run that has taken more messages than it can hold', () => {
    const state =
      fold(undefined, [at(1, started), at(2, { type: 'message_received', messageId: 'opener', content: 'hi' })]) ?? expect.fail()
    fold(state, [at(3, { type: 'run_started', run: 1, messageId: 'opener' })])
    let seq = 3
    for (let turn = 1; turn <= 3; turn++) {
      for (let n = 0; hasRoomFor(state, { messageId: idOf(n, 'x') }); n++) {
        fold(state, [at(++seq, { type: 'message_received', messageId: idOf(n, 'x'), content: 'hi' })])
      }
      const takes = state.inbox.map(({ messageId }) => messageId)
      expect(takes.length).toBeGreaterThan(500)
      fold(state, [at(++seq, { type: 'turn_started', run: 1, turn, takes })])
    }
    expect(state.current && problemWith(state, state.current, 'restart_run')).toMatchObject({ code: 'too_many_messages' })
    expect(state.current?.taken).toEqual([])
  })
})

describe('a text', () => {
  const LONE_SURROGATE = /\p{Surrogate}/u

  it('a text is cut to a number of bytes of JSON, between two characters', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: 'binary' }), sized(3_000)), fc.integer({ min: 10, max: 2_000 }), (text, max) => {
        const cut = cutText(text, max)
        expect(jsonBytes(cut)).toBeLessThanOrEqual(max)
        if (jsonBytes(text) <= max) expect(cut).toBe(text)
        else expect(text.startsWith(cut.slice(0, -1))).toBe(true)
        // Cutting a text without lone surrogates leaves none.
        if (!LONE_SURROGATE.test(text)) expect(cut).not.toMatch(LONE_SURROGATE)
      }),
    )
  })

  it('a text that is not a string is dropped; the edge reports it, as it does a text that is too long', () => {
    expect(boundedText({ by: 'me' }, 'by')).toBeUndefined()
    expect(textProblem(undefined, 'by')).toBeUndefined()
    expect(textProblem('ann', 'by')).toBeUndefined()
    expect(textProblem(7, 'reason')).toBe('`reason` must be a string.')
    expect(textProblem('x'.repeat(2_000_000), 'by')).toMatch(/^`by` has 2,000,002 bytes of JSON, and the limit is 1,000\. /)
  })
})
