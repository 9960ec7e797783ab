// Whether the agents that a module's agents call can answer.
import type { Client } from '@temporalio/client'
import type { AgentCallWarning } from '../preflight-report.ts'
import type { DeclaredAgentCall } from '../protocol.ts'

/** The calls that would not be answered if workers of the module alone served the task queue. */
export async function agentCallWarnings(
  client: Client,
  taskQueue: string,
  declared: readonly DeclaredAgentCall[],
): Promise<AgentCallWarning[]> {
  const queues = [...new Set(declared.map((call) => call.taskQueue ?? taskQueue))].filter((queue) => queue !== taskQueue)
  const polled = new Set((await Promise.all(queues.map(async (queue) => ((await isPolled(client, queue)) ? [queue] : [])))).flat())
  return declared.flatMap((call) => warningsOf(call, taskQueue, polled))
}

function warningsOf({ cycle, isServed, ...call }: DeclaredAgentCall, own: string, polled: ReadonlySet<string>): AgentCallWarning[] {
  const { child, taskQueue: queue = own } = call
  const warnings: AgentCallWarning[] = []
  if (queue === own && !isServed) {
    const message = `The module does not have the agent "${child}", and the tool names no other task queue: its calls wait for a worker that has it.`
    warnings.push({ ...call, code: 'agent_not_served', message })
  }
  if (queue !== own && !polled.has(queue)) {
    warnings.push({ ...call, code: 'no_workers', message: `No worker polls the task queue "${queue}": calls of the tool wait for one.` })
  }
  if (cycle) {
    const message = `The agents call one another in a circle: ${cycle.join(' → ')}. A call that is more than five levels deep is an error result.`
    warnings.push({ ...call, code: 'agent_cycle', message })
  }
  return warnings
}

const WORKFLOW_TASKS = 1

/** The server lists the processes that have polled in the last minutes. */
async function isPolled(client: Client, name: string): Promise<boolean> {
  const { namespace } = client.options
  const { pollers } = await client.connection.workflowService.describeTaskQueue({
    namespace,
    taskQueue: { name },
    taskQueueType: WORKFLOW_TASKS,
  })
  return (pollers ?? []).length > 0
}
