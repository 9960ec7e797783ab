// Reads the slices for tools before a body is entered, and only if the agent has any. Without slices, tools need no events.
import type { EventsInput } from '../calls/activities.ts'
import type { SliceValues } from '../session/slices/slices.ts'
import { NO_SLICES } from './agent-context.ts'
import { ArchiveUnavailable, archiveAway } from '../calls/errors.ts'
import type { Job, JobNeeds } from './needs.ts'

/** A job with the slice values for its code. */
export interface JobWithSlices extends Job {
  slices: SliceValues
}

/** What to read: up to which event, and for which agent. */
type SlicesInput = EventsInput & { agent: string }

/** The slice values at the input's watermark. @throws StaleWatermark, ArchiveUnavailable. */
export async function readSlices(needs: JobNeeds, { sessionId, executionId, along }: Job, input: SlicesInput): Promise<SliceValues> {
  if (!needs.agents.get(input.agent)?.slices.length) return NO_SLICES
  const { epoch, watermark, origin } = input
  const { slices } = await needs.views.view({ sessionId, epoch, executionId, watermark, ...(origin && { origin }) }, along)
  return slices
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
