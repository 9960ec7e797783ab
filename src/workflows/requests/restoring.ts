// What a recovery restores besides the transcript: plan and memory as they were at the point that it goes back to, if the run has changed
// them.
import { CancellationScope, condition } from '@temporalio/workflow'
import type { FindKeptInput } from '../../calls/activities.ts'
import type { RecoveryStrategy } from '../../session/agent-facts.ts'
import type { RecoverRequest } from '../../session/protocol/protocol.ts'
import { type PlanAndMemory, restoredFrom } from '../../session/recovery/kept.ts'
import type { RestoredValues } from '../../session/recovery/restored.ts'
import { answerIn, whyLost } from '../lost-activity.ts'
import { findKept, findKeptUntilStored } from '../scheduling.ts'
import { eventsOf, type Journal } from '../journal.ts'
import { nextStep, type Session, withRunsHeld } from '../session-parts.ts'
import { readFor } from './reading.ts'
import { checkRecovery, recover, recoverByPolicy, strategyOf, turnsRemovedAfter } from './recovery.ts'

type Point = Pick<FindKeptInput, 'beforeRun' | 'upToSeq'>

/** The point whose plan and memory the recovery restores; undefined if it does not change them. */
function pointOf(journal: Journal, strategy: string): Point | undefined {
  const { current } = journal.state
  if (!current || (current.planTurn === undefined && current.memoryTurn === undefined)) return undefined
  if (strategy === 'abandon' || strategy === 'restart_run') return { beforeRun: current.run }
  return strategy === 'restart_from_last_effect' ? { upToSeq: turnsRemovedAfter(journal) } : undefined
}

/** Whether the recovery must look up what it restores. */
export function restores(journal: Journal, request: RecoverRequest): boolean {
  return pointOf(journal, strategyOf(journal.state, request)) !== undefined
}

/** Carries out a requested recovery that restores something. Checks the request again once the data to restore has been found. */
export async function recoverRestoring(session: Session, request: RecoverRequest): Promise<void> {
  const { journal } = session
  await withRunsHeld(session, async () => {
    for (;;) {
      const point = pointOf(journal, strategyOf(journal.state, request))
      const found = point && (await readFor(() => findKept({ ...eventsOf(journal), ...point })))
      checkRecovery(journal, request)
      if (!isSame(point, pointOf(journal, strategyOf(journal.state, request)))) continue
      return recover(journal, request, restored(journal, found?.kept))
    }
  })
}

/**
 * Carries out an automatic recovery. If it restores something, waits until that can be read. Returns `overtaken` if something else happens
 * first.
 */
export async function recoverAutomatically(session: Session, strategy: RecoveryStrategy): Promise<'recovered' | 'overtaken'> {
  const { journal, stopping } = session
  const point = pointOf(journal, strategy)
  const found =
    point && (await keptUnless(() => stopping.isRequested() || nextStep(session) !== 'recover', { ...eventsOf(journal), ...point }))
  if (found === 'overtaken' || !isSame(point, pointOf(journal, strategy))) return 'overtaken'
  recoverByPolicy(journal, strategy, restored(journal, found))
  return 'recovered'
}

/**
 * The values to restore. If they cannot be found, returns undefined and the recovery restores nothing, so that the session can continue.
 */
async function keptUnless(overtaken: () => boolean, input: FindKeptInput): Promise<PlanAndMemory | undefined | 'overtaken'> {
  const search = new CancellationScope()
  const answer = search.run(() => findKeptUntilStored(input)).then(answerIn, (error: unknown) => void whyLost(error))
  await Promise.race([answer, condition(overtaken)])
  if (overtaken()) search.cancel()
  const found = await answer
  if (overtaken()) return 'overtaken'
  return found?.kind === 'found' ? found.kept : undefined
}

function isSame(one: Point | undefined, other: Point | undefined): boolean {
  return one?.beforeRun === other?.beforeRun && one?.upToSeq === other?.upToSeq
}

function restored({ state: { plan, memory } }: Journal, kept: PlanAndMemory | undefined): RestoredValues | undefined {
  return kept && restoredFrom(kept, { plan: plan?.current, memory: memory?.current })
}
