// A workflow interceptor with which no workflow task succeeds.
export const interceptors = () => ({
  inbound: [
    {
      async execute() {
        throw new Error('this build is broken')
      },
    },
  ],
})
