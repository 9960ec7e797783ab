// One attempt of a model call or tool call: its number, what earlier attempts left behind, and how it is given up.
import { setTimeout as sleep } from 'node:timers/promises'
import { ApplicationFailure, Context } from '@temporalio/activity'
import { fateOf, lostAttempt, MAX_DEATHS } from '../session/attempts.ts'
import type { FailedAttempt } from '../session/events.ts'
import { type Json, jsonBytes } from '../session/json.ts'
import { sessionIdOf } from '../session/protocol.ts'
import type { AttemptReport, Prior } from './contract.ts'
import { AttemptLost } from './errors.ts'
import { plainJson } from './json.ts'
import type { ActivityNeeds, Hold } from './needs.ts'

/** How often what a body says of its progress is told to the server, at most: each beat with details is a write there. */
const TELL_EVERY_MS = 100

/** An attempt that is going on. */
export interface Attempt {
  /** Counted from 1 over all of the call's activities. */
  number: number
  sessionId: string
  executionId: string
  hold: Hold
  /** Failed attempts of this activity. */
  failed: FailedAttempt[]
  /** Attempts of the call that threw. */
  failures: number
  /** Whether too many attempts were lost with their worker. */
  givenUp: boolean
  /** The last that an earlier attempt said of how far it was. */
  lastProgress: Json | undefined
  /** What this attempt has said of it, and the milestones it has passed. */
  said: { progress?: Json; milestones?: string[] }
  /**
   * To be awaited before the body is entered: from its second attempt on a call begins once the server has heard of it, for an attempt
   * that was handed to a process that stands or is gone says nothing against the call.
   */
  heard: Promise<void>
  /** Tells the server, durably, that the body is about to be entered. */
  begin(): Promise<void>
  /**
   * Takes note of how far the body is; a death brings it to the next attempt. Gives it as plain JSON.
   * @throws TypeError for what is no JSON, or too much of it.
   */
  progress(value: Json): Json
  milestone(name: string): void
  /** Records the failure, durably, and has Temporal try again after `delayMs`: what it returns is to be thrown. */
  retry(error: FailedAttempt, delayMs: number): Promise<ApplicationFailure>
}

/** What an attempt is made of. */
export interface AttemptOptions {
  call: string
  tool?: string
  prior?: Prior | undefined
  timeoutMs?: number
  /** Attempts that Temporal made before this one were no attempts of the call: nobody served it. */
  uncounted?: boolean
  /** The last that an earlier activity of the call said of how far it was. */
  progress?: Json | undefined
}

/** Starts an attempt of the activity that is going on. `hold.release()` is the caller's. */
export function startAttempt(needs: ActivityNeeds, options: AttemptOptions): Attempt {
  const { info } = Context.current()
  const { workflowId = '', runId: executionId = '' } = info.workflowExecution ?? {}
  const { attempts: before, failures: failedBefore, deaths: deathsBefore } = options.prior ?? { attempts: 0, failures: 0, deaths: 0 }
  const last = info.heartbeatDetails as AttemptReport | undefined
  const failed = [...(last?.failed ?? [])]
  if (!options.uncounted) {
    for (let lost = failed.length + 1; lost < info.attempt; lost++) failed.push(lostAttempt(before + lost, last))
  }
  const number = before + failed.length + 1
  const fates = failed.map(fateOf)
  const deaths = fates.filter((fate) => fate === 'death').length
  const failures = fates.filter((fate) => fate === 'failure').length
  const sessionId = sessionIdOf(workflowId)
  const lastProgress = last?.progress ?? options.progress
  let report: AttemptReport = {
    attempt: number,
    begun: false,
    failed,
    worker: needs.worker,
    ...(lastProgress !== undefined && { progress: lastProgress }),
  }
  const said: Attempt['said'] = {}
  const hold = needs.beats.hold({
    taskToken: info.taskToken,
    sessionId,
    workflowId,
    executionId,
    call: options.call,
    ...(options.tool !== undefined && { tool: options.tool }),
    heartbeatTimeoutMs: info.heartbeatTimeoutMs ?? 5_000,
    ...(options.timeoutMs !== undefined && { timeoutMs: options.timeoutMs }),
    report,
  })
  // If the server cannot be told, the attempt goes on all the same: lost, it would count as one that never began.
  const heard = number > 1 ? hold.report(report).catch(() => undefined) : Promise.resolve()
  let telling: Promise<void> | undefined
  /** One beat at a time; what is said meanwhile goes with the next one. A beat that is lost costs progress, nothing else. */
  const tell = (): void => {
    if (telling) return
    const told = report
    telling = hold
      .report(told)
      .catch(() => undefined)
      .then(() => sleep(TELL_EVERY_MS, undefined, { ref: false }))
      .then(() => {
        telling = undefined
        if (report !== told && report.progress !== told.progress) tell()
      })
  }
  return {
    number,
    sessionId,
    executionId,
    hold,
    heard,
    failed,
    failures: failedBefore + failures,
    givenUp: deathsBefore + deaths >= MAX_DEATHS,
    lastProgress,
    said,
    begin() {
      report = { ...report, begun: true }
      return confirmedJustNow(() => hold.report(report))
    },
    progress(value) {
      const plain = checkedProgress(value)
      said.progress = plain
      report = { ...report, progress: plain }
      tell()
      return plain
    },
    milestone(name) {
      if (typeof name !== 'string' || name === '' || name.length > MAX_MILESTONE || NO_NAME.test(name)) {
        throw new TypeError(`A milestone's name is text of 1 to ${MAX_MILESTONE} characters, with neither NUL nor half a character.`)
      }
      said.milestones = [...new Set([...(said.milestones ?? []), name])].slice(0, MAX_MILESTONES)
    },
    async retry(error, delayMs) {
      await hold.report({ ...report, failed: [...failed, error] })
      return ApplicationFailure.create({
        type: 'AttemptFailed',
        message: error.message,
        nonRetryable: false,
        nextRetryDelay: delayMs,
      })
    },
  }
}

