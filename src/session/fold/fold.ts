// The fold: applies each event to a session's state. The workflow, the activities and the store's rebuild share this code.
import { budgetOfRun, countSpend, noteWarning, raiseBudget } from '../spending/budget.ts'
import { tokensIn } from '../spending/spend.ts'
import { addUsage, NO_USAGE, type Usage } from '../content.ts'
import { noteCheckpointDue } from '../checkpointing.ts'
import { noteBackground } from '../agents/background.ts'
import { noteCaller } from '../agents/caller.ts'
import { countsFrom } from '../deadlines.ts'
import { shortHash } from '../digest.ts'
import type { EventOf, EventType, SessionEvent } from '../events.ts'
import { answerIdOf, callIdOf, resultsIdOf } from '../ids.ts'
import {
  closeTurn,
  completeCall,
  decideApproval,
  failCall,
  grant,
  markUnknown,
  reopenTurn,
  applyLateOutcome,
  settleStatus,
  updateCall,
  receiveAnswer,
  waitFor,
  waitForAnswer,
} from './calls.ts'
import { changeMemory, changePlan, restore } from './kept.ts'
import { answeredCall } from '../agents/traces.ts'
import { applyHookAnswer, noteHooksDue } from './hooks.ts'
import { acceptOutput, countBadOutput } from '../built-in-tools/output.ts'
import { pause, stayOpen, unpause } from '../pause.ts'
import { queue, requeue, take } from './queue.ts'
import { forgetRulesAfter, giveRule, revokeRule } from './rules.ts'
import { removeScheduled, schedule } from './scheduled.ts'
import { cutOf, NO_RUN } from '../past/cut.ts'
import { forgottenCalls } from '../past/forgotten.ts'
import { RECOVERIES_KEPT } from '../recovery/recovery.ts'
import { rests } from '../rest.ts'
import type { QueuedMessage, RunState, SessionError, SessionState } from '../state.ts'
import { defined } from '../defined.ts'
import { joinsModelCall } from '../turns.ts'

/** The code with which a session rejects a message that was sent to be skipped while the session is busy. */
export const OVERLAP_SKIPPED = 'overlap_skipped'

/** How many message ids a state keeps, as hashes. */
export const ACCEPTED_KEPT = 2_000

/** The state after a session's first event. */
export function initialState(event: EventOf<'session_started'>): SessionState {
  return {
    v: 1,
    sessionId: event.sessionId,
    agent: event.agent,
    epoch: event.executionId,
    context: event.context,
    tags: event.tags,
    status: 'idle',
    seq: event.seq,
    createdAt: event.at,
    updatedAt: event.at,
    run: 0,
    current: null,
    error: null,
    inbox: [],
    inboxBytes: 0,
    accepted: [],
    keys: {},
    unknown: {},
    turns: 0,
    usage: NO_USAGE,
    ...(event.after && numbersAfter(event, event.after)),
    ...(event.caller && { caller: { ...event.caller, failures: 0 } }),
  }
}

/** A state for folding events from the middle of a session, where earlier events do not matter. */
export function emptyState(): SessionState {
  const noSession = { sessionId: '', agent: '', context: null, tags: [], executionId: '', coreVersion: 1 }
  return initialState({ v: 1, seq: 0, at: 0, type: 'session_started', ...noSession })
}

/** Numbers only increase, even after a past that can no longer be read. */
function numbersAfter(
  { seq, at }: EventOf<'session_started'>,
  { run, checkpoint, origin, keysOf }: NonNullable<EventOf<'session_started'>['after']>,
): Pick<SessionState, 'run' | 'checkpoint' | 'origin' | 'keysOf'> {
  return { run, checkpoint: { version: checkpoint, seq, at, turns: 0 }, origin, ...defined({ keysOf }) }
}

/** The state after `events`; `state` belongs to the caller and is changed in place. */
export function fold(state: SessionState | undefined, events: Iterable<SessionEvent>): SessionState | undefined {
  let folded = state
  for (const event of events) {
    if (event.type === 'session_started') folded = initialState(event)
    else if (folded) apply(folded, event)
  }
  return folded
}

