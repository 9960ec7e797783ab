// What events and states record of calls between agents: the caller, the question, its outcome, and the session that answers.
import type { Budget } from '../spending/spend.ts'

/** The session that called this one's agent. */
export interface CallingSession {
  /** Its id. */
  sessionId: string
  /** The idempotency key of its call: the session answers all its calls with this key. */
  key: string
  /** The first execution of the chain that made the call. */
  epoch: string
  /** How many sessions are above this one: 1 for the child of a root. */
  depth: number
  /** The task queue of the caller's workers. */
  taskQueue: string
}

/** The call whose question a message is. */
export interface CallingCall {
  /** `seq` of its request in the caller. */
  seq: number
  run: number
  turn: number
  callId: string
  tool: string
  /** What the session may spend for it; an absent member means no limit. */
  budget?: Budget
  /** The stretch of the caller's run that asked (see `RunState`), from 2. Absent for the first. */
  stretch?: number
  /** The trace of the caller's run, if it is not its own. */
  trace?: TraceRoot
  /** The call does not wait for the answer. */
  background?: true
}

/** The stretch of a run that a trace is derived from. Traces of a tree are derived from its root. */
export interface TraceRoot {
  sessionId: string
  run: number
  stretch?: number
}

/** The call that a run answers, as far as spans tell. */
export interface AnsweredCall extends TraceRoot, Pick<CallingCall, 'callId' | 'trace' | 'background'> {}

/** How the question ended. */
export interface QuestionOutcome {
  as: 'answered' | 'failed' | 'interrupted'
  /** The run that ended. */
  run?: number
  code?: string
  reason?: string
}

/** What a session knows of its caller. */
export interface CallerState extends CallingSession {
  /** The newest question's call; absent before the first question. */
  call?: CallingCall
  /** How the newest question ended; absent while it is open. */
  outcome?: QuestionOutcome
  /** Runs that failed or were interrupted: the next question with the same key is a new message. */
  failures: number
  /** Whether the caller must be told of the outcome, or of what was spent. */
  due?: true
  /** What had been spent when the caller was last told. */
  told?: { tokens: number; usd: number }
  /** The most that the session may spend, by the budgets of its calls; absent: no limit. */
  allowance?: Budget
}

/** What a call's request records of the session that answers it. */
export interface CalledChild {
  /** Its id. */
  session: string
  /** Its agent. */
  agent: string
  /** What it may spend for this call; an absent member means no limit. */
  budget?: Budget
  /** The call completes once the session has the question; the answer arrives as a message. */
  background?: true
  /** The run's stretch (see `RunState`), from 2: its traces have the answer's spans. Absent for the first. */
  stretch?: number
}

/** A call whose session works in the background: it has completed, and the answer has yet to come. */
export interface BackgroundCall {
  callId: string
  key: string
  run: number
  turn: number
  /** The run's intent: a run with the same intent can make the call again with the same key. */
  intent: number
  tool: string
  /** `seq` of the request. */
  seq: number
  agent: string
  budget?: Budget
  /** The task queue of the workers that serve the agent, if it is not the caller's. */
  taskQueue?: string
}
