// The person who runs a command: recorded with each change.
import { userInfo } from 'node:os'
import { Option } from 'commander'

/** `--by <who>`, the same for every command that changes something. */
export function byOption(): Option {
  return new Option('--by <who>', 'who requests it; recorded').default(operator(), "the operating system's user")
}

/** The operating system's user; `unknown` if it has no name. */
export function operator(): string {
  try {
    return userInfo().username || 'unknown'
  } catch {
    return 'unknown'
  }
}