/** Applies one event to the state, in place. Events that do not match the state (a correct log has none) change little. */
export function apply(state: SessionState, event: SessionEvent): void {
  const rested = rests(state) ? state.current?.run : undefined
  applyEvent(state, event)
  if (state.caller) noteCaller(state, event)
  noteBackground(state, event)
  noteCheckpointDue(state, event)
  const run = state.current
  if (run && run.run === rested && !rests(state)) run.stretch = (run.stretch ?? 1) + 1
}

function applyEvent(state: SessionState, event: SessionEvent): void {
  stayOpen(state)
  state.seq = event.seq
  state.updatedAt = event.at
  countSpend(state, event)
  const applyIt = APPLIED[event.type] as (to: SessionState, one: SessionEvent) => void
  applyIt(state, event)
}

const nothing = (): void => undefined

/** What each event changes, besides what it cost. */
const APPLIED: { readonly [T in EventType]: (state: SessionState, event: EventOf<T>) => void } = {
  session_started: nothing,
  message_rejected(state, { messageId, code }) {
    // Sent again, it is still the same occurrence of a schedule.
    if (code === OVERLAP_SKIPPED && messageId !== undefined) noteAccepted(state, messageId)
  },
  request_passed_on: nothing,
  tool_attempt_failed: nothing,
  milestone_reached: nothing,
  emitted: nothing,
  approval_refused: nothing,
  recovery_refused: nothing,
  compaction_failed: nothing,
  content_replaced: nothing,
  // Handled by noteCaller.
  caller_told: nothing,
  allowance_raised(state, event) {
    for (const [session, { callId }] of Object.entries(state.background ?? {}))
      if (callId === event.callId) grant(state, { session, budget: event.budget })
    updateCall(state, event, ({ asked }) => {
      if (!asked?.child) return
      asked.child = { ...asked.child, budget: event.budget }
      grant(state, asked.child)
    })
  },
  spent: noteChild,
  // Handled by noteCheckpointDue.
  checkpoint_requested: nothing,
  budget_warning: noteWarning,
  budget_raised: raiseBudget,
  session_resumed: resumeSession,
  message_received(state, event) {
    queue(state, queued(event))
    if (event.dueAt !== undefined) removeScheduled(state, event.messageId)
    noteAccepted(state, event.messageId)
  },
  message_scheduled(state, event) {
    schedule(state, event)
    noteAccepted(state, event.messageId)
  },
  messages_unscheduled(state, { messageIds }) {
    removeScheduled(state, ...messageIds)
  },
  run_started(state, event) {
    // A message took the session out of an error, so its sender has intervened.
    if (state.error) endSeries(state)
    closeTurn(state)
    state.run = event.run
    state.current = { ...openRun(state, event), ...defined({ before: state.lastMessageId, answers: answeredCall(state) }) }
    state.status = 'running'
    state.error = null
  },
  turn_started: startTurn,
  model_attempt_failed(state, event) {
    if (!state.current) return
    if (event.purpose === undefined) state.current.modelAttempts = event.error.attempt
    limit(state, state.current)
  },
  agent_declared(state, { digest, limits, sessionLimits, checkpoint, recovery, plan, memory, endHooks }) {
    state.facts = { digest, limits, ...defined({ sessionLimits }), checkpoint, recovery, ...defined({ plan, memory, endHooks }) }
    if (state.current) limit(state, state.current)
  },
  model_completed: completeModelCall,
  compacted(state, { usage }) {
    if (usage && state.current) countUsage(state, state.current, usage)
  },
  hook_answered: applyHookAnswer,
  hooks_ended(state) {
    delete state.hooksDue
  },
  tool_issued(state, event) {
    updateCall(state, event, (call) => {
      call.input ??= event.input
      if (event.resolution) call.resolution = event.resolution
      if (event.attempts !== undefined) call.attempts = event.attempts
    })
    settleStatus(state)
  },
  tool_progress(state, event) {
    updateCall(state, event, (call) => {
      call.progress = event.value
    })
  },
  plan_changed: changePlan,
  memory_changed: changeMemory,
  approval_requested: waitFor,
  answer_requested: waitForAnswer,
  sleep_started(state, event) {
    updateCall(state, event, (call) => {
      call.asked = { expiresAt: event.expiresAt }
    })
    settleStatus(state)
  },
  answer_received: receiveAnswer,
  approval_decided: decideApproval,
  approval_rule_given: giveRule,
  approval_rule_revoked: revokeRule,
  checkpoint_made(state, { version, seq, at }) {
    state.checkpoint = { version, seq, at, turns: state.turns }
    delete state.checkpointDue
  },
  rolled_back(state, event) {
    rollBack(state, event)
    restore(state, event)
  },
  forked: becomeFork,
  tool_completed(state, event) {
    completeCall(state, event)
    acceptOutput(state, event)
  },
  tool_failed: failCall,
  tool_unknown: markUnknown,
  tool_resolved: applyLateOutcome,
  run_completed: endRun,
  run_interrupted: endRun,
  error_entered: enterError,
  recovery_started(state, event) {
    delete state.hooksDue
    countRecovery(state, event)
    startRecovery(state, event)
    restore(state, event)
  },
  recovery_ended(state) {
    state.error = null
    state.status = state.current ? 'running' : 'idle'
    settleStatus(state)
  },
  session_paused: pause,
  session_unpaused: unpause,
  session_closed(state) {
    state.status = 'closed'
  },
}

