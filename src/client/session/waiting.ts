// The calls of a run that wait for a person or a client, as a backend sees them.
import { isWaiting } from '../../session/past/call-status.ts'
import type { RunState, SessionState } from '../../session/state.ts'
import type { SettledRun, WaitingCall } from '../types.ts'
import { defined } from '../../session/defined.ts'

/** The status of a waiting run, with the calls that it waits for. */
export type WaitingRun = SettledRun & { status: 'waiting' }

const KINDS = { awaiting_approval: 'approval', awaiting_answer: 'client', awaiting_resolution: 'unknown' } as const

/** What the run waits for, if it waits for a person or a client. */
export function waitingRun({ status, current }: SessionState, run: number | undefined): WaitingRun | undefined {
  if (status !== 'waiting' || !current || current.run !== run) return undefined
  return { status, run, pending: pendingOf(current) }
}

function pendingOf({ turn, calls }: RunState): WaitingCall[] {
  return calls.filter(isWaiting).map((call) => {
    const { callId, resolution, input = null } = call
    // A request for approval always has a digest.
    const { digest = '', reason, expiresAt } = call.asked ?? {}
    const kind = KINDS[call.status as keyof typeof KINDS]
    const waiting = { callId, turn, tool: resolution.tool, input, ...defined({ expiresAt }) }
    const question = call.asking?.question
    if (kind === 'client' && question) return { kind: 'question', ...waiting, digest, question }
    return kind === 'approval' ? { kind, ...waiting, digest, ...defined({ reason }) } : { kind, ...waiting }
  })
}
