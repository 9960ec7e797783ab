// What the agents that answer a chat's calls have said: for each call a message, like a chat's own, whose calls of further agents contain their
// messages. Pure, so that a stream and the history agree.
import { CHILD_PART } from '../session/agents/agent-calls.ts'
import { beginningOf } from '../session/beginning.ts'
import type { EventOf, SessionEvent } from '../session/events.ts'
import { callIdOf, requestIdOf } from '../session/ids.ts'
import { isObject, type Json } from '../session/json.ts'
import { isOutcome, type OutcomeEvent, outcomeIn } from '../session/past/call-status.ts'
import type { UiMessage, UiPart } from './protocol.ts'
import { callErrorText, type ErrorTexts, OUTCOME_UNKNOWN } from './user-texts.ts'

/** The most characters that are shown of one agent: the newest. */
export const MAX_AGENT_CHARACTERS = 10_000
/** The most characters of a call's arguments, and of its result. */
const MAX_VALUE_CHARACTERS = 1_000
/** What a call counts as, besides its arguments. Its result does not count: what is shown would then depend on when it was read. */
const CALL_CHARACTERS = 200

/** A call of the chat's own session that an agent answers. */
export interface AgentCall {
  /** The id of the call's part. */
  toolCallId: string
  /** The session that answers it. */
  session: string
  /** The call has completed, and the agent works in the background. */
  inBackground: boolean
}

/** A call of a further agent, in what an agent has said. */
interface CallSaid {
  type: 'call'
  toolCallId: string
  tool: string
  input: unknown
  /** The session that works on it. */
  session?: string
  output?: unknown
  errorText?: string
}

type Said = { type: 'text'; text: string } | CallSaid

/** What a session has said in its newest run. */
interface AgentRun {
  said: Said[]
  /** What its model has streamed since its last recorded answer. */
  streamed: string
}

/** The agents at work below a chat's session. */
export interface AgentsAtWork {
  /** Notes an event of the chat's session. Returns the calls in the background that end with it for the chat. */
  ownEvent(event: SessionEvent): AgentCall[]
  /** Notes an event of a session below. */
  event(sessionId: string, event: SessionEvent): void
  /** Notes text that a session below streams. */
  text(sessionId: string, text: string): void
  /** Discards what a session below has streamed since its last recorded answer. */
  reset(sessionId: string): void
  /** The calls of the chat's own session at which agents work. */
  calls(): AgentCall[]
  /** The call of the chat's own session to which a session below belongs; undefined if the session is not at work for the chat. */
  callOf(sessionId: string): AgentCall | undefined
  /** The sessions at work, each before those that it has called. */
  sessions(): string[]
  /** What the agent that answers the call has said: a message without parts, if it is nothing yet. */
  messageOf(call: AgentCall): UiMessage
}

