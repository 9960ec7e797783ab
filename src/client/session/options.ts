// Options of a session, of its messages and of waiting for its runs, checked when they are passed in.
import { z } from 'zod'
import { checkOptions, duration, flag, options, signal, text, where, integer } from '../../options/check.ts'
import { defined } from '../../session/defined.ts'
import type { Json } from '../../session/json.ts'
import { HEARTBEAT_TIMEOUT_MS } from '../../session/protocol/start.ts'
import { isAgentName, type SessionStart } from '../../session/protocol/protocol.ts'
import { isTraceparent } from '../../session/protocol/traceparent.ts'
import type { Priority, SendOptions } from '../types.ts'
import { checkTexts } from './request-options.ts'

/** The checked options for opening a session. */
export interface SessionOpening {
  /** The agent's name. */
  agent?: string
  context?: Json
  tags?: string[]
  taskQueue?: string
  priority?: Priority
  settings: NonNullable<SessionStart['settings']>
}

const nameOf = (agent: unknown): unknown => (typeof agent === 'object' ? (agent as { name?: unknown } | null)?.name : agent)

const MAX_INT32 = 2_147_483_647
const MAX_FAIRNESS_KEY_BYTES = 64

function isFairnessKey(value: unknown): boolean {
  return typeof value === 'string' && Buffer.byteLength(value) <= MAX_FAIRNESS_KEY_BYTES
}

function isFairnessWeight(value: unknown): boolean {
  return typeof value === 'number' && value >= 0.001 && value <= 1_000
}

/** Context and tags are checked with the message that opens the session: their errors have their own codes. */
const SESSION = options({
  agent: where<string | { name: string }>(
    (agent) => isAgentName(nameOf(agent)),
    'an agent, or its name: 1 to 100 of [A-Za-z0-9._-]',
  ).optional(),
  context: z.unknown().optional(),
  tags: z.unknown().optional(),
  taskQueue: text("a task queue's name").optional(),
  priority: options({
    priorityKey: integer(1, MAX_INT32).optional(),
    fairnessKey: where<string>(isFairnessKey, 'text of at most 64 bytes').optional(),
    fairnessWeight: where<number>(isFairnessWeight, 'a number from 0.001 to 1,000').optional(),
  }).optional(),
  idleTimeout: duration({ example: '24h' }).optional(),
  notServedAfter: duration({ example: '2m' }).optional(),
  heartbeatTimeout: duration({ ...HEARTBEAT_TIMEOUT_MS, limits: 'from 10 seconds to 5 minutes' }).optional(),
})

/** Checks the options for opening a session. @throws InvalidOptionError. */
export function checkSession(given: unknown = {}): SessionOpening {
  const {
    agent,
    context,
    tags,
    taskQueue,
    priority,
    idleTimeout: idleTimeoutMs,
    notServedAfter: notServedAfterMs,
    heartbeatTimeout: heartbeatTimeoutMs,
  } = checkOptions(SESSION, given)
  return {
    ...defined({
      agent: nameOf(agent) as string | undefined,
      context: context as Json | undefined,
      tags: tags as string[] | undefined,
      taskQueue,
      priority: priority && defined(priority),
    }),
    settings: defined({ idleTimeoutMs, notServedAfterMs, heartbeatTimeoutMs }),
  }
}

/** Id and metadata are checked with the message, and the length of `by` as in all requests. */
const SEND = options({
  messageId: z.unknown().optional(),
  metadata: z.unknown().optional(),
  by: where<string>((value) => typeof value === 'string', 'text that says who sends the message').optional(),
  deadline: duration({ example: '5m' }).optional(),
  traceparent: where<string>(
    isTraceparent,
    "a traceparent of W3C Trace Context, such as '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'",
  ).optional(),
  isNew: flag().optional(),
  interrupt: flag().optional(),
})

/** Checks the options of a message. @throws InvalidOptionError. */
export function checkSend(given: unknown = {}): Omit<SendOptions, 'deadline'> & { deadlineMs?: number } {
  const { deadline: deadlineMs, ...sent } = checkTexts(checkOptions(SEND, given))
  return { ...(sent as SendOptions), ...defined({ deadlineMs }) }
}

const WAIT = options({ timeout: duration({ example: '60s' }).optional(), signal: signal().optional() })

/** Checks the options for waiting for a run. @throws InvalidOptionError. */
export function checkWait(given: unknown = {}): { timeoutMs: number | undefined; signal: AbortSignal | undefined } {
  const { timeout: timeoutMs, signal } = checkOptions(WAIT, given)
  return { timeoutMs, signal }
}

const FOLLOWING = options({ signal: signal().optional() })
const WATCH = options({ after: integer(0).optional(), signal: signal().optional() })
const EVENTS = options({ after: integer(0).optional(), follow: flag().optional(), signal: signal().optional() })
/** A new one for each call: a shared signal would collect the listeners of all. */
const never = (): AbortSignal => new AbortController().signal

/** Checks the options for following a run's events. @throws InvalidOptionError; so do the next two functions. */
export function checkFollowing(given: unknown = {}): { signal: AbortSignal } {
  const { signal = never() } = checkOptions(FOLLOWING, given)
  return { signal }
}

export function checkWatch(given: unknown = {}): { after: number; signal: AbortSignal } {
  const { after = 0, signal = never() } = checkOptions(WATCH, given)
  return { after, signal }
}

export function checkEvents(given: unknown = {}): { after: number; follow: boolean; signal: AbortSignal } {
  const { after = 0, follow = false, signal = never() } = checkOptions(EVENTS, given)
  return { after, follow, signal }
}
