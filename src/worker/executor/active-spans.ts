// Makes the span of a job active while it runs, so that spans of user code have it as their parent. The span itself is exported elsewhere.
// Loaded only when traces are on.
import type { JobInput, JobKind, JobOrder, Ticket } from '../../calls/jobs.ts'
import { callIdOf } from '../../session/ids.ts'
import { type SpanSubject, spanOf, type Stretch } from '../../telemetry/ids.ts'
import { isSampled } from '../../telemetry/sampling.ts'
import { type SpanSettings, tracePackages } from '../telemetry-settings.ts'

/** The parts of an order that identify a job's span. */
export type SpanOrder = Pick<JobOrder, 'kind' | 'input' | 'attempt'> & { ticket: Pick<Ticket, 'sessionId'> }

/** Runs a job's work with its span active. */
export type ActiveSpans = <T>(order: SpanOrder, work: () => Promise<T>) => Promise<T>

/** Loads only OpenTelemetry's API. Resolves to undefined if the orchestrator exports no spans because its packages are missing. */
export async function activeSpans({ share, protocol, isImplied }: SpanSettings): Promise<ActiveSpans | undefined> {
  if (isImplied && !tracePackages(protocol).every(isInstalled)) return undefined
  const { context, trace } = await import('@opentelemetry/api')
  return (order, work) => {
    const place = subjectOf(order)
    if (!place) return work()
    const { traceId, spanId } = spanOf(place.of, place.about)
    const remote = { traceId, spanId, traceFlags: isSampled(traceId, share) ? 1 : 0, isRemote: true }
    return context.with(trace.setSpanContext(context.active(), remote), work)
  }
}

function isInstalled(name: string): boolean {
  try {
    import.meta.resolve(name)
    return true
  } catch {
    return false
  }
}

/** The stretch and the span that a job belongs to. Jobs outside a run's steps have no span. */
function subjectOf({ kind, input, attempt, ticket: { sessionId } }: SpanOrder): { of: Stretch; about: SpanSubject } | undefined {
  switch (kind) {
    case 'callModel': {
      const { run, stretch, trace, turn } = input as JobInput<'callModel'>
      return { of: { sessionId, run, stretch, trace }, about: { kind: 'model', turn, attempt: attempt.number } }
    }
    case 'executeTool': {
      const { run, stretch, trace, turn, resolution } = input as JobInput<'executeTool'>
      const callId = callIdOf(run, turn, resolution.index, resolution.generation)
      return { of: { sessionId, run, stretch, trace }, about: { kind: 'tool', callId, attempt: attempt.number } }
    }
    case 'compact':
    case 'verifyTool':
    case 'checkAnswer': {
      const { run, stretch, trace, turn } = input as JobInput<Extract<JobKind, 'compact' | 'verifyTool' | 'checkAnswer'>>
      return { of: { sessionId, run, stretch, trace }, about: { kind: 'turn', turn } }
    }
    case 'resolveTool':
    case 'endHooks':
      return undefined
  }
}
