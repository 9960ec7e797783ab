// Standing approvals of a deployment: lists and revokes the rules that people gave with `remember`.
import { checkOptions, flag, integer, options, text } from '../../options/check.ts'
import { UPDATES } from '../../session/protocol/protocol.ts'
import { defined } from '../../session/defined.ts'
import type { ApprovalRule, ApprovalRuleFilter } from '../../store/approval-rules.ts'
import { RequestRefusedError } from '../errors.ts'
import { storeOr } from '../no-store.ts'
import type { SessionParts } from '../session/session.ts'
import { ask } from '../session/updates.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'

/** Standing approvals. Every method rejects with `StoreError` (`no_store`, `store_unavailable`, …). */
export interface Approvals {
  /**
   * The rules that hold, newest first: of a session, an agent, a tool, or of sessions whose ids begin with `idPrefix`. `all`: also those that
   * were revoked or have ended. `limit`: at most so many, 1 to 1,000; default 1,000. @throws InvalidOptionError `invalid_option`.
   */
  rules(options?: Partial<ApprovalRuleFilter>): Promise<ApprovalRule[]>
  /**
   * Revokes a rule: it approves no further calls, and those that have not begun ask a person. One that was revoked before stays as it is.
   * `idPrefix`: only if it was given in a session whose id begins with that.
   * @throws RequestRefusedError `rule_not_found`; InvalidOptionError `invalid_option`; for a rule of a session, what its requests throw.
   */
  revoke(id: string, options?: { by?: string; reason?: string; idPrefix?: string }): Promise<ApprovalRule>
}

const LIST = options({
  session: text().optional(),
  agent: text().optional(),
  tool: text().optional(),
  idPrefix: text().optional(),
  all: flag().optional(),
  limit: integer(1, 1_000).optional(),
})
const RULE = options({ id: text('the id of a rule') })
const REVOKING = options({ by: text().optional(), reason: text().optional(), idPrefix: text().optional() })

export function approvalsOf({ store, client, taskQueue, tell, indexed }: Omit<SessionParts, 'closed'>): Approvals {
  const rules = () => storeOr(store).rules

  /** The session itself revokes its own rules. One that it no longer has is revoked already, or soon will be in the store. */
  async function revokeInSession({ id, sessionId }: ApprovalRule, said: { by?: string; reason?: string }): Promise<void> {
    const target = { client, sessionId, taskQueue, settings: undefined, tell, shown: {}, indexed }
    await ask(target, UPDATES.revokeRule, { rule: id, ...said }).catch((error: unknown) => {
      if (!(error instanceof RequestRefusedError && error.code === 'rule_not_found')) throw error
    })
  }

  return {
    rules: async (given = {}) => {
      const { limit = 1_000, ...filter } = checkOptions(LIST, given)
      return rules().list({ ...defined(filter), limit })
    },
    async revoke(given, options = {}) {
      const { id } = checkOptions(RULE, { id: given })
      const { idPrefix = '', by, reason } = checkOptions(REVOKING, options)
      const said = defined({ by, reason })
      const rule = await rules().find(id)
      if (!rule?.sessionId.startsWith(idPrefix))
        throw new RequestRefusedError(
          'rule_not_found',
          `There is no standing approval ${JSON.stringify(id)}. List them with \`${SUGGESTIONS.listRules()}\`.`,
        )
      if (rule.revokedAt) return rule
      if (rule.for === 'context') return (await rules().revoke(id, said.by)) ?? rule
      await revokeInSession(rule, said)
      return { ...rule, revokedAt: new Date(), revokedBy: said.by ?? null }
    },
  }
}
