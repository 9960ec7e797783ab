// Workflow interceptors with which every task fails in which a session has been loaded.
let isLoaded = false

export const interceptors = () => ({
  outbound: [
    {
      async scheduleActivity(input, next) {
        const result = await next(input)
        isLoaded ||= input.activityType === 'loadSession'
        return result
      },
    },
  ],
  internals: [
    {
      concludeActivation(input, next) {
        if (isLoaded) throw new Error('this build cannot use what it loads')
        return next(input)
      },
    },
  ],
})
