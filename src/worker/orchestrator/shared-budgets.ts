// Spends budgets that sessions share: sets batches aside in the side store, and gives calls their parts of them, so that a call costs no
// statement.
import { randomUUID } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Logger } from '../../agent/tool.ts'
import type { PrepaidShare, ShareAnswer, ShareRequest } from '../../calls/reads.ts'
import { exactUsd } from '../../session/spending/model-price.ts'
import type { SharedWarning } from '../../session/spending/spend.ts'
import type { BudgetTerms, BatchAnswer } from '../../store/shared-budgets.ts'
import type { Store } from '../../store/store.ts'
import { inTime } from '../../waiting/in-time.ts'
import { takeTurns } from '../../waiting/in-turn.ts'
import { steadyNow } from '../steady-clock.ts'
import type { Executor } from './executors/executor-state.ts'

/** How long a batch is set aside, and how long this worker spends from it. */
const KEPT_MS = 60_000
const SPENT_FOR_MS = 30_000
/** What was spent in this time may not be stored yet. */
const UNSTORED_MS = 10_000
const PATIENCE_MS = 2_000
const LOOK_EVERY_MS = 30_000
/** A session's next call may cost more than its last one, because its transcript has grown. */
const PREPAID_SHARE = 1.25
const SESSIONS_REMEMBERED = 10_000
/** Sessions that wait for a budget ask often, and together. */
const REFUSED_FOR_MS = 5_000
/** Calls follow one another while a batch is asked for. Once the store has not answered, the next ones do not wait for it, too. */
const AWAY_FOR_MS = 5_000
/** How long a worker waits for the budgets before it serves. */
const LEARNED_WITHIN_MS = 2_000

type RefusedShare = Extract<ShareAnswer, { refused: string }>

/** What this worker has of one budget. */
interface Batch {
  leftUsd: number
  until: number
  /** What calls in progress may cost. */
  openUsd: number
  /** The store is asked for another one, which counts what was open then: until it answers, nothing is taken. */
  isRenewed: boolean
  recent: { usd: number; at: number }[]
  /** The newest refusal: a call that needs as much is refused, too. */
  refused?: { usd: number; answer: RefusedShare; until: number } | undefined
  /** Until when the store, which has not answered, is not asked. */
  awayUntil?: number | undefined
}

export interface SharedBudgetKeeper {
  /** Whether the budgets that apply to a job's model call can pay for it. */
  take(by: Taker, request: ShareRequest): Promise<ShareAnswer>
  /**
   * Takes at once what the job's model call probably needs, by the session's last call: an executor that has it need not ask. Undefined if
   * that is not known, or not set aside.
   */
  prepay(by: Taker): PrepaidShare | undefined
  /** What the call has cost. */
  settle(token: string, usd: number): void
  /** The job has ended. `usd`: what a call has cost that it did not settle. */
  ended(job: string, usd: number): void
  /** Tells a new executor for which sessions there are budgets. */
  greet(executor: Executor): void
  /** Resolves once the budgets are known, or cannot be read in time. */
  learned(): Promise<unknown>
  end(): void
}

/** Whose model call it is. */
interface Taker {
  job: string
  sessionId: string
}

interface Taken {
  job: string
  ids: string[]
  usd: number
}

interface KeeperNeeds {
  store: Pick<Store, 'budgets' | 'watchBudgets'>
  executors(): Iterable<Executor>
  logger: Logger
}

