// Random sessions whose events are sound. A driver does what the workflow's shell does, with `decide` and `admit`, and with chosen
// outcomes instead of activities. The choices are numbers, so a failing session shrinks to a short one.
import fc from 'fast-check'
import { idempotencyKeyOf, inputDigestOf } from '../../../src/agent/keys.ts'
import type { AssistantBlock } from '../../../src/session/content.ts'
import { spentBy, warningsDue } from '../../../src/session/spending/budget.ts'
import { defined } from '../../../src/session/defined.ts'
import { type Cost, LIMIT_NAMES } from '../../../src/session/spending/spend.ts'
import { NO_USAGE } from '../../../src/session/content.ts'
import { checkpointAfter, checkpointAt, isTurnOpen } from '../../../src/session/checkpointing.ts'
import { admit, decide, type SessionStep, dueAt } from '../../../src/session/decide.ts'
import { nextDigest, shortHash } from '../../../src/session/digest.ts'
import type { CheckpointPolicy, RecoveryStrategy } from '../../../src/session/agent-facts.ts'
import type { EventBody, EventOf, LogEntry, SessionEvent, Target } from '../../../src/session/events.ts'
import type { Resolution } from '../../../src/session/call-facts.ts'
import { chooseCut, pieceEnd } from '../../../src/session/transcript/compaction.ts'
import { sentFrom } from '../../../src/session/transcript/model-messages.ts'
import { contentIn } from '../../../src/session/transcript/replaced.ts'
import { addToTranscript } from '../../../src/session/transcript/adding.ts'
import { emptyTranscript } from '../../../src/session/transcript/transcript.ts'
import { deliveryOf, scheduledIn } from '../../../src/session/fold/scheduled.ts'
import { apply, fold, initialState } from '../../../src/session/fold/fold.ts'
import type { Json, JsonObject } from '../../../src/session/json.ts'
import { hasEnded, isWaiting } from '../../../src/session/past/call-status.ts'
import { isHeldUp } from '../../../src/session/pause.ts'
import type { MemoryLimit } from '../../../src/session/built-in-tools/memory.ts'
import { isOutputCall, OUTPUT_TOOL } from '../../../src/session/built-in-tools/output.ts'
import { isMemoryTool } from '../../../src/session/built-in-tools/memory-tools.ts'
import { isPlanTool, type PlanTool, STEP_STATUSES } from '../../../src/session/built-in-tools/plan-tools.ts'
import { chooseRecovery, DEFAULT_RECOVERY, nextAttemptAt, progressOf } from '../../../src/session/recovery/recovery.ts'
import { eventsOfChoice } from '../../../src/session/recovery/redo.ts'
import { type PlanAndMemory, keptAt, keptBeforeRun, restoredFrom } from '../../../src/session/recovery/kept.ts'
import type { RestoredValues } from '../../../src/session/recovery/restored.ts'
import { type CallChoice, problemWithChoice } from '../../../src/session/recovery/selective.ts'
import { requestedCallsOf } from '../../../src/session/fold/turn-calls.ts'
import { askedQuestion, nextQuestion } from '../../../src/session/question.ts'
import type { CallQuestion } from '../../../src/session/question-facts.ts'
import type { CallState, CheckpointDue, SessionState } from '../../../src/session/state.ts'
import { effectsAfter, locate, messagesAfter, newestRun, TargetRefused } from '../../../src/session/recovery/targets.ts'
import { answerBuiltIn } from '../../../src/workflows/calls/built-in-call.ts'
import type { Journal } from '../../../src/workflows/journal.ts'
import { TOOLS } from './tools.ts'
import { size } from '../../support/sizes.ts'
import { callsAtWork, isAgentCall } from '../../../src/session/agents/agent-calls.ts'
import type { CallingCall } from '../../../src/session/agents/agent-call-facts.ts'
import { sessionStarted } from '../../support/session-started.ts'

const CALLER = { sessionId: 'above', key: 'k', epoch: 'e', depth: 1, taskQueue: 'q' }

/** A call whose body was entered. A crash must never make it happen twice. */
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
  /** The driver's final state, folded through all its snapshots. */
  state: SessionState
}

const CHOICES = fc.array(fc.nat(9_999), { minLength: 1, maxLength: 400, size: 'max' })

/** Random sound sessions that never go back, and in whose calls no person or client has a say. */
export const soundSessions: fc.Arbitrary<SoundSession> = CHOICES.map((choices) => played(choices, false))

/** Random sound sessions with people, checkpoints, rollbacks, forks and losses. */
export const eventfulSessions: fc.Arbitrary<SoundSession> = CHOICES.map((choices) => played(choices, true))

const RANDOM_SESSIONS = size(50, 150)
/** The number of sessions in which `metInSessions` counts. */
export const FIXED_SESSIONS = size(200, 400)

/**
 * Asserts `holds` in random sessions, then in a fixed sample. Returns the sum of what `holds` returns for the sample: how often it met
 * its subject. In random sessions, that count would sometimes be 0. `fixed`: the size of the sample.
 */
export function metInSessions(holds: (session: SoundSession) => number, fixed = FIXED_SESSIONS): number {
  fc.assert(
    fc.property(eventfulSessions, (session) => void holds(session)),
    { numRuns: RANDOM_SESSIONS },
  )
  return fc.sample(eventfulSessions, { numRuns: fixed, seed: 1 }).reduce((met, session) => met + holds(session), 0)
}

const POLICIES: (CheckpointPolicy | undefined)[] = [
  undefined,
  'tool_call',
  { everyTurns: 2 },
  { everyMs: 5 },
  { on: [{ type: 'milestone_reached' }, { type: 'emitted', name: 'e1' }] },
  { on: [{ type: 'plan_changed' }] },
  { on: [{ type: 'memory_changed' }] },
]

const MAX_TURNS = 6

/** Most changes to a plan move it forward. */
const CHANGES: readonly PlanTool[] = ['plan_update_step', 'plan_update_step', 'plan_update_step', 'plan_add_step', 'plan_setup']
const STATUSES = [...STEP_STATUSES, 'done', 'done'] as const

