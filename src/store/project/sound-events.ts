// Checks events for the projections. History may contain anything, because user code, other releases and foreign clients write to it, and
// one value that Postgres refuses must not block a session's rows. Adjustments are noted alongside the stored event.
import type { EventOf, EventType, SessionEvent } from '../../session/events.ts'
import { isObject } from '../../session/json.ts'
import type { SessionState } from '../../session/state.ts'
import {
  type Adjustment,
  anything,
  blocks,
  type ValueCheck,
  content,
  count,
  duration,
  flag,
  json,
  large,
  list,
  oneOf,
  type MemberChecks,
  optional,
  record,
  soundMembers,
  text,
  time,
  tokens,
} from './sound-values.ts'

/** The event with valid members for its rows: the same object if nothing had to be adjusted. */
export function soundEvent(event: SessionEvent): { event: SessionEvent; adjusted: Adjustment[] } {
  const adjusted: Adjustment[] = []
  const members = CHECKED.get(event.type) ?? OF_ANY_TYPE
  const sound = soundMembers(event as unknown as Record<string, unknown>, members, '', adjusted)
  return { event: sound as unknown as SessionEvent, adjusted }
}

/** The state with valid members for its session's row. */
export function soundState(state: SessionState): SessionState {
  return soundMembers(state as unknown as Record<string, unknown>, STATE_MEMBERS, '', []) as unknown as SessionState
}

/** A check for each member of each event; the compiler enforces completeness. */
type MembersOf<T extends EventType> = { readonly [K in Exclude<keyof EventOf<T>, 'v' | 'seq' | 'at' | 'type'>]-?: ValueCheck }

const USAGE = record({
  input_tokens: tokens,
  output_tokens: tokens,
  cache_creation_input_tokens: tokens,
  cache_read_input_tokens: tokens,
  web_search_requests: optional(tokens),
})
const RESOLUTION = record({
  index: count,
  tool: text,
  effect: text,
  generation: optional(count),
  key: optional(text),
  firstKey: optional(text),
  inputDigest: text,
})
const BLOB = record({ sha256: text, bytes: large, preview: text })
const FAILED_ATTEMPT = record({
  attempt: count,
  class: text,
  code: optional(text),
  message: text,
  stack: optional(text),
  retryable: flag,
  nextDelayMs: optional(duration),
  worker: optional(text),
  model: optional(text),
  provider: optional(text),
  unexpected: optional(text),
})
const STEP = { id: text, title: text, postconditions: optional(text) }
const PLAN = record({ version: count, objective: text, steps: list(record({ ...STEP, status: text, evidence: optional(text) })) })
const CHANGES: Readonly<Record<string, ValueCheck>> = {
  setup: record({ objective: text, steps: list(record(STEP)) }),
  add_step: record({ step: record(STEP), after: optional(text) }),
}
/** Anything else counts as an update of a step, or of no step if it names none. */
const UPDATE = record({ do: oneOf('update_step'), id: text, status: text, evidence: optional(text) })
const PLAN_CHANGE: ValueCheck = (value, member, adjusted) => {
  const what = isObject(value) && typeof value.do === 'string' && Object.hasOwn(CHANGES, value.do) ? CHANGES[value.do] : undefined
  return (what ?? UPDATE)(value, member, adjusted)
}
/** Null if there was no plan at that point. */
const RESTORED = optional(
  record({ plan: (value, member, adjusted) => (value === undefined || value === null ? value : PLAN(value, member, adjusted)) }),
)
const AFTER = record({ run: count, checkpoint: count })
const PLACE = record({ sessionId: text, seq: large })

const ANSWER = { value: anything, content: optional(content), blob: optional(BLOB), effectId: optional(text) }
const TURN = { run: count, turn: count }
const CALL = { ...TURN, callId: text, tool: text }
/** What a call, or a hook, has reported. */
const REPORT = { ...TURN, callId: optional(text), tool: optional(text), on: optional(text), hook: optional(text), attempt: count }

const nullOr =
  (check: ValueCheck): ValueCheck =>
  (value, member, adjusted) =>
    value === undefined || value === null ? value : check(value, member, adjusted)
const APPROVERS = record({ role: text })
const QUESTION = record({ id: text, from: text, message: text, schema: anything, url: optional(text) })
const ASKED = record({ attempt: count, question: QUESTION, digest: text, more: anything, state: optional(text) })
const UNREPLAYABLE = record({ executionId: text, reason: text })

const CALLER = record({ sessionId: text, key: text, epoch: text, depth: count, taskQueue: text })
const TRACE = record({ sessionId: text, run: count, stretch: optional(count) })
const CALLING = record({
  seq: large,
  ...CALL,
  budget: anything,
  stretch: optional(count),
  trace: optional(TRACE),
  background: optional(flag),
})
const CHILD = record({ session: text, agent: text, budget: anything, background: optional(flag), stretch: optional(count) })

