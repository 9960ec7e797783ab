// The context that an agent's code receives, made from the workflow's data on the session.
import type { AgentContext } from '../agent/tool.ts'
import { withFields } from '../log/logger.ts'
import { copyOf, type Json, type JsonObject } from '../session/json.ts'
import type { SliceValues } from '../session/slices/slices.ts'
import type { JobNeeds } from './needs.ts'

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
