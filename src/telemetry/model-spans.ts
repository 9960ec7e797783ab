// The spans of model calls: answers, failed attempts, and summaries.
import { addUsage, type Usage } from '../session/content.ts'
import type { EventOf, SessionEvent } from '../session/events.ts'
import type { CalledModel } from '../session/spending/prices.ts'
import { costAttributes, modelAttributes, outputMessages, usageAttributes } from './attributes.ts'
import type { Attributes, Span } from './span.ts'
import { exceptionOf, span } from './step-span.ts'
import type { OpenRun, ProjectOptions, TrackedSession } from './tracked.ts'

type OfModel = EventOf<'model_completed' | 'model_attempt_failed'>

export function modelSpan(tracked: TrackedSession, event: EventOf<'model_completed'>, { contents }: ProjectOptions): Span {
  const { usage, stopReason, content } = event
  countUsage(tracked.open, usage, event)
  return askedSpan(tracked, event, event, {
    'gen_ai.response.finish_reasons': [stopReason],
    ...usageAttributes(usage),
    ...costAttributes(event),
    ...(contents && { 'gen_ai.output.messages': outputMessages(content, stopReason) }),
  })
}

export function failedModelSpan(tracked: TrackedSession, event: EventOf<'model_attempt_failed'>): Span {
  const { class: type, code, message, nextDelayMs = 0 } = event.error
  const asked = askedSpan(tracked, event, event.error, {})
  const turn = tracked.open?.turn
  if (turn) turn.nextAt = event.at + nextDelayMs
  return { ...asked, error: { type: code ?? type, message }, events: [exceptionOf(event)] }
}

function askedSpan(tracked: TrackedSession, event: OfModel, called: CalledModel & { attempt: number }, attributes: Attributes): Span {
  const { attempt, model } = called
  const turn = tracked.open?.turn
  if (turn) turn.attempts = attempt
  return span(
    tracked,
    event,
    { kind: 'model', turn: event.turn, attempt },
    {
      name: model === undefined ? 'chat' : `chat ${model}`,
      kind: 'client',
      startedAt: turn?.nextAt ?? event.at,
      attributes: { 'gen_ai.operation.name': 'chat', ...modelAttributes(called), 'pawl.attempt': attempt, ...attributes },
    },
  )
}

/** The span of a model call that summarises the conversation. */
export function compactionSpan(tracked: TrackedSession, event: EventOf<'compacted' | 'model_attempt_failed'>): Span {
  const failed = event.type === 'model_attempt_failed' ? event.error : undefined
  const called = failed ?? (event as EventOf<'compacted'>)
  const { model, attempt } = called
  const usage = event.type === 'compacted' ? event.usage : undefined
  if (usage) countUsage(tracked.open, usage, event)
  const turn = tracked.open?.turn
  const made = span(
    tracked,
    event,
    { kind: 'compaction', turn: event.turn, seq: event.seq },
    {
      name: model === undefined ? 'chat' : `chat ${model}`,
      kind: 'client',
      startedAt: turn?.nextAt ?? event.at,
      attributes: {
        'gen_ai.operation.name': 'chat',
        ...modelAttributes(called),
        'pawl.attempt': attempt,
        'pawl.purpose': 'compaction',
        ...(usage && usageAttributes(usage)),
        ...costAttributes(event),
      },
    },
  )
  if (turn) turn.nextAt = event.at + (failed?.nextDelayMs ?? 0)
  if (event.type === 'compacted') return made
  const { code, class: type, message } = event.error
  return { ...made, error: { type: code ?? type, message }, events: [exceptionOf(event)] }
}

function countUsage(open: OpenRun | undefined, usage: Usage, event: SessionEvent): void {
  if (!open) return
  open.usage = addUsage(open.usage, usage)
  const usd = costAttributes(event)['pawl.usd']
  if (typeof usd === 'number') open.usd = (open.usd ?? 0) + usd
}
