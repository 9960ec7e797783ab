// The calls of a run that wait for a person or a client, as a backend sees them.
import { isWaiting } from '../../session/past/calls.ts'
import type { CallState, RunState, SessionState } from '../../session/state.ts'
import type { RunSettled, WaitingCall } from '../types.ts'
import { defined } from '../../session/defined.ts'

/** That a run waits, and for what. */
export type RunWaiting = RunSettled & { status: 'waiting' }

const KINDS = { awaiting_approval: 'approval', awaiting_answer: 'client', awaiting_resolution: 'unknown' } as const

/** What the run waits for, if it waits for a person or a client. */
export function waitingRun({ status, current }: SessionState, run: number | undefined): RunWaiting | undefined {
  if (status !== 'waiting' || !current || current.run !== run) return undefined
  return { status, run, pending: pendingOf(current) }
}

function pendingOf({ turn, calls }: RunState): WaitingCall[] {
  return calls.filter(isWaiting).map((call) => {
    const { callId, resolution, input = null } = call
    const { digest, reason, expiresAt } = call.asked ?? {}
    return {
      kind: kindOf(call),
      callId,
      turn,
      tool: resolution.tool,
      input,
      ...defined({ digest, reason, expiresAt }),
    }
  })
}

function kindOf({ status }: CallState): WaitingCall['kind'] {
  return KINDS[status as keyof typeof KINDS]
}
