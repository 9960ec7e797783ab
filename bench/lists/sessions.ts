// A support desk's sessions, as the events that a workflow would flush: the same ones every time.
import { nextDigest } from '../../src/session/digest.ts'
import { callIdOf } from '../../src/session/ids.ts'
import { seededRandom } from '../../src/testing/crash/random.ts'
import type { EventBody, LogEntry } from '../../src/session/events.ts'
import type { Resolution } from '../../src/session/call-facts.ts'

const AGENTS = ['support', 'billing', 'logistics', 'research', 'onboarding']
const TOOLS = ['look_up_order', 'look_up_customer', 'send_mail', 'refund_order'] as const
const MODELS = ['claude-sonnet-4-5', 'claude-haiku-4-5', 'claude-opus-4-5']
const USAGE = { input_tokens: 1_200, output_tokens: 180, cache_creation_input_tokens: 300, cache_read_input_tokens: 4_000 }
const DAY_MS = 86_400_000
/** The sessions are spread over these days. */
export const DAYS = 60
export const BEGIN = Date.UTC(2026, 8, 1)

/** The log of the `nth` session of `count`. */
export function sessionLog(nth: number, count: number): { id: string; log: LogEntry[] } {
  // The rows are the same on every machine.
  const random = seededRandom(nth + 1)
  const id = `session-${String(nth).padStart(6, '0')}`
  const bodies = bodiesOf(id, random)
  let at = BEGIN + Math.round((nth / count) * DAYS * DAY_MS)
  let prev = ''
  const log = bodies.map((body, index) => {
    at += Math.round(random() * 4_000)
    const json = JSON.stringify({ v: 1, seq: index + 1, at, ...body })
    const entry = { seq: index + 1, prev, digest: nextDigest(prev, json), json }
    prev = entry.digest
    return entry
  })
  return { id, log }
}

function bodiesOf(id: string, random: () => number): EventBody[] {
  const agent = pick(AGENTS, random)
  const model = pick(MODELS, random)
  const tags = [`customer:${Math.floor(random() * 2_000)}`, pick(['web', 'mail', 'chat'], random)]
  const bodies: EventBody[] = [
    {
      type: 'session_started',
      sessionId: id,
      agent,
      context: { tenantId: `t${Math.floor(random() * 50)}` },
      tags,
      executionId: id,
      coreVersion: 2,
    },
  ]
  const runs = 1 + Math.floor(random() * 3)
  let version = 0
  for (let run = 1; run <= runs; run++) {
    const messageId = `${id}-${run}`
    bodies.push({ type: 'message_received', messageId, content: words(40, random) }, { type: 'run_started', run, messageId })
    const turns = 2 + Math.floor(random() * 3)
    for (let turn = 1; turn <= turns; turn++) {
      bodies.push({ type: 'turn_started', run, turn, takes: turn === 1 ? [messageId] : [] })
      if (random() < 0.05) bodies.push({ type: 'model_attempt_failed', run, turn, error: failed('overloaded_error', random) })
      const last = turn === turns
      bodies.push(...turnOf({ run, turn, model, last }, random))
      if (!last)
        bodies.push({ type: 'checkpoint_made', version: ++version, run, turn, reasons: ['turn'], lastMessageId: `r_${run}_${turn}` })
    }
    if (run === runs && random() < 0.03) {
      bodies.push({ type: 'error_entered', run, code: 'max_turns', reason: 'The run has taken all its turns.', strategy: 'manual' })
      return bodies
    }
    bodies.push({ type: 'run_completed', run, turns, stopReason: 'end_turn', usage: USAGE })
    bodies.push({ type: 'checkpoint_made', version: ++version, run, turn: turns, reasons: ['turn'], lastMessageId: `m_${run}_${turns}` })
  }
  if (random() < 0.8) bodies.push({ type: 'session_closed', reason: 'idle' })
  return bodies
}

function turnOf(
  { run, turn, model, last }: { run: number; turn: number; model: string; last: boolean },
  random: () => number,
): EventBody[] {
  const tools = last ? [] : Array.from({ length: 1 + Math.floor(random() * 2) }, () => pick(TOOLS, random))
  const calls: Resolution[] = tools.map((tool, index) => ({
    index,
    tool,
    effect: tool.startsWith('look') ? 'read' : 'external',
    inputDigest: 'd'.repeat(32),
    schemaDigest: 's'.repeat(32),
    timeoutMs: 60_000,
    retry: { maxRetries: 3, baseDelayMs: 500 },
    verify: false,
  }))
  const inputs = tools.map(() => ({ orderId: `A-${Math.floor(random() * 1e6)}`, note: words(8, random) }))
  const content = [
    { type: 'text' as const, text: words(60, random) },
    ...tools.map((name, index) => ({ type: 'tool_use' as const, id: `toolu_${index}`, name, input: inputs[index] ?? {} })),
  ]
  const stopReason = last ? 'end_turn' : 'tool_use'
  const answer: EventBody = {
    type: 'model_completed',
    run,
    turn,
    attempt: 1,
    model,
    content,
    stopReason,
    usage: USAGE,
    calls,
  }
  return [answer, ...calls.flatMap((call) => callOf(run, turn, call, inputs[call.index] ?? {}, random))]
}

function callOf(
  run: number,
  turn: number,
  { index, tool, effect }: Resolution,
  input: Record<string, string>,
  random: () => number,
): EventBody[] {
  const call = { run, turn, callId: callIdOf(run, turn, index), tool }
  const issued: EventBody = { type: 'tool_issued', ...call, index, effect, input, inputDigest: 'd'.repeat(32) }
  const dice = random()
  if (dice < 0.03) return [issued, { type: 'tool_attempt_failed', ...call, error: failed('ECONNRESET', random) }, done(call, random)]
  if (dice < 0.05) return [issued, { type: 'tool_failed', ...call, attempt: 1, code: 'no_such_order', message: words(8, random) }]
  if (dice < 0.055) return [issued, { type: 'tool_unknown', ...call, attempt: 1, message: 'The worker died while the call ran.' }]
  return [issued, done(call, random)]
}

function done(call: { run: number; turn: number; callId: string; tool: string }, random: () => number): EventBody {
  return {
    type: 'tool_completed',
    ...call,
    attempt: 1,
    value: { found: words(80, random) },
    effectId: `e_${Math.floor(random() * 1e9)}`,
    worker: 'host:1',
  }
}

function failed(code: string, random: () => number) {
  return { attempt: 1, class: 'Error', code, message: words(10, random), retryable: true, nextDelayMs: 500 }
}

function words(count: number, random: () => number): string {
  return Array.from({ length: count }, () => Math.floor(random() * 1e6).toString(36)).join(' ')
}

function pick<T>(among: readonly T[], random: () => number): T {
  return among[Math.floor(random() * among.length)] as T
}
