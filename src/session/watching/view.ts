// A session as `session.state()` and prompts show it. The other members of the folded state are pawl's own.
import type { Usage } from '../content.ts'
import { defined } from '../defined.ts'
import { scheduledIn } from '../fold/scheduled.ts'
import type { SessionStatus } from '../events.ts'
import type { Json } from '../json.ts'
import type { QueriedFacts } from '../protocol/protocol.ts'
import type { Approvers } from '../call-facts.ts'
import type { CallQuestion } from '../question-facts.ts'
import type { Spend } from '../spending/spend.ts'
import type { CallState, Pause, RunState, SessionError, SessionState } from '../state.ts'
import type { CallWait } from './waits.ts'

/** A tool call of the newest answer. */
export interface CallView {
  /** The call's id: `t_<run>_<turn>_<index>`, with `#<generation>` if it was made again. */
  callId: string
  /** The tool's name. */
  tool: string
  /** The call's status. */
  status: CallState['status']
  /** The arguments; absent once the call has ended, or if they are too large to keep here. */
  input?: Json
  /** Digest of the arguments that a person is to decide on, or of the question that the user is to answer. */
  digest?: string
  /** Why a person must decide the call, or the question that its tool asks the user. */
  reason?: string
  /** Who may decide: a person with this role. Absent: anyone. */
  approvers?: Approvers
  /** What its tool asks the user. */
  question?: CallQuestion
  /** When its request for approval or for an answer expires, in milliseconds since 1970. */
  expiresAt?: number
  /** The last progress that an attempt reported. */
  progress?: Json
  /** The session that answers the call, and its agent. */
  child?: { session: string; agent: string }
}

/** The run in progress, or the one that failed. */
export interface RunView {
  /** Number of the run within the session, from 1. */
  run: number
  /** Number of the turn within the run, from 1. */
  turn: number
  /** The message that opened the run. */
  messageId: string
  /** When it began, in milliseconds since 1970. */
  startedAt: number
  /** When it must have ended, in milliseconds since 1970: the deadline of its newest message that has one. */
  deadlineAt?: number
  /** Tokens used by the run. */
  usage: Usage
  /** What it has spent, with failed attempts, tools and hooks; absent: nothing. A restarted run begins with what the failed one spent. */
  spend?: Spend
  /** It is being stopped, and ends once its calls have ended. Absent: it is not, or its workflow could not be asked. */
  stopping?: true
  /** The calls of the newest answer. */
  calls: CallView[]
}

/** A session as its readers see it. */
export interface SessionView {
  /** The session's id. */
  sessionId: string
  /** The agent's name. */
  agent: string
  /** The session's status. */
  status: SessionStatus
  /** Whom the session is for. */
  context: Json
  /** Labels by which lists of sessions can be filtered. */
  tags: string[]
  /** `seq` of the last event. */
  seq: number
  /** When it was created, in milliseconds since 1970. */
  createdAt: number
  /** When its last event happened, in milliseconds since 1970. */
  updatedAt: number
  /** Number of the newest run. */
  run: number
  /** Turns so far. */
  turns: number
  /** The run in progress, or the one that failed. */
  current: RunView | null
  /** Why the session is in `error`. */
  error: SessionError | null
  /** The session takes no step until it is unpaused; absent: it is not paused. */
  paused?: Pause
  /** How many received messages no turn has taken yet. */
  queued: number
  /** How many messages are delivered later. */
  scheduled: number
  /**
   * What calls of the run wait for, if the workflow says so: a worker that has the tool, the time to verify an outcome, or the rate gate of
   * the model's account. At most 20; `status()` has everything that the session waits for. Absent: nothing.
   */
  callWaits?: CallWait[]
  /** Tokens used by the session. */
  usage: Usage
  /** What it has spent, with failed attempts, tools and hooks; absent: nothing. A fork begins with what was spent up to its point. */
  spend?: Spend
  /** The session that it was forked from, and the last event that comes from it. */
  forkedFrom?: { sessionId: string; seq: number }
  /** The session that called this one's agent, and how deep this one is in its tree; absent: it is not a child. */
  caller?: { sessionId: string; depth: number }
}

/** The view of a state, with what only the workflow knows. */
export function viewOf(state: SessionState, { callWaits = [], stopping }: QueriedFacts = {}): SessionView {
  const { sessionId, agent, status, context, tags, seq, createdAt, updatedAt, run, turns, usage, error, current, inbox } = state
  return {
    ...{ sessionId, agent, status, context, tags, seq, createdAt, updatedAt, run, turns, usage, error },
    current: current && { ...runView(current), ...defined({ stopping }) },
    queued: inbox.length,
    scheduled: scheduledIn(state).length,
    ...defined({ paused: state.paused, spend: state.spend, forkedFrom: state.forkedFrom }),
    ...(state.caller && { caller: { sessionId: state.caller.sessionId, depth: state.caller.depth } }),
    ...(callWaits.length > 0 && { callWaits }),
  }
}

function runView({ run, turn, messageId, startedAt, deadline, usage, spend, calls, leftOut = [] }: RunState): RunView {
  const whole = calls.map(callView)
  const others = leftOut.map(({ callId, tool, status, inputDigest }) => ({ callId, tool, status, digest: inputDigest }))
  return { run, turn, messageId, startedAt, usage, calls: [...whole, ...others], ...defined({ spend, deadlineAt: deadline?.at }) }
}

function callView({ callId, status, input, progress, asked, asking, resolution: { tool } }: CallState): CallView {
  const { digest, reason, approvers, expiresAt, child } = asked ?? {}
  const answering = child && { child: { session: child.session, agent: child.agent } }
  const question = asking?.question
  return { callId, tool, status, ...answering, ...defined({ input, digest, reason, approvers, question, expiresAt, progress }) }
}
