// Measures the time from crash to resumption: from the death of the executor that held a call to the moment the call runs again.
import type { HeldCall, SupervisorEvent } from '../options.ts'

export interface RecoveryClock {
  died(held: readonly HeldCall[], at: number): void
  /** An executor runs the call again, or verifies it. */
  runsAgain(call: HeldCall, pid: number): void
}

/** Calls that do not run again within this time are forgotten: their run was stopped, or they had already ended. */
const FORGET_AFTER_MS = 600_000

/** `tell` receives each call that runs again. */
export function startRecoveryClock(tell: (event: SupervisorEvent) => void): RecoveryClock {
  const waiting = new Map<string, number>()
  const keyOf = ({ sessionId, call }: HeldCall): string => `${sessionId}\n${call}`

  return {
    died(held, at) {
      for (const call of held) waiting.set(keyOf(call), at)
    },
    runsAgain(call, pid) {
      const key = keyOf(call)
      const at = waiting.get(key)
      if (at === undefined) return
      waiting.delete(key)
      const ms = Date.now() - at
      if (ms < FORGET_AFTER_MS) tell({ event: 'call_resumed', pid, sessionId: call.sessionId, call: call.call, ms })
    },
  }
}
