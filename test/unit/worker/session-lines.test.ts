// The log line of each event: its level, its message and its fields.
import { describe, expect, it } from 'vitest'
import { NO_USAGE } from '../../../src/session/content.ts'
import type { EventBody, EventOf, EventType, SessionEvent } from '../../../src/session/events.ts'
import type { FailedAttempt } from '../../../src/session/call-facts.ts'
import { type LineFacts, sessionLine, type SessionLine } from '../../../src/worker/orchestrator/log/session-lines.ts'
import { sessionStarted } from '../../support/session-started.ts'

/** Contents and results, which belong in no line. */
const TEXT = 'what was said'
const AT = Date.UTC(2026, 10, 1)
const USAGE = { ...NO_USAGE, input_tokens: 7, output_tokens: 5, cache_read_input_tokens: 3 }
const SPENT = { inputTokens: 7, outputTokens: 5, cacheReadTokens: 3 }
const KNOWN: LineFacts = { agent: 'support', run: 2, turn: 4, startedAt: AT - 1_500, usage: USAGE, usd: 0.25 }
const TURN = { run: 2, turn: 4 }
const CALL = { ...TURN, callId: 't_2_4_0', tool: 'refund' }
const OF_CALL = { ...TURN, call: 't_2_4_0', tool: 'refund' }
const FAILED: FailedAttempt = {
  attempt: 1,
  class: 'ModelError',
  code: 'overloaded_error',
  message: 'Busy.',
  retryable: true,
  nextDelayMs: 500,
  worker: 'host:1',
}
const OF_FAILED = {
  attempt: 1,
  type: 'ModelError',
  code: 'overloaded_error',
  reason: 'Busy.',
  retryable: true,
  retryInMs: 500,
  worker: 'host:1',
}
const RECOVERY = { automatic: [], maxAttempts: 1, baseDelayMs: 1, maxDelayMs: 1, perHour: 1 }
const RESOLUTION = {
  index: 0,
  tool: 'refund',
  effect: 'external' as const,
  inputDigest: 'd',
  schemaDigest: 's',
  timeoutMs: 1,
  retry: { maxRetries: 0, baseDelayMs: 0 },
  verify: true,
}

type Row<T extends EventType> = [body: EventBody & { type: T }, level: string, message: string, fields: object]