/** How many children's spending a state remembers. */
const CHILDREN_KEPT = 100

/** Remembers what a child had spent, so that a repeated report counts nothing twice. `countSpend` has counted the event. */
function noteChild(state: SessionState, { child }: EventOf<'spent'>): void {
  if (!child) return
  const { [child.session]: __, ...granted } = state.granted ?? {}
  if (Object.keys(granted).length > 0) state.granted = granted
  else delete state.granted
  const { [child.session]: _, ...others } = state.children ?? {}
  const newest = Object.entries(others).slice(1 - CHILDREN_KEPT)
  state.children = { ...Object.fromEntries(newest), [child.session]: { ...child.total } }
}

function noteAccepted(state: SessionState, messageId: string): void {
  const hash = shortHash(messageId)
  // A scheduled message was accepted when it was scheduled. From its delivery on, it counts as a message of that time.
  const before = state.accepted.indexOf(hash)
  if (before >= 0) state.accepted.splice(before, 1)
  state.accepted.push(hash)
  if (state.accepted.length > ACCEPTED_KEPT) state.accepted.shift()
}

function resumeSession(state: SessionState, event: EventOf<'session_resumed'>): void {
  state.epoch = event.executionId
  // A failed run stays failed until it is recovered.
  if (state.error && state.error.strategy !== 'automatic') {
    state.status = 'error'
    return
  }
  state.status = state.current ? 'running' : 'idle'
  state.error = null
  settleStatus(state)
}

function endRun(state: SessionState): void {
  noteHooksDue(state)
  closeTurn(state)
  state.current = null
  state.status = 'idle'
  state.error = null
  endSeries(state)
}

function queued({ messageId, seq, at, deadlineMs, receivedAt = at }: EventOf<'message_received'>): QueuedMessage {
  return { messageId, seq, ...(deadlineMs !== undefined && { deadlineAt: Math.min(at, receivedAt) + deadlineMs }) }
}

function openRun({ inbox, facts }: SessionState, event: EventOf<'run_started'>): RunState {
  const { since, budget } = inbox.find(({ messageId }) => messageId === event.messageId) ?? {}
  return {
    run: event.run,
    messageId: event.messageId,
    intent: event.intent ?? event.run,
    metadata: {},
    startedAt: event.at,
    // An automatic restart inherits the limits, as a continuation does.
    ...(since !== undefined && { since, ...defined({ limits: facts?.limits }) }),
    turn: 0,
    phase: 'turn_due',
    calls: [],
    usage: NO_USAGE,
    // Restarts do not undo spending, either.
    ...budget,
    taken: [],
    takenBytes: 0,
    effects: [],
    moreEffects: 0,
  }
}

function startTurn(state: SessionState, event: EventOf<'turn_started'>): void {
  const run = state.current
  if (!run) return
  const last = event.takes.at(-1)
  if (last !== undefined) state.lastMessageId = last
  delete run.modelAttempts
  delete run.continues
  take(state, event.takes)
  run.turn = event.turn
  run.phase = 'model'
  delete run.lastTurn
  state.turns += 1
}

