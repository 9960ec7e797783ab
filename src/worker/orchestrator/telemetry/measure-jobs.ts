// Measures jobs: how long requests to models and tool bodies take, deaths of executors, and how soon a call runs again.
import { LRUCache } from 'lru-cache'
import type { AskModelInput, CallModelResult, ExecuteToolInput, ExecuteToolResult } from '../../../calls/activities.ts'
import { type JobOrder, nameOfSubject, type TimedRequest } from '../../../calls/jobs.ts'
import type { Labels } from '../../../telemetry/instruments.ts'
import { modelLabels } from '../../../telemetry/measure.ts'
import type { Assignment, AssignmentEnd, Executor } from '../executors/executor-state.ts'
import type { Recorder } from './meters.ts'
import { steadyNow } from '../../steady-clock.ts'

/** Notified of what happens to jobs. */
export interface MeasuredJobs {
  accepted(order: JobOrder): void
  asked(order: JobOrder, timed: TimedRequest): void
  ended(assignment: Assignment, how: AssignmentEnd): void
  died(executor: Executor, held: readonly Assignment[]): void
}

/** How many calls are remembered whose executor died and which no other executor runs yet. */
const CALLS_KEPT = 1_000
const MS = 1_000

export function measureJobs(record: Recorder): MeasuredJobs {
  const diedAt = new LRUCache<string, number>({ max: CALLS_KEPT })

  function accepted(order: JobOrder): void {
    const at = diedAt.get(keyOf(order))
    if (at === undefined) return
    diedAt.delete(keyOf(order))
    record('pawl.resume.duration', (steadyNow() - at) / MS, { 'gen_ai.operation.name': operationOf(order) })
  }

  function asked({ input }: JobOrder, { ms, firstMs, error, ...asked }: TimedRequest): void {
    const labels = { 'gen_ai.agent.name': (input as AskModelInput).agent, ...modelLabels(asked) }
    record('gen_ai.client.operation.duration', ms / MS, { ...labels, ...errorLabels(error) })
    if (firstMs !== undefined) record('gen_ai.client.operation.time_to_first_chunk', firstMs / MS, labels)
  }

  function ended({ order, entered }: Assignment, how: AssignmentEnd): void {
    if (order.kind === 'callModel') return ridesEnded(order, how)
    if (order.kind !== 'executeTool' || !entered || how.end === 'moved') return
    const { agent, resolution } = order.input as ExecuteToolInput
    bodyEnded(agent, resolution.tool, steadyNow() - entered.at, errorIn(how))
  }

  function ridesEnded({ input }: JobOrder, how: AssignmentEnd): void {
    if (how.end !== 'done' || how.outcome.kind !== 'answered') return
    const answer = how.outcome.result as CallModelResult
    if (answer.kind !== 'completed') return
    const { calls, rides = [] } = answer
    for (const { index, ms, result } of rides) bodyEnded((input as AskModelInput).agent, calls[index]?.tool ?? '', ms, errorOf(result))
  }

  function bodyEnded(agent: string, tool: string, ms: number, error: string | undefined): void {
    const labels = { 'gen_ai.agent.name': agent, 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': tool }
    record('gen_ai.execute_tool.duration', ms / MS, { ...labels, ...errorLabels(error) })
  }

  function died({ draining, killed }: Executor, held: readonly Assignment[]): void {
    // The executor was asked to end, and had no jobs.
    if (draining?.why === 'retired' && held.length === 0) return
    record('pawl.executor.deaths', 1, { 'pawl.cause': killed?.cause ?? 'crash' })
    for (const { order, isAccepted } of held) if (isAccepted) diedAt.set(keyOf(order), steadyNow())
  }

  return { accepted, asked, ended, died }
}

const keyOf = ({ ticket }: JobOrder): string => `${ticket.executionId} ${nameOfSubject(ticket.subject)}`

function operationOf({ kind }: JobOrder): string {
  return kind === 'executeTool' || kind === 'verifyTool' ? 'execute_tool' : 'chat'
}

const errorLabels = (type: string | undefined): Labels => (type === undefined ? {} : { 'error.type': type })

function errorIn(how: AssignmentEnd): string | undefined {
  if (how.end === 'died') return 'WorkerDied'
  if (how.end !== 'done') return undefined
  if (how.outcome.kind !== 'answered') return how.outcome.type
  return errorOf(how.outcome.result as ExecuteToolResult)
}

function errorOf(result: ExecuteToolResult): string | undefined {
  switch (result.kind) {
    case 'completed':
    case 'asks':
      return undefined
    case 'failed':
      return result.code
    case 'again': {
      const failed = result.failed?.at(-1)
      return failed?.code ?? failed?.class ?? 'again'
    }
    case 'unknown':
      return 'unknown_outcome'
    case 'interrupted':
    case 'limited':
    case 'not_begun':
      return result.kind
  }
}
