// Turns each event of a session into a log line. Pure.
import type { Background } from '../../../session/background.ts'
import type { Usage } from '../../../session/content.ts'
import { defined } from '../../../session/defined.ts'
import type { EventOf, EventType, SessionEvent } from '../../../session/events.ts'
import type { FailedAttempt } from '../../../session/call-facts.ts'
import type { Json } from '../../../session/json.ts'
import type { PlanChange } from '../../../session/built-in-tools/plan.ts'
import type { Level } from '../../../log/levels.ts'
import { type CalledModel, providerOf } from '../../../session/spending/prices.ts'

/** A line without the fields that all lines of a session share. */
interface LineContent {
  level: Level
  message: string
  fields?: object
}

/** A log line. */
export interface SessionLine extends LineContent {
  fields: object
}

/** What is known about the event in addition to its content. */
export interface LineFacts extends Background {
  /** The model that this worker would call for the agent. */
  model?: string
  /** The cost of the answer, or of the run so far; absent without a known price. */
  usd?: number
}

/** The line of an event. Message contents, answers and results never appear in it; arguments appear only at level debug. */
export function sessionLine(session: string, event: SessionEvent, known: LineFacts): SessionLine {
  const { level, message, fields } = LINES[event.type](event as never, known)
  return { level, message, fields: { session, ...positionOf(event, known), seq: event.seq, ...fields } }
}

function positionOf(event: SessionEvent, known: LineFacts): object {
  const { run = known.run, turn, callId: call, tool } = event as { run?: number; turn?: number; callId?: string; tool?: string }
  return defined({ run, turn: turn ?? (run === known.run ? known.turn : undefined), call, tool })
}

const REPLACED = 'no worker can replay an execution: its session continues in another one'