/** What the model writes into its memory: some texts continue or repeat others, and some do not fit. */
const TEXTS = [
  'The customer likes tea',
  'The customer likes tea without sugar',
  'likes tea without sugar, and a biscuit',
  'short',
  'x'.repeat(90),
] as const
/** The blocks that agents declare. */
export const BLOCKS: readonly MemoryLimit[] = [
  { block: 'customer', maxChars: 80 },
  { block: 'notes', maxChars: 200 },
]

/** How a worker resolves a call of one of pawl's own tools. */
const BUILT_IN_CALL = {
  effect: 'read',
  schemaDigest: '',
  timeoutMs: 0,
  retry: { maxRetries: 0, baseDelayMs: 0 },
  verify: false,
} as const

/** What a recovery may choose for a call of each status; `none`: it does not name the call. */
const LISTS: Record<CallState['status'], readonly ('keep' | 'skip' | 'redo' | 'none')[]> = {
  requested: ['none', 'skip', 'redo'],
  issued: ['none', 'skip', 'redo'],
  awaiting_approval: ['none', 'skip', 'redo'],
  awaiting_answer: ['none', 'skip', 'redo'],
  asleep: ['none', 'skip', 'redo'],
  awaiting_resolution: ['skip', 'redo'],
  completed: ['keep', 'redo', 'none'],
  failed: ['redo', 'skip', 'keep', 'none'],
  unknown: ['redo', 'skip', 'keep'],
}
/** What a failed attempt may have cost. */
function costOf(attempt: number): { spent?: Cost } {
  return attempt % 2 === 0 ? {} : { spent: { tokens: 40, usd: 0.01, ...(attempt > 2 && { assumed: true }) } }
}

const QUESTIONS: CallQuestion[] = [
  { id: 'size', from: 'shop', message: 'Which size?', schema: { type: 'object', properties: { size: { type: 'string' } } } },
  { id: 'pay', from: 'shop', message: 'Pay, please.', url: 'https://shop.example/pay' },
]
/** The arguments after a hook has changed them. */
const CHANGED: JsonObject = { id: 3 }
const INPUTS: Json[] = [{ id: 1 }, { id: 2 }, { note: 'ü', id: 1 }]

/**
 * Sessions that were played in this process. All properties of a run draw with the same seed, so they draw the same sessions; vitest loads
 * this file again for each test file, so they are in a global.
 */
const shared = globalThis as { pawlPlayedSessions?: Map<string, SoundSession> }
const known = (shared.pawlPlayedSessions ??= new Map<string, SoundSession>())
/** Some 60 KB each. */
const MAX_KNOWN = 2_000

/** The session that `choices` encode, frozen. */
function played(choices: readonly number[], isEventful: boolean): SoundSession {
  const key = `${isEventful} ${choices.join()}`
  const session = known.get(key) ?? frozen(play(choices, isEventful))
  if (known.size < MAX_KNOWN) known.set(key, session)
  return session
}

function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  for (const part of Object.values(Object.freeze(value))) frozen(part)
  return value
}

