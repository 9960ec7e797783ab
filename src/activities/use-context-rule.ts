// The activity `useContextRule`: counts a use of a standing approval for a context, if it still holds.
import type { UseContextRuleInput, UseContextRuleResult } from '../calls/activities.ts'
import type { Logger } from '../agent/tool.ts'
import type { Store } from '../store/store.ts'
import { inTime } from '../waiting/in-time.ts'
import { currentSession } from './current-session.ts'
import { heartbeating } from './heartbeating.ts'

/** How long a call waits for the store. Then a person is asked: nothing is approved without evidence. */
const PATIENCE_MS = 8_000

export function useContextRuleActivity({ store, logger }: { store: Store; logger: Logger }) {
  return async function useContextRule({ rule, callId }: UseContextRuleInput): Promise<UseContextRuleResult> {
    const { sessionId } = currentSession()
    try {
      const used = await heartbeating(() => inTime(store.rules.use({ rule, sessionId, callId }), PATIENCE_MS))
      return used ?? 'unavailable'
    } catch (err) {
      logger.warn({ session: sessionId, call: callId, rule, err }, 'a standing approval could not be confirmed; a person is asked')
      return 'unavailable'
    }
  }
}
