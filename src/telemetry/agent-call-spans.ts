// The spans of calls that other sessions answer. The spans of the answers lie under them, so each of these calls has a span, however it ends.
import type { EventOf, SessionEvent } from '../session/events.ts'
import { hasEnded } from '../session/past/call-status.ts'
import type { SessionState } from '../session/state.ts'
import { sessionAttributes } from './attributes.ts'
import { spanOf } from './ids.ts'
import type { Span } from './span.ts'
import { toolAttributes } from './tool-spans.ts'
import { stretchOf, type TrackedSession } from './tracked.ts'

/** Notes that another session is asked, if it is. */
export function noteAgentCall(tracked: TrackedSession, { child, run, turn, callId, tool, at }: EventOf<'answer_requested'>): void {
  // The span of a call that is requested again stays where it began.
  if (!child || tracked.agentCalls.has(callId)) return
  const { calls, agentCalls } = tracked
  const startedAt = calls.get(callId)?.nextAt ?? at
  agentCalls.set(callId, { session: child.session, tool, of: stretchOf(tracked, run, child.stretch), turn, startedAt })
}

/** The spans of the agent calls that the event, which has been applied to the state, ends without an outcome. */
export function abandonedAgentCalls({ state, agentCalls }: TrackedSession, event: SessionEvent): Span[] {
  const abandoned = [...agentCalls].filter(([callId, { of }]) => {
    const isOutcome = 'callId' in event && event.callId === callId
    return !isOutcome && (event.type === 'session_started' || state.current?.run !== of.run || !isOpen(state, callId))
  })
  return abandoned.map(([callId, { session, tool, of, turn, startedAt }]) => {
    agentCalls.delete(callId)
    return {
      ...spanOf(of, { kind: 'tool', callId, attempt: 1 }),
      parentSpanId: spanOf(of, { kind: 'turn', turn }).spanId,
      name: `execute_tool ${tool}`,
      kind: 'internal',
      startedAt: Math.min(startedAt, event.at),
      endedAt: event.at,
      attributes: { ...sessionAttributes(state), 'pawl.seq': event.seq, ...toolAttributes(callId, tool, 1), 'pawl.child': session },
      error: { type: 'interrupted', message: 'The call was abandoned before it was answered.' },
      links: [],
      events: [],
    }
  })
}

function isOpen({ current }: SessionState, callId: string): boolean {
  const call = current?.calls.find((one) => one.callId === callId) ?? current?.leftOut?.find((one) => one.callId === callId)
  return call !== undefined && !hasEnded(call)
}
