// The start argument of an execution. Any client can start a workflow, so every member is checked, and invalid ones are ignored.
import {
  type Continuation,
  type ForkStart,
  isAgentName,
  isSessionId,
  type HistorySize,
  type SessionSettings,
  type SessionStart,
} from './protocol.ts'
import { callerIn } from '../agents/signals.ts'
import { isObject } from '../json.ts'
import { isOrdinal, requestOf, targetIn } from './requests.ts'
import { Undecodable } from './undecodable.ts'
import { cutText, TEXT_BYTES } from './texts.ts'
import { defined } from '../defined.ts'

/** The longest timer that is useful. */
const TEN_YEARS_MS = 10 * 365 * 24 * 3_600_000

/** Below this, too little time is left between the end of a lost worker's bodies and their verification (`VOUCHED_MS` in parent-watch.ts). */
export const HEARTBEAT_TIMEOUT_MS = { min: 10_000, max: 300_000 }

const MIN_HISTORY: HistorySize = { events: 100, bytes: 1_000_000 }

/** A start argument after the checks. */
export interface Start extends Omit<SessionStart, 'sessionId'> {
  /** Why the argument was refused. */
  undecodable?: string
}

/** Reads a start argument. `continuedFrom`: the execution that this one continues, as reported by the server. */
export function checkStart(raw: unknown, continuedFrom: string | undefined): Start {
  // A carried state may be as large and as deep as a session, so only its origin is checked.
  const { carried: given, ...outside } = (isObject(raw) ? raw : {}) as { carried?: unknown }
  const { agent, context, tags, isNew, settings, mustExist, unreplayable, fork, caller } = requestOf<Partial<SessionStart>>(outside)
  const carried = carriedIn(given, continuedFrom)
  const forked = forkIn(fork)
  return {
    ...(isAgentName(agent) && { agent }),
    ...defined({ context }),
    ...(Array.isArray(tags) && { tags: tags.filter((tag) => typeof tag === 'string') }),
    // A schedule or a retry starts an execution with the arguments of the previous one, so `isNew` may be outdated.
    ...(isNew === true && continuedFrom === undefined && { isNew }),
    ...(mustExist === true && { mustExist }),
    ...defined({ unreplayable: unreplayableIn(unreplayable) }),
    ...(forked && { fork: forked }),
    ...defined({ caller: callerIn(caller) }),
    settings: settingsIn(settings),
    ...(carried && { carried }),
    ...(raw instanceof Undecodable && { undecodable: raw.reason }),
  }
}

/** The carried state, if it really comes from continue-as-new: only the previous execution could put its own id into the arguments. */
function carriedIn(given: unknown, continuedFrom: string | undefined): Continuation | undefined {
  const { previous, coreVersion, state, digest, tail } = (isObject(given) ? given : {}) as Partial<Continuation>
  if (continuedFrom === undefined || previous !== continuedFrom) return undefined
  const isSound =
    isOrdinal(coreVersion) &&
    isObject(state) &&
    isOrdinal(state.seq) &&
    typeof digest === 'string' &&
    (tail === undefined || Array.isArray(tail))
  return isSound ? (given as Continuation) : undefined
}

function unreplayableIn(given: unknown): Start['unreplayable'] {
  const { executionId, reason, times } = (isObject(given) ? given : {}) as Partial<NonNullable<Start['unreplayable']>>
  if (typeof executionId !== 'string' || typeof reason !== 'string' || !isOrdinal(times)) return undefined
  return { executionId: cutText(executionId, TEXT_BYTES.name), reason: cutText(reason, TEXT_BYTES.reason), times }
}

function settingsIn(settings: unknown): SessionSettings {
  const { idleTimeoutMs, notServedAfterMs, heartbeatTimeoutMs, history, askAgainMs } = (
    isObject(settings) ? settings : {}
  ) as SessionSettings
  return {
    ...(isDuration(idleTimeoutMs) && { idleTimeoutMs: Math.min(idleTimeoutMs, TEN_YEARS_MS) }),
    ...(isDuration(notServedAfterMs) && { notServedAfterMs: Math.min(notServedAfterMs, TEN_YEARS_MS) }),
    ...(isDuration(heartbeatTimeoutMs) && { heartbeatTimeoutMs: heartbeatIn(heartbeatTimeoutMs) }),
    ...(isObject(history) && { history: historyIn(history) }),
    ...(isDuration(askAgainMs) && { askAgainMs }),
  }
}

function heartbeatIn(ms: number): number {
  return Math.min(Math.max(ms, HEARTBEAT_TIMEOUT_MS.min), HEARTBEAT_TIMEOUT_MS.max)
}

/** An execution must have room for more than continue-as-new carries into it. Otherwise, it would at once continue as new. */
function historyIn({ events, bytes }: Partial<HistorySize>): Partial<HistorySize> {
  return {
    ...(isOrdinal(events) && { events: Math.max(events, MIN_HISTORY.events) }),
    ...(isOrdinal(bytes) && { bytes: Math.max(bytes, MIN_HISTORY.bytes) }),
  }
}

function forkIn(fork: unknown): ForkStart | undefined {
  const { from, seq, digest, keys, target: given, by } = (isObject(fork) ? fork : {}) as Partial<ForkStart>
  const areKeys = keys === 'carried' || keys === 'forgotten'
  if (!isSessionId(from) || !isOrdinal(seq) || typeof digest !== 'string' || !areKeys) return undefined
  const target = targetIn(given)
  return { from, seq, digest, keys, ...(target && { target }), ...(typeof by === 'string' && { by }) }
}

function isDuration(value: unknown): value is number {
  return typeof value === 'number' && value >= 1
}
