// Recovers many sessions: finds them in the side store page by page, and recovers each as `session.recover` does, at a limited rate.
import { PawlError } from '../../session/errors.ts'
import type { InErrorFilter, Key, Paging, Rows } from '../../store/filters.ts'
import type { SessionInError } from '../../store/listed.ts'
import { RequestRefusedError } from '../errors.ts'
import { pagingAt } from '../queries/list-options.ts'
import type { RecoverOptions } from '../types.ts'
import { type Clock, pacer, REAL_CLOCK } from './pacing.ts'
import { type BulkRecoveryOptions, type BulkRecoveryReport, type BulkRecoverySession, checkBulkRecovery } from './recovery-options.ts'
import { concurrently } from '../../waiting/concurrently.ts'
import { defined } from '../../session/defined.ts'

export interface RecoveryParts {
  /** A page of the sessions in error. */
  find(filter: InErrorFilter, paging: Paging): Promise<Rows<SessionInError>>
  /** Recovers one session. */
  recover(sessionId: string, how: RecoverOptions): Promise<void>
  clock?: Clock
}

const PER_SECOND = 10
/** More than one second's worth at the default rate: a session that does not answer occupies a slot for half a minute. */
const AT_ONCE = 20
const PAGE = 100
/** How many sessions a report names. */
const NAMED = 1_000

/** See `Upkeep.recover`. */
export async function recoverInBulk(parts: RecoveryParts, options: BulkRecoveryOptions): Promise<BulkRecoveryReport> {
  const { filter, strategy, by, reason, dryRun, perSecond = PER_SECOND, limit, onSession, signal } = checkBulkRecovery(options)
  const how = { by, reason: reason === undefined ? 'bulk recovery' : `bulk recovery: ${reason}`, ...defined({ strategy }) }
  const report: BulkRecoveryReport = { sessions: 0, recovered: 0, notInError: 0, refused: 0, failed: 0, problems: [], stopped: false }
  const mayBegin = dryRun ? async () => !signal?.aborted : pacer(perSecond, parts.clock ?? REAL_CLOCK)

  async function* inTime(): AsyncGenerator<SessionInError> {
    for await (const session of inError(parts, filter, limit)) {
      report.stopped = !(await mayBegin(signal))
      if (report.stopped) return
      yield session
    }
  }

  await concurrently(inTime(), AT_ONCE, async (session) => {
    const done: BulkRecoverySession = { ...session, ...(dryRun ? { outcome: 'found' } : await outcomeOf(parts, filter, session, how)) }
    count(report, done)
    onSession?.(done)
  })
  return report
}

/** The sessions, each exactly once: a session's position in the order never changes. */
async function* inError({ find }: RecoveryParts, filter: InErrorFilter, limit = Number.POSITIVE_INFINITY): AsyncGenerator<SessionInError> {
  let left = limit
  let next: Key | undefined
  do {
    const page = await find(filter, pagingAt(Math.min(PAGE, left), next))
    yield* page.items
    left -= page.items.length
    next = page.next
  } while (next && left > 0)
}

type Outcome = Pick<BulkRecoverySession, 'outcome' | 'problem'>

async function outcomeOf(
  { find, recover }: RecoveryParts,
  filter: InErrorFilter,
  { sessionId }: SessionInError,
  how: RecoverOptions,
): Promise<Outcome> {
  try {
    // The session was found some time ago. It may since have left that error, and may be in another one.
    const { items } = await find({ ...filter, session: sessionId }, { limit: 1 })
    if (items.length === 0) return { outcome: 'not_in_error' }
    await recover(sessionId, how)
    return { outcome: 'recovered' }
  } catch (error) {
    return unrecovered(error)
  }
}

function unrecovered(error: unknown): Outcome {
  const code = error instanceof PawlError ? error.code : 'recovery_failed'
  if (code === 'not_in_error') return { outcome: 'not_in_error' }
  const problem = { code, message: error instanceof Error ? error.message : String(error) }
  return { outcome: error instanceof RequestRefusedError ? 'refused' : 'failed', problem }
}

function count(report: BulkRecoveryReport, session: BulkRecoverySession): void {
  const { outcome, problem } = session
  report.sessions += 1
  if (outcome === 'not_in_error') report.notInError += 1
  else if (outcome !== 'found') report[outcome] += 1
  if (problem && report.problems.length < NAMED) report.problems.push(session)
}