function completeModelCall(state: SessionState, event: EventOf<'model_completed'>): void {
  const run = state.current
  if (!run) return
  const inputs = event.content.flatMap((block) => (block.type === 'tool_use' ? [block.input] : []))
  run.calls = event.calls.map((resolution) => ({
    callId: callIdOf(event.run, event.turn, resolution.index),
    index: resolution.index,
    input: inputs[resolution.index] ?? null,
    resolution,
    status: 'requested',
  }))
  delete run.leftOut
  run.answerSeq = event.seq
  run.answerTurn = event.turn
  if (state.lastMessageId === undefined) delete run.beforeAnswer
  else run.beforeAnswer = state.lastMessageId
  if (event.content.length > 0) state.lastMessageId = answerIdOf(event)
  if (event.metadata) run.metadata = event.metadata
  limit(state, run)
  delete state.unexpected
  if (state.recovered?.strategy === 'continue_run') endSeries(state)
  run.stopReason = event.stopReason
  countUsage(state, run, event.usage)
  noteLastCall(state, event)
  countBadOutput(run, event)
  if (run.calls.length > 0) run.phase = 'tools'
  else run.phase = event.stopReason === 'pause_turn' || event.outputProblem !== undefined ? 'turn_due' : 'answered'
}

/** Counts the tokens that the session and its run have used. */
function countUsage(state: SessionState, run: RunState, usage: Usage): void {
  run.usage = addUsage(run.usage, usage)
  state.usage = addUsage(state.usage, usage)
}

/** A call with unknown usage says nothing about the next one. */
function noteLastCall(state: SessionState, { seq, model, usage, spent, promptDigest }: EventOf<'model_completed'>): void {
  delete state.lastCall
  const tokens = tokensIn(usage)
  if (!spent && tokens > 0) state.lastCall = { seq, model, tokens, ...defined({ promptDigest }) }
}

/** A run's limits are those of the worker that made its newest model call. */
function limit({ facts }: SessionState, run: RunState): void {
  if (facts) run.limits = facts.limits
}

/**
 * The messages that a run accepted, for its restart. The opening message keeps the intent and what the run spent; if pawl restarts the run
 * automatically, it also keeps the time that the run used.
 */
function forRestart({ error }: SessionState, run: RunState, { automatic }: EventOf<'recovery_started'>): QueuedMessage[] {
  const budget = budgetOfRun(run)
  return run.taken.map((taken) => {
    const { deadlineAt, since: _, budget: __, ...message } = taken
    if (message.messageId === run.messageId)
      Object.assign(message, { intent: run.intent, ...(automatic && { since: countsFrom(run) }), ...defined({ budget }) })
    return { ...message, ...(!isDeadlineExceeded(error) && defined({ deadlineAt })) }
  })
}

/** Whether the run failed at a deadline. Under the same deadline, a recovered run would fail again at once. */
function isDeadlineExceeded(error: SessionError | null): boolean {
  return error?.code === 'deadline_exceeded'
}

function enterError(state: SessionState, event: EventOf<'error_entered'>): void {
  if (event.strategy !== 'automatic' && event.nextAttemptAt === undefined) noteHooksDue(state)
  state.status = 'error'
  state.error = errorOf(event)
  if (event.unexpected === undefined) delete state.unexpected
  else state.unexpected = event.unexpected
}

/** The error that the session enters. */
export function errorOf(event: EventOf<'error_entered'>): SessionError {
  const { code, reason, at, strategy, options, run, turn, nextAttemptAt, attempts, progress, raise } = event
  return { code, reason, at, strategy, ...defined({ options, run, turn, nextAttemptAt, attempts, progress, raise }) }
}

/** Counts the automatic recoveries in a row, so that a policy's limit applies. */
function countRecovery(state: SessionState, { automatic, strategy, at }: EventOf<'recovery_started'>): void {
  if (strategy === 'automatic') return
  if (!automatic) return endSeries(state)
  const { inARow = 0, times = [] } = state.recovered ?? {}
  state.recovered = { inARow: inARow + 1, times: [...times, at].slice(-RECOVERIES_KEPT), strategy }
}

/** The next automatic recovery begins a new series. The hourly limit still counts the old recoveries. */
function endSeries(state: SessionState): void {
  if (state.recovered) state.recovered.inARow = 0
  delete state.unexpected
}

