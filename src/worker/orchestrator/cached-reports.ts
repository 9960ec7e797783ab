// Tells the parent which executions made events, for the orchestrator that may come after this one: at once, and then in batches, because
// each message to the parent costs as much as one to an executor.
import type { CachedExecution } from '../protocol.ts'

type Heard = CachedExecution & { seq: number }

/** An execution that is new within such a time before a crash waits, once, for the dead one's sticky queue. */
const BETWEEN_MS = 50

/** Batches what `tell` tells, by execution; the one that made events last comes last. */
export function cachedTeller(tell: (executions: Heard[]) => void): (execution: Heard) => void {
  const waiting = new Map<string, Heard>()
  let timer: NodeJS.Timeout | undefined

  function send(): void {
    timer = undefined
    if (waiting.size === 0) return
    tell([...waiting.values()])
    waiting.clear()
    timer = setTimeout(send, BETWEEN_MS).unref()
  }

  return (execution) => {
    waiting.delete(execution.executionId)
    waiting.set(execution.executionId, execution)
    if (!timer) send()
  }
}
