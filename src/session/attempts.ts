// What a lost attempt of a call says about the call: how many may be lost before it is given up.
import type { FailedAttempt } from './events.ts'

/** Attempts of one call that may die with their worker before the call is given up. */
export const MAX_DEATHS = 5

/**
 * Attempts of one call that may be handed to nobody. A process that is paused or gone stands in the server's queue for about a minute,
 * with ten polls, and each poll may be handed an attempt.
 */
export const MAX_UNHEARD = 50

/** The code of an attempt that nobody was ever heard of; from a call's second attempt on, none begins unheard. */
const UNHEARD = 'not_begun'

/** The attempt as a row of errors, of which the last that was heard is `heard`, if anything was. */
export function lostAttempt(attempt: number, heard: { attempt: number; worker: string } | undefined): FailedAttempt {
  const said = { attempt, class: 'HeartbeatTimeout', retryable: true } as const
  const wasHeard = heard?.attempt === attempt
  if (!wasHeard && attempt > 1) {
    return { ...said, code: UNHEARD, message: 'No worker was heard of: it stood or was gone before the attempt began.' }
  }
  return { ...said, message: 'The worker was not heard of again.', ...(wasHeard && { worker: heard.worker }) }
}

/** Whether the attempt took its worker with it, or threw, or never began. */
export function fateOf(attempt: FailedAttempt): 'death' | 'failure' | 'unheard' {
  if (attempt.class !== 'WorkerDied' && attempt.class !== 'HeartbeatTimeout') return 'failure'
  return attempt.code === UNHEARD ? 'unheard' : 'death'
}