const LINES: { [T in EventType]: Row<T> } = {
  session_started: [sessionStarted({ agent: 'support', context: TEXT }), 'info', 'session opened', { agent: 'support' }],
  session_resumed: [
    { type: 'session_resumed', executionId: 'e2', fromEpoch: 'e', coreVersion: 1 },
    'info',
    'session resumed',
    { ...TURN, agent: 'support' },
  ],
  forked: [
    { type: 'forked', sessionId: 's', executionId: 'e', coreVersion: 1, from: { sessionId: 'o', seq: 9 }, keys: 'carried' },
    'info',
    'session forked',
    { ...TURN, agent: 'support', from: 'o', fromSeq: 9 },
  ],
  session_closed: [{ type: 'session_closed', reason: 'idle' }, 'info', 'session closed', { ...TURN, reason: 'idle' }],
  message_received: [
    { type: 'message_received', messageId: 'm1', content: TEXT, metadata: { TEXT }, by: 'anna' },
    'debug',
    'message received',
    { ...TURN, messageId: 'm1', by: 'anna' },
  ],
  message_scheduled: [
    { type: 'message_scheduled', messageId: 'm1', content: 'secret', dueAt: 0, by: 'anna' },
    'debug',
    'message scheduled',
    { ...TURN, messageId: 'm1', dueAt: '1970-01-01T00:00:00.000Z', by: 'anna' },
  ],
  messages_unscheduled: [
    { type: 'messages_unscheduled', messageIds: ['m1'], by: 'anna', reason: 'no longer needed' },
    'debug',
    'messages unscheduled',
    { ...TURN, messageIds: ['m1'], by: 'anna', reason: 'no longer needed' },
  ],
  message_rejected: [
    { type: 'message_rejected', messageId: 'm1', code: 'inbox_full', reason: 'Too many.' },
    'warn',
    'message rejected',
    { ...TURN, messageId: 'm1', code: 'inbox_full', reason: 'Too many.' },
  ],
  request_passed_on: [
    { type: 'request_passed_on', id: 'u1', name: 'rollback', code: 'invalid_target', reason: 'Name one.' },
    'warn',
    'a request that an earlier execution had accepted was refused',
    { ...TURN, request: 'rollback', code: 'invalid_target', reason: 'Name one.' },
  ],
  content_replaced: [
    { type: 'content_replaced', ...TURN, content: [{ seq: 4, kind: 'image', size: 9, digest: 'd' }], reason: 'No image.' },
    'warn',
    'content replaced',
    { ...TURN, content: 'image of event 4', reason: 'No image.' },
  ],
  compacted: [
    {
      type: 'compacted',
      ...TURN,
      attempt: 2,
      upToSeq: 7,
      summary: TEXT,
      messages: 40,
      tokens: 165_000,
      window: 200_000,
      forced: true,
      resultBytes: 4_000,
      model: 'claude-sonnet-4-5',
      usage: USAGE,
    },
    'warn',
    'conversation compacted',
    {
      ...TURN,
      attempt: 2,
      upToSeq: 7,
      messages: 40,
      tokens: 165_000,
      window: 200_000,
      forced: true,
      resultBytes: 4_000,
      model: 'claude-sonnet-4-5',
      provider: 'anthropic',
      ...SPENT,
      usd: 0.25,
    },
  ],
  compaction_failed: [
    { type: 'compaction_failed', ...TURN, code: 'overloaded_error', reason: 'Busy.', tokens: 165_000, window: 200_000 },
    'warn',
    'compaction failed',
    { ...TURN, code: 'overloaded_error', reason: 'Busy.', tokens: 165_000, window: 200_000 },
  ],
  run_started: [{ type: 'run_started', run: 3, messageId: 'm1' }, 'debug', 'run started', { run: 3, messageId: 'm1' }],
  run_completed: [
    { type: 'run_completed', run: 2, turns: 3, stopReason: 'end_turn', usage: USAGE },
    'info',
    'run completed',
    { ...TURN, agent: 'support', turns: 3, stopReason: 'end_turn', ...SPENT, usd: 0.25, ms: 1_500 },
  ],
  run_interrupted: [
    { type: 'run_interrupted', run: 2, reason: 'enough', by: 'anna' },
    'info',
    'run interrupted',
    { ...TURN, agent: 'support', reason: 'enough', by: 'anna', ...SPENT, usd: 0.25, ms: 1_500 },
  ],
  error_entered: [
    { type: 'error_entered', ...TURN, code: 'overloaded_error', reason: 'Busy.', strategy: 'continue_run', attempts: 4, nextAttemptAt: AT },
    'error',
    'session in error',
    {
      ...TURN,
      agent: 'support',
      code: 'overloaded_error',
      reason: 'Busy.',
      strategy: 'continue_run',
      attempts: 4,
      recoversAt: '2026-11-01T00:00:00.000Z',
      ...SPENT,
      usd: 0.25,
    },
  ],
  recovery_started: [
    { type: 'recovery_started', run: 2, strategy: 'abandon', by: 'anna' },
    'info',
    'recovery started',
    { ...TURN, strategy: 'abandon', by: 'anna' },
  ],
  recovery_refused: [
    { type: 'recovery_refused', run: 2, strategy: 'restart_run', code: 'not_possible', message: 'A call is unknown.', by: 'anna' },
    'warn',
    'recovery refused',
    { ...TURN, strategy: 'restart_run', code: 'not_possible', reason: 'A call is unknown.', by: 'anna' },
  ],
  recovery_ended: [{ type: 'recovery_ended', run: 2, strategy: 'automatic' }, 'info', 'recovery ended', { ...TURN, strategy: 'automatic' }],
  session_paused: [
    { type: 'session_paused', by: 'anna', reason: 'an audit' },
    'info',
    'session paused',
    { ...TURN, by: 'anna', reason: 'an audit' },
  ],
  session_unpaused: [{ type: 'session_unpaused', by: 'anna' }, 'info', 'session unpaused', { ...TURN, by: 'anna' }],
  rolled_back: [
    { type: 'rolled_back', toSeq: 3, upToSeq: 8, target: { run: 1 }, by: 'anna', effects: [] },
    'info',
    'session rolled back',
    { ...TURN, toSeq: 3, target: { run: 1 }, by: 'anna' },
  ],
  agent_declared: [
    { type: 'agent_declared', digest: 'd', limits: { maxTurns: 9 }, checkpoint: 'turn', recovery: RECOVERY },
    'debug',
    'agent declared',
    { ...TURN, agent: 'support', limits: { maxTurns: 9 }, checkpoint: 'turn', recovery: RECOVERY },
  ],
  turn_started: [{ type: 'turn_started', run: 2, turn: 5, takes: ['m1'] }, 'debug', 'turn started', { run: 2, turn: 5, messages: 1 }],
  model_attempt_failed: [
    { type: 'model_attempt_failed', ...TURN, error: { ...FAILED, model: 'claude-sonnet-5-5' } },
    'warn',
    'model call attempt failed',
    { ...TURN, ...OF_FAILED, model: 'claude-sonnet-5-5', provider: 'anthropic' },
  ],
  model_completed: [
    {
      type: 'model_completed',
      ...TURN,
      attempt: 1,
      model: 'claude-sonnet-5-5',
      content: [{ type: 'text', text: TEXT }],
      stopReason: 'tool_use',
      usage: USAGE,
      calls: [RESOLUTION],
    },
    'debug',
    'model answered',
    { ...TURN, attempt: 1, model: 'claude-sonnet-5-5', provider: 'anthropic', stopReason: 'tool_use', ...SPENT, usd: 0.25, calls: 1 },
  ],
  tool_issued: [
    { type: 'tool_issued', ...CALL, index: 0, effect: 'external', key: 'k', input: { cents: 5 }, inputDigest: 'd' },
    'debug',
    'tool call issued',
    { ...OF_CALL, effect: 'external', args: { cents: 5 } },
  ],
  tool_attempt_failed: [
    { type: 'tool_attempt_failed', ...CALL, error: FAILED },
    'warn',
    'tool call attempt failed',
    { ...OF_CALL, ...OF_FAILED },
  ],
  tool_progress: [
    { type: 'tool_progress', ...CALL, attempt: 1, value: 50 },
    'debug',
    'tool call progress',
    { ...OF_CALL, attempt: 1, progress: 50 },
  ],
  milestone_reached: [
    { type: 'milestone_reached', ...CALL, name: 'paid' },
    'debug',
    'milestone reached',
    { ...OF_CALL, milestone: 'paid' },
  ],
  hook_answered: [
    { type: 'hook_answered', ...CALL, on: 'preToolUse', hook: 'cap', attempt: 1, answer: { modify: { cents: 1 } }, args: { cents: 2 } },
    'debug',
    'hook answered',
    { ...OF_CALL, hook: 'cap', on: 'preToolUse', attempt: 1, answer: 'modify', args: { cents: 1 } },
  ],
  hooks_ended: [{ type: 'hooks_ended', ...TURN }, 'debug', 'hooks ended', { ...TURN }],
  plan_changed: [
    {
      type: 'plan_changed',
      ...CALL,
      version: 3,
      change: { do: 'update_step', id: 'pay', status: 'done', evidence: TEXT },
    },
    'debug',
    'plan changed',
    { ...OF_CALL, plan: 3, step: 'pay', status: 'done' },
  ],
  memory_changed: [
    {
      type: 'memory_changed',
      ...CALL,
      version: 3,
      change: { do: 'append', block: 'customer', text: 'Likes tea.' },
    },
    'debug',
    'memory changed',
    { ...OF_CALL, memory: 3, block: 'customer', change: 'append' },
  ],
  spent: [
    { type: 'spent', ...CALL, attempt: 1, usd: 0.5, note: 'search' },
    'debug',
    'spent',
    { ...OF_CALL, attempt: 1, usd: 0.5, note: 'search' },
  ],
  budget_warning: [
    { type: 'budget_warning', scope: 'session', unit: 'usd', limit: 1, spent: 0.8 },
    'warn',
    'budget nearly spent',
    { ...TURN, scope: 'session', unit: 'usd', limit: 1, spent: 0.8 },
  ],
  budget_raised: [
    { type: 'budget_raised', scope: 'run', run: 2, maxUsd: 2, by: 'ann', reason: 'a large order' },
    'info',
    'budget raised',
    { ...TURN, scope: 'run', maxUsd: 2, by: 'ann', reason: 'a large order' },
  ],
  caller_told: [
    { type: 'caller_told', as: 'answered', run: 2, tokens: 5, usd: 0.01 },
    'info',
    'caller told',
    { ...TURN, agent: 'support', as: 'answered', tokens: 5, usd: 0.01 },
  ],
  allowance_raised: [{ type: 'allowance_raised', budget: { maxUsd: 2 } }, 'info', 'allowance raised', { ...TURN, maxUsd: 2 }],
  emitted: [
    { type: 'emitted', ...CALL, attempt: 1, name: 'paid', data: TEXT },
    'debug',
    'custom event',
    { ...OF_CALL, attempt: 1, event: 'paid' },
  ],
  tool_completed: [
    { type: 'tool_completed', ...CALL, attempt: 1, value: TEXT, content: TEXT, effectId: 'r-1', startedAt: AT - 20, worker: 'host:1' },
    'debug',
    'tool call completed',
    { ...OF_CALL, attempt: 1, effectId: 'r-1', worker: 'host:1', ms: 20 },
  ],
  tool_failed: [
    { type: 'tool_failed', ...CALL, attempt: 1, code: 'tool_failed', message: 'No such order.' },
    'debug',
    'tool call failed',
    { ...OF_CALL, attempt: 1, code: 'tool_failed', reason: 'No such order.' },
  ],
  tool_unknown: [
    { type: 'tool_unknown', ...CALL, attempt: 1, message: 'The worker died.', ask: true },
    'warn',
    'outcome unknown',
    { ...OF_CALL, attempt: 1, reason: 'The worker died.', ask: true },
  ],
  tool_resolved: [
    { type: 'tool_resolved', ...CALL, by: 'person', happened: true, value: TEXT, decidedBy: 'anna' },
    'info',
    'outcome resolved',
    { ...OF_CALL, by: 'anna', happened: true },
  ],
  approval_requested: [
    { type: 'approval_requested', ...CALL, digest: 'd', reason: 'More than 100', expiresAt: AT, onExpiry: 'deny' },
    'info',
    'approval requested',
    { ...OF_CALL, reason: 'More than 100', expiresAt: '2026-11-01T00:00:00.000Z' },
  ],
  approval_decided: [
    { type: 'approval_decided', ...CALL, digest: 'd', approved: false, by: 'anna', reason: 'Too much' },
    'warn',
    'tool call denied',
    { ...OF_CALL, by: 'anna', reason: 'Too much' },
  ],
  approval_rule_given: [
    {
      type: 'approval_rule_given',
      ...CALL,
      rule: 'ar_1',
      effect: 'external',
      schemaDigest: 's',
      matching: 'tool',
      members: { tenantId: 'acme' },
      tenant: null,
      uses: 3,
      by: 'anna',
    },
    'info',
    'standing approval given',
    { ...OF_CALL, rule: 'ar_1', for: 'context', by: 'anna', uses: 3 },
  ],
  approval_rule_revoked: [
    { type: 'approval_rule_revoked', rule: 'ar_1', by: 'anna', reason: 'too many' },
    'info',
    'standing approval revoked',
    { ...TURN, rule: 'ar_1', by: 'anna', reason: 'too many' },
  ],
  approval_refused: [
    { type: 'approval_refused', ...CALL, digest: 'd', approved: true, approvers: { role: 'finance' }, by: 'anna', roles: ['support'] },
    'warn',
    'decision refused',
    { ...OF_CALL, approved: true, role: 'finance', by: 'anna', roles: ['support'] },
  ],
  answer_requested: [{ type: 'answer_requested', ...CALL }, 'info', 'answer requested', OF_CALL],
  sleep_started: [
    { type: 'sleep_started', ...CALL, expiresAt: 0 },
    'info',
    'sleep started',
    { ...OF_CALL, expiresAt: '1970-01-01T00:00:00.000Z' },
  ],
  answer_received: [{ type: 'answer_received', ...CALL, by: 'anna' }, 'debug', 'answer received', { ...OF_CALL, by: 'anna' }],
  checkpoint_made: [
    { type: 'checkpoint_made', version: 3, ...TURN, reasons: ['turn'] },
    'debug',
    'checkpoint made',
    { ...TURN, checkpoint: 3, reasons: ['turn'] },
  ],
  checkpoint_requested: [
    { type: 'checkpoint_requested', reason: 'before the audit', by: 'ann' },
    'debug',
    'checkpoint requested',
    { ...TURN, reason: 'before the audit', by: 'ann' },
  ],
}

