// What code of an agent is given wherever it runs, from what the workflow says of the session.
import type { AgentContext } from '../agent/tool.ts'
import type { Json, JsonObject } from '../session/json.ts'
import type { JobNeeds } from './needs.ts'

/** Whose code runs, for which turn, for whom. */
export interface AgentPlace {
  agent: string
  run: number
  turn: number
  context: Json
  metadata: JsonObject
  tags: string[]
}

/** The context of an agent's code in this process. */
export function agentContext(needs: Pick<JobNeeds, 'services' | 'logger'>, sessionId: string, place: AgentPlace): AgentContext {
  const { agent, run, turn, context, metadata, tags } = place
  return { sessionId, agent, run, turn, context, metadata, tags, services: needs.services, log: needs.logger }
}