const LINES: { [T in EventType]: (event: EventOf<T>, known: LineFacts) => LineContent } = {
  session_started: ({ agent, unreplayable }, { model }) =>
    unreplayable ? error(REPLACED, { agent, ...unreplayable }) : info('session opened', { agent, ...modelOf({ model }) }),
  session_resumed: ({ resetOf, unreplayable }, { agent }) =>
    unreplayable ? error(REPLACED, { agent, ...unreplayable }) : info('session resumed', { agent, resetOf }),
  forked: ({ from }, { agent }) => info('session forked', { agent, from: from.sessionId, fromSeq: from.seq }),
  session_closed: ({ reason, by }) => info('session closed', { reason, by }),

  message_received: ({ messageId, by }) => debug('message received', { messageId, by }),
  message_scheduled: ({ messageId, dueAt, by }) => debug('message scheduled', { messageId, dueAt: dateOf(dueAt), by }),
  messages_unscheduled: ({ messageIds, by, reason }) => debug('messages unscheduled', { messageIds, by, reason }),
  message_rejected: ({ messageId, code, reason }) => warn('message rejected', { messageId, code, reason }),
  request_passed_on: ({ name, code, reason }) =>
    code === undefined
      ? info('a request that an earlier execution had accepted was carried out', { request: name })
      : warn('a request that an earlier execution had accepted was refused', { request: name, code, reason }),

  run_started: ({ messageId, intent }) => debug('run started', { messageId, intent }),
  run_completed: ({ turns, stopReason, usage, at }, known) =>
    info('run completed', { agent: known.agent, turns, stopReason, ...spent(usage, known.usd), ms: since(known.startedAt, at) }),
  run_interrupted: ({ reason, by, at }, known) =>
    info('run interrupted', { agent: known.agent, reason, by, ...spent(known.usage, known.usd), ms: since(known.startedAt, at) }),
  error_entered: ({ code, reason, strategy, attempts, nextAttemptAt }, known) => {
    const recovery = { strategy, attempts, recoversAt: dateOf(nextAttemptAt) }
    return error('session in error', { agent: known.agent, code, reason, ...recovery, ...spent(known.usage, known.usd) })
  },
  recovery_started: ({ strategy, automatic, by, reason }) => info('recovery started', { strategy, automatic, by, reason }),
  recovery_refused: ({ strategy, code, message, by }) => warn('recovery refused', { strategy, code, reason: message, by }),
  recovery_ended: ({ strategy }) => info('recovery ended', { strategy }),
  session_paused: ({ by, reason, code }) => at(code ? 'warn' : 'info')('session paused', { by, reason, code }),
  session_unpaused: ({ by, reason }) => info('session unpaused', { by, reason }),
  rolled_back: ({ toSeq, target, by, reason, keys }) => info('session rolled back', { toSeq, target, by, reason, keys }),

  agent_declared: ({ limits, checkpoint, recovery, plan, memory }, { agent }) =>
    debug('agent declared', { agent, limits, checkpoint, recovery, plan, memory }),
  turn_started: ({ takes }) => debug('turn started', { messages: takes.length }),
  model_attempt_failed: ({ error: failed, purpose }) => ({
    ...attemptFailed(purpose === 'compaction' ? 'compaction attempt failed' : 'model call attempt failed', failed),
    ...(failed.phase && { level: 'error' }),
  }),
  model_completed: ({ attempt, stopReason, usage, calls, ...called }, { usd }) =>
    debug('model answered', { attempt, ...modelOf(called), stopReason, ...spent(usage, usd), calls: calls.length }),

  compacted: ({ upToSeq, messages, tokens, window, forced, resultBytes, usage, attempt, ...called }, { usd }) => {
    const size = { tokens, window, forced, messages, upToSeq: upToSeq || undefined, resultBytes }
    return warn('conversation compacted', { ...size, attempt, ...modelOf(called), ...spent(usage, usage && usd) })
  },
  content_replaced: ({ content, reason }) =>
    warn('content replaced', { content: content.map(({ kind, seq }) => `${kind} of event ${seq}`).join(', '), reason }),
  compaction_failed: ({ code, reason, tokens, window, forced }) => warn('compaction failed', { code, reason, tokens, window, forced }),

  hook_answered: ({ on, hook, attempt, answer, error: failed, overruled, args }) => {
    const about = { hook, on, attempt, answer: answer && Object.keys(answer)[0], overruled }
    if (failed) return warn('hook failed', { ...about, type: failed.class, code: failed.code, reason: failed.message, stack: failed.stack })
    if (answer && 'deny' in answer && !overruled) return warn('tool call denied', { hook, on, code: 'denied', reason: answer.deny })
    const changed = answer && 'modify' in answer && args !== undefined ? { args: argumentsOf(answer.modify) } : {}
    return debug('hook answered', { ...about, ...changed })
  },
  hooks_ended: ({ error: failed }) =>
    failed ? warn('hooks given up', { code: failed.code, reason: failed.message }) : debug('hooks ended', {}),

  tool_issued: ({ effect, input }) => debug('tool call issued', { effect, args: argumentsOf(input) }),
  tool_attempt_failed: ({ error: failed }) => attemptFailed('tool call attempt failed', failed),
  tool_progress: ({ attempt, value }) => debug('tool call progress', { attempt, progress: value }),
  milestone_reached: ({ name }) => debug('milestone reached', { milestone: name }),
  plan_changed: ({ version, change }) => debug('plan changed', { plan: version, ...stepOf(change) }),
  memory_changed: ({ version, change }) => debug('memory changed', { memory: version, block: change.block, change: change.do }),
  emitted: ({ attempt, name, hook }) => debug('custom event', { attempt, event: name, hook }),
  spent: ({ attempt, tokens, usd, note, hook, assumed }) => debug('spent', { attempt, tokens, usd, note, hook, assumed }),
  budget_warning: ({ scope, unit, budget, limit, spent: sum }) =>
    warn('budget nearly spent', { scope, unit, ...defined({ budget }), limit, spent: sum }),
  budget_raised: ({ scope, maxUsd, maxTotalTokens, by, reason }) => info('budget raised', { scope, maxUsd, maxTotalTokens, by, reason }),
  allowance_raised: ({ budget }) => info('allowance raised', { ...budget }),
  caller_told: ({ as, tokens, usd, delivered }, { agent }) =>
    delivered === false
      ? warn('the session that called this agent no longer exists', { agent })
      : info('caller told', { agent, as, tokens, usd }),
  tool_completed: ({ attempt, effectId, replayOf, startedAt, worker, at }) =>
    debug('tool call completed', { attempt, effectId, replayOf, worker, ms: since(startedAt, at) }),
  tool_failed: ({ attempt, code, message }) =>
    at(isNews(attempt, code) ? 'warn' : 'debug')('tool call failed', { attempt, code, reason: message }),
  tool_unknown: ({ attempt, message, again, ask }) => warn('outcome unknown', { attempt, reason: message, again, ask }),
  tool_resolved: ({ by, happened, decision, decidedBy }) => info('outcome resolved', { by: decidedBy ?? by, happened, decision }),

  approval_requested: ({ reason, approvers, expiresAt }) =>
    info('approval requested', { reason, role: approvers?.role, expiresAt: dateOf(expiresAt) }),
  approval_rule_given: ({ rule, members, by, uses, until }) =>
    info('standing approval given', { rule, for: members ? 'context' : 'session', by, uses, until: dateOf(until) }),
  approval_rule_revoked: ({ rule, by, reason }) => info('standing approval revoked', { rule, by, reason }),
  approval_refused: ({ approved, approvers, by, roles }) => warn('decision refused', { approved, role: approvers.role, by, roles }),
  approval_decided: ({ approved, expired, by, reason, input, rule }) => {
    if (approved) return info('tool call approved', { by, rule, changed: input === undefined ? undefined : true })
    return warn(expired ? 'approval expired' : 'tool call denied', { by, reason })
  },
  answer_requested: ({ expiresAt, asks, child }) => {
    if (child) return info('agent called', { agent: child.agent, child: child.session, ...child.budget })
    return asks
      ? info('question asked', { attempt: asks.attempt, from: asks.question.from, question: asks.question.id })
      : info('answer requested', { expiresAt: dateOf(expiresAt) })
  },
  sleep_started: ({ expiresAt }) => info('sleep started', { expiresAt: dateOf(expiresAt) }),
  answer_received: ({ by, reply }) => debug('answer received', { by, action: reply?.action }),

  checkpoint_requested: ({ reason, by }) => debug('checkpoint requested', { reason, by }),
  checkpoint_made: ({ version, reasons, by }) => debug('checkpoint made', { checkpoint: version, reasons, by }),
}

