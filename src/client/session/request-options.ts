// Options of the requests to a session. The names and types of all members are checked before anything is sent. What the session decides
// itself, or what has a code of its own, such as the length of a text, is checked after that.
import { z } from 'zod'
import { checkOptions, flag, integer, oneOf, options, where } from '../../options/check.ts'
import { InvalidOptionError } from '../../options/errors.ts'
import { areRoles, ROLES_RULE } from '../../session/approvers.ts'
import { defined } from '../../session/defined.ts'
import type { ResolveRequest } from '../../session/protocol/protocol.ts'
import { MAX_MESSAGE_ID } from '../../session/protocol/requests.ts'
import { RECOVERIES } from '../../session/recovery/recovery.ts'
import { isObject, type Json } from '../../session/json.ts'
import type { Budget } from '../../session/spending/spend.ts'
import { textProblem } from '../../session/protocol/texts.ts'
import { RequestRefusedError } from '../errors.ts'

const string = (expected: string): z.ZodCustom<string, string> => where((value) => typeof value === 'string', expected)
const number = (expected: string): z.ZodCustom<number, number> => where((value) => typeof value === 'number', expected)
const json = <T = Json>(): z.ZodCustom<T, T> => where(hasJson, 'a value that has a JSON form')
const calls = where<string[]>(
  (value) => Array.isArray(value) && value.every((one) => typeof one === 'string'),
  'a list of the ids of calls',
).optional()

/** JSON drops functions, so a request with one would become a different request. */
function hasJson(value: unknown): boolean {
  try {
    return JSON.stringify(value) !== undefined
  } catch {
    return false
  }
}

const by = string('text that says who makes the request').optional()
export const requestId = where<string>(
  (value) => typeof value === 'string' && value.length > 0 && value.length <= MAX_MESSAGE_ID,
  'text of 1 to 200 characters',
).optional()
const reason = string('text').optional()
const note = string('text').optional()
const digest = string("the digest of the call's arguments, from the list of pending calls")
const target = {
  checkpoint: number('the version of a checkpoint').optional(),
  message: string('the id of a message').optional(),
  run: number('the number of a run').optional(),
}

const seenSeq = integer(1).optional()

const A_TARGET = 'an object such as { checkpoint: 3 }, { message: id } or { run: 2 }'
const CLOSING = options({ by, requestId, unschedule: flag().optional() }, "an object such as { by: 'ann' }")
const REPEATABLE = options({ by, requestId }, "an object such as { by: 'ann' }")
const ANSWERED = options({ by, digest: string('the digest of the question').optional(), requestId }, "an object such as { by: 'ann' }")
const SAID = options({ by, reason, requestId }, "an object such as { reason: 'why' }")
const INTERRUPTED = options({ by, reason, requestId, run: integer(1).optional() }, "an object such as { reason: 'why' }")
const REGENERATED = options({ by, reason, requestId, seenSeq }, "an object such as { reason: 'why' }")
const NOTED = options({ by, note, requestId }, "an object such as { note: 'why' }")
const TARGET = options(target, A_TARGET)
const ROLLBACK = options({ ...target, keys: oneOf('kept', 'forgotten').optional(), seenSeq, by, reason, requestId }, A_TARGET)
/** The new session's id and tags have codes of their own. */
const FORK = options(
  {
    ...target,
    id: z.unknown().optional(),
    keys: oneOf('carried', 'forgotten').optional(),
    interrupt: flag().optional(),
    seenSeq,
    tags: z.unknown().optional(),
    by,
    requestId,
  },
  A_TARGET,
)
const RAISE = options(
  {
    maxUsd: number('a number of US dollars').optional(),
    maxTotalTokens: number('a number of tokens').optional(),
    scope: oneOf('run', 'session').optional(),
    by,
    reason,
    requestId,
  },
  'an object such as { maxUsd: 5 }',
)
const RECOVER = options(
  {
    strategy: oneOf(...RECOVERIES).optional(),
    keep: calls,
    skip: calls,
    redo: calls,
    force: flag().optional(),
    seenSeq,
    by,
    reason,
    requestId,
  },
  "an object such as { strategy: 'continue_run' }",
)
const A_DECISION = "an object such as { digest, by: 'ann' }, with the digest from the list of pending calls"
const roles = where<string[]>(areRoles, ROLES_RULE).optional()
const timeOf = (value: unknown): unknown => (value instanceof Date ? value.getTime() : value)
/** The session says what is wrong with a rule. */
const REMEMBER = options(
  {
    for: z.unknown(),
    matching: json().optional(),
    until: z
      .unknown()
      .transform(timeOf)
      .pipe(where<number>((value) => typeof value === 'number' && Number.isFinite(value), 'a date, or milliseconds since 1970'))
      .optional(),
    uses: integer(1).optional(),
  },
  "an object such as { for: 'session', matching: 'tool' }",
)
const APPROVAL = options({ digest, by, roles, note, requestId, input: json().optional(), remember: REMEMBER.optional() }, A_DECISION)
const DENIAL = options({ digest, by, roles, note, reason, requestId }, A_DECISION)

