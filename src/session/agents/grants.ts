// What the sessions that answer a session's agent calls may spend. What is granted to them is reserved: nothing else may spend it.
import { budgetLines } from '../spending/budget.ts'
import { exactUsd } from '../spending/model-price.ts'
import { type Budget, type BudgetUnit, LIMIT_NAMES } from '../spending/spend.ts'
import type { CallState, SessionState } from '../state.ts'
import { callsAtWork, childIdOf, openAgentCalls, type OpenAgentCall, unfinishedAgentCalls } from './agent-calls.ts'

const UNITS = ['usd', 'tokens'] as const satisfies BudgetUnit[]

/** The budget of an agent call that is about to be made; undefined if nothing limits it. */
export function grantFor(state: SessionState, { callId, resolution }: CallState): Budget | undefined {
  const open = openAgentCalls(state)
  // Several calls with one key have one answer, and its cost is granted once.
  if (open.some(({ key }) => key === resolution.key)) return undefined
  // The child is still at work for an earlier call with this key.
  const held = state.granted?.[childIdOf(state.sessionId, resolution.key ?? '')]
  if (held) return held
  const budget: Budget = {}
  for (const unit of UNITS) {
    const name = LIMIT_NAMES[unit]
    const own = resolution.client?.agent?.budget?.[name]
    const left = unreserved(state, unit, open)
    if (left === undefined && own === undefined) continue
    const waiting = unfinishedAgentCalls(state.current?.calls ?? []).filter(
      (call) =>
        call.callId === callId || (call.status !== 'awaiting_answer' && call.resolution.client?.agent?.budget?.[name] === undefined),
    )
    const most = left ?? Number.POSITIVE_INFINITY
    budget[name] = own === undefined ? roundedDown(most / waiting.length, unit) : Math.min(own, most)
  }
  return budget.maxUsd === undefined && budget.maxTotalTokens === undefined ? undefined : budget
}

/** The budgets of the open calls after the session's limits were raised: each gets an equal share of what is left. */
export function raisedGrants(state: SessionState): { open: OpenAgentCall; budget: Budget }[] {
  const granted = callsAtWork(state).filter(({ child }) => child.budget !== undefined)
  return granted.flatMap((open) => {
    const budget: Budget = { ...open.child.budget }
    for (const unit of UNITS) {
      const name = LIMIT_NAMES[unit]
      const had = budget[name]
      const left = unreserved(state, unit, granted)
      if (had !== undefined && left !== undefined) budget[name] = exactUsd(had + roundedDown(left / granted.length, unit))
    }
    return UNITS.some((unit) => (budget[LIMIT_NAMES[unit]] ?? 0) > (open.child.budget?.[LIMIT_NAMES[unit]] ?? 0)) ? [{ open, budget }] : []
  })
}

/** What no limit has spent or granted, at least 0; undefined if there is no limit. */
function unreserved(state: SessionState, unit: BudgetUnit, open: readonly OpenAgentCall[]): number | undefined {
  const lines = budgetLines(state).filter((line) => line.unit === unit)
  if (lines.length === 0) return undefined
  const waiting = open.filter(({ call }) => call !== undefined)
  const granted = waiting.reduce((sum, { child }) => sum + (child.budget?.[LIMIT_NAMES[unit]] ?? 0), 0)
  // The session's lines know all that is granted; the run's does not know what the calls that it waits for were granted.
  const left = lines.map((line) => (line.scope === 'run' ? line.left - granted : line.left))
  return Math.max(0, exactUsd(Math.min(...left)))
}

/** A sum of shares must not exceed the whole. */
function roundedDown(amount: number, unit: BudgetUnit): number {
  return unit === 'tokens' ? Math.floor(amount) : Math.floor(amount * 1e9) / 1e9
}
