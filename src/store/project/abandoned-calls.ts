// What rows say about calls that an event abandons: their run ended, or continued without them, before they had a result.

/** The error of an abandoned call, and the decision on its request for approval. */
export const ABANDONED = {
  code: 'abandoned',
  message: 'The run was stopped or rolled back while this call was open.',
} as const

/** The error of a call that was waiting for a person when its run ended, and that can no longer be resolved. */
export const NEVER_RESOLVED = {
  code: 'outcome_unknown',
  message: 'The run was stopped or rolled back before the outcome of this call was resolved.',
} as const

/** The same, while a person can still resolve it. */
export const STILL_UNRESOLVED = { ...NEVER_RESOLVED, asked: true } as const

/** The error of a call that was waiting for a person when its session went back, and its effects were undone. */
export const UNDONE = {
  code: 'outcome_unknown',
  message: 'The session was rolled back, and this effect was declared undone.',
} as const

/** The error of a call that was waiting for a person when a recovery repeated it. */
export const REPEATED = {
  code: 'outcome_unknown',
  message: 'A person chose to repeat this call before its outcome was resolved.',
} as const