type OptionCheck<S extends z.ZodType> = (given?: unknown) => Members<z.output<S>>
type Members<T> = { [K in keyof T]: Exclude<T[K], undefined> }

/** A check of options that returns the members that have a value. The options as a whole may be omitted, unless they are `required`. */
function checking<S extends z.ZodObject>(schema: S, presence?: 'required'): OptionCheck<S> {
  return (given) => checkTexts(defined(checkOptions(schema, given === undefined && !presence ? {} : given))) as Members<z.output<S>>
}

/** How to close. @throws InvalidOptionError `invalid_option`, RequestRefusedError `invalid_request`; so do the functions below. */
export const checkClosing = checking(CLOSING)
/** `by` and the id of the request. */
export const checkRepeatable = checking(REPEATABLE)
/** `by`, the digest of a question, and the id of the request. */
export const checkAnswering = checking(ANSWERED)
/** `by` and a reason. */
export const checkReasoned = checking(SAID)
/** The same, and the run that is meant. */
export const checkInterrupt = checking(INTERRUPTED)
/** The same without it, and the newest event that the person has seen. */
export const checkRegenerate = checking(REGENERATED)
/** `by` and a note. */
export const checkNoted = checking(NOTED)
/** A point of the session's past. */
export const checkTargetOptions = checking(TARGET, 'required')
/** Where to roll back to. */
export const checkRollback = checking(ROLLBACK, 'required')
export const checkFork = checking(FORK)
export const checkRaiseOptions = checking(RAISE, 'required')
export const checkRecover = checking(RECOVER)
export const checkApproval = checking(APPROVAL, 'required')
export const checkDenial = checking(DENIAL, 'required')

const CALL = options({ callId: string('the id of a call') })
const ANSWER = options({ result: json() })
const RESOLUTION = options({ happened: z.unknown().optional(), result: json().optional() })
const REASON = options({ reason: string('text that says what the checkpoint is for') })
const MESSAGE = options({ messageId: string('the id of a message') })
const RUN = options({ run: number('the number of a run').optional() })
const AT = options({ at: integer(1).optional() })
const BLOB = options({ sha256: string('the sha256 of a value, as an event has it') })

/** The id of a call. @throws InvalidOptionError `invalid_option`; so do the functions below. */
export function checkCallId(callId: unknown): string {
  return checkOptions(CALL, { callId }).callId
}

/** The answer of a client tool. */
export function checkResult(result: unknown): Json {
  return checkOptions(ANSWER, { result }).result
}

/** The outcome of a call. The session refuses one that says neither that the effect happened nor that it did not. */
export function checkReportedOutcome(resolution: unknown): ResolveRequest['resolution'] {
  return (isObject(resolution) ? defined(checkOptions(RESOLUTION, resolution)) : resolution) as ResolveRequest['resolution']
}

/** The reason of a checkpoint. @throws InvalidOptionError `invalid_option`, RequestRefusedError `invalid_request`. */
export function checkCheckpointReason(reason: unknown): string {
  return checkTexts(checkOptions(REASON, { reason })).reason
}

export function checkMessageId(messageId: unknown): string {
  return checkOptions(MESSAGE, { messageId }).messageId
}

/** The number of a run, if one is named. */
export function checkRunNumber(run: unknown): number | undefined {
  return checkOptions(RUN, { run }).run
}

/** The checkpoint at which to read, if one is named. */
export function checkAt(given: unknown = {}): number | undefined {
  return checkOptions(AT, given).at
}

/** The name of a large value. */
export function checkSha256(sha256: unknown): string {
  return checkOptions(BLOB, { sha256 }).sha256
}

/** The same methods, which refuse options: they have none, and an ignored filter would return more than the caller asked for. */
export function withoutOptions<M extends Record<keyof M, () => Promise<unknown>>>(methods: M): M {
  const wrapped = Object.entries<() => Promise<unknown>>(methods).map(([name, method]) => {
    async function checked(given?: unknown): Promise<unknown> {
      if (isObject(given)) throw new InvalidOptionError(`${name}() has no options. Call it without arguments.`)
      return method()
    }
    return [name, checked]
  })
  return Object.fromEntries(wrapped) as M
}

/** Returns the request unchanged. @throws RequestRefusedError `invalid_request` for a `by`, `reason` or `note` that is too long. */
export function checkTexts<R extends { by?: unknown; reason?: unknown; note?: unknown }>(request: R): R {
  for (const kind of ['by', 'reason', 'note'] as const) {
    const problem = textProblem(request[kind], kind)
    if (problem !== undefined) throw new RequestRefusedError('invalid_request', problem)
  }
  return request
}

/**
 * Returns the limits of a `raise`. JSON cannot express NaN, so the session could not say what is wrong.
 * @throws RequestRefusedError `invalid_raise`.
 */
export function checkRaise<R extends Budget>(limits: R): R {
  const { maxUsd, maxTotalTokens } = limits
  const wrong = Object.entries({ maxUsd, maxTotalTokens }).find(
    ([, value]) => value !== undefined && !(typeof value === 'number' && value > 0),
  )
  if (wrong) throw new RequestRefusedError('invalid_raise', `${wrong[0]} is ${String(wrong[1])}. Pass a number above 0.`)
  return limits
}
