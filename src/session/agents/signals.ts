// Reads the signals between a session and the sessions that answer its calls. Any client can send them, so every member is checked.
import { defined } from '../defined.ts'
import { isObject, isTooDeep, type Json } from '../json.ts'
import { type AskSignal, isAgentName, isSessionId, type ReportSignal } from '../protocol/protocol.ts'
import { isOrdinal, MAX_MESSAGE_ID, plainOf } from '../protocol/requests.ts'
import { cutText, TEXT_BYTES } from '../protocol/texts.ts'
import type { Budget } from '../spending/spend.ts'
import { MAX_DEPTH_OF_CALLS } from './agent-calls.ts'
import type { CallingSession, CallingCall, TraceRoot } from './agent-call-facts.ts'

/** Longer keys leave no room for a number in the id of the question's message. */
export const MAX_KEY_LENGTH = MAX_MESSAGE_ID - 10

/** The caller that a value names; undefined if it names none. */
export function callerIn(raw: unknown): CallingSession | undefined {
  if (!isObject(raw)) return undefined
  const { sessionId, key, epoch, depth, taskQueue } = raw
  const isSound =
    isSessionId(sessionId) && isText(key) && isText(epoch) && isText(taskQueue) && isOrdinal(depth) && depth <= MAX_DEPTH_OF_CALLS
  return isSound ? { sessionId, key, epoch, depth, taskQueue } : undefined
}

/** The question that a signal asks; undefined if it is none. */
export function askIn(raw: unknown): AskSignal | undefined {
  const given = plainOf(raw)
  if (!isObject(given)) return undefined
  const { agent, by, content, stop } = given
  const caller = callerIn(given.caller)
  const call = callIn(given.call)
  if (!caller || !call || !isAgentName(agent) || typeof by !== 'string' || typeof content !== 'string') return undefined
  return { caller, call, agent, by: cutText(by, TEXT_BYTES.name), content, ...(stop === true && { stop }) }
}

/** The report in a signal; undefined if it is none. */
export function reportIn(raw: unknown): ReportSignal | undefined {
  if (isTooDeep(raw)) return undefined
  const given = plainOf(raw)
  if (!isObject(given)) return undefined
  const { key, child, agent, as, code, reason } = given
  const call = callIn(given.call)
  const isOutcome = as === 'answered' || as === 'failed' || as === 'interrupted' || as === 'refused'
  const spent = isObject(given.spent) ? given.spent : {}
  if (!isText(key) || !isSessionId(child) || !isAgentName(agent) || !call || !isOutcome) return undefined
  return {
    key,
    child,
    agent,
    call,
    as,
    ...('value' in given && { value: given.value as Json }),
    ...defined({
      code: typeof code === 'string' ? cutText(code, TEXT_BYTES.code) : undefined,
      reason: typeof reason === 'string' ? cutText(reason, TEXT_BYTES.reason) : undefined,
    }),
    spent: { total: costIn(spent.total), before: costIn(spent.before) },
  }
}

function callIn(raw: unknown): CallingCall | undefined {
  if (!isObject(raw)) return undefined
  const { seq, run, turn, callId, tool, stretch, background } = raw
  if (!isOrdinal(seq) || !isOrdinal(run) || !isOrdinal(turn) || !isText(callId) || !isText(tool)) return undefined
  return {
    seq,
    run,
    turn,
    callId,
    tool,
    ...defined({ budget: budgetIn(raw.budget), trace: traceIn(raw.trace) }),
    ...(isOrdinal(stretch) && { stretch }),
    ...(background === true && { background }),
  }
}

function traceIn(raw: unknown): TraceRoot | undefined {
  if (!isObject(raw)) return undefined
  const { sessionId, run, stretch } = raw
  return isSessionId(sessionId) && isOrdinal(run) ? { sessionId, run, ...(isOrdinal(stretch) && { stretch }) } : undefined
}

function budgetIn(raw: unknown): Budget | undefined {
  if (!isObject(raw)) return undefined
  const { maxUsd, maxTotalTokens } = raw
  const isAmount = (value: unknown): value is number => typeof value === 'number' && value >= 0 && value <= 1e12
  return { ...(isAmount(maxUsd) && { maxUsd }), ...(isAmount(maxTotalTokens) && { maxTotalTokens }) }
}

function costIn(raw: unknown): { tokens: number; usd: number } {
  const { tokens, usd } = isObject(raw) ? raw : {}
  const amount = (value: unknown): number => (typeof value === 'number' && value > 0 && value <= 1e12 ? value : 0)
  return { tokens: amount(tokens), usd: amount(usd) }
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= 1_000
}
