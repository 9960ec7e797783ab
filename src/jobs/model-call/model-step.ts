// What the steps that ask a model have in common: the agent, its facts, the deadline, and the session's events.
import { lostIn } from '../../calls/jobs.ts'
import type { AskModelInput, NoAnswer } from '../../calls/activities.ts'
import type { Agent } from '../../agent/agent.ts'
import type { AgentFacts } from '../../session/agent-facts.ts'
import type { FailedAttempt } from '../../session/call-facts.ts'
import { factsOf } from '../agent-facts.ts'
import { failedAttempt } from '../attempt.ts'
import { type CallDeadline, startDeadline } from './deadline.ts'
import { ArchiveUnavailable, archiveAway, notServed, StaleWatermark, TryAgain } from '../../calls/errors.ts'
import type { Job, JobNeeds } from '../needs.ts'
import type { FoldedSession } from '../session-views.ts'

const STORE_RETRY_MS = 500

export interface ModelStep {
  agent: Agent
  deadline: CallDeadline
  /** The step may add failed attempts to it, which the result then includes. */
  job: Job
  view: FoldedSession
}

/** Runs the step. The result includes failed attempts, and facts about the agent that the session does not know. @throws TryAgain. */
export async function modelStep<R extends object>(
  needs: JobNeeds,
  job: Job,
  input: AskModelInput,
  step: (step: ModelStep) => Promise<R | NoAnswer>,
): Promise<R | ({ failed?: FailedAttempt[]; facts?: AgentFacts } & NoAnswer)> {
  const agent = needs.agents.get(input.agent)
  if (!agent) {
    if (!input.untilServed) return { kind: 'not_served', ...lostIn(job.attempt) }
    throw notServed(needs.worker, `the agent "${input.agent}"`)
  }
  const deadline = startDeadline(agent, input)
  const { sessionId, executionId, attempt } = job
  const failed = [...attempt.failed]
  const facts = factsOf(agent)
  const withFacts = <T extends object>(result: T): T => ({
    ...result,
    ...lostIn({ failed }),
    ...(input.known !== facts.digest && { facts }),
  })
  try {
    const { epoch, watermark, origin } = input
    const view = await needs.views.view({ sessionId, epoch, executionId, watermark, ...(origin && { origin }) }, job.along)
    return withFacts(await step({ agent, deadline, job: { ...job, attempt: { ...attempt, failed } }, view }))
  } catch (error) {
    if (error instanceof StaleWatermark) return withFacts({ kind: 'stale_watermark' } as const)
    if (error instanceof ArchiveUnavailable) {
      if (input.untilServed) throw archiveAway(error.message)
      return withFacts({ kind: 'archive_unavailable', reason: error.message } as const)
    }
    // This is not a failure of the model. The events could not be read at the moment.
    const unread = failedAttempt(attempt.number, error, { retryable: true, worker: needs.worker })
    throw new TryAgain('AttemptFailed', unread.message, { afterMs: STORE_RETRY_MS, failed: unread })
  }
}

/** The run's deadline has passed. */
export function deadlineExceeded({ reason }: CallDeadline): NoAnswer {
  return { kind: 'failed', code: 'deadline_exceeded', reason }
}
