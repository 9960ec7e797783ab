// The update `raise`: higher limits for a run or a session. A run or session that had exhausted its budget continues in place.
import { type BudgetLine, budgetLines } from '../../session/spending/budget.ts'
import { type Budget, type BudgetRaise, type BudgetScope, type BudgetUnit, isUsdLimit, LIMIT_NAMES } from '../../session/spending/spend.ts'
import { defined } from '../../session/defined.ts'
import { numberText } from '../../session/number-text.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import type { RaiseAnswer, RaiseRequest } from '../../session/protocol/protocol.ts'
import { problemWith } from '../../session/recovery/recovery.ts'
import { refuse, type Session, stopDetails } from '../session-parts.ts'
import { recover } from './recovery.ts'

/** Why a model call was not made, and the limits that would allow it. */
interface BudgetHoldUp {
  reason: string
  raise: BudgetRaise[] | undefined
}

/** Pauses the session, because whether its budget is exhausted depends on an unknown cost. */
export function pauseForBudget({ journal, alarms, flushing }: Session, { reason, raise: limits }: BudgetHoldUp): void {
  if (journal.state.paused) return
  journal.append({
    type: 'session_paused',
    by: 'pawl',
    reason: `${ASSUMED} ${reason}`,
    code: 'budget_assumed',
    ...defined({ raise: limits }),
  })
  alarms.follow()
  flushing.nudge()
}

const ASSUMED =
  'A model call died with its worker and orchestrator, so its cost is assumed to be the most that it can be; the provider may have charged less.'

export function raise(session: Session, request: RaiseRequest): RaiseAnswer {
  const { journal, alarms, flushing } = session
  const { scope, ...wanted } = checkedRaise(request)
  const { state } = journal
  const run = state.current?.run
  if (scope === 'run' && run === undefined) {
    refuse(
      'no_current_run',
      `The session has no run in progress, and its next run has a new budget. To raise the session's budget, use the scope "session" (\`${SUGGESTIONS.raise({ session: state.sessionId, scope: 'session', ...wanted })}\`).`,
    )
  }
  const raised = higherIn(wanted, scope, budgetLines(state))
  if (Object.keys(raised).length === 0) return { already: true }
  const details = stopDetails(request)
  journal.append({ type: 'budget_raised', scope, ...(scope === 'run' && defined({ run })), ...raised, ...details })
  continueInBudget(session, details)
  session.agents.grantMore()
  alarms.follow()
  flushing.nudge()
  return { already: false }
}

/** Continues a session that its budget had held up, because the limits are higher now. */
export function continueInBudget({ journal }: Session, details: { by?: string; reason?: string }): void {
  if (journal.state.paused?.code === 'budget_assumed') journal.append({ type: 'session_unpaused', ...details })
  const { error, current } = journal.state
  const canContinue = error?.code === 'budget_exhausted' && current && !problemWith(journal.state, current, 'continue_run')
  if (canContinue) recover(journal, { strategy: 'continue_run', ...details })
}

function checkedRaise({ maxUsd, maxTotalTokens, scope = 'run' }: RaiseRequest): Budget & { scope: BudgetScope } {
  const isUsd = maxUsd === undefined || isUsdLimit(maxUsd)
  const isTokens = maxTotalTokens === undefined || (Number.isSafeInteger(maxTotalTokens) && maxTotalTokens > 0)
  const isScope = scope === 'run' || scope === 'session'
  if (isUsd && isTokens && isScope && (maxUsd ?? maxTotalTokens) !== undefined) return { scope, ...defined({ maxUsd, maxTotalTokens }) }
  return refuse(
    'invalid_raise',
    "Pass the new limits: `maxUsd` (above 0, at most 1,000,000), `maxTotalTokens` (an integer from 1) or both, and as `scope` 'run' or 'session'.",
  )
}

/** The requested limits that are higher than the current ones. Refuses lower limits, and limits that the agent does not declare. */
function higherIn(wanted: Budget, scope: BudgetScope, lines: readonly BudgetLine[]): Budget {
  const raised: Budget = {}
  for (const unit of ['usd', 'tokens'] satisfies BudgetUnit[]) {
    const name = LIMIT_NAMES[unit]
    const limit = wanted[name]
    if (limit === undefined) continue
    const line = lines.find((one) => one.scope === scope && one.unit === unit)
    const full = `${scope === 'run' ? 'limits' : 'sessionLimits'}.${name}`
    if (!line) return refuse('no_limit', `The agent declares no ${full}, so there is nothing to raise. Declare it in defineAgent first.`)
    if (line.granted)
      return refuse(
        'granted_limit',
        `The session's limit, ${numberText(line.limit)}, is what its caller allows it to spend. Raise the budget of the session that called it.`,
      )
    if (limit < line.limit)
      return refuse(
        'limit_lower',
        `The new ${full}, ${numberText(limit)}, is below the current one, ${numberText(line.limit)}. Set a higher limit.`,
      )
    if (limit > line.limit) raised[name] = limit
  }
  return raised
}
