// Measures crash to resume: from the death of the process that held a call to the moment the call runs again.
import type { HoldOptions } from '../activities/needs.ts'
import type { SupervisorEvent } from './options.ts'

/** The clock of one supervisor. */
export interface RecoveryClock {
  died(held: readonly HoldOptions[], at: number): void
  /** A process holds the call again, or verifies it. */
  runsAgain(hold: HoldOptions, pid: number): void
  /** Whether one of these calls is not running again yet. */
  isWaitingFor(held: readonly HoldOptions[]): boolean
}

/** What is not running again after this is not waited for: its run was stopped, or it had ended. */
const FORGET_AFTER_MS = 600_000

/** Starts a clock that tells of each call that runs again. */
export function startRecoveryClock(tell: (event: SupervisorEvent) => void): RecoveryClock {
  const waiting = new Map<string, number>()
  const keyOf = ({ sessionId, call }: HoldOptions): string => `${sessionId}\n${call.replace(/^verify:/, '')}`

  return {
    died(held, at) {
      for (const hold of held) waiting.set(keyOf(hold), at)
    },
    isWaitingFor: (held) => held.some((hold) => waiting.has(keyOf(hold))),
    runsAgain(hold, pid) {
      const key = keyOf(hold)
      const at = waiting.get(key)
      if (at === undefined) return
      waiting.delete(key)
      const ms = Date.now() - at
      if (ms < FORGET_AFTER_MS) tell({ event: 'call_resumed', pid, sessionId: hold.sessionId, call: hold.call, ms })
    },
  }
}
