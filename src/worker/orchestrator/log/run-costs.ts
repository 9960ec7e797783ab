// What the runs of this worker's sessions have cost: the sum over their answers.
import { LRUCache } from 'lru-cache'
import { addUsage, NO_USAGE, type Usage } from '../../../session/content.ts'
import type { LogEntry, SessionEvent } from '../../../session/events.ts'
import { exactUsd } from '../../../session/spending/model-price.ts'
import { costOf } from '../../../session/spending/prices.ts'
import { paidCallIn } from '../../../session/spending/paid-call.ts'

const SESSIONS_KEPT = 10_000

export interface RunCosts {
  note(sessionId: string, event: SessionEvent): void
  /**
   * The cost of the session's newest run, whose answers used `usage`. Undefined if an answer has no known price, or if not all answers
   * passed through here.
   */
  of(sessionId: string, usage: Usage): number | undefined
}

/** Whether the event may change a cost. A replay has the events of all of a session's runs: most of them need not be parsed. */
export function mayCost({ json }: LogEntry): boolean {
  return json.includes('"type":"run_started"') || json.includes('"type":"model_completed"') || json.includes('"type":"compacted"')
}

/** Starts counting. */
export function startRunCosts(): RunCosts {
  const runs = new LRUCache<string, { seq: number; usage: Usage; usd: number | undefined }>({ max: SESSIONS_KEPT })
  return {
    note(sessionId, event) {
      const { type, seq } = event
      if (type === 'run_started') runs.set(sessionId, { seq, usage: NO_USAGE, usd: 0 })
      const cost = runs.get(sessionId)
      // A replay passes the same events again.
      const spent = paidCallIn(event)
      if (!spent || !cost || seq <= cost.seq) return
      const answer = costOf(spent)
      cost.seq = seq
      cost.usage = addUsage(cost.usage, spent.usage)
      cost.usd = answer && cost.usd !== undefined ? exactUsd(cost.usd + answer.usd) : undefined
    },
    of(sessionId, usage) {
      const cost = runs.get(sessionId)
      return cost && sameUsage(cost.usage, usage) ? cost.usd : undefined
    },
  }
}

function sameUsage(a: Usage, b: Usage): boolean {
  return (Object.keys(NO_USAGE) as (keyof Usage)[]).every((kind) => a[kind] === b[kind])
}
