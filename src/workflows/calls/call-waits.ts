// Waits of calls that no event records: for a worker that has the tool, or for the time to verify the outcome. Only queries use them.
import type { CallWait } from '../../session/watching/waits.ts'

/** The size of a query's answer is limited, and a turn may have hundreds of calls. */
const SHOWN = 20

export interface CallWaits {
  begin(callId: string, wait: Pick<CallWait, 'for' | 'reason'> & { forMs?: number }): void
  end(callId: string): void
  /** The oldest waits, up to the limit. */
  all(): CallWait[]
}

export function startCallWaits(): CallWaits {
  const waits = new Map<string, CallWait>()
  return {
    begin(callId, { forMs, ...wait }) {
      const known = waits.get(callId)
      const since = known?.for === wait.for && forMs === undefined ? known.since : Date.now()
      waits.set(callId, { callId, since, ...wait, ...(forMs !== undefined && { until: Date.now() + forMs }) })
    },
    end: (callId) => void waits.delete(callId),
    all: () => [...waits.values()].slice(0, SHOWN),
  }
}
