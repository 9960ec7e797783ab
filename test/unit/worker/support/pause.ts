// A pause of this process, as under SIGSTOP: time passes, and no timer fires meanwhile. For tests with fake timers.
import { vi } from 'vitest'

/** Lets `ms` pass at once. */
export function pause(ms: number): void {
  const { now } = performance
  vi.setSystemTime(Date.now() + ms)
  performance.now = () => now.call(performance) + ms
}
