// Findings about what sessions share: budgets, standing approvals and schedules. Pure, like the other judgements.
import { counted } from '../../session/counted.ts'
import { durationText } from '../../session/duration.ts'
import { WARNED_AT } from '../../session/spending/budget.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import type { BudgetFacts, ChangedRule } from '../../store/maintenance/shared-health.ts'
import { BATCH_SHARE } from '../../store/shared-budgets.ts'
import { named } from './judgements.ts'
import { type HealthCheck, ok, warn } from './report.ts'

/** What Temporal says about the schedules of a task queue. */
export interface ScheduleFacts {
  /** Occurrences of the last day that ended without sending their message, the newest first. */
  failed: readonly { schedule: string; at: number }[]
  /** Occurrences that wait for a worker, the longest wait first. */
  waiting: readonly { schedule: string; at: number }[]
}

/** The share of a limit of which too little is left for most calls: workers set aside that much at a time. */
const EXHAUSTED_AT = 1 - BATCH_SHARE
/** A worker sends an occurrence within milliseconds. */
const UNSENT_MS = 60_000

/** Budgets that sessions share: those that are exhausted, and how many sessions wait for one. */
export function judgeBudgets({ budgets, waiting }: BudgetFacts): HealthCheck {
  const details = { budgets: budgets.map((budget) => ({ ...budget })), waiting }
  const exhausted = budgets.filter(({ spentUsd, maxUsd }) => spentUsd >= maxUsd * EXHAUSTED_AT)
  const nearly = budgets.filter((budget) => !exhausted.includes(budget) && budget.spentUsd >= budget.maxUsd * WARNED_AT)
  const textOf = ({ id, spentUsd, maxUsd }: (typeof budgets)[number]): string => `${id} (${spentUsd.toFixed(2)} of ${maxUsd} USD)`
  if (exhausted.length === 0 && waiting === 0) {
    const rest = nearly.length === 0 ? '' : `; nearly spent: ${named(nearly.map(textOf))}`
    return ok('budgets', { measured: budgets.length === 0 ? 'none' : `${budgets.length}, none exhausted${rest}`, details })
  }
  const which = exhausted.length === 0 ? '' : `exhausted: ${named(exhausted.map(textOf))}; `
  return warn('budgets', {
    measured: `${which}${counted(waiting, 'session waits', 'sessions wait')} for a budget`,
    advice: `The sessions continue when the period ends, or once the limit is raised: \`${SUGGESTIONS.listBudgets()}\` lists the budgets.`,
    details,
  })
}

/** Standing approvals that approve nothing any more, because their tool has changed since. */
export function judgeRules(changed: readonly ChangedRule[], holding: number): HealthCheck {
  const details = { holding, changed: changed.map((rule) => ({ ...rule })) }
  if (changed.length === 0) {
    return ok('rules', {
      measured: holding === 0 ? 'no standing approval' : `${counted(holding, 'standing approval')}, none void`,
      details,
    })
  }
  return warn('rules', {
    measured: `void, because their tool has changed: ${named(changed.map(({ rule, tool, agent }) => `${rule} (${tool} of ${agent})`))}`,
    advice: `People are asked again. Revoke the rules, or approve a call anew with one: \`${SUGGESTIONS.listRules()}\` lists them.`,
    details,
  })
}

/** Schedules whose occurrences do not send their messages. `now`: the server's time. */
export function judgeSchedules({ failed, waiting }: ScheduleFacts, now: number): HealthCheck {
  const late = waiting.filter(({ at }) => now - at >= UNSENT_MS)
  const details = { failed: failed.map((one) => ({ ...one })), waiting: late.map((one) => ({ ...one })) }
  const [first] = failed
  const [oldest] = late
  if (!first && !oldest) return ok('schedules', { measured: 'every occurrence of the last day has sent its message', details })
  const parts = [
    ...(first
      ? [
          `${counted(failed.length, 'occurrence')} of the last day failed: ${named(idsIn(failed))}, the newest ${durationText(now - first.at)} ago`,
        ]
      : []),
    ...(oldest
      ? [
          `${counted(late.length, 'occurrence waits', 'occurrences wait')} for a worker for up to ${durationText(now - oldest.at)}: ${named(idsIn(late))}`,
        ]
      : []),
  ]
  const advice = first
    ? `Delete those schedules and create them again: no session accepts what they send. \`${SUGGESTIONS.listSchedules()}\` lists them.`
    : `Start a worker (\`${SUGGESTIONS.startWorker()}\`), or check the task queue's name. The messages are sent then.`
  return warn('schedules', { measured: parts.join('; '), advice, details })
}

const idsIn = (occurrences: readonly { schedule: string }[]): string[] => [...new Set(occurrences.map(({ schedule }) => schedule))]
