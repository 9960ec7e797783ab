// Reports to the parent which executions made events, so that the next orchestrator knows them. An execution that the parent does not know
// is reported at once: if it were unknown when both an executor and the orchestrator die, its call would wait for a missed heartbeat. Later
// reports are batched, because a message to the parent costs as much as one to an executor.
import type { CachedExecution } from '../protocol.ts'

type HeardReport = CachedExecution & { seq: number }

const BETWEEN_MS = 50
/** How many executions are remembered as reported. */
const REMEMBERED = 10_000

/** Calls `report` with batches of executions, each once, the one that made events last at the end. */
export function cachedReporter(report: (executions: HeardReport[]) => void): (execution: HeardReport) => void {
  const waiting = new Map<string, HeardReport>()
  const reported = new Set<string>()
  let timer: NodeJS.Timeout | undefined

  function send(): void {
    timer = undefined
    if (waiting.size === 0) return
    report([...waiting.values()])
    waiting.clear()
    timer = setTimeout(send, BETWEEN_MS).unref()
  }

  return (execution) => {
    if (!reported.has(execution.executionId)) {
      if (reported.size >= REMEMBERED) reported.clear()
      reported.add(execution.executionId)
      return report([execution])
    }
    waiting.delete(execution.executionId)
    waiting.set(execution.executionId, execution)
    if (!timer) send()
  }
}
