// What a session waits for, and for whom, according to its state and, if the server was queried, to the steps that are pending there.
import { isWaiting } from '../past/call-status.ts'
import type { BackgroundCall } from '../agents/agent-call-facts.ts'
import type { Approvers } from '../call-facts.ts'
import type { Json } from '../json.ts'
import { leavesByItself } from '../recovery/recovery.ts'
import type { CallState, RunState, SessionError, SessionState } from '../state.ts'
import { defined } from '../defined.ts'
import type { BudgetRaise } from '../spending/spend.ts'

/** One thing that a session waits for. Times are milliseconds since 1970. */
export interface SessionWait {
  /**
   * Who or what ends the wait. `next_attempt`: pawl itself, at the time `until`. `verification`: the same; only then can it tell whether a
   * call happened, because its attempt was lost and may still be running. `gate`: the rate gate of an account, through which calls to a
   * model go one at a time after its provider has refused some. `limit`: calls of the tool in other sessions, because of its `concurrency`
   * or `rate`. `agent`: another session, whose agent answers the call.
   */
  for:
    | 'agent'
    | 'person'
    | 'client'
    | 'worker'
    | 'postgres'
    | 'model'
    | 'tool'
    | 'next_attempt'
    | 'verification'
    | 'gate'
    | 'limit'
    | 'message'
    | 'time'
  /** What a person or a client must do. */
  to?: 'recover' | 'resolve' | 'approve' | 'answer' | 'resume' | 'unpause' | 'raise'
  /** Why, or what exactly. */
  reason?: string
  /** The limits with which the run could continue, for `raise`. */
  raise?: BudgetRaise[]
  /** The call, if the wait is about one. */
  callId?: string
  /** The call's tool. */
  tool?: string
  /** For `agent`: the session that answers the call. In `below`: the session that waits. */
  session?: string
  /** For `agent`: what holds up that session and those below it, as the store has it. Absent: nothing, or it is not stored yet. */
  below?: SessionWait[]
  /** Digest of the arguments to approve, or of the question to answer. */
  digest?: string
  /** For `approve`: only a person with this role may decide. */
  approvers?: Approvers
  /** For people: the call's arguments, once they are stored. */
  input?: Json
  /** For `resolve`: the idempotency key, by which other systems may know the call. */
  key?: string
  /** For `gate`: the account, as the list of gates names it. */
  account?: string
  /** The attempt that is in progress, or due next. */
  attempt?: number
  /** The process that works on it. */
  worker?: string
  /** When the wait began. */
  since?: number
  /** When the approval expires, when pawl makes the next attempt or verifies the call, or when its turn comes at the gate at the latest. */
  until?: number
}

/** A step of a session that the server has pending: a model call, a tool call or the check of one. */
export interface PendingStep {
  step: 'model' | 'tool'
  attempt: number
  since?: number
  worker?: string
  /** Set if no worker has it: what it waits for, why its last attempt had no result, and when the server next offers it to workers. */
  heldUp?: Pick<SessionWait, 'reason' | 'until'> & { for: 'worker' | 'next_attempt' }
}

/** What a model call or a tool call waits for, according to the session's workflow. No event records it. Times are milliseconds since 1970. */
export interface CallWait {
  /** The tool call; absent for the model call. */
  callId?: string
  /** Who or what ends the wait: see `SessionWait`. */
  for: 'worker' | 'verification' | 'gate' | 'limit'
  /** Why, or what exactly. */
  reason: string
  /** For `gate`: the account, as the list of gates names it. */
  account?: string
  /** When the wait began. */
  since: number
  /** When pawl verifies the call, or when its turn comes at the gate at the latest. */
  until?: number
}

/** What is known besides the state. */
export interface WaitContext {
  steps: readonly PendingStep[]
  /** What the session's workflow reports. */
  calls?: readonly CallWait[]
  /** When the workflow retries a failed attempt. */
  retryAt?: number
}

/** What the session waits for, starting with what needs a person. Empty if it waits for nothing or is between two steps. */
export function waitsOf(state: SessionState, seen?: WaitContext): SessionWait[] {
  const { paused } = state
  const waits = waitsOfStatus(state, seen)
  if (!paused) return waits
  const { at: since, reason, raise } = paused
  return [{ for: 'person', to: raise ? 'raise' : 'unpause', since, ...defined({ reason, raise }) }, ...waits]
}

