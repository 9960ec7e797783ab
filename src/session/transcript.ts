// The transcript: the messages that a model is sent, folded from a session's events.
import { type AssistantBlock, type ContentBlock, isImageSource, type Message, type ToolResultBlock, type UserBlock } from './content.ts'
import type { EventOf, ResultContent, SessionEvent } from './events.ts'
import { callIdOf } from './events.ts'
import type { Json } from './json.ts'

/** What the model is told of a call that its run was stopped before. */
const NEVER_RAN = 'This call was not run: the run was stopped before it.'

/** A tool's result as the model sees it. */
export interface ToolResult {
  content: ResultContent
  isError: boolean
}

/** A transcript that grows by events. */
export interface Transcript {
  messages: Message[]
  /** Received messages that no turn has taken. */
  waiting: Map<string, string | UserBlock[]>
  /** The calls of the newest assistant message, and the results so far; null once they stand in `messages`. */
  open: { callIds: string[]; results: Map<string, ToolResult> } | null
  /** By idempotency key: the calls that completed it. */
  keys: Map<string, string>
  /** Keys of calls that have no outcome yet, by call. */
  pendingKeys: Map<string, string>
  /** Results of completed effects, for replays of their key. */
  completed: Map<string, ResultContent>
  /** Of the newest run: where it begins in `messages`, and the messages it took. */
  newestRun: { run: number; from: number; took: Map<string, string | UserBlock[]> }
}

/** The transcript of no events. */
export function emptyTranscript(): Transcript {
  return {
    messages: [],
    waiting: new Map(),
    open: null,
    completed: new Map(),
    keys: new Map(),
    pendingKeys: new Map(),
    newestRun: { run: 0, from: 0, took: new Map() },
  }
}

/** Adds one event to the transcript, in place. */
export function addToTranscript(transcript: Transcript, event: SessionEvent): void {
  switch (event.type) {
    case 'message_received':
      transcript.waiting.set(event.messageId, event.content)
      return
    case 'run_started':
      closeCalls(transcript)
      transcript.newestRun = { run: event.run, from: transcript.messages.length, took: new Map() }
      return
    case 'turn_started':
      closeCalls(transcript)
      takeMessages(transcript, event.takes)
      return
    case 'model_completed':
      addAnswer(transcript, event)
      return
    case 'tool_issued':
      if (event.key !== undefined) transcript.pendingKeys.set(event.callId, event.key)
      return
    case 'tool_completed': {
      const replayed = event.replayOf === undefined ? undefined : transcript.completed.get(event.replayOf)
      const result = resultOf(event, replayed)
      if (event.replayOf === undefined) complete(transcript, event.callId, result.content)
      addResult(transcript, event.callId, result)
      return
    }
    case 'tool_resolved':
      if (event.happened) complete(transcript, event.callId, event.content ?? resultText(event.value ?? null))
      return
    case 'tool_failed':
      transcript.pendingKeys.delete(event.callId)
      addResult(transcript, event.callId, resultOf(event))
      return
    case 'tool_unknown':
      addResult(transcript, event.callId, resultOf(event))
      return
    case 'run_completed':
    case 'run_interrupted':
      closeCalls(transcript)
      return
    case 'recovery_started':
      if (event.strategy === 'restart_run') dropNewestRun(transcript)
      else if (event.strategy === 'abandon') closeCalls(transcript)
      return
    default:
      return
  }
}

function complete(transcript: Transcript, callId: string, content: ResultContent): void {
  transcript.completed.set(callId, content)
  const key = transcript.pendingKeys.get(callId)
  transcript.pendingKeys.delete(callId)
  if (key !== undefined && !transcript.keys.has(key)) transcript.keys.set(key, callId)
}

/**
 * A call's result as the model sees it: text and blocks as they are, anything else as JSON.
 * `replayed` is the first call's result, for the replay of a completed key.
 */
function resultOf(event: EventOf<'tool_completed' | 'tool_failed' | 'tool_unknown'>, replayed?: ResultContent): ToolResult {
  if (event.type !== 'tool_completed') return { content: event.message, isError: true }
  if (event.replayOf === undefined) return { content: event.content ?? resultText(event.value ?? null), isError: false }
  const note = `[idempotent replay of ${event.replayOf}]`
  if (replayed === undefined || typeof replayed === 'string') {
    return { content: replayed ? `${note}\n${replayed}` : note, isError: false }
  }
  return { content: [{ type: 'text', text: note }, ...replayed], isError: false }
}

/** A JSON value as the text or blocks of a tool result. */
export function resultText(value: Json): ResultContent {
  if (typeof value === 'string') return value
  if (isBlocks(value)) return value
  return JSON.stringify(value)
}

/** Tools return data that only looks like blocks: what is to be sent as blocks has all that they have, and nothing else. */
/** Whether a value is blocks that may stand in a tool result. */
export function isBlocks(value: Json): value is Json & ResultContent & unknown[] {
  return Array.isArray(value) && value.length > 0 && value.every(isBlock)
}

function isBlock(value: Json): boolean {
  if (value === null || typeof value !== 'object' || Array.isArray(value) || Object.keys(value).length !== 2) return false
  return (value.type === 'text' && typeof value.text === 'string') || (value.type === 'image' && isImageSource(value.source))
}

/** An assistant message's content with the model's tool_use ids replaced by pawl's call ids. */
export function withCallIds(content: readonly AssistantBlock[], run: number, turn: number): AssistantBlock[] {
  let index = 0
  return content.map((block) => (block.type === 'tool_use' ? { ...block, id: callIdOf(run, turn, index++) } : block))
}

function takeMessages(transcript: Transcript, takes: readonly string[]): void {
  for (const messageId of takes) {
    const content = transcript.waiting.get(messageId)
    if (content === undefined) continue
    transcript.waiting.delete(messageId)
    transcript.newestRun.took.set(messageId, content)
    transcript.messages.push({ role: 'user', content: content as string | ContentBlock[] })
  }
}

function addAnswer(transcript: Transcript, event: EventOf<'model_completed'>): void {
  if (event.content.length === 0) return
  const content = withCallIds(event.content, event.run, event.turn)
  transcript.messages.push({ role: 'assistant', content })
  const callIds = content.flatMap((block) => (block.type === 'tool_use' ? [block.id] : []))
  if (callIds.length > 0) transcript.open = { callIds, results: new Map() }
}

function addResult(transcript: Transcript, callId: string, result: ToolResult): void {
  const { open } = transcript
  if (!open?.callIds.includes(callId)) return
  open.results.set(callId, result)
  if (open.results.size === open.callIds.length) closeCalls(transcript)
}

/** Writes the results message. The API refuses a tool_use without its result, so a call that never ran gets one that says so. */
function closeCalls(transcript: Transcript): void {
  const { open } = transcript
  if (!open) return
  transcript.open = null
  transcript.messages.push({
    role: 'user',
    content: open.callIds.map((callId) => resultBlock(callId, open.results.get(callId) ?? { content: NEVER_RAN, isError: true })),
  })
}

/** The block that stands for a result in the transcript. */
function resultBlock(callId: string, result: ToolResult): ToolResultBlock {
  return { type: 'tool_result', tool_use_id: callId, content: result.content, ...(result.isError && { is_error: true }) }
}

function dropNewestRun(transcript: Transcript): void {
  const { from, took } = transcript.newestRun
  transcript.messages.length = from
  transcript.open = null
  transcript.waiting = new Map([...took, ...transcript.waiting])
  took.clear()
}