/** Less than the heartbeat timeout of an `external` call: within it nobody can have given the attempt up. */
const JUST_NOW_MS = 1_000
const MAX_ASKS = 5

/**
 * Has the server confirm the attempt, by an answer that was not long under way: a process that was paused meanwhile finds an answer
 * waiting that was true before its attempt was given up and the effect verified. @throws AttemptLost if no answer is new enough.
 */
export async function confirmedJustNow(ask: () => Promise<void>, now: () => number = Date.now): Promise<void> {
  for (let asks = 0; asks < MAX_ASKS; asks++) {
    const askedAt = now()
    await ask()
    if (now() - askedAt < JUST_NOW_MS) return
  }
  throw new AttemptLost()
}

const MAX_PROGRESS_BYTES = 16_000
const MAX_MILESTONE = 200
/** Postgres has no such names, and people ask for milestones by name. */
const NO_NAME = /\0|\p{Surrogate}/u
const MAX_MILESTONES = 100

function checkedProgress(value: Json): Json {
  let plain: Json
  try {
    plain = plainJson(value)
  } catch (error) {
    throw new TypeError(`ctx.progress takes JSON: ${error instanceof Error ? error.message : String(error)}`)
  }
  if (jsonBytes(plain) > MAX_PROGRESS_BYTES)
    throw new TypeError(`ctx.progress takes at most ${MAX_PROGRESS_BYTES} bytes of JSON: say where you are, not what you have.`)
  return plain
}

/** What was thrown, as a row of the error table. Messages are bounded: history keeps them. */
export function failedAttempt(
  attempt: number,
  error: unknown,
  about: { retryable: boolean; worker: string; nextDelayMs?: number },
): FailedAttempt {
  const isError = error instanceof Error
  const code = isError ? textOf(() => (error as { code?: unknown }).code, 'string') : ''
  const name = isError ? textOf(() => error.name, 'string') || textOf(() => error.constructor.name, 'string') || 'Error' : typeof error
  const text = isError ? textOf(() => error.message) : typeof error === 'string' ? error : notAnError(error)
  // Models take no empty error result, and people can do nothing with one.
  const message = text.trim() === '' ? `${name} was thrown, without a message.` : text
  return {
    attempt,
    class: name.slice(0, MAX_CODE),
    ...(code !== '' && { code: code.slice(0, MAX_CODE) }),
    message: message.slice(0, 4_000),
    ...about,
  }
}

/** Codes and classes stand in indices, and in every list of errors. */
const MAX_CODE = 200

function notAnError(value: unknown): string {
  return `A value that is no Error was thrown: ${textOf(() => value) || 'it has no text'}`
}

/** Any value may be thrown, also one that throws when it is looked at. */
function textOf(look: () => unknown, only?: 'string'): string {
  try {
    const found = look()
    return typeof found === 'string' || only === undefined ? String(found) : ''
  } catch {
    return ''
  }
}
