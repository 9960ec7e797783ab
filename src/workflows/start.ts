// What an execution was started with: anyone can start a workflow, so all of it is checked, and what makes no sense is left out.
import { ApplicationFailure, workflowInfo } from '@temporalio/workflow'
import type { Target } from '../session/events.ts'
import { UNDECODABLE } from '../session/incoming.ts'
import { type ForkStart, isSessionId, sessionIdOf, type SessionSettings, type SessionStart, workflowIdOf } from '../session/protocol.ts'
import { checkTarget } from '../session/targets.ts'
import { boundedText } from '../session/texts.ts'

const MAX_DIGEST = 64
/** Longer than that a timer of the server need not be. */
const TEN_YEARS_MS = 10 * 365 * 24 * 3_600_000

/** A start that was read: what made sense of it. */
export interface Start extends SessionStart {
  /** Why nothing did. */
  undecodable?: string
}

/** The start of the execution that is going on. Fails it if its workflow id is no session's: nothing could be recorded then. */
export function readStart(raw: unknown): Start {
  const { workflowId } = workflowInfo()
  const sessionId = sessionIdOf(workflowId)
  if (!isSessionId(sessionId) || workflowIdOf(sessionId) !== workflowId) {
    throw ApplicationFailure.nonRetryable(
      `The workflow id "${workflowId}" is no session's: start a session as "${workflowIdOf('<session id>')}", the id of 1 to 200 of [A-Za-z0-9._:/@-].`,
      'invalid_session_id',
    )
  }
  const { agent, context, tags, isNew, settings, carried, mustExist, fork } = (isObject(raw) ? raw : {}) as Partial<SessionStart>
  return {
    sessionId,
    ...(typeof agent === 'string' && agent !== '' && { agent }),
    ...(context !== undefined && { context }),
    ...(Array.isArray(tags) && { tags: tags.filter((tag) => typeof tag === 'string') }),
    ...(isNew === true && { isNew }),
    ...(mustExist === true && { mustExist }),
    ...(isFork(fork) && { fork: readFork(fork) }),
    settings: readSettings(settings),
    ...(isObject(carried) && { carried }),
    ...(isObject(raw) && UNDECODABLE in raw && { undecodable: String(raw[UNDECODABLE]) }),
  }
}

function readSettings(settings: unknown): SessionSettings {
  const { idleTimeoutMs, notServedAfterMs } = (isObject(settings) ? settings : {}) as SessionSettings
  return {
    ...(isDuration(idleTimeoutMs) && { idleTimeoutMs: Math.min(idleTimeoutMs, TEN_YEARS_MS) }),
    ...(isDuration(notServedAfterMs) && { notServedAfterMs: Math.min(notServedAfterMs, TEN_YEARS_MS) }),
  }
}

function isFork(fork: unknown): fork is ForkStart {
  const { from, seq, digest, keys } = (isObject(fork) ? fork : {}) as Partial<ForkStart>
  return (
    isSessionId(from) &&
    Number.isSafeInteger(seq) &&
    typeof digest === 'string' &&
    digest.length <= MAX_DIGEST &&
    (keys === 'carried' || keys === 'forgotten')
  )
}

/** What stands in the fork's events of it: nothing that is not asked for, and nothing of any size. */
function readFork({ from, seq, digest, target, keys, by }: ForkStart): ForkStart {
  const who = boundedText(by, 'by')
  return { from, seq, digest, keys, ...targetIn(target), ...(who !== undefined && { by: who }) }
}

function targetIn(target: unknown): { target?: Target } {
  try {
    return { target: checkTarget(target) }
  } catch {
    return {}
  }
}

function isDuration(value: unknown): value is number {
  return typeof value === 'number' && value >= 1
}

function isObject(value: unknown): value is object {
  return value !== null && typeof value === 'object' && !Array.isArray(value)
}
