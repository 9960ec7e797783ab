// Workflow interceptors that make every execution slow to load, as a long history does: its first activation blocks the workflow thread.
const BLOCKED_MS = 150

export const interceptors = () => ({
  inbound: [
    {
      execute(input, next) {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, BLOCKED_MS)
        return next(input)
      },
    },
  ],
})
