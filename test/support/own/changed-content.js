// Workflow interceptors that make other events of the same signals: each message ends with a blank.
export const interceptors = () => ({
  inbound: [
    {
      handleSignal: (input, next) =>
        next({ ...input, args: input.args.map((message) => ({ ...message, content: `${message.content} ` })) }),
    },
  ],
})
