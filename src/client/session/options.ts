// Options of a session, of its messages and of waiting for its runs, checked when they are passed in.
import { z } from 'zod'
import { checkOptions, duration, flag, options, signal, text, where, integer } from '../../options/check.ts'
import { InvalidOptionError } from '../../options/errors.ts'
import { defined } from '../../session/defined.ts'
import { isObject, type Json } from '../../session/json.ts'
import { isMessageTime } from '../../session/protocol/incoming.ts'
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

/** The longest time ahead: a mistaken unit makes longer ones. */
const TEN_YEARS_MS = 10 * 365 * 86_400_000

/** Id and metadata are checked with the message, and the length of `by` as in all requests. */
const SEND = options({
  messageId: z.unknown().optional(),
  metadata: z.unknown().optional(),
  by: where<string>((value) => typeof value === 'string', 'text that says who sends the message').optional(),
  deadline: duration({ example: '5m' }).optional(),
  at: where<Date | number | string>(
    (value) => timeIn(value) !== undefined,
    "a Date, milliseconds since 1970, or ISO text with its offset, such as '2026-12-24T18:00:00+01:00'; at most ten years ahead",
  ).optional(),
  delay: duration({ min: 0, max: TEN_YEARS_MS, limits: 'at most ten years', example: '2h' }).optional(),
  traceparent: where<string>(
    isTraceparent,
    "a traceparent of W3C Trace Context, such as '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'",
  ).optional(),
  isNew: flag().optional(),
  interrupt: flag().optional(),
})

/** Checks the options of a message. @throws InvalidOptionError. */
export function checkSend(given: unknown = {}): Omit<SendOptions, 'deadline' | 'at' | 'delay'> & { deadlineMs?: number; at?: number } {
  const { deadline: deadlineMs, at, delay, ...sent } = checkTexts(checkOptions(SEND, given))
  if (at !== undefined && delay !== undefined) throw new InvalidOptionError('Pass `at` or `delay`, not both.')
  const dueAt = delay === undefined ? timeIn(at) : Date.now() + delay
  const isLater = dueAt !== undefined && dueAt > Date.now()
  return { ...(sent as Omit<SendOptions, 'deadline' | 'at' | 'delay'>), ...defined({ deadlineMs, at: isLater ? dueAt : undefined }) }
}

/** A date and a time with their offset: without one, the time would depend on where the program runs. */
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)$/

/** The time at which a message is due, in milliseconds since 1970; undefined if it is none, or too far ahead. */
function timeIn(given: unknown): number | undefined {
  const text = typeof given === 'string' && ISO.test(given) ? Date.parse(given) : undefined
  const at = given instanceof Date ? given.getTime() : typeof given === 'number' ? given : text
  return isMessageTime(at) && at <= Date.now() + TEN_YEARS_MS ? at : undefined
}

const WAIT = options({ timeout: duration({ example: '60s' }).optional(), signal: signal().optional() })

/** Checks the options for waiting for a run. @throws InvalidOptionError. */
export function checkWait(given: unknown = {}): { timeoutMs: number | undefined; signal: AbortSignal | undefined } {
  const { timeout: timeoutMs, signal } = checkOptions(WAIT, given)
  return { timeoutMs, signal }
}

const FOLLOWING = options({ signal: signal().optional() })
const WATCH = options({ after: integer(0).optional(), tree: flag().optional(), signal: signal().optional() })
const WATCH_TREE = options({
  after: where<number | Record<string, number>>(
    (value) => isSeq(value) || (isObject(value) && Object.values(value).every(isSeq)),
    'an integer from 0, or an object with one for each session',
  ).optional(),
  tree: flag(),
  signal: signal().optional(),
})
const EVENTS = options({
  after: integer(0).optional(),
  follow: flag().optional(),
  stored: flag().optional(),
  signal: signal().optional(),
})

function isSeq(value: unknown): boolean {
  return Number.isSafeInteger(value) && Number(value) >= 0
}

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

/** Whether a whole tree is to be watched, and from where. */
export function checkTreeWatch(given: unknown): { after: number | Record<string, number>; signal: AbortSignal } | undefined {
  if (!isObject(given) || given.tree !== true) return undefined
  const { after = 0, signal = never() } = checkOptions(WATCH_TREE, given)
  return { after, signal }
}

export function checkEvents(given: unknown = {}): { after: number; follow: boolean; stored: boolean; signal: AbortSignal } {
  const { after = 0, follow = false, stored = false, signal = never() } = checkOptions(EVENTS, given)
  return { after, follow, stored, signal }
}