const MEMBERS: { readonly [T in EventType]: MembersOf<T> } = {
  session_started: {
    sessionId: text,
    agent: text,
    context: json,
    tags: list(text),
    executionId: text,
    coreVersion: count,
    after: optional(AFTER),
    unreplayable: optional(UNREPLAYABLE),
    caller: optional(CALLER),
  },
  session_resumed: {
    executionId: text,
    fromEpoch: text,
    coreVersion: count,
    resetOf: optional(text),
    unreplayable: optional(UNREPLAYABLE),
  },
  message_received: {
    messageId: text,
    content,
    metadata: anything,
    blob: optional(BLOB),
    deadlineMs: optional(duration),
    receivedAt: optional(time),
    by: optional(text),
    traceparent: anything,
    call: optional(CALLING),
    dueAt: optional(time),
    answers: optional(record({ session: text, callId: text })),
  },
  message_scheduled: {
    messageId: text,
    content,
    dueAt: time,
    metadata: anything,
    blob: optional(BLOB),
    deadlineMs: optional(duration),
    interrupt: optional(flag),
    by: optional(text),
    traceparent: anything,
  },
  messages_unscheduled: { messageIds: list(text), by: optional(text), reason: optional(text) },
  message_rejected: { messageId: optional(text), code: text, reason: text },
  request_passed_on: { id: text, name: text, code: optional(text), reason: optional(text) },
  run_started: { run: count, messageId: text, intent: optional(count) },
  turn_started: { ...TURN, takes: list(text) },
  agent_declared: {
    digest: text,
    limits: anything,
    sessionLimits: anything,
    checkpoint: anything,
    recovery: anything,
    plan: optional(flag),
    memory: anything,
    endHooks: optional(flag),
  },
  model_attempt_failed: { ...TURN, error: FAILED_ATTEMPT, purpose: optional(text) },
  model_completed: {
    ...TURN,
    attempt: count,
    model: text,
    provider: optional(text),
    content: blocks,
    blob: optional(BLOB),
    stopReason: anything,
    usage: USAGE,
    // Only `costOf` reads it, and checks it.
    price: anything,
    // Only `spentBy` reads it, and checks it.
    spent: anything,
    calls: list(RESOLUTION),
    metadata: anything,
    promptDigest: optional(text),
    outputProblem: optional(text),
  },
  compacted: {
    ...TURN,
    attempt: count,
    upToSeq: large,
    summary: text,
    messages: count,
    tokens: large,
    window: large,
    forced: optional(flag),
    resultBytes: optional(large),
    model: optional(text),
    provider: optional(text),
    usage: optional(USAGE),
    price: anything,
    spent: anything,
  },
  content_replaced: { ...TURN, content: list(record({ seq: large, kind: text, size: large, digest: text })), reason: text },
  compaction_failed: { ...TURN, code: text, reason: text, tokens: large, window: large, forced: optional(flag) },
  hook_answered: {
    ...TURN,
    on: text,
    hook: text,
    attempt: count,
    callId: optional(text),
    tool: optional(text),
    args: anything,
    answer: optional(record({ stop: optional(text), systemMessage: optional(text), appendContext: optional(text), deny: optional(text) })),
    error: anything,
    overruled: optional(flag),
  },
  hooks_ended: { ...TURN, error: anything },
  tool_issued: {
    ...CALL,
    index: count,
    effect: text,
    key: optional(text),
    input: json,
    inputDigest: text,
    resolution: optional(RESOLUTION),
    attempts: optional(count),
  },
  tool_attempt_failed: { ...CALL, error: FAILED_ATTEMPT },
  tool_completed: {
    ...CALL,
    ...ANSWER,
    attempt: count,
    replayOf: optional(text),
    startedAt: optional(time),
    worker: optional(text),
  },
  tool_failed: { ...CALL, attempt: count, code: text, message: text },
  tool_unknown: { ...CALL, attempt: count, message: text, again: optional(text), ask: optional(flag), aliveForMs: optional(time) },
  tool_resolved: {
    ...CALL,
    ...ANSWER,
    by: text,
    happened: flag,
    decision: optional(text),
    decidedBy: optional(text),
    note: optional(text),
  },
  tool_progress: { ...CALL, attempt: count, value: json },
  milestone_reached: { ...CALL, name: text },
  plan_changed: { ...CALL, version: count, change: PLAN_CHANGE },
  memory_changed: { ...CALL, version: count, change: anything },
  emitted: {
    ...REPORT,
    name: text,
    data: anything,
  },
  // Only `spentBy` reads amounts, and checks them.
  spent: {
    ...REPORT,
    tokens: anything,
    usd: anything,
    note: optional(text),
    assumed: optional(flag),
    child: optional(record({ session: text, total: anything })),
  },
  budget_warning: { scope: text, unit: text, budget: optional(text), run: optional(count), limit: anything, spent: anything },
  budget_raised: {
    scope: text,
    run: optional(count),
    maxUsd: anything,
    maxTotalTokens: anything,
    by: optional(text),
    reason: optional(text),
  },
  approval_requested: {
    ...CALL,
    digest: text,
    reason: optional(text),
    approvers: optional(APPROVERS),
    expiresAt: time,
    onExpiry: text,
  },
  approval_refused: {
    ...CALL,
    digest: text,
    approved: flag,
    approvers: APPROVERS,
    by: optional(text),
    roles: optional(list(text)),
  },
  sleep_started: { ...CALL, expiresAt: time },
  approval_decided: {
    ...CALL,
    digest: text,
    approved: flag,
    by: optional(text),
    note: optional(text),
    reason: optional(text),
    expired: optional(flag),
    rule: optional(text),
    input: anything,
    resolution: optional(RESOLUTION),
  },
  approval_rule_given: {
    ...CALL,
    rule: text,
    effect: text,
    schemaDigest: text,
    matching: json,
    inputDigest: optional(text),
    approvers: optional(APPROVERS),
    members: anything,
    tenant: nullOr(text),
    until: optional(time),
    uses: optional(count),
    by: optional(text),
    note: optional(text),
  },
  approval_rule_revoked: { rule: text, by: optional(text), reason: optional(text) },
  answer_requested: { ...CALL, expiresAt: optional(time), asks: optional(ASKED), child: optional(CHILD) },
  allowance_raised: { run: optional(count), turn: optional(count), callId: optional(text), tool: optional(text), budget: anything },
  caller_told: { as: text, run: optional(count), tokens: anything, usd: anything, delivered: optional(flag) },
  answer_received: { ...CALL, by: optional(text), reply: optional(record({ action: text, content: anything })) },
  checkpoint_requested: { reason: text, by: optional(text) },
  checkpoint_made: {
    version: count,
    run: optional(count),
    turn: optional(count),
    reasons: list(text),
    by: optional(text),
    lastMessageId: optional(text),
  },
  rolled_back: {
    toSeq: large,
    upToSeq: large,
    target: anything,
    keepsRun: optional(flag),
    lastMessageId: anything,
    by: optional(text),
    reason: optional(text),
    effects: anything,
    moreEffects: anything,
    keys: optional(text),
    alsoForgotten: anything,
    removed: optional(list(text)),
    again: optional(record({ messages: list(record({ messageId: text, seq: large })), intent: count })),
    restored: RESTORED,
  },
  forked: {
    sessionId: text,
    executionId: text,
    coreVersion: count,
    from: PLACE,
    target: anything,
    keys: text,
    tags: optional(list(text)),
    by: optional(text),
  },
  run_completed: { run: count, turns: count, stopReason: anything, usage: anything, outputCall: optional(text) },
  run_interrupted: { run: count, reason: optional(text), by: optional(text) },
  error_entered: {
    run: optional(count),
    turn: optional(count),
    code: text,
    reason: text,
    strategy: text,
    options: optional(list(text)),
    nextAttemptAt: optional(time),
    attempts: optional(count),
    progress: anything,
    unexpected: optional(text),
    raise: anything,
  },
  recovery_started: {
    run: optional(count),
    strategy: text,
    automatic: optional(flag),
    toSeq: optional(count),
    turn: optional(count),
    keep: optional(list(text)),
    skip: optional(list(text)),
    redo: optional(list(record({ callId: text, as: text }))),
    force: optional(flag),
    by: optional(text),
    reason: optional(text),
    restored: RESTORED,
  },
  recovery_refused: {
    run: optional(count),
    strategy: optional(text),
    code: text,
    message: text,
    by: optional(text),
    reason: optional(text),
  },
  recovery_ended: { run: optional(count), strategy: text },
  session_paused: { by: optional(text), reason: optional(text), code: optional(text), raise: anything },
  session_unpaused: { by: optional(text), reason: optional(text) },
  session_closed: { reason: text, by: optional(text) },
}

