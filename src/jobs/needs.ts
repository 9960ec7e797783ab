// What jobs need of the executor they run in. It has no Temporal SDK and no pool of pawl's: the orchestrator is asked for the rest.
import type { Agent } from '../agent/agent.ts'
import type { Logger, Services } from '../agent/tool.ts'
import type { AttemptSoFar, EventsAlong, JobLink } from './contract.ts'
import type { LargeValues } from './large-values.ts'
import type { SessionViews } from './session-views.ts'

/** What the jobs of one executor share. */
export interface JobNeeds {
  agents: ReadonlyMap<string, Agent>
  services: Services
  views: SessionViews
  values: LargeValues
  logger: Logger
  /** This process, for people: `host:pid`. */
  worker: string
  /** Whether a body that outlives its time ends with its process: then nothing else may end it. */
  killsOverdue: boolean
}

/** The job that is running. */
export interface Job {
  sessionId: string
  executionId: string
  attempt: AttemptSoFar
  link: JobLink
  along?: EventsAlong
}
