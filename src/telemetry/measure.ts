// Derives measurements of runs, turns, tokens, costs and errors from events. Pure. An event is measured once: when Postgres accepts it.
import type { Usage } from '../session/content.ts'
import type { FailedAttempt } from '../session/call-facts.ts'
import type { SessionEvent } from '../session/events.ts'
import { leavesByItself } from '../session/recovery/recovery.ts'
import { paidCallIn } from '../session/spending/paid-call.ts'
import { type CalledModel, costOf } from '../session/spending/prices.ts'
import { tokensIn } from '../session/spending/spend.ts'
import { providerName } from './attributes.ts'
import type { Labels, Measurement } from './instruments.ts'

/** The measurements of one event of an agent's session. */
export function measurementsOf(event: SessionEvent, agent: string): Measurement[] {
  const ofAgent = { 'gen_ai.agent.name': agent }
  switch (event.type) {
    case 'run_started':
      return [one('pawl.runs.started', ofAgent)]
    case 'run_completed':
      return [one('pawl.runs', { ...ofAgent, 'pawl.outcome': 'completed' })]
    case 'run_interrupted':
      return [one('pawl.runs', { ...ofAgent, 'pawl.outcome': 'interrupted' })]
    case 'turn_started':
      return [one('pawl.turns', ofAgent)]
    case 'error_entered':
      return [one('pawl.errors', { ...ofAgent, 'error.type': event.code, 'pawl.needs': leavesByItself(event) ? 'nothing' : 'person' })]
    case 'recovery_refused':
      return [recovery(ofAgent, { strategy: event.strategy ?? '_OTHER', automatic: false, outcome: 'refused' })]
    case 'model_attempt_failed':
      return [one('pawl.attempts.failed', { ...ofAgent, 'gen_ai.operation.name': 'chat', ...failureLabels(event.error) })]
    case 'tool_attempt_failed':
      return [
        one('pawl.attempts.failed', {
          ...ofAgent,
          'gen_ai.operation.name': 'execute_tool',
          'gen_ai.tool.name': event.tool,
          ...failureLabels(event.error),
        }),
      ]
    case 'model_completed':
    case 'compacted':
      return paidMeasurements(event, ofAgent)
    default:
      return []
  }
}

/** What ended, as the store reports it: an error, the run of a recovery, or an incident. */
export type MeasuredEnding =
  | { what: 'error'; code: string; by: string; ms: number }
  | { what: 'recovery'; strategy: string; automatic: boolean; outcome: string }
  | { what: 'incident'; code: string; outcome: string }

/** The measurement of something that ended in an agent's session. */
export function measurementOfEnding(ending: MeasuredEnding, agent: string): Measurement {
  const ofAgent = { 'gen_ai.agent.name': agent }
  switch (ending.what) {
    case 'error': {
      const labels = { ...ofAgent, 'error.type': ending.code, 'pawl.ended_by': ending.by }
      return { name: 'pawl.error.duration', value: ending.ms / 1_000, labels }
    }
    case 'recovery':
      return recovery(ofAgent, ending)
    case 'incident':
      return one('pawl.incidents', { ...ofAgent, 'error.type': ending.code, 'pawl.outcome': ending.outcome })
  }
}

function recovery(
  ofAgent: Labels,
  { strategy, automatic, outcome }: { strategy: string; automatic: boolean; outcome: string },
): Measurement {
  return one('pawl.recoveries', { ...ofAgent, 'pawl.strategy': strategy, 'pawl.automatic': automatic, 'pawl.outcome': outcome })
}

/** The labels that the convention defines for a model call. */
export function modelLabels(called: CalledModel & { model: string }): Labels {
  return {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': providerName(called),
    'gen_ai.request.model': called.model,
  }
}

function paidMeasurements(event: SessionEvent, ofAgent: Labels): Measurement[] {
  const paid = paidCallIn(event)
  if (!paid) return []
  const labels = { ...ofAgent, ...modelLabels(paid) }
  const usd = costOf(paid)?.usd
  return [...tokenMeasurements(paid.usage, labels), ...(usd === undefined ? [] : [{ name: 'pawl.usd', value: usd, labels } as const])]
}

/** By the convention, input tokens include cached ones. */
function tokenMeasurements(usage: Usage, labels: Labels): Measurement[] {
  const name = 'gen_ai.client.token.usage'
  const output = usage.output_tokens
  return [
    { name, value: tokensIn(usage) - output, labels: { ...labels, 'gen_ai.token.type': 'input' } },
    { name, value: output, labels: { ...labels, 'gen_ai.token.type': 'output' } },
  ]
}

function failureLabels({ code, class: type, retryable }: FailedAttempt): Labels {
  return { 'error.type': code ?? type, 'pawl.retryable': retryable }
}

const one = (
  name: 'pawl.runs.started' | 'pawl.runs' | 'pawl.turns' | 'pawl.errors' | 'pawl.attempts.failed' | 'pawl.recoveries' | 'pawl.incidents',
  labels: Labels,
): Measurement => ({
  name,
  value: 1,
  labels,
})
