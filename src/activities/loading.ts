// Shared by the activities that load what a session needs to open. They soon report what they wait for, and then wait without a time limit.
import { setTimeout as sleep } from 'node:timers/promises'
import { ApplicationFailure } from '@temporalio/activity'
import type { ThrownDetails } from '../session/attempts.ts'
import { PawlError } from '../session/errors.ts'
import { StoreError } from '../store/errors.ts'
import { heartbeating } from './heartbeating.ts'
import type { LoadInput, NotYet } from '../calls/activities.ts'
import { unlessAborted } from '../waiting/unless-aborted.ts'
import { numberText } from '../session/number-text.ts'

/** How long to wait before reporting the cause to the workflow: a short wait, such as for a flush in progress, is not worth a report. */
const REPORT_AFTER_MS = 10_000
const BETWEEN_TRIES_MS = 500
const NOT_YET = 'The session cannot be loaded yet. See the details of this failure.'
/** The interval of retries once the workflow knows the cause. */
const RETRY_MS = 2_000

/** The required data cannot be loaded now. */
export class CannotLoad extends PawlError {
  override readonly name = 'CannotLoad'
  override readonly code: NotYet['notYet']['code']

  constructor(code: NotYet['notYet']['code'], message: string, options?: { cause?: unknown }) {
    super(code, message, options)
    this.code = code
  }
}

/**
 * Loads with heartbeats. Returns the cause of the wait if the workflow does not know it yet; otherwise throws, so that Temporal retries.
 */
export function loading<R>({ waitsFor }: LoadInput, load: () => Promise<R>): Promise<R | NotYet> {
  return heartbeating(() => (waitsFor ? loadOnce(waitsFor, load) : loadSoon(load)))
}

async function loadOnce<R>(waitsFor: string, load: () => Promise<R>): Promise<R | NotYet> {
  try {
    return await load()
  } catch (error) {
    const { code, message: reason, cause } = asCannotLoad(error)
    if (code !== waitsFor) return { notYet: { code, reason } }
    // The workflow knows the consequence. Someone who inspects the activity wants the cause, whose text may quote private content.
    const details = [{ message: cause instanceof Error ? cause.message : reason } satisfies ThrownDetails]
    throw ApplicationFailure.create({ type: code, message: NOT_YET, details, nextRetryDelay: RETRY_MS })
  }
}

async function loadSoon<R>(load: () => Promise<R>): Promise<R | NotYet> {
  const isLate = AbortSignal.timeout(REPORT_AFTER_MS)
  let newest: unknown = new Error(`loading has taken more than ${numberText(REPORT_AFTER_MS)} ms`)
  while (!isLate.aborted) {
    try {
      return await unlessAborted(isLate, load())
    } catch (error) {
      if (error !== isLate.reason) newest = error
      await sleep(BETWEEN_TRIES_MS)
    }
  }
  const { code, message: reason } = asCannotLoad(newest)
  return { notYet: { code, reason } }
}

function asCannotLoad(error: unknown): CannotLoad {
  if (error instanceof CannotLoad) return error
  const message = error instanceof Error ? error.message : String(error)
  const what =
    error instanceof StoreError
      ? 'The session resumes from the side store, which cannot be read now'
      : 'The session’s past could not be read'
  return new CannotLoad('archive_unavailable', `${what}: ${message}`, { cause: error })
}
