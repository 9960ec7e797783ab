// The clock for whether a process is alive and how long something has lasted: the time of day may be set while they run.

/** Milliseconds since an arbitrary moment, which never go back. Not comparable with another process's. */
export const steadyNow = (): number => performance.now()
