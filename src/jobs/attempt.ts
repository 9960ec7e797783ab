// What an attempt reports of itself while its body runs, and how what it throws is recorded.
import type { FailedAttempt } from '../session/events.ts'
import { type Json, jsonBytes } from '../session/json.ts'
import type { AttemptSoFar, JobLink } from './contract.ts'
import { plainJson } from './json.ts'

const MAX_PROGRESS_BYTES = 16_000
const MAX_MILESTONE = 200
/** Postgres has no such names, and people ask for milestones by name. */
const NO_NAME = /\0|\p{Surrogate}/u
const MAX_MILESTONES = 100

/** What a body may report. */
export interface Notes {
  readonly lastProgress: Json | undefined
  /** @throws TypeError for what is not JSON, or too much of it. */
  progress(value: Json): void
  milestone(name: string): void
  /** The last progress of this attempt and the milestones it passed, for its result. */
  said(): { progress?: Json; milestones?: string[] }
}

/** The notes of one attempt. */
export function notesOf({ lastProgress }: AttemptSoFar, link: JobLink): Notes {
  const said: { progress?: Json; milestones?: string[] } = {}
  return {
    lastProgress,
    progress(value) {
      const plain = checkedProgress(value)
      said.progress = plain
      link.progress(plain)
    },
    milestone(name) {
      if (typeof name !== 'string' || name === '' || name.length > MAX_MILESTONE || NO_NAME.test(name)) {
        throw new TypeError(`A milestone's name is text of 1 to ${MAX_MILESTONE} characters, with neither NUL nor half a character.`)
      }
      said.milestones = [...new Set([...(said.milestones ?? []), name])].slice(0, MAX_MILESTONES)
    },
    said: () => said,
  }
}

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
