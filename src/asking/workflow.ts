// `pawl/workflow`: asks an agent from a Temporal workflow of your own. It runs in the workflow's sandbox, so it imports nothing else of pawl.
import { ActivityCancellationType, proxyActivities, uuid4, workflowInfo } from '@temporalio/workflow'
import type { Agent, ContextOf, OutputOf } from '../agent/agent.ts'
import type { RunResult } from '../client/types.ts'
import type { UserBlock } from '../session/content.ts'
import { defined } from '../session/defined.ts'
import type { Duration } from '../session/duration.ts'
import type { Json, JsonObject } from '../session/json.ts'
import { ACTIVITY, type Question } from './contract.ts'

/** A question to an agent. `A`: the type of the agent, such as `typeof support`. */
export interface AskAgentOptions<A extends Agent = Agent<Json>> {
  /** The agent's name. */
  agent: A['name']
  /** What the user says to the agent: text, or blocks of text, images and documents. */
  message: string | UserBlock[]
  /** The session to ask in: it keeps its past, and is started if it does not exist. Default: a new session. */
  session?: string
  /** The message's id: pawl accepts each once. Default: a UUID that a repeated or replayed workflow task chooses again. */
  messageId?: string
  /** Who the session is for, at most 100,000 bytes of JSON; used when the session starts. Default `null`. */
  context?: ContextOf<A>
  /** Tags that lists can filter by; used when the session starts. Default: none. */
  tags?: string[]
  /** Passed to the run's tools as `ctx.metadata`. Default `{}`. */
  metadata?: JsonObject
  /** How long the answer may take; after that, the run fails with `deadline_exceeded`. Default: no limit. */
  deadline?: Duration
  /** The task queue of the workers that serve the agent. Default: that of the `Pawl` that your worker's activities use. */
  sessionTaskQueue?: string
  /** The task queue of the worker that has `agentActivities`. Default: the workflow's own. */
  taskQueue?: string
}

/** The activity only waits, so its death is noticed soon, and nothing limits how often it is tried. */
const HEARTBEAT_MS = 10_000
const LONGEST = '10 years'

/**
 * Asks an agent and returns its answer, however long that takes: also while the run waits for a person, and while pawl recovers it. The
 * worker of your workflow needs `agentActivities`. If the workflow (or the scope) is cancelled, the run is interrupted.
 * Rejects with an `ActivityFailure`. Its cause is a `CancelledFailure` if the workflow was cancelled, and otherwise an `ApplicationFailure`
 * whose type is one of run_failed, run_interrupted, message_rejected and result_too_large; its first detail has the session, the run, and the
 * code and reason that the session recorded.
 */
export async function askAgent<A extends Agent = Agent<Json>>(options: AskAgentOptions<A>): Promise<RunResult<OutputOf<A>>> {
  const {
    agent,
    message,
    session = `ask-${uuid4()}`,
    messageId = uuid4(),
    context,
    tags,
    metadata,
    deadline,
    sessionTaskQueue,
    taskQueue,
  } = options
  const ask = proxyActivities<Record<typeof ACTIVITY, (question: Question) => Promise<RunResult<OutputOf<A>>>>>({
    startToCloseTimeout: LONGEST,
    heartbeatTimeout: HEARTBEAT_MS,
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    summary: agent,
    retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '1m' },
    ...defined({ taskQueue }),
  })
  const { workflowId } = workflowInfo()
  const rest = defined({ context: context as Json | undefined, tags, metadata, deadline, taskQueue: sessionTaskQueue })
  return ask[ACTIVITY]({ agent, session, messageId, message, by: `workflow ${workflowId}`, ...rest })
}
