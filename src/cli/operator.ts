// Who runs a command: recorded with what it changes.
import { userInfo } from 'node:os'

/** The operating system's user; `unknown` if it has no name. */
export function operator(): string {
  try {
    return userInfo().username || 'unknown'
  } catch {
    return 'unknown'
  }
}
