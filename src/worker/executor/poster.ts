// Messages from a process to its parent, which may be gone.

/** A function that sends a message; it resolves when the message is sent, or cannot be. */
export function poster<M extends object>(): (message: M) => Promise<void> {
  return (message) =>
    new Promise((resolve) => {
      if (process.connected) process.send?.(message, undefined, undefined, () => resolve())
      else resolve()
    })
}
