// The spans of tool calls: one for each attempt.
import type { EventOf } from '../session/events.ts'
import { contentAttribute, present } from './attributes.ts'
import type { Attributes, Span } from './span.ts'
import { exceptionOf, span } from './step-span.ts'
import type { TracedCall, ProjectOptions, TrackedSession } from './tracked.ts'

type OfTool = EventOf<'tool_attempt_failed' | 'tool_completed' | 'tool_failed' | 'tool_unknown'>

/** The span of an attempt; none if the attempt already has one, because its failure was recorded before the call's outcome. */
export function toolSpans(tracked: TrackedSession, event: OfTool, { contents }: ProjectOptions): Span[] {
  const { calls, agentCalls } = tracked
  const { callId, tool } = event
  const call: TracedCall = calls.get(callId) ?? { nextAt: event.at, attempts: 0, tool, input: '' }
  calls.set(callId, call)
  const attempt = newAttempt(call, event)
  if (attempt === undefined) return []
  call.attempts = attempt
  const asked = agentCalls.get(callId)
  const { startedAt = call.nextAt } = event.type === 'tool_completed' ? event : {}
  // A read that was part of the model call ran before its request was recorded.
  const isRide = call.nextAt === event.at
  const made = span(
    tracked,
    event,
    { kind: 'tool', callId, attempt },
    {
      name: `execute_tool ${tool}`,
      kind: 'internal',
      // The executor's clock differs from the workflow's.
      startedAt: asked?.startedAt ?? Math.max(startedAt, isRide ? (tracked.open?.turn?.startedAt ?? event.at) : call.nextAt),
      attributes: {
        ...toolAttributes(callId, tool, attempt),
        ...(asked && { 'pawl.child': asked.session }),
        ...outcomeOf(event),
        ...(contents && contentsOf(call, event)),
      },
    },
  )
  agentCalls.delete(callId)
  if (event.type === 'tool_attempt_failed') call.nextAt = event.at + (event.error.nextDelayMs ?? 0)
  const error = errorOf(event)
  const events = event.type === 'tool_attempt_failed' ? [exceptionOf(event)] : []
  return [error ? { ...made, error, events } : made]
}

function newAttempt({ attempts }: TracedCall, event: OfTool): number | undefined {
  const attempt = event.type === 'tool_attempt_failed' ? event.error.attempt : event.attempt
  if (attempt > attempts) return attempt
  // The events do not count an attempt that was stopped. An attempt with the number 0 was not executed.
  const isAnother = attempt === 0 || (event.type === 'tool_failed' && event.code === 'interrupted')
  return isAnother ? attempts + 1 : undefined
}

export function toolAttributes(callId: string, tool: string, attempt: number): Attributes {
  return {
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': tool,
    'gen_ai.tool.call.id': callId,
    'gen_ai.tool.type': 'function',
    'pawl.attempt': attempt,
  }
}

function outcomeOf(event: OfTool): Attributes {
  if (event.type !== 'tool_completed') return {}
  return present({ 'pawl.effect_id': event.effectId, 'pawl.replay_of': event.replayOf })
}

function contentsOf({ input }: TracedCall, event: OfTool): Attributes {
  const result = event.type === 'tool_completed' ? (event.content ?? event.value) : undefined
  return present({
    'gen_ai.tool.call.arguments': input,
    'gen_ai.tool.call.result': result === undefined ? undefined : contentAttribute(result),
  })
}

function errorOf(event: OfTool): Span['error'] {
  switch (event.type) {
    case 'tool_completed':
      return undefined
    case 'tool_attempt_failed':
      return { type: event.error.code ?? event.error.class, message: event.error.message }
    case 'tool_failed':
      return { type: event.code, message: event.message }
    case 'tool_unknown':
      return { type: 'unknown_outcome', message: event.message }
  }
}
