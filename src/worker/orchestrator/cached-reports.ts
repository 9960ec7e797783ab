// Reports to the parent which executions made events, so that the next orchestrator knows them. The first report is immediate. Later ones
// are batched, because a message to the parent costs as much as one to an executor.
import type { CachedExecution } from '../protocol.ts'

type HeardReport = CachedExecution & { seq: number }

/** If an orchestrator crashes within this time, executions that are not reported yet wait once for the timeout of its sticky queue. */
const BETWEEN_MS = 50

/** Calls `report` with batches of executions, each once, the one that made events last at the end. */
export function cachedReporter(report: (executions: HeardReport[]) => void): (execution: HeardReport) => void {
  const waiting = new Map<string, HeardReport>()
  let timer: NodeJS.Timeout | undefined

  function send(): void {
    timer = undefined
    if (waiting.size === 0) return
    report([...waiting.values()])
    waiting.clear()
    timer = setTimeout(send, BETWEEN_MS).unref()
  }

  return (execution) => {
    waiting.delete(execution.executionId)
    waiting.set(execution.executionId, execution)
    if (!timer) send()
  }
}