function lineOf(body: EventBody, known = KNOWN): SessionLine {
  return sessionLine('s', { v: 1, seq: 9, at: AT, ...body } as SessionEvent, known)
}

describe('a line', () => {
  it.each(Object.entries(LINES))('a log line of %s has its level, message and fields', (_type, [body, level, message, fields]) => {
    const known = body.type === 'session_started' ? {} : KNOWN
    expect(lineOf(body, known)).toEqual({ level, message, fields: { session: 's', seq: 9, ...fields } })
  })

  it.each(Object.entries(LINES))('a log line of %s has no message, answer or result in it', (_type, [body]) => {
    expect(JSON.stringify(lineOf(body))).not.toContain(TEXT)
  })

  it('a log line of an opened session has the model that would answer, and its provider', () => {
    const [body] = LINES.session_started
    expect(lineOf(body, { model: 'claude-sonnet-5-5' }).fields).toMatchObject({ model: 'claude-sonnet-5-5', provider: 'anthropic' })
    expect(lineOf(body, { model: 'scripted' }).fields).not.toHaveProperty('provider')
  })

  it('the log line of a session that replaces an unreplayable execution is an error with the reason', () => {
    const unreplayable = { executionId: 'e1', reason: 'its history differs' }
    expect(lineOf({ type: 'session_resumed', executionId: 'e2', fromEpoch: 'e1', coreVersion: 1, unreplayable })).toMatchObject({
      level: 'error',
      fields: unreplayable,
    })
    expect(lineOf({ ...LINES.session_started[0], unreplayable } as EventBody)).toMatchObject({ level: 'error', fields: unreplayable })
  })

  it('the log line of a stream that failed is an error', () => {
    const error: FailedAttempt = { ...FAILED, phase: 'stream' }
    expect(lineOf({ type: 'model_attempt_failed', ...TURN, error })).toMatchObject({ level: 'error', message: 'model call attempt failed' })
  })

  it('the log line of an attempt or a hook that threw has the stack', () => {
    const stack = '    at refund (/app/tools.ts:3:9)'
    expect(lineOf({ type: 'tool_attempt_failed', ...CALL, error: { ...FAILED, stack } }).fields).toMatchObject({ stack })
    const error = { class: 'TypeError', message: 'no', stack }
    expect(lineOf({ type: 'hook_answered', ...CALL, on: 'preToolUse', hook: 'cap', attempt: 1, error })).toMatchObject({
      level: 'warn',
      message: 'hook failed',
      fields: { stack },
    })
  })

  it.each([
    ['unknown_tool', 0, 'warn'],
    ['invalid_arguments', 0, 'warn'],
    ['invalid_arguments', 2, 'warn'],
    ['cut_off', 0, 'warn'],
    ['answer_timeout', 0, 'warn'],
    ['worker_died', 5, 'warn'],
    // Lines about the last attempt, the denial or the interrupt have said so.
    ['timeout', 1, 'debug'],
    ['denied', 0, 'debug'],
    ['approval_expired', 0, 'debug'],
    ['interrupted', 0, 'debug'],
  ])('the log line of a call that failed as %s after %i attempts is of level %3$s', (code, attempt, level) => {
    expect(lineOf({ type: 'tool_failed', ...CALL, attempt, code, message: 'no' })).toMatchObject({ level, message: 'tool call failed' })
  })

  it('the log line of a hook’s denial is a warning with its reason, unless another hook’s answer is used', () => {
    const denied = { type: 'hook_answered', ...CALL, on: 'preToolUse', hook: 'cap', attempt: 1, answer: { deny: 'too much' } } as const
    const fields = { hook: 'cap', code: 'denied', reason: 'too much', call: 't_2_4_0', tool: 'refund' }
    expect(lineOf(denied)).toMatchObject({ level: 'warn', message: 'tool call denied', fields })
    expect(lineOf({ ...denied, overruled: true })).toMatchObject({ level: 'debug', message: 'hook answered' })
  })

  it('the log line of an approval says whether the arguments were changed, or whether the approval expired', () => {
    const decided = { type: 'approval_decided', ...CALL, digest: 'd' } satisfies Partial<EventOf<'approval_decided'>>
    expect(lineOf({ ...decided, approved: true, by: 'anna' })).toMatchObject({ level: 'info', message: 'tool call approved' })
    expect(lineOf({ ...decided, approved: true, input: { cents: 4 } }).fields).toMatchObject({ changed: true })
    expect(lineOf({ ...decided, approved: false, expired: true })).toMatchObject({ level: 'warn', message: 'approval expired' })
  })

  it('the log line of hooks that were given up is a warning with the reason', () => {
    const error = { code: 'timeout', message: 'It took too long.' }
    expect(lineOf({ type: 'hooks_ended', ...TURN, error })).toMatchObject({
      level: 'warn',
      message: 'hooks given up',
      fields: { ...TURN, code: 'timeout', reason: 'It took too long.' },
    })
  })

  it('the log line of a custom event names the hook that reported it', () => {
    const { fields } = lineOf({ type: 'emitted', ...TURN, on: 'turnStart', hook: 'hours', attempt: 1, name: 'opened' })
    expect(fields).toEqual({ session: 's', seq: 9, ...TURN, attempt: 1, event: 'opened', hook: 'hours' })
  })

  it('log lines have no arguments that are not JSON, because no names in them show what is secret', () => {
    const [body] = LINES.tool_issued
    expect(lineOf({ ...body, input: '{"password": "hunter2"' }).fields).not.toHaveProperty('args')
  })
})