export function startAgents(root: string, errorTexts: ErrorTexts = 'masked'): AgentsAtWork {
  const calls = new Map<string, AgentCall>()
  const runs = new Map<string, AgentRun>()

  function runOf(sessionId: string): AgentRun {
    const known = runs.get(sessionId)
    if (known) return known
    const run: AgentRun = { said: [], streamed: '' }
    runs.set(sessionId, run)
    return run
  }

  function ownEvent(event: SessionEvent): AgentCall[] {
    if (event.type === 'answer_requested' && event.child) {
      const { session } = event.child
      calls.set(session, { toolCallId: requestIdOf(event.callId), session, inBackground: false })
      return []
    }
    if (event.type === 'message_received') return event.answers ? end([event.answers.session]) : []
    if (endsAnswer(event)) return end([...calls.keys()])
    if (!isOutcome(event)) return []
    const call = [...calls.values()].find(({ toolCallId }) => toolCallId === requestIdOf(event.callId))
    if (!call) return []
    if (!isStarted(event, call.session)) return end([call.session])
    call.inBackground = true
    return []
  }

  function end(sessions: readonly string[]): AgentCall[] {
    return sessions.flatMap((session) => {
      const call = calls.get(session)
      calls.delete(session)
      forget(session)
      return call?.inBackground ? [call] : []
    })
  }

  function forget(session: string): void {
    for (const id of [...runs.keys()]) if (id === session || id.startsWith(`${session}/`)) runs.delete(id)
  }

  /** The call that a session below the first level answers, in what its caller has said. */
  function callSaidOf(sessionId: string): CallSaid | undefined {
    const caller = runs.get(sessionId.slice(0, -CHILD_PART))
    return caller?.said.find((one): one is CallSaid => one.type === 'call' && one.session === sessionId)
  }

  function callOf(sessionId: string): AgentCall | undefined {
    for (let id = sessionId; id.length > root.length + CHILD_PART; id = id.slice(0, -CHILD_PART)) if (!callSaidOf(id)) return undefined
    return calls.get(sessionId.slice(0, root.length + CHILD_PART))
  }

  function event(sessionId: string, event: SessionEvent): void {
    if (!callOf(sessionId)) return
    const run = runOf(sessionId)
    switch (event.type) {
      case 'run_started':
        forget(sessionId)
        runs.set(sessionId, { said: [], streamed: '' })
        return
      case 'model_completed':
        record(run, saidIn(event))
        return
      case 'message_received':
        if (event.answers) leave(event.answers.session)
        return
      case 'run_completed':
      case 'run_interrupted':
        for (const one of run.said) if (one.type === 'call' && one.session !== undefined) leave(one.session)
        return
      default:
        if (event.type === 'answer_requested' || isOutcome(event)) noteCall(run, event)
    }
  }

  function record(run: AgentRun, more: readonly Said[]): void {
    const said = newest([...run.said, ...more])
    for (const one of run.said) if (one.type === 'call' && one.session !== undefined && !said.includes(one)) forget(one.session)
    Object.assign(run, { said, streamed: '' })
  }

  function leave(session: string): void {
    const call = callSaidOf(session)
    if (call) delete call.session
    forget(session)
  }

  function noteCall({ said }: AgentRun, event: EventOf<'answer_requested'> | OutcomeEvent): void {
    const isOf = (id: string) => (one: Said) => one.type === 'call' && one.toolCallId === requestIdOf(id)
    const call = said.findLast(isOf(event.callId)) as CallSaid | undefined
    if (!call) return
    if (event.type === 'answer_requested') {
      delete call.output
      delete call.errorText
      if (event.child) call.session = event.child.session
      return
    }
    const outcome = outcomeIn(event, 'awaiting_answer')
    if (!outcome || outcome.error?.asked) return
    const { error, result, replayOf } = outcome
    if (error) call.errorText = brief(error.code === 'outcome_unknown' ? OUTCOME_UNKNOWN : callErrorText(error, errorTexts))
    else if (replayOf !== undefined) call.output = (said.findLast(isOf(replayOf)) as CallSaid | undefined)?.output ?? null
    else call.output = brief((result?.value ?? result?.content ?? result?.blob ?? null) as Json)
    if (call.session !== undefined && !isStarted(event, call.session)) leave(call.session)
  }

  function partOf(one: Said): UiPart {
    if (one.type === 'text') return { type: 'text', text: one.text, state: 'done' }
    const { toolCallId, tool, input, session, output, errorText } = one
    const common = { type: `tool-${tool}`, toolCallId, providerExecuted: true, input } as const
    if (session !== undefined) return { ...common, state: 'output-available', output: messageIn(session), preliminary: true }
    if (errorText !== undefined) return { ...common, state: 'output-error', errorText }
    if (output !== undefined) return { ...common, state: 'output-available', output }
    return { ...common, state: 'input-available' }
  }

  function messageIn(session: string): UiMessage {
    const { said = [], streamed = '' } = runs.get(session) ?? {}
    const parts = newest(streamed === '' ? said : [...said, { type: 'text', text: streamed }]).map(partOf)
    const last = parts.at(-1)
    if (streamed !== '' && last?.type === 'text') last.state = 'streaming'
    return { id: session, role: 'assistant', parts }
  }

  function below(session: string): string[] {
    const { said = [] } = runs.get(session) ?? {}
    return [session, ...said.flatMap((one) => (one.type === 'call' && one.session !== undefined ? below(one.session) : []))]
  }

  return {
    ownEvent,
    event,
    text(sessionId, text) {
      if (!callOf(sessionId)) return
      const run = runOf(sessionId)
      // As much as may be shown, and a character that says whether there was more.
      run.streamed = `${run.streamed}${text}`.slice(-MAX_AGENT_CHARACTERS - 1)
    },
    reset(sessionId) {
      const run = runs.get(sessionId)
      if (run) run.streamed = ''
    },
    calls: () => [...calls.values()],
    callOf,
    sessions: () => [...calls.keys()].flatMap(below),
    messageOf: ({ session }) => messageIn(session),
  }
}

/** Whether the chat's answer, in which the calls are, is finished, or another one begins. */
function endsAnswer(event: SessionEvent): boolean {
  switch (event.type) {
    case 'turn_started':
      return event.takes.length > 0
    case 'run_completed':
    case 'run_interrupted':
    case 'session_started':
    case 'forked':
      return true
    case 'rolled_back':
      return !event.keepsRun
    default:
      return false
  }
}

/** Whether the call has completed while its agent continues to work. */
function isStarted(event: OutcomeEvent, session: string): boolean {
  const value = event.type === 'tool_completed' ? event.value : undefined
  return isObject(value) && value.status === 'started' && value.session === session
}

/** What a background call has returned. */
export function startedOutput({ session }: AgentCall): { session: string; status: 'started' } {
  return { session, status: 'started' }
}

/** The texts and the calls of agents in an answer. */
function saidIn({ run, turn, content, calls }: EventOf<'model_completed'>): Said[] {
  let index = -1
  return content.flatMap((block): Said[] => {
    if (block.type === 'text' && block.text !== '') return [{ type: 'text', text: block.text }]
    if (block.type !== 'tool_use') return []
    index += 1
    const at = index
    const isAgent = calls.some((call) => call.index === at && call.client?.agent)
    return isAgent ? [{ type: 'call', toolCallId: callIdOf(run, turn, at), tool: block.name, input: brief(block.input ?? null) }] : []
  })
}

/** The newest of them, as many as may be shown. A text of which only the end fits begins with an ellipsis. */
function newest(said: readonly Said[]): Said[] {
  let room = MAX_AGENT_CHARACTERS
  const kept: Said[] = []
  for (const one of said.toReversed()) {
    const size = sizeOf(one)
    if (size > room) {
      if (one.type === 'text' && room > 1) kept.unshift({ type: 'text', text: `…${endOf(one.text, room - 1)}` })
      break
    }
    kept.unshift(one)
    room -= size
  }
  return kept
}

function sizeOf(one: Said): number {
  if (one.type === 'text') return one.text.length
  return JSON.stringify(one.input).length + CALL_CHARACTERS
}

/** The last `max` UTF-16 units of the text, without half of a character at their beginning. */
function endOf(text: string, max: number): string {
  const end = text.slice(-max)
  return /^[\udc00-\udfff]/.test(end) ? end.slice(1) : end
}

/** A value, or the beginning of its text if it is long. */
function brief<T extends Json>(value: T): T | string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length <= MAX_VALUE_CHARACTERS ? value : `${beginningOf(text, MAX_VALUE_CHARACTERS)}…`
}
