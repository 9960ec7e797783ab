// Workflow interceptors that make other events from the same signals: they append a blank to each message.
export const interceptors = () => ({
  inbound: [
    {
      handleSignal: (input, next) =>
        next({ ...input, args: input.args.map((message) => ({ ...message, content: `${message.content} ` })) }),
    },
  ],
})
