// What calls wait for that no event says: a worker that has their tool, or the moment at which their outcome is verified. Only for queries.
import type { CallWait } from '../../session/watching/waits.ts'

/** A query's answer has a limited size, and a turn may have hundreds of calls. */
const SHOWN = 20

/** The waits of a session's calls. */
export interface CallWaits {
  /** The call waits for this from now on. */
  begin(callId: string, wait: Pick<CallWait, 'for' | 'reason'> & { forMs?: number }): void
  /** The call no longer waits. */
  end(callId: string): void
  /** The first of them. */
  all(): CallWait[]
}

/** The waits of one session. */
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
