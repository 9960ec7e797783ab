// A session's state: from its workflow, else from the store; or why neither has it.
import { queryStateAndFacts } from '../../connect/session-queries.ts'
import { fold } from '../../session/fold/fold.ts'
import type { SessionError, SessionState } from '../../session/state.ts'
import type { QueriedFacts } from '../../session/protocol/protocol.ts'
import { defined } from '../../session/defined.ts'
import { ifErased } from './erased.ts'
import { whyUnavailable } from './hold-ups.ts'
import { pagesOf } from './past.ts'
import type { SessionSource } from './events.ts'
import type { Store } from '../../store/store.ts'

const QUERY_TIMEOUT_MS = 5_000

/** What the workflow answered. */
export type WorkflowAnswer =
  | { state: SessionState; facts: QueriedFacts; failed?: undefined; error?: undefined }
  | { state?: undefined; facts?: undefined; failed?: unknown; error?: SessionError }

/**
 * The state, from the workflow or the store. Temporal answers for an erased session from its history until that is deleted.
 * @throws SessionNotFoundError, SessionUnavailableError.
 */
export async function readState(source: Omit<SessionSource, 'closed' | 'seen'>): Promise<SessionState> {
  return (await readStateAndFacts(source)).state
}

/** The same with what only the workflow knows. */
export async function readStateAndFacts(
  source: Omit<SessionSource, 'closed' | 'seen'>,
): Promise<{ state: SessionState; facts: QueriedFacts }> {
  const [answer, erased] = await Promise.all([askState(source), ifErased(source)])
  if (erased) throw erased
  if (answer.state) return { state: answer.state, facts: answer.facts }
  // The session may have closed long ago, may still be loading, or may have no worker to query. The store may have its state.
  try {
    const stored = source.store && (await storedState(source.store, source.sessionId))
    if (stored) return { state: answer.error ? { ...stored, status: 'error', error: answer.error } : stored, facts: {} }
  } catch (storeError) {
    throw await whyUnavailable(source, { ...answer, storeError })
  }
  throw await whyUnavailable(source, answer)
}

/** Asks the workflow. */
export async function askState({ client, sessionId }: Pick<SessionSource, 'client' | 'sessionId'>): Promise<WorkflowAnswer> {
  try {
    const answer = await queryStateAndFacts(client, sessionId, QUERY_TIMEOUT_MS)
    if ('v' in answer) {
      const { callWaits, stopping, ...state } = answer
      return { state, facts: defined({ callWaits, stopping }) }
    }
    return answer.error ? { error: answer.error } : {}
  } catch (failed) {
    return { failed }
  }
}

/** The state as the store knows it: from the newest checkpoint and the events since or, if that cannot be read, from all events. */
export async function storedState(store: Store, sessionId: string): Promise<SessionState | undefined> {
  const kept = await store.state(sessionId)
  if (kept) return kept
  let state: SessionState | undefined
  for await (const page of pagesOf((after) => store.events(sessionId, { after }))) state = fold(state, page)
  return state
}
