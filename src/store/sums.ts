// What the store counts and sums over sessions: usage, the overview, and statistics of failures.
import type { Usage } from '../session/content.ts'
import type { RecoveryStrategy } from '../session/agent-facts.ts'
import type { SessionStatus } from '../session/events.ts'
import type { SessionRow, PlanProgress } from './rows.ts'

/** How usage can be grouped. `turn`: the turns of one session. */
export type UsageBy = 'agent' | 'day' | 'model' | 'session' | 'turn'

/** Usage of one agent, day (UTC, `2026-11-21`), model, session or turn (`1.2`: the second turn of run 1). */
export interface UsageSum {
  /** The agent, day, model, session or turn. */
  key: string
  /** Model calls that completed. */
  calls: number
  /** Tokens used. */
  usage: Usage
  /** Cost, in US dollars, of the calls whose price is known. */
  usd: number
  /** Calls whose price is not known; `usd` does not include them. */
  unpriced: number
}

/**
 * What an open session needs. `recovery`, `resolution`, `approval`, `unpausing`: a person must recover it, resolve an unknown outcome,
 * decide on an approval, or unpause it. `worker`: its next step waits for a worker, or for Temporal; only `deploymentStatus` sees this.
 * `automatic`: the cause of its error must end, or its next attempt succeed. `look`: a person
 * should check it, because it is running but has stored nothing for minutes. `answer`: a client must answer. `plan`: it is idle, but
 * steps of its plan are not done.
 */
export type SessionNeed =
  | 'recovery'
  | 'resolution'
  | 'approval'
  | 'unpausing'
  | 'resuming'
  | 'worker'
  | 'automatic'
  | 'look'
  | 'answer'
  | 'plan'
  | 'nothing'

/** An open session in the overview. */
export interface OverviewSession extends Pick<SessionRow, 'sessionId' | 'agent' | 'status' | 'run' | 'error' | 'paused'> {
  /** What it needs most. */
  needs: SessionNeed
  /** When that began: the time of the oldest request, or of the error or pause; for a running session, of its last event. */
  since: Date
  /** Tools of the calls behind this need. */
  tools: string[]
  /** When the first of these calls expires; null if none does. */
  expiresAt: Date | null
  /** Its plan; null if it has none. */
  plan: PlanProgress | null
}

/** The open sessions by what they need. */
export interface StatusOverview {
  /** Sessions by status; closed ones are not counted. */
  sessions: Record<Exclude<SessionStatus, 'closed'>, number>
  /** Sessions that are in an error, waiting, running, paused, or idle with an unfinished plan, by what they need most. */
  needs: Record<SessionNeed, number>
  /** The sessions themselves, most urgent need first, then approvals by expiry, then longest wait first; at most as many as requested. */
  items: OverviewSession[]
}

/** Statistics of the failures in a time span. */
export interface FailureReport {
  /** The beginning of the time span. */
  since: Date
  /** How often runs failed, most failures first. */
  agents: AgentFailures[]
  /** What failed, by agent, tool and code: those with the most unhealed failures first, then those with the most failures. */
  causes: FailureCause[]
  /** Sessions that failed in the same way more than once, most failures first. */
  repeated: RepeatedFailure[]
  /** What recoveries led to, most recoveries first. */
  recoveries: RecoveryOutcomes[]
  /** How long sessions were in errors, longest total first. */
  timeInError: TimeInError[]
}

/** How often an agent's runs failed. */
export interface AgentFailures {
  /** The agent's name. */
  agent: string
  /** Runs that a model answered, or that failed, within the time span. */
  runs: number
  /** Runs that failed, however they continued: the sum of the next five. */
  failed: number
  /** Runs that healed without a person: pawl recovered them, or their cause ended. */
  healedByItself: number
  /** Runs that a person healed. */
  healedByPerson: number
  /** Runs that a person took back: the session was rolled back to before the failure, or the run's message was answered again. */
  rolledBack: number
  /** Runs that were given up: interrupted, abandoned, or closed. */
  givenUp: number
  /** Runs that are still in error. */
  open: number
  /** Runs that only waited in errors that end by themselves, such as `agent_not_served`. */
  heldUp: number
  /** Failed attempts of model calls and tool calls. */
  failedAttempts: number
}

/** What failed in one way: runs, model calls, or calls of one tool, of one agent, with one code. */
export interface FailureCause {
  /** The agent's name. */
  agent: string
  /** What failed. `model`: attempts of model calls, by turn. `tool`: attempts of tool calls, and calls that failed without one. */
  what: 'run' | 'model' | 'tool'
  /** The tool's name; null if it was not a tool. */
  tool: string | null
  /** The code, or the name of the error's class. */
  code: string
  /** Rows of `errors` behind them: failed attempts, or errors of runs. A call that failed without an attempt has none. */
  errors: number
  /** How many runs, turns or calls failed in this way, each once: the sum of the next five. */
  failures: number
  /** Failures that ended without a person: another attempt succeeded, `verify` confirmed the call, or pawl recovered the run. */
  healedByItself: number
  /** Failures that a person healed. */
  healedByPerson: number
  /** Failures that a person took back: a rollback or a regeneration removed the failed run, turn or open call. */
  rolledBack: number
  /** Permanent failures: the model was told about a failed call, or the run was given up. */
  givenUp: number
  /** Failures that are still open: in error, being retried, or with an unknown outcome. */
  open: number
  /** When the newest one happened. */
  newest: Date
}

/** A session that failed in the same way more than once. */
export interface RepeatedFailure {
  /** The session's id. */
  sessionId: string
  /** The agent's name. */
  agent: string
  /** The error's code. */
  code: string
  /** How often the session entered this error. */
  times: number
  /** How many of its runs did. */
  runs: number
  /** When it first entered this error within the time span. */
  first: Date
  /** When it last entered this error. */
  newest: Date
}

/** What an agent's recoveries with one strategy led to. */
export interface RecoveryOutcomes {
  /** The agent's name. */
  agent: string
  /** The strategy; null for requests that named none and were refused. */
  strategy: RecoveryStrategy | null
  /** Whether pawl made them under the agent's policy; false: a person made them. */
  automatic: boolean
  /** How many there were. */
  recoveries: number
  /** How many led to a completed run. An abandoned run does not complete. */
  completed: number
  /** How many led to a run that failed again. */
  failed: number
  /** How many led to a run that has not ended yet. */
  unfinished: number
  /** Requests that were refused; they are not in `recoveries`. */
  refused: number
}

/** How long an agent's sessions were in one kind of error. */
export interface TimeInError {
  /** The agent's name. */
  agent: string
  /** The error's code. */
  code: string
  /** How often sessions entered it. */
  times: number
  /** How many of them are still in it. */
  open: number
  /** Milliseconds, over all of them. */
  totalMs: number
  /** Median duration, in milliseconds. */
  medianMs: number
  /** Longest duration, in milliseconds. */
  longestMs: number
}
