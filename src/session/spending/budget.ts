// Budgets: what was spent according to the events, and what remains of the limits of a run and its session.
import { defined } from '../defined.ts'
import type { EventBody, EventOf, SessionEvent } from '../events.ts'
import { exactUsd, modelPrice } from './model-price.ts'
import { addSpend, type Budget, type BudgetScope, type BudgetUnit, type Cost, costOfUsage, LIMIT_NAMES, type RunBudget } from './spend.ts'
import type { RunState, SessionState } from '../state.ts'

/** One limit of a budget, and what is left of it. */
export interface BudgetLine {
  /** Whose limit it is. */
  scope: BudgetScope
  /** How it is counted. */
  unit: BudgetUnit
  /** The limit: as declared, or as raised if that is more. */
  limit: number
  /** How much of it was spent. */
  spent: number
  /** How much of that is assumed. */
  assumed: number
  /** What is left, without what agents that were called may still spend; negative if more was spent than the limit. */
  left: number
  /** The limit is what the session that called this one's agent allows it to spend. */
  granted?: true
}

const UNITS = ['tokens', 'usd'] as const
/** The share of a limit at which pawl warns. */
export const WARNED_AT = 0.8

/** The cost that an event records; undefined if it records none. */
export function spentBy(event: SessionEvent): Cost | undefined {
  switch (event.type) {
    case 'model_completed':
      return soundCost(event.spent ?? costOfUsage(event.usage, modelPrice(event.price)))
    case 'compacted':
      return event.usage && soundCost(event.spent ?? costOfUsage(event.usage, modelPrice(event.price)))
    case 'model_attempt_failed':
      return event.error.spent && soundCost(event.error.spent)
    case 'spent':
      return soundCost({ tokens: event.tokens ?? 0, usd: event.usd ?? 0, ...(event.assumed && { assumed: true }) })
    default:
      return undefined
  }
}

/** History may contain any value, and a sum that became NaN would remain NaN. */
function soundCost({ tokens, usd, assumed }: Cost): Cost | undefined {
  const cost = { tokens: soundAmount(tokens), usd: soundAmount(usd) }
  return cost.tokens > 0 || cost.usd > 0 ? { ...cost, ...(assumed && { assumed: true }) } : undefined
}

function soundAmount(given: unknown): number {
  return typeof given === 'number' && given > 0 && given <= MAX_COST ? given : 0
}

/** More tokens, and more dollars, than any call can cost. */
const MAX_COST = 1e12

/** Counts what an event spent, in the session and in its run. */
export function countSpend(state: SessionState, event: SessionEvent): void {
  const cost = spentBy(event)
  if (!cost) return
  state.spend = addSpend(state.spend, cost)
  const run = state.current
  if (run && 'run' in event && event.run === run.run) run.spend = addSpend(run.spend, cost)
}

/** Folds `budget_raised`. */
export function raiseBudget(state: SessionState, { scope, maxUsd, maxTotalTokens }: EventOf<'budget_raised'>): void {
  const of = scope === 'run' ? state.current : state
  if (!of) return
  of.raised = { ...of.raised, ...defined({ maxUsd, maxTotalTokens }) }
}

/** Folds `budget_warning`. */
export function noteWarning(state: SessionState, { scope, unit, limit }: EventOf<'budget_warning'>): void {
  // The side store knows whether it has warned of a budget that sessions share.
  if (scope === 'shared') return
  const of = scope === 'run' ? state.current : state
  if (of) of.warned = { ...of.warned, [unit]: limit }
}

/** The budget's part of a run's state; undefined if the run has spent nothing. */
export function budgetOfRun({ spend, raised, warned }: RunState): RunBudget | undefined {
  if (!spend && !raised) return undefined
  return { ...(spend && { spend }), ...(raised && { raised }), ...(warned && { warned }) }
}

/** The limits of the run in progress and of the session, as their agent declares them. */
export interface DeclaredBudgets {
  run: Budget | undefined
  session: Budget | undefined
}

/** The limits that the session knows. */
function declaredBudgets({ current, facts }: SessionState): DeclaredBudgets {
  return { run: current?.limits ?? facts?.limits, session: facts?.sessionLimits }
}

/** Every limit that applies now. A raised limit counts only if the agent declares that limit, and never lowers it. */
export function budgetLines(state: SessionState, declared: DeclaredBudgets = declaredBudgets(state)): BudgetLine[] {
  const { current, caller } = state
  const ofSession = linesOf('session', declared.session, state, caller?.allowance)
  const ofRun = current ? linesOf('run', declared.run, current).map((line) => withoutBackground(line, state)) : []
  return [...ofRun, ...ofSession.map((line) => withoutGranted(line, state))]
}

/** What children may spend that have not reported yet is not left, even if no call waits for them any more. */
function withoutGranted(line: BudgetLine, { granted = {} }: SessionState): BudgetLine {
  const reserved = Object.values(granted).reduce((sum, budget) => sum + (budget[LIMIT_NAMES[line.unit]] ?? 0), 0)
  return reserved > 0 ? { ...line, left: exactUsd(line.left - reserved) } : line
}

/** What agents may spend that work in the background for the run is not left for it. */
function withoutBackground(line: BudgetLine, { background = {}, current }: SessionState): BudgetLine {
  const own = Object.values(background).filter(({ run }) => run === current?.run)
  const reserved = own.reduce((sum, { budget }) => sum + (budget?.[LIMIT_NAMES[line.unit]] ?? 0), 0)
  return reserved > 0 ? { ...line, left: exactUsd(line.left - reserved) } : line
}

/** `allowance`: the most that a caller allows, if that is less. */
function linesOf(
  scope: BudgetScope,
  declared: Budget | undefined,
  { spend, raised }: Pick<RunState, 'spend' | 'raised'>,
  allowance?: Budget,
): BudgetLine[] {
  return UNITS.flatMap((unit) => {
    const name = LIMIT_NAMES[unit]
    const own = declared?.[name] === undefined ? undefined : Math.max(declared[name], raised?.[name] ?? 0)
    const limit = Math.min(own ?? Number.POSITIVE_INFINITY, allowance?.[name] ?? Number.POSITIVE_INFINITY)
    if (limit === Number.POSITIVE_INFINITY) return []
    const granted = limit !== own && { granted: true as const }
    const spent = spend?.[unit] ?? 0
    return [{ scope, unit, limit, spent, assumed: spend?.assumed?.[unit] ?? 0, left: exactUsd(limit - spent), ...granted }]
  })
}

/** The line after further costs. */
export function lineAfter(line: BudgetLine, costs: readonly Cost[]): BudgetLine {
  return costs.reduce((sum, cost) => {
    const spent = exactUsd(sum.spent + cost[line.unit])
    return { ...sum, spent, assumed: exactUsd(sum.assumed + (cost.assumed ? cost[line.unit] : 0)), left: exactUsd(sum.limit - spent) }
  }, line)
}

/** The warnings that are due: one for each limit of which four fifths are spent. */
export function warningsDue(state: SessionState): (EventBody & { type: 'budget_warning' })[] {
  return budgetLines(state).flatMap(({ scope, unit, limit, spent }) => {
    const warned = (scope === 'run' ? state.current : state)?.warned?.[unit]
    if (spent < limit * WARNED_AT || warned === limit) return []
    return [
      { type: 'budget_warning' as const, scope, unit, limit, spent, ...(scope === 'run' && state.current && { run: state.current.run }) },
    ]
  })
}
