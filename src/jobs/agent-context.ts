// The context that an agent's code receives, made from the workflow's data on the session; and its slices, which are read from the events
// only if the agent has any.
import type { AgentContext } from '../agent/tool.ts'
import { withFields } from '../log/logger.ts'
import { copyOf, type Json, type JsonObject } from '../session/json.ts'
import type { SliceValues } from '../session/slices/slices.ts'
import { readTarget } from '../calls/reads.ts'
import type { JobNeeds, Job } from './needs.ts'
import type { EventsInput } from '../calls/activities.ts'
import { ArchiveUnavailable, archiveAway } from '../calls/errors.ts'

/** The agent, turn and session that the code runs for. */
export interface AgentPlace {
  agent: string
  run: number
  turn: number
  context: Json
  metadata: JsonObject
  tags: string[]
}

/** The slice values of an agent without slices. */
export const NO_SLICES: SliceValues = Object.freeze({})

/** A copy of the context for one call of user code, so that no other call sees its changes. Slices are frozen, and services are shared. */
export function ownContext<C extends Pick<AgentContext, 'context' | 'metadata' | 'tags'>>(ctx: C): C {
  return { ...ctx, context: copyOf(ctx.context), metadata: copyOf(ctx.metadata), tags: copyOf(ctx.tags) }
}

/** The context of an agent's code in this process. */
export function agentContext(
  needs: Pick<JobNeeds, 'services' | 'logger'>,
  sessionId: string,
  place: AgentPlace,
  slices: SliceValues,
): AgentContext {
  const { agent, run, turn, context, metadata, tags } = place
  return ownContext({
    sessionId,
    agent,
    run,
    turn,
    context,
    metadata,
    tags,
    services: needs.services,
    slices,
    log: withFields(needs.logger, { session: sessionId, run, turn }),
  })
}

/** A job with the slice values for its code. */
export interface JobWithSlices extends Job {
  slices: SliceValues
}

/** What to read: up to which event, and for which agent. */
type SlicesInput = EventsInput & { agent: string }

/** The slice values at the input's watermark. @throws StaleWatermark, ArchiveUnavailable. */
export async function readSlices(needs: JobNeeds, job: Job, input: SlicesInput): Promise<SliceValues> {
  if (!needs.agents.get(input.agent)?.slices.length) return NO_SLICES
  return (await needs.views.view(readTarget(job, input), job.along)).slices
}

/**
 * The same; undefined if they cannot be read now. With `untilServed`, it throws instead, and Temporal retries until the store has the data.
 * @throws TryAgain.
 */
export async function slicesIfReadable(
  needs: JobNeeds,
  job: Job,
  input: SlicesInput & { untilServed?: true },
): Promise<SliceValues | undefined> {
  try {
    return await readSlices(needs, job, input)
  } catch (error) {
    if (error instanceof ArchiveUnavailable && input.untilServed) throw archiveAway(error.message)
    needs.logger.debug({ session: job.sessionId, err: error }, 'the events for the slices of a call cannot be read now')
    return undefined
  }
}