/** What has changed, without the text that the model wrote. */
function stepOf(change: PlanChange): Fields {
  if (change.do === 'setup') return { steps: change.steps.length }
  return change.do === 'add_step' ? { added: change.step.id } : { step: change.id, status: change.status }
}

type Fields = Record<string, unknown>

const at =
  (level: Level) =>
  (message: string, fields: Fields): LineContent => ({ level, message, fields: defined(fields) })
const debug = at('debug')
const info = at('info')
const warn = at('warn')
const error = at('error')

/** Whether no earlier line, about an attempt, a denial or an interrupt, has said why the call failed. */
function isNews(attempt: number, code: string): boolean {
  return (attempt === 0 || OF_NO_ATTEMPT.has(code)) && !DECIDED.has(code)
}

/** The call was given up after attempts that may have failed in different ways, or it was never entered. */
const OF_NO_ATTEMPT = new Set(['worker_died', 'invalid_arguments'])
const DECIDED = new Set(['denied', 'approval_expired', 'skipped', 'interrupted'])

function attemptFailed(message: string, failed: FailedAttempt): LineContent {
  const { attempt, class: type, code, message: reason, stack, retryable, nextDelayMs, worker, spent: cost } = failed
  const lost = cost && { tokens: cost.tokens, usd: cost.usd, assumed: cost.assumed }
  return warn(message, { attempt, type, code, reason, retryable, retryInMs: nextDelayMs, worker, ...modelOf(failed), ...lost, stack })
}

function modelOf(called: CalledModel): Fields {
  return { model: called.model, provider: providerOf(called) ?? undefined }
}

function spent(usage: Usage | undefined, usd: number | undefined): Fields {
  return {
    inputTokens: usage?.input_tokens,
    outputTokens: usage?.output_tokens,
    cacheReadTokens: usage?.cache_read_input_tokens || undefined,
    cacheWriteTokens: usage?.cache_creation_input_tokens || undefined,
    webSearches: usage?.web_search_requests,
    usd,
  }
}

/** Leaves out text that a model sent in place of JSON: it has no field names by which secrets could be recognized. */
function argumentsOf(input: Json): Json | undefined {
  return typeof input === 'string' ? undefined : input
}

function since(startedAt: number | undefined, at: number): number | undefined {
  return startedAt === undefined ? undefined : Math.max(0, at - startedAt)
}

const dateOf = (at: number | undefined): string | undefined => (at === undefined ? undefined : new Date(at).toISOString())