export function keepSharedBudgets({ store, executors, logger }: KeeperNeeds): SharedBudgetKeeper {
  const holder = randomUUID()
  const batches = new Map<string, Batch>()
  const taken = new Map<string, Taken>()
  const tokensOf = new Map<string, Set<string>>()
  const lastOf = new LRUCache<string, ShareRequest>({ max: SESSIONS_REMEMBERED })
  /** What the next call that asks for a share of the budget takes along, for its session to record. */
  const warnings = new Map<string, SharedWarning>()
  const inTurn = takeTurns()
  let known: BudgetTerms[] = []
  let tokens = 0

  const messageOf = () => ({ type: 'shared_budgets' as const, of: known.map(({ tag, agent }) => ({ tag, agent })) })

  async function learn(): Promise<void> {
    try {
      known = await store.budgets.terms()
      for (const batch of batches.values()) batch.refused = batch.awayUntil = undefined
      for (const { channel } of executors()) channel.send(messageOf())
    } catch (err) {
      logger.debug({ err }, 'the shared budgets could not be read')
    }
  }

  function batchOf(id: string): Batch {
    const batch = batches.get(id) ?? { leftUsd: 0, until: 0, openUsd: 0, isRenewed: false, recent: [] }
    batches.set(id, batch)
    return batch
  }

  function heldIn(batch: Batch): number {
    batch.recent = batch.recent.filter(({ at }) => steadyNow() - at < UNSTORED_MS)
    return exactUsd(batch.recent.reduce((sum, { usd }) => sum + usd, batch.openUsd))
  }

  const appliesTo = ({ agent, tags }: ShareRequest): BudgetTerms[] =>
    known.filter((one) => one.agent === agent || (one.tag !== null && tags.includes(one.tag)))

  const hasRoom = (batch: Batch, usd: number): boolean => !batch.isRenewed && batch.leftUsd >= usd && steadyNow() < batch.until

  /** Takes from one budget; returns why it cannot, if it cannot. */
  async function takeOf(budget: BudgetTerms, usd: number): Promise<RefusedShare | undefined> {
    const batch = batchOf(budget.id)
    if (takeIfRoom(batch, usd)) return undefined
    return inTurn(budget.id, async () => (takeIfRoom(batch, usd) ? undefined : (refusalIn(batch, usd) ?? renew(budget, batch, usd))))
  }

  /** Looks and takes in one step: other calls look at the same moment. */
  function takeIfRoom(batch: Batch, usd: number): boolean {
    if (!hasRoom(batch, usd)) return false
    takeFrom(batch, usd)
    return true
  }

  function takeFrom(batch: Batch, usd: number): void {
    batch.leftUsd = exactUsd(batch.leftUsd - usd)
    batch.openUsd = exactUsd(batch.openUsd + usd)
  }

  function tokenFor(one: Taken): string {
    const token = `${holder} ${(tokens += 1)}`
    taken.set(token, one)
    const ofJob = tokensOf.get(one.job)
    if (ofJob) ofJob.add(token)
    else tokensOf.set(one.job, new Set([token]))
    return token
  }

  function settle(token: string, usd: number): void {
    const of = taken.get(token)
    if (!of) return
    taken.delete(token)
    const ofJob = tokensOf.get(of.job)
    ofJob?.delete(token)
    if (ofJob?.size === 0) tokensOf.delete(of.job)
    giveBack(of.ids, of.usd, usd)
  }

  function refusalIn({ refused }: Batch, usd: number): RefusedShare | undefined {
    return refused && usd >= refused.usd && steadyNow() < refused.until ? refused.answer : undefined
  }

  /** Sets another batch aside and takes from it; returns why it cannot, if it cannot. */
  async function renew(budget: BudgetTerms, batch: Batch, needUsd: number): Promise<RefusedShare | undefined> {
    batch.isRenewed = true
    const refusal = await replaced(budget, batch, needUsd)
    batch.isRenewed = false
    if (refusal === undefined) takeFrom(batch, needUsd)
    return refusal
  }

  async function replaced(budget: BudgetTerms, batch: Batch, needUsd: number): Promise<RefusedShare | undefined> {
    const { id } = budget
    if (steadyNow() < (batch.awayUntil ?? 0)) return whileAway(budget)
    let answer: BatchAnswer | null | undefined
    try {
      answer = await inTime(store.budgets.take({ id, holder, heldUsd: heldIn(batch), needUsd, forMs: KEPT_MS }), PATIENCE_MS)
      if (answer === undefined) {
        batch.awayUntil = steadyNow() + AWAY_FOR_MS
        throw new Error('the side store did not answer')
      }
    } catch (err) {
      logger.warn({ budget: id, err }, 'a shared budget could not be read')
      return whileAway(budget)
    }
    // It was removed.
    if (answer === null) return undefined
    const { grantedUsd, maxUsd, spentUsd, until, warns } = answer
    if (warns) {
      logger.warn({ budget: id, maxUsd, spentUsd }, 'four fifths of a shared budget are spent')
      warnings.set(id, { budget: id, limit: maxUsd, spent: spentUsd })
    }
    if (grantedUsd < needUsd) {
      const refused = `${nameOf(budget)} is exhausted: ${spentUsd.toFixed(4)} of ${maxUsd} USD are spent, and the next model call may cost ${needUsd.toFixed(4)}. The session continues by itself at ${until.toISOString()}, or once the limit is raised.`
      batch.refused = { usd: needUsd, answer: { refused }, until: steadyNow() + REFUSED_FOR_MS }
      return { refused }
    }
    batch.leftUsd = grantedUsd
    batch.until = steadyNow() + SPENT_FOR_MS
    return undefined
  }

  function giveBack(ids: readonly string[], usd: number, spentUsd: number): void {
    for (const id of ids) {
      const batch = batchOf(id)
      batch.openUsd = exactUsd(batch.openUsd - usd)
      batch.leftUsd = exactUsd(batch.leftUsd + usd - spentUsd)
      if (spentUsd > 0) batch.recent.push({ usd: spentUsd, at: steadyNow() })
    }
  }

  /** What calls in progress may cost stays set aside, however long they take. */
  async function renewOpen(): Promise<void> {
    for (const budget of known) {
      const batch = batches.get(budget.id)
      if (batch && batch.openUsd > 0) await inTurn(budget.id, () => renew(budget, batch, 0))
    }
  }

  const timer = setInterval(() => void learn().then(renewOpen), LOOK_EVERY_MS).unref()
  const endWatch = store.watchBudgets(() => void learn())
  const first = learn()

  return {
    async take({ job, sessionId }, request) {
      lastOf.set(sessionId, request)
      const { usd } = request
      const ids: string[] = []
      const warned: SharedWarning[] = []
      const said = (): Pick<ShareAnswer, 'warnings'> => (warned.length > 0 ? { warnings: warned } : {})
      for (const budget of appliesTo(request)) {
        const refusal = await takeOf(budget, usd)
        const warning = warnings.get(budget.id)
        if (warning && warnings.delete(budget.id)) warned.push(warning)
        if (refusal) {
          giveBack(ids, usd, 0)
          return { ...refusal, ...said() }
        }
        ids.push(budget.id)
      }
      return { token: tokenFor({ job, ids, usd }), ...said() }
    },
    prepay({ job, sessionId }) {
      const last = lastOf.get(sessionId)
      const ids = last ? appliesTo(last).map(({ id }) => id) : []
      if (!last || ids.length === 0) return undefined
      const usd = exactUsd(last.usd * PREPAID_SHARE)
      if (!ids.every((id) => hasRoom(batchOf(id), usd))) return undefined
      for (const id of ids) takeFrom(batchOf(id), usd)
      return { token: tokenFor({ job, ids, usd }), usd }
    },
    settle,
    ended(job, usd) {
      for (const token of tokensOf.get(job) ?? []) settle(token, usd)
    },
    learned: () => inTime(first, LEARNED_WITHIN_MS),
    greet: ({ channel }) => void (known.length > 0 && channel.send(messageOf())),
    end() {
      clearInterval(timer)
      endWatch()
    },
  }
}

/** Why no call may be made while the side store is unavailable, if none may. */
function whileAway(budget: BudgetTerms): RefusedShare | undefined {
  if (budget.onOutage === 'continue') return undefined
  const refused = `${nameOf(budget)} cannot be read, because the side store is unavailable, and it says to stop then.`
  return { refused, isUnknown: true }
}

function nameOf({ tag, agent, per }: BudgetTerms): string {
  return `The shared budget of ${tag === null ? `the agent ${agent}` : `the tag ${tag}`} for the ${per}`
}
