// The budgets of a session: what is spent of each limit, what is set aside for the model call in progress, and what is left.
import { decoded } from '../../connect/decoded.ts'
import { readReport } from '../../session/attempts.ts'
import { budgetLines } from '../../session/spending/budget.ts'
import type { BudgetScope, BudgetUnit } from '../../session/spending/spend.ts'
import { exactUsd } from '../../session/spending/model-price.ts'
import { workflowIdOf } from '../../session/protocol/protocol.ts'
import { maxCost } from '../../session/spending/reservation.ts'
import type { SessionState } from '../../session/state.ts'
import type { Store } from '../../store/store.ts'
import { pastOf, stateAt, storedStateAt } from './at-checkpoint.ts'
import type { SessionSource } from './events.ts'
import { readState } from './state.ts'

/** One limit of a session or of its run. */
export interface SessionBudget {
  /** Whose limit it is: of the run in progress or the one that failed, or of the session. */
  scope: BudgetScope
  /** Tokens, or US dollars. */
  unit: BudgetUnit
  /** The limit: as declared, or as raised. */
  limit: number
  /** How much of it was spent. */
  spent: number
  /** How much of that is assumed: the most that lost attempts can have cost. */
  assumed: number
  /** What is set aside for the model call in progress; null if Temporal cannot be asked. */
  reserved: number | null
  /** What remains after the spent and reserved amounts; negative if they exceed the limit. */
  left: number
}

type ReservedAmounts = Record<BudgetUnit, number>

/**
 * The budgets as they are now, or as they were at a checkpoint. @throws RequestRefusedError, SessionNotFoundError, SessionUnavailableError.
 */
export async function readBudgets(source: SessionSource, at: number | undefined): Promise<SessionBudget[]> {
  if (at !== undefined) return budgetsOf(await stateAt(pastOf(source), at), NOTHING_RESERVED)
  const [state, reserved] = await Promise.all([readState(source), readReserved(source)])
  return budgetsOf(state, reserved)
}

/** No model call is in progress at a point between turns. */
const NOTHING_RESERVED: ReservedAmounts = { tokens: 0, usd: 0 }

/** The budgets as the store knows them, now or at a checkpoint. @throws SessionNotFoundError, RequestRefusedError. */
export async function storedBudgets(store: Store, sessionId: string, at?: number): Promise<SessionBudget[]> {
  return budgetsOf(await storedStateAt(store, sessionId, at), at === undefined ? null : NOTHING_RESERVED)
}

function budgetsOf(state: SessionState, reserved: ReservedAmounts | null): SessionBudget[] {
  return budgetLines(state).map(({ scope, unit, limit, spent, assumed, left }) => ({
    scope,
    unit,
    limit,
    spent,
    assumed,
    reserved: reserved && reserved[unit],
    left: exactUsd(left - (reserved?.[unit] ?? 0)),
  }))
}

const MODEL_ACTIVITIES: ReadonlySet<string> = new Set(['callModel', 'compact'])

/** What is reserved, from the heartbeats of the model call in progress; null if the server does not answer. */
async function readReserved({ client, sessionId }: SessionSource): Promise<ReservedAmounts | null> {
  const none = { tokens: 0, usd: 0 }
  try {
    const { raw } = await client.workflow.getHandle(workflowIdOf(sessionId)).describe()
    for (const { activityType, heartbeatDetails } of raw.pendingActivities ?? []) {
      const [details] = heartbeatDetails?.payloads ?? []
      if (!MODEL_ACTIVITIES.has(activityType?.name ?? '') || !details) continue
      const { reserved } = readReport(await decoded(client.options.loadedDataConverter, details)).report ?? {}
      if (reserved) return maxCost(reserved)
    }
    return none
  } catch {
    return null
  }
}
