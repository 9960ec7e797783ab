// What of a deployment answers, for probes: asked briefly, and never throws.
import type { SessionParts } from './session/session.ts'
import { inTime } from './session/in-time.ts'

const PATIENCE_MS = 2_000
/** Nothing is read of it: an unknown session is the cheapest question. */
const NOBODY = '-'

/** What of a deployment answers. */
export interface Reach {
  /** Whether the Temporal server does: without it, nothing works. */
  temporal: boolean
  /** Whether the side store does: without it, sessions go on and lists do not; null: there is none. */
  store: boolean | null
}

/** Asks both, at most two seconds. */
export async function reachOf({ client, store }: Pick<SessionParts, 'client' | 'store'>): Promise<Reach> {
  const [temporal, stored] = await Promise.all([
    answers(client.withDeadline(Date.now() + PATIENCE_MS, () => client.workflowService.getSystemInfo({}))),
    store ? answers(store.head(NOBODY)) : null,
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
