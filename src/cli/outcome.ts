// The exit code and final state of commands that let a session continue.
import { setTimeout as sleep } from 'node:timers/promises'
import type { SessionHandle } from '../client/types.ts'
import { leavesByItself } from '../session/recovery/recovery.ts'
import type { SessionView } from '../session/watching/view.ts'

/** Whether the session is in an error that it does not leave automatically. Sets exit code 1, because nothing continues. */
export function failIfStopped({ status, error }: SessionView): boolean {
  const isStopped = status === 'error' && error !== null && !leavesByItself(error)
  if (isStopped) process.exitCode = 1
  return isStopped
}

/** A run that failed before usually fails again at once. A run that takes longer than this has made progress. */
const SETTLES_WITHIN_MS = 2_000
const LOOK_EVERY_MS = 200

/** The state of a session whose run was just allowed to continue: once it has ended or failed again, but after at most two seconds. */
export async function stateSoon(session: SessionHandle): Promise<SessionView> {
  const giveUpAt = Date.now() + SETTLES_WITHIN_MS
  for (;;) {
    const state = await session.state()
    if (state.status !== 'running' || state.paused || Date.now() > giveUpAt) return state
    await sleep(LOOK_EVERY_MS)
  }
}
