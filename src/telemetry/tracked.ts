// What the projection keeps of a session between two events.
import type { AnsweredCall } from '../session/agents/agent-call-facts.ts'
import { traceOf } from '../session/agents/traces.ts'
import type { Usage } from '../session/content.ts'
import { defined } from '../session/defined.ts'
import type { EventOf, SessionEvent } from '../session/events.ts'
import { type NewestRun, NO_RUN } from '../session/past/cut.ts'
import type { SessionState } from '../session/state.ts'
import type { Stretch } from './ids.ts'
import type { SpanEvent, SpanLink } from './span.ts'

/** What a session was doing after an event. The projection of the next event needs it. */
export interface TrackedSession {
  state: SessionState
  /** What spans say about the waiting messages and those of the current run. */
  messages: Map<string, TrackedMessage>
  /** The newest run. */
  newest: NewestRun
  /** The spans that have begun. */
  open?: OpenRun | undefined
  /** The calls of the current run that were issued. */
  calls: Map<string, TracedCall>
  /** The current run's calls that other sessions are answering. */
  agentCalls: Map<string, TracedAgentCall>
  /** The call that the newest run answers. */
  answers?: { run: number; call: AnsweredCall } | undefined
  /** `messages` lacks messages that spans may describe: the session must be tracked from scratch. */
  isIncomplete?: true
}

/** What spans say about a message. */
export type TrackedMessage = Pick<EventOf<'message_received'>, 'traceparent' | 'content'>

/** A stretch in progress. */
export interface OpenRun extends Required<Pick<Stretch, 'run'>> {
  stretch: number | undefined
  of: Stretch
  /** The span of the call that the run answers. */
  parentSpanId: string | undefined
  startedAt: number
  links: SpanLink[]
  usage: Usage
  usd: number | undefined
  turn?: TracedTurn
}

export interface TracedTurn {
  turn: number
  startedAt: number
  /** When the next attempt of the model call begins. */
  nextAt: number
  /** The number of the newest attempt of the model call that has a span. */
  attempts: number
  takes: readonly string[]
  links: SpanLink[]
  events: SpanEvent[]
}

export interface TracedCall {
  /** When its next attempt begins. */
  nextAt: number
  /** The number of its newest attempt that has a span. */
  attempts: number
  tool: string
  input: string
}

/** A call that another session is answering. Its span belongs to the stretch that asked, because the spans of the answer are in that trace. */
export interface TracedAgentCall {
  /** The session that answers. */
  session: string
  tool: string
  of: Stretch
  turn: number
  startedAt: number
}

/** What spans contain. */
export interface ProjectOptions {
  /** Whether spans contain what users, models and tools said. */
  contents: boolean
}

/** Starts tracking a session after the events that `state` was folded from. `messages`: the waiting ones and those of the current run. */
export function track(state: SessionState, messages: ReadonlyMap<string, TrackedMessage>): TrackedSession {
  return { state, newest: NO_RUN, messages: new Map(messages), calls: new Map(), agentCalls: new Map() }
}

/** The stretch of the run in which something happens now. */
export function stretchOf({ state, answers }: Pick<TrackedSession, 'state' | 'answers'>, run: number, stretch?: number): Stretch {
  const call = state.current?.run === run ? state.current.answers : answers?.run === run ? answers.call : undefined
  return { sessionId: state.sessionId, run, ...defined({ stretch, trace: traceOf({ answers: call }) }) }
}

/** The parts of a message that are kept. Contents may be large, and are kept only if spans contain them. */
export function trackedMessage(
  { content, traceparent }: EventOf<'message_received'>,
  { contents }: Pick<ProjectOptions, 'contents'>,
): TrackedMessage {
  return { content: contents ? content : '', ...defined({ traceparent }) }
}

/** The messages of a state that spans may describe: their ids, and the `seq` of their events. */
export function messagesOf({ inbox, current }: SessionState): { messageId: string; seq?: number }[] {
  return [...inbox, ...(current?.taken ?? [])]
}

/** Keeps only the messages that spans may still describe. */
export function keepMessages(tracked: TrackedSession, { type }: SessionEvent): void {
  if (!CHANGES_INBOX.has(type)) return
  const needed = new Set(messagesOf(tracked.state).map(({ messageId }) => messageId))
  for (const messageId of tracked.messages.keys()) if (!needed.has(messageId)) tracked.messages.delete(messageId)
  if ([...needed].some((messageId) => !tracked.messages.has(messageId))) tracked.isIncomplete = true
}

const CHANGES_INBOX: ReadonlySet<SessionEvent['type']> = new Set([
  'run_completed',
  'run_interrupted',
  'rolled_back',
  'recovery_started',
  'run_started',
  'forked',
])
