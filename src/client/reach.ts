// Which parts of a deployment answer, for probes: asks briefly and never throws.
import type { SessionParts } from './session/session.ts'
import { inTime } from '../waiting/in-time.ts'

const PATIENCE_MS = 2_000
/** An id that no session has: looking up an unknown session is the cheapest query. */
const NO_SESSION = '-'

/** Which parts of a deployment answer. */
interface Reach {
  /** Whether the Temporal server answers: without it, nothing works. */
  temporal: boolean
  /** Whether the side store answers: without it, sessions continue but lists fail; null if none is configured. */
  store: boolean | null
}

/** Asks both, and waits at most two seconds. */
export async function reachOf({ client, store }: Pick<SessionParts, 'client' | 'store'>): Promise<Reach> {
  const [temporal, stored] = await Promise.all([
    answers(client.withDeadline(Date.now() + PATIENCE_MS, () => client.workflowService.getSystemInfo({}))),
    store ? answers(store.head(NO_SESSION)) : null,
  ])
  return { temporal, store: stored }
}

async function answers(asked: Promise<unknown>): Promise<boolean> {
  const answered = asked.then(
    () => true,
    () => false,
  )
  return (await inTime(answered, PATIENCE_MS)) ?? false
}
