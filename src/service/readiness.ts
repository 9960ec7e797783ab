// Readiness: whether a load balancer should send requests here. Asked by everybody, so one look serves all of a moment.
import type { Pawl } from '../client/pawl.ts'
import type { Streams } from './streams.ts'

/** What `/ready` answers. */
interface Readiness {
  isReady: boolean
  status: 'ready' | 'draining' | 'unavailable'
  temporal?: boolean
  store?: boolean | null
}

const GOOD_FOR_MS = 2_000

/** Looks at most every two seconds. Without the side store the service is ready: sessions go on without it. */
export function readinessOf(pawl: Pawl, streams: Streams): () => Promise<Readiness> {
  let looked: { at: number; reach: ReturnType<Pawl['reach']> } | undefined
  return async () => {
    if (streams.draining) return { isReady: false, status: 'draining' }
    if (!looked || performance.now() - looked.at > GOOD_FOR_MS) looked = { at: performance.now(), reach: pawl.reach() }
    const reach = await looked.reach
    return { isReady: reach.temporal, status: reach.temporal ? 'ready' : 'unavailable', ...reach }
  }
}
