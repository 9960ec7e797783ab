// Waits of calls that no event records: for a worker that has the tool, for the time to verify the outcome, or at the gate of a model's
// account. Only queries use them.
import { defined } from '../../session/defined.ts'
import type { CallWait } from '../../session/watching/waits.ts'

/** The size of a query's answer is limited, and a turn may have hundreds of calls. */
const SHOWN = 20

export interface CallWaits {
  begin(callId: string, wait: Pick<CallWait, 'for' | 'reason'> & { forMs?: number }): void
  end(callId: string): void
  /** The model call waits at the gate. Its slot may move. */
  ofModel(gate: { account?: string; afterMs: number; slotMs?: number }): void
  endOfModel(): void
  /** The oldest waits, up to the limit. */
  all(): CallWait[]
}

export function startCallWaits(): CallWaits {
  const waits = new Map<string, CallWait>()
  let atGate: CallWait | undefined
  return {
    begin(callId, { forMs, ...wait }) {
      const known = waits.get(callId)
      const since = known?.for === wait.for && forMs === undefined ? known.since : Date.now()
      waits.set(callId, { callId, since, ...wait, ...(forMs !== undefined && { until: Date.now() + forMs }) })
    },
    end: (callId) => void waits.delete(callId),
    ofModel({ account, afterMs, slotMs = afterMs }) {
      const since = atGate?.since ?? Date.now()
      atGate = { for: 'gate', reason: REFUSED, since, until: Date.now() + slotMs, ...defined({ account }) }
    },
    endOfModel() {
      atGate = undefined
    },
    all: () => [...(atGate ? [atGate] : []), ...waits.values()].slice(0, SHOWN),
  }
}

const REFUSED = 'its provider has refused calls of the account and asked to wait'
