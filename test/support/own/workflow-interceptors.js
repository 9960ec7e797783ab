// A user's own workflow interceptors: they mark every activity that is scheduled.
export const interceptors = () => ({
  outbound: [
    {
      scheduleActivity: (input, next) =>
        next({ ...input, headers: { ...input.headers, seen: { metadata: {}, data: new Uint8Array([7]) } } }),
    },
  ],
})
