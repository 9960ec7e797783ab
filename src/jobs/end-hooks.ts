// The job `endHooks`: the hooks of a turn that no model call followed, because its run has ended.
import type { EndHooksInput, EndHooksResult } from '../calls/activities.ts'
import { agentContext } from './agent-context.ts'
import { ArchiveUnavailable, StaleWatermark } from '../calls/errors.ts'
import { runHooksAfter } from './model-call/hooks.ts'
import { readTarget } from '../calls/reads.ts'
import type { Job, JobNeeds } from './needs.ts'
import { hookRoom } from './run-hooks.ts'

export async function endHooks(needs: JobNeeds, job: Job, input: EndHooksInput): Promise<EndHooksResult> {
  const { sessionId, attempt, link } = job
  const agent = needs.agents.get(input.agent)
  if (!agent) return { kind: 'not_served' }
  const { run, turn } = input
  try {
    const view = await needs.views.view(readTarget(job, input), job.along)
    const { context, tags } = view.state
    const { metadata } = view.transcript.newestRun
    const ctx = agentContext(needs, sessionId, { agent: agent.name, run, turn, context, metadata, tags }, view.slices)
    const runner = { hooks: agent.hooks, ctx, attempt: attempt.number, room: hookRoom(), signal: link.signal }
    return { kind: 'ran', hooks: await runHooksAfter(runner, view) }
  } catch (error) {
    if (error instanceof StaleWatermark) return { kind: 'stale_watermark' }
    if (error instanceof ArchiveUnavailable) return { kind: 'archive_unavailable' }
    throw error
  }
}