function waitsOfStatus(state: SessionState, seen: WaitContext | undefined): SessionWait[] {
  const { status, error, current, inbox, background = {} } = state
  switch (status) {
    case 'idle':
    case 'closed':
      // Queued messages are accepted as soon as nothing else holds the session up.
      return inbox.length > 0 ? [] : [...Object.entries(background).map(waitInBackground), { for: 'message' }]
    case 'error':
      return error ? waitsInError(state, error, seen) : []
    case 'running':
    case 'waiting':
      return current ? [...current.calls.filter(isWaiting).map(waitOfCall), ...waitsForSteps(current, seen)] : []
  }
}

/** The code of a session's error if continuing without an earlier execution would lose something. */
export const UNREADABLE = 'execution_unreadable'

/** The wait ends when a worker can replay the earlier execution, or a person decides to continue without what is lost. */
export function waitsForReader({ reason }: SessionError): SessionWait[] {
  return [
    { for: 'person', to: 'recover', reason: 'to continue without what cannot be read: strategy abandon' },
    { for: 'worker', reason },
  ]
}

/** Codes of errors that end once something else is available again. */
const ENDS_WITH: Readonly<Record<string, SessionWait['for']>> = {
  agent_not_served: 'worker',
  archive_unavailable: 'postgres',
}

function waitsInError({ unknown, current }: SessionState, error: SessionError, seen: WaitContext | undefined): SessionWait[] {
  const { nextAttemptAt: until } = error
  if (error.code === UNREADABLE) return waitsForReader(error)
  if (leavesByItself(error)) {
    const reason = seen?.steps.find(({ heldUp }) => heldUp)?.heldUp?.reason
    return [{ for: ENDS_WITH[error.code] ?? 'next_attempt', ...defined({ reason, until }) }]
  }
  const unresolved = Object.entries(unknown).filter(([, call]) => call.run === current?.run)
  return [
    ...unresolved.map(([callId, { resolution }]) => ({ for: 'person' as const, to: 'resolve' as const, callId, tool: resolution.tool })),
    { for: 'person', to: 'recover' },
  ]
}

const TO = {
  awaiting_approval: { for: 'person', to: 'approve' },
  awaiting_resolution: { for: 'person', to: 'resolve' },
  awaiting_answer: { for: 'client', to: 'answer' },
  asleep: { for: 'time' },
} as const

function waitInBackground([session, { agent, callId, tool }]: [string, BackgroundCall]): SessionWait {
  return { for: 'agent', callId, tool, session, reason: `the agent "${agent}" in the background, in session ${session}` }
}

function waitOfCall({ callId, status, resolution: { tool }, asked = {} }: CallState): SessionWait {
  const { digest, reason, approvers, expiresAt: until, child } = asked
  if (child) return { for: 'agent', callId, tool, session: child.session, reason: `the agent "${child.agent}" in session ${child.session}` }
  return { ...TO[status as keyof typeof TO], callId, tool, ...defined({ digest, reason, approvers, until }) }
}

/** What the run itself is doing or waiting for. */
function waitsForSteps(run: RunState, seen: WaitContext | undefined): SessionWait[] {
  if (run.phase === 'model') return [waitForModel(run, seen)]
  if (run.phase !== 'tools') return []
  const running = run.calls.filter(({ status }) => status === 'issued')
  const steps = seen?.steps.filter(({ step }) => step === 'tool') ?? []
  const calls = running.map(({ callId, resolution: { tool } }): SessionWait => {
    const wait = seen?.calls?.find((one) => one.callId === callId)
    if (wait) return { ...wait, tool }
    // The server does not tell which step belongs to which call.
    return { for: 'tool', callId, tool, ...(running.length === 1 && stepOf(steps[0], seen)) }
  })
  const held = running.length > 1 ? steps.find(({ heldUp }) => heldUp)?.heldUp : undefined
  return held ? [held, ...calls] : calls
}

function waitForModel({ modelAttempts = 0 }: RunState, seen: WaitContext | undefined): SessionWait {
  const step = seen?.steps.find((one) => one.step === 'model')
  const atGate = seen?.calls?.find((wait) => wait.for === 'gate')
  if (atGate) return { ...atGate, attempt: modelAttempts + 1 }
  return { for: 'model', ...stepOf(step, seen), attempt: modelAttempts + (step?.attempt ?? 1) }
}

/** The state of the only pending step of its kind. */
function stepOf(step: PendingStep | undefined, seen: WaitContext | undefined): Partial<SessionWait> {
  if (!step) return seen?.retryAt === undefined ? {} : { for: 'next_attempt', until: seen.retryAt }
  const { attempt, since, worker, heldUp } = step
  return { attempt, ...defined({ since, worker }), ...heldUp }
}
