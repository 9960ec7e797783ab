// Readiness: whether a load balancer should send requests here. Any client may ask, so one check serves all requests of two seconds.
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

/** Checks at most every two seconds. The service is ready without the side store, because sessions continue without it. */
export function readinessOf(pawl: Pawl, streams: Streams): () => Promise<Readiness> {
  let looked: { at: number; reach: ReturnType<Pawl['reach']> } | undefined
  return async () => {
    if (streams.draining) return { isReady: false, status: 'draining' }
    if (!looked || performance.now() - looked.at > GOOD_FOR_MS) looked = { at: performance.now(), reach: pawl.reach() }
    const reach = await looked.reach
    return { isReady: reach.temporal, status: reach.temporal ? 'ready' : 'unavailable', ...reach }
  }
}
