// What an attempt reports while its body runs, and how its errors are recorded.
import type { ExecuteToolResult } from '../calls/activities.ts'
import { isEventName } from '../session/hooks/custom-events.ts'
import { PawlError } from '../session/errors.ts'
import type { FailedAttempt } from '../session/call-facts.ts'
import { type Json, jsonBytes } from '../session/json.ts'
import { numberText } from '../session/number-text.ts'
import type { SpendNote } from '../session/spending/spend-notes.ts'
import type { JobLink } from '../calls/jobs.ts'
import type { AttemptSoFar } from '../session/attempts.ts'
import { EVENT_NAME, reporter } from './custom-events.ts'
import { plainJson } from './json.ts'
import { spendReporter } from './spend-notes.ts'
import { stackOf } from './stack.ts'
import { beginningOf } from '../session/beginning.ts'

const MAX_PROGRESS_BYTES = 16_000
const MAX_MILESTONES = 100

/** What a body reports while it runs, through its context. */
export interface BodyReports {
  readonly lastProgress: Json | undefined
  /** @throws TypeError for a value that is not JSON or is too large. */
  progress(value: Json): void
  milestone(name: string): void
  /** @throws ToolError for an event that is not allowed. */
  emit(name: string, data?: Json): void
  /** @throws ToolError for an amount that cannot have been spent. */
  spend(spent: SpendNote): void
  /** All reports of this attempt, for its result. */
  all(): Pick<ExecuteToolResult, 'progress' | 'milestones' | 'emitted' | 'spent'>
}

export function startReports({ lastProgress }: AttemptSoFar, link: JobLink): BodyReports {
  const reports: ReturnType<BodyReports['all']> = {}
  const events = reporter('attempt')
  const costs = spendReporter('attempt')
  return {
    lastProgress,
    progress(value) {
      const plain = checkedProgress(value)
      reports.progress = plain
      link.progress(plain)
    },
    milestone(name) {
      if (!isEventName(name)) throw new TypeError(`A milestone's name must be ${EVENT_NAME}.`)
      reports.milestones = [...new Set([...(reports.milestones ?? []), name])].slice(0, MAX_MILESTONES)
    },
    emit: events.emit,
    spend: costs.spend,
    all: () => ({
      ...reports,
      ...(events.events.length > 0 && { emitted: [...events.events] }),
      ...(costs.notes.length > 0 && { spent: [...costs.notes] }),
    }),
  }
}

function checkedProgress(value: Json): Json {
  let plain: Json
  try {
    plain = plainJson(value)
  } catch (error) {
    throw new TypeError(`ctx.progress accepts JSON only: ${error instanceof Error ? error.message : String(error)}`)
  }
  if (jsonBytes(plain) > MAX_PROGRESS_BYTES)
    throw new TypeError(`ctx.progress accepts at most ${numberText(MAX_PROGRESS_BYTES)} bytes of JSON: report a position, not the data.`)
  return plain
}

/** The thrown error as a row of `errors`. Messages are bounded because history keeps them. */
export function failedAttempt(
  attempt: number,
  error: unknown,
  about: Pick<FailedAttempt, 'retryable' | 'nextDelayMs' | 'worker' | 'model' | 'provider' | 'spent' | 'unexpected'>,
): FailedAttempt {
  const isError = error instanceof Error
  const code = isError ? textOf(() => (error as { code?: unknown }).code, 'string') : ''
  const name = isError ? textOf(() => error.name, 'string') || textOf(() => error.constructor.name, 'string') || 'Error' : typeof error
  const text = isError ? textOf(() => error.message) : typeof error === 'string' ? error : notAnError(error)
  // Models refuse an empty error result, and it would tell people nothing.
  const message = text.trim() === '' ? `${name} was thrown without a message.` : text
  const stack = stackFor(error)
  return {
    attempt,
    class: beginningOf(name, MAX_CODE),
    ...(code !== '' && { code: beginningOf(code, MAX_CODE) }),
    message: beginningOf(message, 4_000),
    ...(isError && textOf(() => (error as { phase?: unknown }).phase, 'string') === 'stream' && { phase: 'stream' }),
    ...(stack !== undefined && { stack }),
    ...about,
  }
}

/** An error that pawl itself made, such as a provider's refusal, needs no stack, because its message says what to do. */
function stackFor(error: unknown): string | undefined {
  const stack = stackOf(error)
  return stack?.hasOwn || !(error instanceof PawlError) ? stack?.text : undefined
}

/** Codes and classes are indexed, and shown in every list of errors. */
const MAX_CODE = 200

function notAnError(value: unknown): string {
  return `A value that is not an Error was thrown: ${textOf(() => value) || '(no text)'}`
}

/** Any value may be thrown, even one that throws when it is read. */
function textOf(look: () => unknown, only?: 'string'): string {
  try {
    const found = look()
    return typeof found === 'string' || only === undefined ? String(found) : ''
  } catch {
    return ''
  }
}