function startRecovery(state: SessionState, event: EventOf<'recovery_started'>): void {
  const run = state.current
  if (!run) return
  if (!event.automatic) renewLimits(state, run, event)
  delete run.badOutputs
  switch (event.strategy) {
    case 'restart_run':
      delete state.checkpointDue
      requeue(state, [...forRestart(state, run, event), ...state.inbox])
      endAt(state, run.before)
      return
    case 'abandon':
      endAt(state, run.taken.at(-1)?.messageId ?? run.before)
      return
    case 'restart_from_last_effect':
      rewindToLastEffect(state, run)
      return
    case 'selective':
      reopenTurn(state, run, event)
      return
    default:
      // The run asks its model again, with the messages that have arrived.
      if (!joinsModelCall(state, run)) return
      run.phase = 'turn_due'
      run.unanswered = (run.unanswered ?? 0) + 1
  }
}

/** A person lets the run continue, so its time starts again. Its first answer brings the limits of the build that continues it. */
function renewLimits({ error }: SessionState, run: RunState, { at }: EventOf<'recovery_started'>): void {
  delete run.limits
  run.since = at
  delete run.pausedMs
  if (isDeadlineExceeded(error)) delete run.deadline
}

/** Ends the failed run; the transcript ends with this message. */
function endAt(state: SessionState, lastMessageId: string | undefined): void {
  state.current = null
  if (lastMessageId === undefined) delete state.lastMessageId
  else state.lastMessageId = lastMessageId
}

/** Makes the run's next turn follow the turn of its newest effect. */
function rewindToLastEffect(state: SessionState, run: RunState): void {
  // Archives the newest turn, unless it contains the effect.
  if (run.lastEffect?.turn !== run.turn) delete state.checkpointDue
  run.phase = 'turn_due'
  run.calls = []
  delete run.leftOut
  if (run.lastEffect) state.lastMessageId = resultsIdOf({ run: run.run, turn: run.lastEffect.turn })
}

/** Goes back to an earlier point. Keeps what only grows: numbers, accepted ids, completed and unknown effects, usage. */
function rollBack(state: SessionState, event: EventOf<'rolled_back'>): void {
  if (event.lastMessageId === undefined) delete state.lastMessageId
  else state.lastMessageId = event.lastMessageId
  state.error = null
  delete state.hooksDue
  forgetRulesAfter(state, event.toSeq)
  if (event.keepsRun && state.current) {
    state.current.phase = 'turn_due'
    state.current.calls = []
    delete state.current.leftOut
    state.status = 'running'
    return
  }
  delete state.checkpointDue
  state.current = null
  state.status = 'idle'
  const { again, removed = [] } = event
  const waiting = cutOf(event, NO_RUN)?.waiting ?? 0
  const [opener, ...others] = again?.messages ?? []
  requeue(state, [
    ...(opener ? [{ ...opener, intent: again?.intent ?? state.run }] : []),
    ...others,
    ...state.inbox.filter((message) => (message.seq ?? 0) > waiting),
  ])
  const left = new Set(removed)
  state.accepted = state.accepted.filter((hash) => !left.has(hash))
  forgetEffects(state, event)
}

/** Forgets effects, whose keys and unknown outcomes no longer count. */
function forgetEffects(state: SessionState, event: EventOf<'rolled_back'>): void {
  const forgotten = new Set(forgottenCalls(event))
  for (const [hash, callId] of Object.entries(state.keys)) if (forgotten.has(callId)) delete state.keys[hash]
  for (const callId of forgotten) delete state.unknown[callId]
}

/** Makes the other session's events this session's past. Its usage and accepted messages do not carry over. */
function becomeFork(state: SessionState, event: EventOf<'forked'>): void {
  const { sessionId, executionId, from, keys, tags } = event
  const keysOf = state.keysOf ?? from.sessionId
  state.sessionId = sessionId
  state.epoch = executionId
  state.forkedFrom = from
  state.createdAt = event.at
  if (tags) state.tags = tags
  state.status = 'idle'
  state.current = null
  state.error = null
  delete state.paused
  delete state.hooksDue
  delete state.checkpointDue
  // Nothing that the fork does concerns the caller or the children of the session that it was forked from.
  delete state.caller
  delete state.children
  delete state.granted
  // A person gave them for the other session.
  delete state.rules
  delete state.scheduled
  requeue(state, [])
  state.accepted = []
  state.turns = 0
  state.usage = NO_USAGE
  if (state.checkpoint) state.checkpoint = { ...state.checkpoint, turns: 0 }
  if (keys === 'carried') {
    state.keysOf = keysOf
    return
  }
  delete state.keysOf
  state.keys = {}
  state.unknown = {}
}