const OF_ANY_TYPE: MemberChecks = { at: time }
const CHECKED = new Map<string, MemberChecks>(Object.entries(MEMBERS).map(([type, members]) => [type, { ...members, ...OF_ANY_TYPE }]))

/** The error that a session is in. */
const ERROR = record({
  code: text,
  reason: text,
  at: time,
  strategy: text,
  options: optional(list(text)),
  run: optional(count),
  turn: optional(count),
  nextAttemptAt: optional(time),
  attempts: optional(count),
})

/** The members of a session's row whose events can no longer be read. */
const STATE_MEMBERS: MemberChecks = {
  agent: text,
  status: text,
  context: json,
  tags: list(text),
  run: count,
  turns: count,
  usage: record({
    input_tokens: large,
    output_tokens: large,
    cache_creation_input_tokens: large,
    cache_read_input_tokens: large,
    web_search_requests: optional(large),
  }),
  current: (value, member, adjusted) => (value === null ? value : record({ run: count, turn: count })(value, member, adjusted)),
  error: (value, member, adjusted) => (value === null ? value : ERROR(value, member, adjusted)),
  paused: optional(record({ at: time, by: optional(text), reason: optional(text), code: optional(text) })),
  createdAt: time,
  updatedAt: time,
  lastMessageId: optional(text),
  checkpoint: optional(record({ version: count })),
  forkedFrom: optional(PLACE),
  caller: optional(CALLER),
}
