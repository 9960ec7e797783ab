// What an execution was started with: anyone can start a workflow, so all of it is checked, and what makes no sense is left out.
import { type Carried, type ForkStart, isAgentName, isSessionId, type SessionSettings, type SessionStart } from './protocol.ts'
import { isObject, isOrdinal, requestOf, targetIn } from './requests.ts'
import { Undecodable } from './undecodable.ts'
import { defined } from './defined.ts'

/** Longer than that a timer of the server need not be. */
const TEN_YEARS_MS = 10 * 365 * 24 * 3_600_000

/** A start that was read: what made sense of it. */
export interface Start extends Omit<SessionStart, 'sessionId'> {
  /** Why nothing did. */
  undecodable?: string
}

/** Reads a start's argument. `continuedFrom`: the execution that this one follows, as the server says. */
export function checkStart(raw: unknown, continuedFrom: string | undefined): Start {
  // A state is as large and as deep as a session may be: it is checked by whom it comes from.
  const { carried: given, ...outside } = (isObject(raw) ? raw : {}) as { carried?: unknown }
  const { agent, context, tags, isNew, settings, mustExist, fork } = requestOf<Partial<SessionStart>>(outside)
  const carried = carriedIn(given, continuedFrom)
  const forked = forkIn(fork)
  return {
    ...(isAgentName(agent) && { agent }),
    ...defined({ context }),
    ...(Array.isArray(tags) && { tags: tags.filter((tag) => typeof tag === 'string') }),
    // A schedule, or a retry, starts an execution with the arguments of the one before.
    ...(isNew === true && continuedFrom === undefined && { isNew }),
    ...(mustExist === true && { mustExist }),
    ...(forked && { fork: forked }),
    settings: settingsIn(settings),
    ...(carried && { carried }),
    ...(raw instanceof Undecodable && { undecodable: raw.reason }),
  }
}

/** What continue-as-new carried over: only the execution before this one knew its own id when the arguments were made. */
function carriedIn(given: unknown, continuedFrom: string | undefined): Carried | undefined {
  const { previous, coreVersion, state, digest, tail } = (isObject(given) ? given : {}) as Partial<Carried>
  if (continuedFrom === undefined || previous !== continuedFrom) return undefined
  const isSound =
    isOrdinal(coreVersion) &&
    isObject(state) &&
    isOrdinal(state.seq) &&
    typeof digest === 'string' &&
    (tail === undefined || Array.isArray(tail))
  return isSound ? (given as Carried) : undefined
}

function settingsIn(settings: unknown): SessionSettings {
  const { idleTimeoutMs, notServedAfterMs } = (isObject(settings) ? settings : {}) as SessionSettings
  return {
    ...(isDuration(idleTimeoutMs) && { idleTimeoutMs: Math.min(idleTimeoutMs, TEN_YEARS_MS) }),
    ...(isDuration(notServedAfterMs) && { notServedAfterMs: Math.min(notServedAfterMs, TEN_YEARS_MS) }),
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
