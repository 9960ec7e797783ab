// Dependencies of jobs, provided by their executor. The executor has no Temporal SDK and no database pool; the orchestrator does that part.
import type { ExecuteToolInput } from '../calls/activities.ts'
import type { ContextRules, EarlierKeys, SharesBudget } from '../calls/reads.ts'
import type { SharedWarning } from '../session/spending/spend.ts'
import type { Agent } from '../agent/agent.ts'
import type { Logger, Services } from '../agent/tool.ts'
import type { JobLink, ModelAnswer, SentAlong } from '../calls/jobs.ts'
import type { AttemptSoFar } from '../session/attempts.ts'
import type { QuickTools } from './quick-tools.ts'
import type { LargeValues } from './large-values.ts'
import type { RateGate } from './model-call/rate-gate.ts'
import type { SessionViews } from './session-views.ts'

/** The dependencies that the jobs of one executor share. */
export interface JobNeeds {
  agents: ReadonlyMap<string, Agent>
  services: Services
  views: SessionViews
  values: LargeValues
  earlierKeys: EarlierKeys
  contextRules: ContextRules
  gates: RateGate
  sharesBudget: SharesBudget
  logger: Logger
  quickTools: QuickTools
  /** Makes the span of a tool's attempt active while it runs. */
  inToolSpan<T>(call: Pick<Job, 'sessionId' | 'attempt'>, input: ExecuteToolInput, work: () => Promise<T>): Promise<T>
  /** This process, as people see it: `host:pid`. */
  worker: string
  /** Whether a body that ignores its timeout is ended by killing its process. If so, pawl must not abandon it otherwise. */
  killsOverdue: boolean
}

export interface Job extends SentAlong {
  sessionId: string
  executionId: string
  attempt: AttemptSoFar
  link: JobLink
  answer?: ModelAnswer
  /** Receives the warnings about budgets that the session shares. */
  warnings?: SharedWarning[]
}
