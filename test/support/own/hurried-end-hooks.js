// Workflow interceptors that give hooks at the end of a run seconds instead of minutes.
const WITHIN_MS = 1_500
const ASK_AGAIN_MS = 20

export const interceptors = () => ({
  outbound: [
    {
      scheduleActivity: (input, next) =>
        next(input.activityType === 'endHooks' ? { ...input, options: { ...input.options, scheduleToCloseTimeout: WITHIN_MS } } : input),
      startTimer: (input, next) => next(input.durationMs === 10_000 ? { ...input, durationMs: ASK_AGAIN_MS } : input),
    },
  ],
})
