// The calls of a run that wait for a person or a client, as a backend sees them.
import type { RunState, SessionState } from '../../session/state.ts'
import type { SettledRun, WaitingCall } from '../types.ts'
import { defined } from '../../session/defined.ts'

/** The status of a waiting run, with the calls that it waits for. */
export type WaitingRun = SettledRun & { status: 'waiting' }

const KINDS = { awaiting_approval: 'approval', awaiting_answer: 'client', awaiting_resolution: 'unknown' } as const

/** What the run waits for, if it waits for a person or a client. */
export function waitingRun({ status, current }: SessionState, run: number | undefined): WaitingRun | undefined {
  if (status !== 'waiting' || !current || current.run !== run) return undefined
  const pending = pendingOf(current)
  // A run whose model sleeps continues by itself.
  return pending.length > 0 ? { status, run, pending } : undefined
}

function pendingOf({ turn, calls }: RunState): WaitingCall[] {
  // Nobody here has to act on a call that another session answers, or that sleeps.
  const waiting = calls.filter((call) => Object.hasOwn(KINDS, call.status) && !call.asked?.child)
  return waiting.map((call) => {
    const { callId, resolution, input = null } = call
    // A request for approval always has a digest.
    const { digest = '', reason, approvers, expiresAt } = call.asked ?? {}
    const kind = KINDS[call.status as keyof typeof KINDS]
    const about = { callId, turn, tool: resolution.tool, input, ...defined({ expiresAt }) }
    const question = call.asking?.question
    if (kind === 'client' && question) return { kind: 'question', ...about, digest, question }
    return kind === 'approval' ? { kind, ...about, digest, ...defined({ reason, approvers }) } : { kind, ...about }
  })
}
