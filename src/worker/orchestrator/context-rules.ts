// Reads standing approvals for contexts from the side store, for calls that need an approval.
import type { Logger } from '../../agent/tool.ts'
import type { ContextRules } from '../../calls/reads.ts'
import type { Store } from '../../store/store.ts'
import { inTime } from '../../waiting/in-time.ts'

/** An answer of a model should not wait for longer: without the rules, a person is asked. */
const PATIENCE_MS = 2_000

export function contextRulesIn({ store, logger }: { store: Pick<Store, 'rules'>; logger: Logger }): ContextRules {
  return async (of) => {
    try {
      return (await inTime(store.rules.ofContext(of), PATIENCE_MS)) ?? []
    } catch (err) {
      logger.warn({ agent: of.agent, tool: of.tool, err }, 'standing approvals could not be read; a person is asked')
      return []
    }
  }
}
