// What rows say about calls that an event abandons: their run ended, or continued without them, before they had a result.

/** The error of an abandoned call, and the decision on its request for approval. */
export const ABANDONED = {
  code: 'left_behind',
  message: 'The run was stopped or rolled back while this call was open.',
} as const

/** The error of a call that was waiting for a person when its run ended. */
export const NEVER_RESOLVED = {
  code: 'outcome_unknown',
  message: 'The run was stopped or rolled back before the outcome of this call was resolved.',
} as const

/** The error of a call that was waiting for a person when a recovery repeated it. */
export const REPEATED = {
  code: 'outcome_unknown',
  message: 'A person chose to repeat this call before its outcome was resolved.',
} as const
