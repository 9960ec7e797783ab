// The clock for deciding whether a process is alive and how long something has lasted. The time of day may be changed in the meantime.

/** Milliseconds since an arbitrary moment, which never go back. Not comparable between processes. */
export const steadyNow = (): number => performance.now()