/** Plays the session that `choices` encode. Once they are used up, everything succeeds and the session comes to rest. */
function play(choices: readonly number[], isEventful: boolean): SoundSession {
  const left = [...choices]
  const events: SessionEvent[] = []
  const entries: LogEntry[] = []
  const entered: Entered[] = []
  const accepted: string[] = []
  let last = { seq: 0, digest: '' }
  let clock = 1_000
  let state: SessionState | undefined
  let interrupted = false
  /** Calls that were in progress when an execution could not be replayed. */
  let underWay: ReadonlySet<string> = new Set()

  /** One of `n`; the first once the choices are used up. */
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
    const due = isEventful ? checkpointAfter(now(), event, clock >= (checkpointAt(now()) ?? Number.POSITIVE_INFINITY)) : undefined
    if (due) checkpoint(due)
    if (isEventful && spentBy(event)) for (const warning of warningsDue(now())) append(warning)
    if (event.type === 'budget_warning' && event.seq % 2 === 0) raiseLimit(event)
  }

  /** A person reacts to the warning. */
  function raiseLimit({ scope, run, unit, limit }: EventOf<'budget_warning'>): void {
    if (scope === 'shared') return
    append({ type: 'budget_raised', scope, ...defined({ run }), [LIMIT_NAMES[unit]]: limit * 2, by: 'ann' })
  }

  /** The caller of a child asks again only if its last question has no answer. */
  function question(): { call?: CallingCall } {
    const { caller } = now()
    if (!caller || (caller.call && caller.outcome?.as !== 'failed' && caller.outcome?.as !== 'interrupted')) return {}
    const traced = {
      ...(last.seq % 2 === 0 && { stretch: 2 }),
      ...(last.seq % 3 === 0 && { trace: { sessionId: 'root', run: 1 } }),
      ...(last.seq % 5 === 0 && { background: true as const }),
    }
    return { call: { seq: last.seq, run: 1, turn: 1, callId: 't_1_1_0', tool: 'set', budget: { maxUsd: 1 }, ...traced } }
  }

  /** What children and callers report of one another. */
  function tellOthers(): void {
    const { caller, spend } = now()
    if (caller?.due && last.seq % 2 === 0) {
      const { as = 'answered', run } = caller.outcome ?? {}
      append({ type: 'caller_told', as, ...defined({ run }), tokens: spend?.tokens ?? 0, usd: spend?.usd ?? 0 })
    }
    if (caller?.call && !caller.outcome && last.seq % 5 === 0) append({ type: 'allowance_raised', budget: { maxUsd: last.seq } })
    const open = callsAtWork(now())[0]
    if (open && last.seq % 3 === 0) {
      const { run, turn, callId, tool } = open
      append({ type: 'allowance_raised', run, turn, callId, tool, budget: { maxUsd: last.seq } })
    }
  }

  function checkpoint({ reasons, by }: CheckpointDue): void {
    const { checkpoint: before, run, current, lastMessageId } = now()
    append({
      type: 'checkpoint_made',
      version: (before?.version ?? 0) + 1,
      ...(run > 0 && { run }),
      ...(current && { turn: current.turn }),
      reasons,
      ...defined({ by, lastMessageId }),
    })
  }

  /** A person asks for a checkpoint at any time. */
  function requestCheckpoint(): void {
    if (isTurnOpen(now())) append({ type: 'checkpoint_requested', reason: 'asked for', by: 'ann' })
    else checkpoint({ reasons: ['asked for'], by: 'ann' })
  }

  function now(): SessionState {
    if (!state) throw new Error('no session yet')
    return state
  }

  function receive(): void {
    const id = `message-${accepted.length}`
    append({
      type: 'message_received',
      messageId: id,
      content: `text of ${id}`,
      ...(chance(3) && { metadata: { nth: accepted.length } }),
      ...(accepted.length % 3 === 1 && { by: `person-${accepted.length}` }),
      ...(isEventful && chance(8) && { deadlineMs: 1 + pick(60) }),
      ...question(),
      ...backgroundAnswer(),
    })
  }

  /** The answer of an agent that works in the background. */
  function backgroundAnswer(): Pick<EventOf<'message_received'>, 'answers'> {
    const [at] = Object.entries(now().background ?? {})
    return at && accepted.length % 2 === 0 ? { answers: { session: at[0], callId: at[1].callId } } : {}
  }

  /** What may come from outside at any moment. */
  function outside(): void {
    switch (pick(12)) {
      case 1:
      case 2:
        return receive()
      case 3:
        if (isEventful && chance(2))
          return append({ type: 'request_passed_on', id: 'u', name: 'pause', ...(chance(2) && { code: 'no', reason: 'no' }) })
        return append({ type: 'message_rejected', code: 'empty_message', reason: 'empty' })
      case 4:
        interrupted = now().current !== null && isRunInProgress(now())
        return
      case 5:
        if (isEventful && now().rules && chance(2))
          return append({ type: 'approval_rule_revoked', rule: now().rules?.[0]?.rule ?? '', by: 'bob' })
        if (isEventful && !now().paused)
          append({ type: 'session_paused', by: 'ann', ...(chance(2) && { reason: 'too fast', raise: [{ scope: 'run', maxUsd: 2 }] }) })
        return
      case 6:
        if (isEventful) schedule()
        return
      case 7:
        if (isEventful) deliver()
        return
      default:
        return
    }
  }

  /** A message that is delivered later: also after rollbacks, and never if a fork or a person takes it back. */
  function schedule(): void {
    const messageId = `later-${events.length}`
    append({
      type: 'message_scheduled',
      messageId,
      content: `text of ${messageId}`,
      dueAt: clock + pick(60),
      ...(chance(3) && { metadata: { later: true } }),
      ...(chance(3) && { by: 'ann' }),
    })
  }

  function deliver(): void {
    const [earliest] = scheduledIn(now())
    if (!earliest) return
    if (chance(4)) return append({ type: 'messages_unscheduled', messageIds: [earliest.messageId], by: 'ann' })
    append(deliveryOf(earliest))
  }

  function unpause(): void {
    append({ type: 'session_unpaused', by: 'ann' })
  }

  /** Continue-as-new: only the snapshot is carried over. */
  function snapshot(): void {
    if (chance(4)) state = JSON.parse(JSON.stringify(now())) as SessionState
  }

  function step(decision: SessionStep): void {
    switch (decision.do) {
      case 'wait':
        return atRest()
      case 'start_run': {
        snapshot()
        return append({ type: 'run_started', run: decision.run, messageId: decision.message.messageId })
      }
      case 'start_turn': {
        snapshot()
        const { run, turn, takes } = decision
        // A run that is about to be interrupted takes only the message that opened it.
        return append({
          type: 'turn_started',
          run,
          turn,
          takes: interrupted ? takes.filter((id) => id === now().current?.messageId) : takes,
        })
      }
      case 'call_model':
        return stoppable(() => callModel(decision.run, decision.turn))
      case 'run_calls':
        return stoppable(() => runCalls(decision.run, decision.turn, decision.calls))
      case 'complete_run': {
        const { do: _, ...completed } = decision
        interrupted = false
        return append({ type: 'run_completed', ...completed })
      }
      case 'fail_run':
        return failRun(decision.run, decision.code)
      case 'end_hooks': {
        const { run, turn } = decision
        if (chance(2)) ranHook({ on: 'postToolUse', hook: 'post', run, turn, answer: { appendContext: 'look at it' } })
        return append({ type: 'hooks_ended', run, turn })
      }
      case 'recover':
        return recover(decision.strategy, now().run, { automatic: true })
      case 'ask':
        for (const one of decision.calls) ask(one.call, one.for)
        return
      case 'expire':
        return expire(decision.call)
      case 'use_rules':
        return useRules(decision.calls)
    }
  }

  function whereOf({ callId, resolution: { tool } }: CallState) {
    return { run: now().current?.run ?? 0, turn: now().current?.turn ?? 0, callId, tool }
  }

  function ask(call: CallState, need: 'approval' | 'answer'): void {
    const where = whereOf(call)
    const { effect, inputDigest, index, key } = call.resolution
    if (call.status === 'requested') {
      append({ type: 'tool_issued', ...where, effect, inputDigest, index, ...(key && { key }), input: call.input ?? null })
    }
    const expiresAt = clock + 1 + pick(9)
    const asks = nextQuestion(call)
    if (asks) return append({ type: 'answer_requested', ...where, asks })
    const called = isAgentCall(call) && {
      child: {
        session: `s/${call.callId}`,
        agent: 'helper',
        budget: { maxUsd: 0.5 },
        ...(last.seq % 4 === 0 && { background: true as const }),
        ...defined({ stretch: now().current?.stretch }),
      },
    }
    if (called) return append({ type: 'answer_requested', ...where, ...called })
    if (call.resolution.client?.sleeps) return append({ type: 'sleep_started', ...where, expiresAt })
    if (need === 'answer') return append({ type: 'answer_requested', ...where, ...(chance(2) && { expiresAt }) })
    append({
      type: 'approval_requested',
      ...where,
      digest: inputDigest,
      reason: 'it costs',
      expiresAt,
      onExpiry: chance(2) ? 'deny' : 'error',
    })
  }

  function useRules(calls: Extract<SessionStep, { do: 'use_rules' }>['calls']): void {
    for (const { call, by } of calls) {
      const where = whereOf(call)
      const { effect, inputDigest, index, key } = call.resolution
      if (call.status === 'requested')
        append({ type: 'tool_issued', ...where, effect, inputDigest, index, ...(key && { key }), input: call.input ?? null })
      append({ type: 'approval_decided', ...where, digest: inputDigest, approved: true, rule: by.rule, by: 'ann' })
    }
  }

  function giveRule(call: CallState): void {
    const { callId, run, turn } = whereOf(call)
    const { tool, effect, schemaDigest } = call.resolution
    const terms = { tool, effect, schemaDigest, matching: 'tool' as const, ...(chance(2) && { uses: 1 + pick(3) }) }
    append({ type: 'approval_rule_given', run, turn, callId, rule: `ar_${now().seq}`, ...terms, by: 'ann' })
  }

  function expire(call: CallState): void {
    const where = whereOf(call)
    if (call.status === 'asleep') {
      return append({ type: 'tool_completed', ...where, attempt: 0, value: { wokenBy: now().inbox.length > 0 ? 'message' : 'time' } })
    }
    if (call.status === 'awaiting_answer') {
      return append({ type: 'tool_failed', ...where, attempt: 0, code: 'answer_timeout', message: 'nobody' })
    }
    append({ type: 'approval_decided', ...where, digest: call.asked?.digest ?? '', approved: false, expired: true })
    append({ type: 'tool_failed', ...where, attempt: 0, code: 'approval_expired', message: 'nobody' })
    if (call.asked?.onExpiry === 'error') failRun(where.run, 'approval_expired')
  }

  /** A person or a client decides on a waiting call. */
  function decideOn(call: CallState): void {
    const where = whereOf(call)
    const by = chance(2) ? { by: 'ann' } : {}
    switch (call.status) {
      case 'awaiting_approval': {
        const digest = call.asked?.digest ?? ''
        if (chance(8)) {
          const approvers = { role: 'finance' }
          return append({ type: 'approval_refused', ...where, digest, approved: true, approvers, ...by, roles: ['support'] })
        }
        if (chance(3)) {
          append({ type: 'approval_decided', ...where, digest, approved: false, ...by, note: 'no' })
          return append({ type: 'tool_failed', ...where, attempt: 0, code: 'denied', message: 'denied' })
        }
        const input = chance(3) ? (INPUTS[pick(INPUTS.length)] ?? null) : undefined
        const changed = input !== undefined && { input, resolution: { ...call.resolution, inputDigest: inputDigestOf(where.tool, input) } }
        append({ type: 'approval_decided', ...where, digest, approved: true, ...by, ...changed })
        if (isEventful && chance(3)) giveRule(call)
        return
      }
      case 'asleep':
        return receive()
      case 'awaiting_answer':
        if (call.asking?.question)
          return append({ type: 'answer_received', ...where, ...by, reply: { action: 'accept', content: { size: 'M' } } })
        if (call.asked?.child) {
          const total = { tokens: 3 * last.seq, usd: 0.01 }
          append({ type: 'spent', ...where, attempt: 1, tokens: 3, usd: 0.01, child: { session: call.asked.child.session, total } })
        }
        append({ type: 'answer_received', ...where, ...by })
        return append({ type: 'tool_completed', ...where, attempt: 0, value: { answer: call.callId } })
      default:
        return resolveUnknown(call)
    }
  }

  function resolveUnknown(call: CallState): void {
    const where = whereOf(call)
    const attempt = call.attempts ?? 1
    const said = { by: 'person' as const, decidedBy: 'ann', note: 'looked it up' }
    switch (pick(4)) {
      case 0:
        append({ type: 'tool_resolved', ...where, ...said, happened: true })
        return append({ type: 'tool_completed', ...where, attempt, value: 'it did' })
      case 1:
        append({ type: 'tool_resolved', ...where, ...said, happened: false })
        return
      case 2:
        append({ type: 'tool_resolved', ...where, ...said, happened: false, decision: 'retry' })
        return
      default:
        append({ type: 'tool_resolved', ...where, ...said, happened: false, decision: 'skip' })
        return append({ type: 'tool_failed', ...where, attempt, code: 'skipped', message: 'left undone' })
    }
  }

  const parsed = () => events.map((event, index) => ({ event, digest: entries[index]?.digest ?? '' }))

  function anyTarget(): Target {
    const { checkpoint: made, run } = now()
    switch (pick(3)) {
      case 0:
        return { checkpoint: 1 + pick(made?.version || 1) }
      case 1:
        return { run: 1 + pick(run || 1) }
      default:
        return { message: accepted[pick(accepted.length || 1)] ?? 'none' }
    }
  }

  function findTarget(archived: boolean): ReturnType<typeof locate> | undefined {
    try {
      return locate(parsed(), anyTarget(), { archived })
    } catch (error) {
      if (error instanceof TargetRefused) return undefined
      throw error
    }
  }

  function rollBack(): void {
    if (chance(3)) return regenerate()
    const place = findTarget(false)
    if (!place) return
    const { seq: toSeq, lastMessageId } = place
    const { effects } = effectsAfter(events, toSeq)
    const last = lastMessageId !== undefined && { lastMessageId }
    const upToSeq = events.length - pick(2)
    const removed = messagesAfter(events, toSeq, upToSeq).map(({ messageId }) => shortHash(messageId))
    append({
      type: 'rolled_back',
      toSeq,
      upToSeq,
      ...last,
      effects,
      removed,
      by: 'ann',
      reason: 'wrong way',
      ...restoredTo(keptAt(events, toSeq)),
    })
  }

  /** Answers the newest run's messages again. */
  function regenerate(): void {
    const newest = newestRun(events)
    const place = newest && placeBefore(newest.run)
    if (!newest || !place || Object.keys(now().unknown).length > 0) return
    const { seq: toSeq, lastMessageId } = place
    const messages = messagesAfter(events, toSeq, 0).map(({ messageId, seq }) => ({ messageId, seq }))
    if (messages.length === 0) return
    const last = lastMessageId !== undefined && { lastMessageId }
    const { effects } = effectsAfter(events, toSeq)
    const again = { messages, intent: newest.intent }
    append({ type: 'rolled_back', toSeq, upToSeq: 0, ...last, effects, again, ...restoredTo(keptAt(events, toSeq)) })
  }

  function placeBefore(run: number): ReturnType<typeof locate> | undefined {
    try {
      return locate(parsed(), { run })
    } catch (error) {
      if (error instanceof TargetRefused) return undefined
      throw error
    }
  }

  /** Continues as a fork of an earlier point of the session. */
  function fork(): void {
    const place = findTarget(true)
    if (!place) return
    const source = now().sessionId
    events.length = place.seq
    entries.length = place.seq
    // What the other session did later does not belong to this one.
    entered.splice(0, entered.length, ...entered.filter(({ afterSeq }) => afterSeq <= place.seq))
    last = { seq: place.seq, digest: place.digest }
    const prefix = fold(undefined, events)
    if (!prefix) throw new Error('the prefix begins in the middle')
    state = prefix
    append({
      type: 'forked',
      sessionId: `${source}f`,
      executionId: `execution-f${last.seq}`,
      coreVersion: 2,
      from: { sessionId: source, seq: place.seq },
      keys: chance(2) ? 'carried' : 'forgotten',
      ...(chance(2) && { tags: ['forked'] }),
    })
  }

  function startOver(): void {
    const { sessionId, agent, context, tags, run, checkpoint: made } = now()
    const after = { run, checkpoint: made?.version ?? 0, origin: { ...last } }
    append({ type: 'session_started', sessionId, agent, context, tags, executionId: `execution-${last.seq}`, coreVersion: 2, after })
  }

  /** The workflow has ended, and another one resumes from the state. */
  function resumeAnywhere(): void {
    const fromEpoch = now().epoch
    const unreplayable = chance(3) && { unreplayable: { executionId: fromEpoch, reason: 'its history differs' } }
    append({ type: 'session_resumed', executionId: `execution-${last.seq}`, fromEpoch, coreVersion: 2, ...unreplayable })
    if (unreplayable) {
      underWay = new Set(now().current?.calls.flatMap((call) => (isExternalInProgress(call) ? [call.callId] : [])))
      return
    }
    const run = now().current
    if (now().status === 'error' || !run || run.phase !== 'tools' || run.answerSeq === undefined) return
    const { answerSeq, beforeAnswer, lastTurn } = run
    for (const call of run.calls.filter(isExternalInProgress)) {
      append({ type: 'tool_unknown', ...whereOf(call), attempt: 1, message: 'the workflow ended', aliveForMs: 65_000 })
    }
    if (lastTurn !== undefined || run.planTurn === run.turn || run.memoryTurn === run.turn) {
      for (const call of run.calls.filter((one) => one.status === 'issued')) {
        append({ type: 'tool_failed', ...whereOf(call), attempt: 1, code: 'interrupted', message: 'the workflow ended' })
      }
      return
    }
    const before = beforeAnswer !== undefined && { lastMessageId: beforeAnswer }
    append({ type: 'rolled_back', toSeq: answerSeq - 1, upToSeq: last.seq, keepsRun: true, ...before, effects: [] })
  }

  /** Stops a run: what an execution that could not be replayed was doing may have happened. */
  function stopRun(why: { reason?: string } = {}): void {
    for (const call of now().current?.calls.filter((one) => isExternalInProgress(one) && underWay.has(one.callId)) ?? []) {
      append({ type: 'tool_unknown', ...whereOf(call), attempt: 1, message: 'the workflow ended' })
    }
    append({ type: 'run_interrupted', run: now().run, ...why })
  }

  /** What people and mishaps do to a session. */
  function intervene(): boolean {
    const waiting = now().current?.calls.filter(isWaiting) ?? []
    const call = waiting[pick(waiting.length || 1)]
    switch (pick(8)) {
      case 0:
      case 1:
      case 2:
        if (!call) return false
        decideOn(call)
        return true
      case 3:
        // Time passes, so a decision may come too late.
        clock += 20
        return call !== undefined
      case 4:
        if (now().current && !now().error) stopRun({ reason: 'rolled back' })
        rollBack()
        return true
      case 5:
        if (!chance(3)) return false
        fork()
        return true
      case 6:
        if (!chance(6)) return false
        startOver()
        return true
      default:
        requestCheckpoint()
        resumeAnywhere()
        return true
    }
  }

  function stoppable(body: () => void): void {
    if (!interrupted) body()
    if (!interrupted || !isRunInProgress(now())) return
    interrupted = false
    stopRun()
  }

  function progressNow(): Pick<EventOf<'error_entered'>, 'progress'> {
    const { current } = now()
    return current ? { progress: progressOf(now(), current) } : {}
  }

  function failRun(run: number, code: string, transient = false): void {
    const choice = chooseRecovery(now(), { code, transient })
    const next = nextAttemptAt(now(), { code, transient }, choice.strategy, clock)
    append({
      type: 'error_entered',
      run,
      code,
      reason: code,
      ...choice,
      ...(next !== undefined && { nextAttemptAt: next }),
      ...progressNow(),
    })
    interrupted = false
  }

  /** Nothing to do: the session is recovered, closes and is resumed, or receives a message. */
  function atRest(): void {
    if (isEventful) tellOthers()
    if (isEventful && chance(2) && intervene()) return
    if (now().paused) return paused()
    const { status, error, run } = now()
    // With a run in progress, another session works on one of its calls. Such a session does not close.
    if (status === 'waiting' || status === 'running') return receive()
    if (error?.nextAttemptAt !== undefined && chance(2)) {
      clock = Math.max(clock, error.nextAttemptAt)
      return
    }
    if (error?.options?.includes('selective') && pick(3) > 0) return chooseCalls()
    switch (pick(5)) {
      case 1:
      case 2:
        if (status !== 'error') return receive()
        if (isEventful && chance(4)) return append({ type: 'recovery_refused', run, code: 'no_effect', message: 'none', by: 'somebody' })
        return recover(
          chance(2) && error && error.strategy !== 'automatic' && error.strategy !== 'manual' ? error.strategy : someOption(error?.options),
          run,
        )
      case 3: {
        append({ type: 'session_closed', reason: 'idle' })
        // A request may arrive just then, and the session stays open.
        if (isEventful && chance(4)) return append({ type: 'session_paused' })
        const fromEpoch = now().epoch
        const executionId = `execution-${last.seq}`
        state = { ...(JSON.parse(JSON.stringify(now())) as SessionState), epoch: executionId }
        append({ type: 'session_resumed', executionId, fromEpoch, coreVersion: 1 })
        if (now().current && now().status !== 'error') append({ type: 'run_interrupted', run: now().run, reason: 'its workflow had ended' })
        return
      }
      default:
        return receive()
    }
  }

  /** A paused session accepts messages and can be interrupted. It continues once it is unpaused. */
  function paused(): void {
    switch (pick(4)) {
      case 1:
        return receive()
      case 2:
        interrupted = false
        if (isRunInProgress(now())) stopRun()
        // A session with nothing left to do may close, unless something arrives just then.
        if (!isHeldUp(now(), dueAt(clock)) && chance(2)) append({ type: 'session_closed', reason: 'requested' })
        return
      default:
        return unpause()
    }
  }

  function someOption(options: readonly RecoveryStrategy[] = ['abandon']): RecoveryStrategy {
    const possible = options.filter((option) => option !== 'manual' && option !== 'selective')
    return possible[pick(possible.length)] ?? 'abandon'
  }

  function recover(strategy: RecoveryStrategy, run: number, why: { automatic: true } | { by: string } = { by: 'somebody' }): void {
    const toSeq = strategy === 'restart_from_last_effect' ? (now().current?.lastEffect?.seq ?? now().seq) : undefined
    append({ type: 'recovery_started', strategy, run, ...defined({ toSeq }), ...why, ...keptRestored(strategy, toSeq) })
    append({ type: 'recovery_ended', strategy, run })
  }

  /** What a recovery restores. */
  function keptRestored(strategy: RecoveryStrategy, toSeq = 0): { restored?: RestoredValues } {
    const { current } = now()
    const isChanged = current?.planTurn !== undefined || current?.memoryTurn !== undefined
    if (!current || !isChanged || strategy === 'continue_run') return {}
    return restoredTo(strategy === 'restart_from_last_effect' ? keptAt(events, toSeq) : keptBeforeRun(events, current.run))
  }

  function restoredTo(kept: PlanAndMemory | undefined): { restored?: RestoredValues } {
    const { plan, memory } = now()
    const restored = kept && restoredFrom(kept, { plan: plan?.current, memory: memory?.current })
    return restored ? { restored } : {}
  }

  /** A person decides what happens to each call of the failed turn. */
  function chooseCalls(): void {
    const run = now().current
    if (!run) return
    const choice: CallChoice = { keep: [], skip: [], redo: [], force: chance(2) }
    for (const call of run.calls) {
      const list = LISTS[call.status][pick(LISTS[call.status].length)] ?? 'none'
      const isForced = call.status === 'completed' && call.resolution.effect !== 'read' && list === 'redo'
      // A change to the plan or the memory may be refused the second time, because it was already made.
      const isKept = (isForced && !choice.force) || (call.resolution.builtIn && call.status === 'completed')
      if (isKept) choice.keep.push(call.callId)
      else if (list !== 'none') choice[list].push(call.callId)
      else if (now().unknown[call.callId]) choice.redo.push(call.callId)
    }
    if (problemWithChoice(now(), run, choice, 'somebody')) return
    const calls = requestedCallsOf(events.slice(events.findIndex(({ seq }) => seq === run.answerSeq)))
    for (const event of eventsOfChoice(run, calls, choice, { by: 'somebody' })) append(event)
  }

  /** A summary replaces some past turns, in pieces or at once. Sometimes that fails. */
  function compact(run: number, turn: number): void {
    if (!isEventful || pick(4) > 0) return
    const about = { run, turn, tokens: 900, window: 1_000, ...(chance(3) && { forced: true as const }) }
    if (chance(5)) return append({ type: 'compaction_failed', ...about, code: 'overloaded_error', reason: 'busy' })
    const transcript = emptyTranscript()
    for (const event of events) addToTranscript(transcript, event)
    const cut = chooseCut(transcript, 1 + pick(3))
    if (!cut) return
    const from = sentFrom(transcript)
    const to = chance(3) ? pieceEnd(transcript, cut.to, 1) : cut.to
    append({
      type: 'compacted',
      ...about,
      attempt: 1,
      upToSeq: transcript.seqs[to - 1] ?? 0,
      summary: `summary of ${to} messages`,
      messages: to - from,
      ...(chance(4) && { resultBytes: 40 }),
      ...(chance(2) && { model: 'scripted', usage: { ...NO_USAGE, input_tokens: pick(100) } }),
    })
  }

  /** A provider refuses some of the content that the model has seen or sees now. */
  function leaveOut(run: number, turn: number): void {
    const transcript = emptyTranscript()
    for (const event of events) addToTranscript(transcript, event)
    const all = transcript.messages.flatMap((message, index) => contentIn(message, transcript.seqs[index] ?? 0))
    const content = all.filter(() => chance(6)).slice(0, 3)
    if (content.length > 0) append({ type: 'content_replaced', run, turn, content, reason: 'm: 400 Could not process it.' })
  }

  function callModel(run: number, turn: number): void {
    hooksBefore(run, turn)
    compact(run, turn)
    for (let attempt = 1; ; attempt++) {
      outside()
      if (interrupted) return
      switch (pick(12)) {
        case 0:
          return answer(run, turn, attempt, [{ type: 'text', text: `answer of ${run}.${turn}` }])
        case 1:
          return answer(run, turn, attempt, isEventful && chance(2) ? outputUses() : [])
        case 2:
          return answer(run, turn, attempt, [{ type: 'text', text: 'and then' }], 'pause_turn')
        case 3:
          append({
            type: 'model_attempt_failed',
            run,
            turn,
            error: { attempt, class: 'ModelError', message: 'overloaded', retryable: true, ...(isEventful && costOf(attempt)) },
          })
          continue
        case 4:
        case 5:
          return failRun(run, 'model_call_failed', chance(2))
        case 6:
          if (now().status === 'error') continue
          append({ type: 'error_entered', run, code: 'agent_not_served', reason: 'nobody', strategy: 'automatic' })
          if (chance(2)) append({ type: 'error_entered', run, code: 'archive_unavailable', reason: 'no Postgres', strategy: 'automatic' })
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

  /** Plans of a few steps with repeating ids, and changes to them, some of which are refused. */
  function planUse(): AssistantBlock {
    const id = ['a', 'b', 'a', 'b', 'x'][pick(5)] ?? 'a'
    const steps = [
      { id: 'a', title: 'the first' },
      { id: chance(6) ? 'a' : 'b', title: 'the second', postconditions: 'it is there' },
    ]
    const inputs: Record<PlanTool, Json> = {
      plan_setup: { objective: 'to get there', steps, replace: chance(2) },
      plan_add_step: { id, title: 'another', ...(chance(2) && { after: 'a' }) },
      plan_update_step: { id, status: STATUSES[pick(STATUSES.length)] ?? 'done', ...(chance(2) && { evidence: 'seen' }) },
    }
    const wanted: readonly PlanTool[] = now().plan?.current ? CHANGES : ['plan_setup', 'plan_setup', 'plan_add_step']
    const name = wanted[pick(wanted.length)] ?? 'plan_setup'
    return { type: 'tool_use', id: `toolu_${pick(2)}`, name, input: inputs[name] }
  }

  /** Changes to the memory, some of which are refused. */
  function memoryUse(): AssistantBlock {
    const block = ['customer', 'notes', 'notes', 'nothing'][pick(4)] ?? 'notes'
    const content = TEXTS[pick(TEXTS.length)] ?? ''
    const replaces = chance(4)
    const input: Json = replaces ? { block, content: chance(3) ? '' : content, ...(chance(2) && { old: 'likes' }) } : { block, content }
    return { type: 'tool_use', id: `toolu_${pick(2)}`, name: replaces ? 'memory_replace' : 'memory_append', input }
  }

  /** An output, valid or not. It is never accepted beside another call. */
  function outputUses(): AssistantBlock[] {
    const output: AssistantBlock = { type: 'tool_use', id: 'toolu_0', name: OUTPUT_TOOL, input: INPUTS[pick(INPUTS.length)] ?? null }
    return chance(4) ? [output, toolUse()] : [output]
  }

  function toolUse(): AssistantBlock {
    if (isEventful && chance(4)) return memoryUse()
    if (isEventful && pick(3) > 0 && pick(3) > 0) return planUse()
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
    const calls = uses.map((use, index) => resolve(use.name, use.input, { run, turn, index }, uses.length === 1))
    const isMissing = isEventful && uses.length === 0 && stop === 'end_turn' && chance(4)
    const stopReason = calls.length > 0 ? 'tool_use' : stop
    const usage = { ...NO_USAGE, input_tokens: pick(100), output_tokens: 1 }
    declare()
    if (isEventful && chance(12)) leaveOut(run, turn)
    const model = isEventful && chance(2) ? 'claude-sonnet-4-5-20250929' : 'scripted'
    append({
      type: 'model_completed',
      run,
      turn,
      attempt,
      model,
      content,
      stopReason,
      usage,
      ...(model === 'scripted' && run % 2 === 0 && { price: { input: 3, output: 15, cacheRead: 0.3 } }),
      calls,
      ...metadataOfOpener(),
      ...(isMissing && { outputProblem: 'There is no output.' }),
    })
    if (isEventful) hooksOfAnswer(run, turn)
  }

  function ranHook(ran: Omit<EventOf<'hook_answered'>, 'v' | 'seq' | 'at' | 'type' | 'attempt'>): void {
    append({ type: 'hook_answered', attempt: 1, ...ran })
    const { answer: _, args: _args, overruled: _overruled, ...where } = ran
    if (chance(3)) append({ type: 'emitted', attempt: 1, ...where, name: `e of ${ran.hook}`, ...(chance(2) && { data: ran.on }) })
  }

  /** What hooks say before the request; it is recorded even if the model call fails. */
  function hooksBefore(run: number, turn: number): void {
    if (!isEventful || pick(4) > 0) return
    const answer = [{ systemMessage: 'be brief' }, { appendContext: 'it is late' }][pick(2)]
    ranHook({ on: 'turnStart', hook: 'turn', run, turn, ...(answer && { answer }), ...(chance(3) && { overruled: true as const }) })
  }

  /** Hooks may change arguments, and may keep a final answer from being the last one. */
  function hooksOfAnswer(run: number, turn: number): void {
    const { calls = [], phase } = now().current ?? {}
    const isFinal = phase === 'answered' || isOutputCall({ calls })
    if (isFinal && chance(4)) ranHook({ on: 'agentStop', hook: 'stop', run, turn, answer: { appendContext: 'go on' } })
    for (const { callId, resolution, input: args = null } of calls) {
      if (resolution.ownDigest === undefined) continue
      ranHook({ on: 'preToolUse', hook: 'pre', run, turn, callId, tool: resolution.tool, args, answer: { modify: CHANGED } })
    }
  }

  /** Another build may serve the session at any time. */
  function declare(): void {
    if (now().facts && !chance(5)) return
    const budget = isEventful && { maxTotalTokens: 60, maxUsd: 0.05 }
    const limits = { maxTurns: MAX_TURNS, ...(chance(10) && { deadlineMs: 1 + pick(60) }), ...budget }
    const checkpoint = (isEventful ? POLICIES[pick(POLICIES.length)] : undefined) ?? 'turn'
    const sessionLimits = isEventful && chance(10) && { sessionLimits: { deadlineMs: 300 + pick(400), maxTotalTokens: 500 } }
    const builtIn = isEventful && { plan: true as const, memory: BLOCKS, ...(chance(2) && { endHooks: true as const }) }
    append({
      type: 'agent_declared',
      digest: `d${pick(1_000)}`,
      limits,
      ...sessionLimits,
      checkpoint,
      recovery: DEFAULT_RECOVERY,
      ...builtIn,
    })
  }

  /** As a model call reports it: from the events, if the state lacks it. */
  function metadataOfOpener(): { metadata?: JsonObject } {
    const { messageId, metadata: known = {} } = now().current ?? {}
    const opener = events.find((event) => event.type === 'message_received' && event.messageId === messageId)
    const said = opener?.type === 'message_received' ? opener.metadata : undefined
    return said && Object.keys(known).length === 0 ? { metadata: said } : {}
  }

  function resolve(name: string, input: Json, place: { run: number; turn: number; index: number }, isAlone: boolean): Resolution {
    if (name === OUTPUT_TOOL) {
      const isAccepted = isAlone && chance(2)
      const invalid = { code: 'invalid_output' as const, message: 'It does not match.' }
      const known = {
        ...BUILT_IN_CALL,
        index: place.index,
        tool: name,
        inputDigest: inputDigestOf(name, input),
        builtIn: 'output' as const,
      }
      return { ...known, ...(isAccepted ? chance(2) && { output: { made: input } } : { invalid }) }
    }
    const builtIn = isPlanTool(name) ? 'plan' : isMemoryTool(name) ? 'memory' : undefined
    if (builtIn) return { ...BUILT_IN_CALL, index: place.index, tool: name, inputDigest: inputDigestOf(name, input), builtIn }
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
    const key = idempotencyKeyOf(tool, { sessionId: 's', ...place, intent: now().current?.intent ?? place.run, rawInput: input, input })
    const resolution: Resolution = {
      ...known,
      retry,
      effect: tool.effect,
      verify: tool.verify !== undefined,
      ...defined({ key }),
    }
    if (!isEventful) return resolution
    return {
      ...resolution,
      ...(chance(4) && { approval: { expiresMs: 5, onExpiry: 'deny' as const } }),
      ...(name === 'look' && chance(3) && { client: chance(2) ? {} : { sleeps: true as const, timeoutMs: 5 } }),
      ...(name === 'set' && place.turn % 2 === 0 && { client: { agent: { name: 'helper' } } }),
      ...(name === 'look' && chance(3) && { inputDigest: inputDigestOf(name, CHANGED), ownDigest: resolution.inputDigest }),
      ...(chance(2) && { onUnknown: 'ask' as const }),
    }
  }

  const journal = {
    append,
    get state() {
      return now()
    },
  } as Journal

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

  /** Issues the call, and answers it without running it if it is admitted that way. Returns whether its body is to run. */
  function begin(run: number, turn: number, call: CallState): boolean {
    const where = placeOf(run, turn, call)
    const { effect, inputDigest, index, key } = call.resolution
    if (call.status === 'requested') {
      append({ type: 'tool_issued', ...where, effect, inputDigest, index, ...(key && { key }), input: call.input ?? null })
    }
    for (;;) {
      const admission = admit(now(), call)
      switch (admission.as) {
        case 'execute':
          if (!call.resolution.builtIn) return true
          answerBuiltIn(journal, { ...where, input: call.input ?? null, resolution: call.resolution })
          return false
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
    if (isEventful && last.seq % 5 === 0 && (call.asking?.rounds ?? 0) < 2) {
      const asks = askedQuestion((call.attempts ?? 0) + 1, QUESTIONS.slice(0, 1 + (last.seq % 2)), 'what the server keeps')
      if (asks) return append({ type: 'answer_requested', ...where, asks })
    }
    for (let attempt = 1; ; attempt++) {
      if (interrupted) return append({ type: 'tool_failed', ...where, attempt: attempt - 1, code: 'interrupted', message: 'interrupted' })
      entered.push({ callId: call.callId, effect, key, inputDigest, afterSeq: last.seq })
      if (isEventful && chance(3)) append({ type: 'tool_progress', ...where, attempt, value: { done: attempt } })
      if (isEventful && chance(3)) append({ type: 'milestone_reached', ...where, name: `m${attempt}` })
      if (isEventful && chance(3))
        append({ type: 'emitted', ...where, attempt, name: `e${attempt}`, ...(chance(2) && { data: { attempt } }) })
      if (isEventful && last.seq % 3 === 0) append({ type: 'spent', ...where, attempt, usd: 0.02, tokens: 5, note: 'a search' })
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
      if (verdict === 2) {
        const asks = call.resolution.onUnknown === 'ask' && { ask: true as const }
        return append({ type: 'tool_unknown', ...where, attempt, message: 'unknown', ...asks })
      }
      append({ type: 'tool_resolved', ...where, by: 'verify', happened: verdict === 0 })
      if (verdict === 0) return append({ type: 'tool_completed', ...where, attempt, value: { found: call.callId } })
    }
  }

  append(sessionStarted({ executionId: 'execution-0', ...(isEventful && choices.length % 3 === 0 && { caller: CALLER }) }))
  for (;;) {
    outside()
    const decision = decide(now(), dueAt(clock))
    if (decision.do === 'wait' && left.length === 0) {
      if (!now().paused) return { events, entries, entered, accepted, state: now() }
      unpause()
    } else step(decision)
  }
}

/** What becomes known after these events of the calls that ended with an unknown outcome: `nth` chooses which of them happened. */
export function lateOutcomes(events: readonly SessionEvent[], nth: number): EventBody[] {
  const { unknown = {}, current } = fold(undefined, events) ?? {}
  const isOpen = (callId: string): boolean => current?.calls.some((call) => call.callId === callId && !hasEnded(call)) ?? false
  const late = Object.entries(unknown).filter(([callId]) => !isOpen(callId))
  return late.map(([callId, { run, turn, resolution }], n) => {
    const where = { type: 'tool_resolved' as const, run, turn, callId, tool: resolution.tool }
    if ((n + nth) % 3 === 2) return { ...where, by: 'person', decidedBy: 'ann', happened: false }
    return { ...where, by: n % 2 === 0 ? 'worker' : 'person', happened: true, value: { later: callId } }
  })
}

function isRunInProgress(state: SessionState): boolean {
  return state.current !== null && (state.status === 'running' || state.status === 'waiting' || state.error?.strategy === 'automatic')
}

function isExternalInProgress({ status, resolution }: CallState): boolean {
  return status === 'issued' && resolution.effect === 'external'
}
