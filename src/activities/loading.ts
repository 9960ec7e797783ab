// How the activities load that a session cannot open without: they soon say what they wait for, and then wait for as long as it takes.
import { setTimeout as sleep } from 'node:timers/promises'
import { ApplicationFailure } from '@temporalio/activity'
import { PawlError } from '../session/errors.ts'
import { StoreError } from '../store/errors.ts'
import { heartbeating } from './heartbeating.ts'
import type { Loading, NotYet } from './contract.ts'
import { unlessAborted } from '../jobs/unless-aborted.ts'

/** How long the workflow is left without word of what is waited for: a flush that is under way needs no word. */
const SAY_AFTER_MS = 10_000
const BETWEEN_TRIES_MS = 500
/** How often it is tried once the workflow knows. */
const RETRY_MS = 2_000

/** What is needed cannot be had now. */
export class CannotLoad extends PawlError {
  override readonly name = 'CannotLoad'
  override readonly code: NotYet['notYet']['code']

  constructor(code: NotYet['notYet']['code'], message: string, options?: { cause?: unknown }) {
    super(code, message, options)
    this.code = code
  }
}

/** Loads, heartbeating meanwhile. Gives what is waited for if the workflow does not know it yet; else it throws, and Temporal tries again. */
export function loading<R>({ waitsFor }: Loading, load: () => Promise<R>): Promise<R | NotYet> {
  return heartbeating(() => (waitsFor ? loadOnce(waitsFor, load) : loadSoon(load)))
}

async function loadOnce<R>(waitsFor: string, load: () => Promise<R>): Promise<R | NotYet> {
  try {
    return await load()
  } catch (error) {
    const { code, message: reason, cause } = asCannotLoad(error)
    if (code !== waitsFor) return { notYet: { code, reason } }
    // What it means for the session, the workflow knows: whoever looks at the activity wants to know why.
    const message = cause instanceof Error ? cause.message : reason
    throw ApplicationFailure.create({ type: 'NotYet', message, nextRetryDelay: RETRY_MS })
  }
}

async function loadSoon<R>(load: () => Promise<R>): Promise<R | NotYet> {
  const isLate = AbortSignal.timeout(SAY_AFTER_MS)
  let newest: unknown = new Error(`it has taken ${SAY_AFTER_MS} ms and is not over`)
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
      ? 'The session resumes from what the side store has of it, which cannot be read now'
      : 'What the session resumes from could not be read'
  return new CannotLoad('archive_unavailable', `${what}: ${message}`, { cause: error })
}
