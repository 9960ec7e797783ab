// Prevents queries from changing a session. The SDK's core answers a direct query from the history that the server has at that moment. If a
// workflow task was scheduled or started in the meantime, core applies its events as well and keeps the execution in its cache. If the real
// task then has more events or another time, the events that this execution writes cannot be replayed.
import type { coresdk } from '@temporalio/proto'
import type { WorkflowService } from '@temporalio/client'
import type { Workflow, WorkflowCreator } from '@temporalio/worker/lib/workflow/interface.js'
import { type HistoryEvent, newestFirst } from '../../../connect/histories.ts'
import { NOT_COMMITTED } from '../../../connect/session-queries.ts'

type Activation = coresdk.workflow_activation.IWorkflowActivation

/** An execution, and the event up to which core has applied its history. */
export interface AppliedHistory {
  workflowId: string
  executionId: string
  eventId: number
}

/** How core names a query that came without a workflow task. */
const DIRECT_QUERY = 'legacy_query'

/**
 * Makes workflows refuse a direct query if the newest events that they have seen do not belong to a completed workflow task. The refusal
 * makes core drop the execution from its cache.
 */
export function withCommittedQueries(
  isCommitted: (applied: AppliedHistory) => Promise<boolean>,
  creator: WorkflowCreator,
): WorkflowCreator {
  return {
    async createWorkflow(options) {
      const { workflowId, runId: executionId } = options.info
      const workflow = await creator.createWorkflow(options)
      /** The last event of the newest task that was not a replay, until the server says that the task was completed. */
      let inDoubt: number | undefined
      return {
        async activate(activation) {
          if (!isDirectQuery(activation)) {
            if (!activation.isReplaying && !isQuery(activation)) inDoubt = activation.historyLength ?? undefined
            return workflow.activate(activation)
          }
          if (inDoubt !== undefined && !(await isCommitted({ workflowId, executionId, eventId: inDoubt }))) return refusal(executionId)
          inDoubt = undefined
          return workflow.activate(activation)
        },
        getAndResetSinkCalls: () => workflow.getAndResetSinkCalls(),
        dispose: () => workflow.dispose(),
      } satisfies Workflow
    },
    destroy: () => creator.destroy(),
  }
}

const isQuery = ({ jobs }: Activation): boolean => (jobs ?? []).length > 0 && (jobs ?? []).every((job) => job.queryWorkflow)

const isDirectQuery = ({ jobs }: Activation): boolean => (jobs ?? []).some((job) => job.queryWorkflow?.queryId === DIRECT_QUERY)

function refusal(runId: string): coresdk.workflow_completion.IWorkflowActivationCompletion {
  return { runId, failed: { failure: { message: NOT_COMMITTED, source: 'pawl', applicationFailureInfo: { type: 'NotCommitted' } } } }
}

/** The possible last events of an execution that has ended. Nothing that a worker makes of such an execution is recorded any more. */
const ENDS = [
  'workflowExecutionCompletedEventAttributes',
  'workflowExecutionFailedEventAttributes',
  'workflowExecutionTimedOutEventAttributes',
  'workflowExecutionCanceledEventAttributes',
  'workflowExecutionTerminatedEventAttributes',
  'workflowExecutionContinuedAsNewEventAttributes',
] as const

/** Whether the task that this event started was completed on the server, or the execution has ended. */
export async function isCommittedAt(
  service: WorkflowService,
  namespace: string,
  { eventId, ...applied }: AppliedHistory,
): Promise<boolean> {
  let next: HistoryEvent | undefined
  for await (const event of newestFirst(service, { namespace, ...applied })) {
    if (!next && ENDS.some((member) => event[member])) return true
    if (Number(event.eventId) <= eventId) return Number(next?.workflowTaskCompletedEventAttributes?.startedEventId ?? 0) === eventId
    next = event
  }
  return false
}
