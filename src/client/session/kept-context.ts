// A session keeps the context that it was started with. A message that comes with another one is not refused: a backend may state more
// about its users after a deploy than before, and the old sessions must stay usable. Its developer gets a warning.
import { isDeepStrictEqual } from 'node:util'
import type { Logger } from '../../agent/tool.ts'
import { shortHash } from '../../session/digest.ts'
import type { Json } from '../../session/json.ts'
import type { Store } from '../../store/store.ts'
import { warn } from '../warning.ts'

/** How many pairs of a session and a context are remembered as checked. */
const REMEMBERED = 10_000
const checked = new WeakMap<Store, Set<string>>()

/**
 * Warns once for each session and context if the recorded one differs. Never rejects; does not warn while the store does not have the
 * session.
 */
export async function warnOfOtherContext(store: Store, sessionId: string, context: Json, logger: Logger | undefined): Promise<void> {
  const ids = idsOf(store)
  const given = JSON.stringify(context)
  // A context may have 100,000 bytes, and a client may send any number of them.
  const seen = `${sessionId} ${shortHash(given)}`
  if (ids.has(seen)) return
  try {
    const [first] = await store.events(sessionId, { after: 0, limit: 1 })
    if (first?.type !== 'session_started') return
    if (ids.size >= REMEMBERED) ids.clear()
    ids.add(seen)
    if (isDeepStrictEqual(first.context, JSON.parse(given))) return
    const text =
      'the session keeps the context that it was started with; the different context of a later message is not used. To use another context, start another session'
    warn(logger, 'CONTEXT_NOT_USED', { session: sessionId }, text)
  } catch {
    // The message has been sent; an unavailable store is reported elsewhere.
  }
}

function idsOf(store: Store): Set<string> {
  const known = checked.get(store) ?? new Set<string>()
  checked.set(store, known)
  return known
}
