// The transcript: the messages that are sent to a model, folded from a session's events.
import { type AssistantBlock, type ContentBlock, isImageSource, type Message, type ToolResultBlock, type UserBlock } from './content.ts'
import { placeholderOf } from './blobs.ts'
import { type Effects, effectsAbove, forgetEffects, noEffects, noteEffect } from './effects.ts'
import { noteOn } from './recovery-note.ts'
import type { EventOf, ResultContent, SessionEvent } from './events.ts'
import { callIdOf } from './events.ts'
import type { Json, JsonObject } from './json.ts'

/** The model's result for a call that had not begun when its run was stopped. */
const NEVER_RAN = 'This call was not run: the run was stopped first.'
/** The model's result for a call whose outcome was still unknown when its run was stopped. */
const NEVER_KNOWN =
  'The outcome of this call is unknown: it may or may not have taken effect, and this was not resolved when the run was stopped. ' +
  'Do not request it again; tell the user, or check with a read.'

/** A tool's result as the model sees it. */
export interface ToolResult {
  content: ResultContent
  isError: boolean
}

/** A transcript that grows by events. */
export interface Transcript {
  messages: Message[]
  /** For each message, the `seq` of the event that added it. */
  seqs: number[]
  /** Received messages that no turn has taken. */
  waiting: Map<string, WaitingMessage>
  /**
   * The calls of the newest assistant message, and the results so far; null once they are in `messages`.
   * `asked`: unknown calls that a person has to resolve.
   */
  open: { callIds: string[]; results: Map<string, ToolResult>; asked: Set<string> } | null
  /** By idempotency key: the call that completed it. */
  keys: Map<string, string>
  /** Keys of calls without an outcome yet, by call. */
  pendingKeys: Map<string, string>
  /** Results of completed effects, for replays of their key. */
  completed: Map<string, ResultContent>
  /** The newest run: where it begins in `messages`, the messages that it took, and the metadata for its code. */
  newestRun: NewestRun
  effects: Effects
  /** For the model, where the transcript was cut: they are not messages, and `messagesFor` puts them in their places. */
  notes: Note[]
}

/** A note for the model about effects that the transcript no longer shows. */
interface Note {
  /** How many messages come before it. */
  after: number
  /** The event that cut the transcript. */
  seq: number
  text: string
}

/** The newest run, and the metadata of the message that opened it. */
interface NewestRun {
  run: number
  /** `seq` of its `run_started`. */
  seq: number
  from: number
  took: Map<string, WaitingMessage>
  metadata: JsonObject
}

/** What a user said, and the `seq` of its `message_received`. */
export interface WaitingMessage {
  content: string | UserBlock[]
  metadata?: JsonObject
  seq: number
}

/** The transcript of no events. */
export function emptyTranscript(): Transcript {
  return {
    messages: [],
    seqs: [],
    waiting: new Map(),
    open: null,
    completed: new Map(),
    keys: new Map(),
    pendingKeys: new Map(),
    newestRun: { run: 0, seq: 0, from: 0, took: new Map(), metadata: {} },
    effects: noEffects(),
    notes: [],
  }
}

/** Adds one event to the transcript, in place. */
export function addToTranscript(transcript: Transcript, event: SessionEvent): void {
  noteEffect(transcript.effects, event)
  switch (event.type) {
    case 'session_started':
      Object.assign(transcript, emptyTranscript())
      return
    case 'message_received':
      transcript.waiting.set(event.messageId, {
        content: event.content,
        ...(event.metadata && { metadata: event.metadata }),
        seq: event.seq,
      })
      return
    case 'run_started':
      closeCalls(transcript, event.seq)
      startRun(transcript, event)
      return
    case 'turn_started':
      closeCalls(transcript, event.seq)
      takeMessages(transcript, event)
      return
    case 'model_completed':
      addAnswer(transcript, event)
      return
    case 'tool_issued':
      if (event.key !== undefined) transcript.pendingKeys.set(event.callId, event.key)
      return
    case 'approval_decided':
      if (event.resolution) replacePendingKey(transcript, event.callId, event.resolution.key)
      return
    case 'tool_completed': {
      const replayed = event.replayOf === undefined ? undefined : transcript.completed.get(event.replayOf)
      const result = resultOf(event, replayed)
      if (event.replayOf === undefined) complete(transcript, event.callId, result.content)
      addResult(transcript, event, result)
      return
    }
    case 'tool_resolved':
      if (event.happened) complete(transcript, event.callId, contentOf(event))
      else if (event.decision !== 'skip') transcript.open?.asked.delete(event.callId)
      return
    case 'tool_failed':
      transcript.pendingKeys.delete(event.callId)
      addResult(transcript, event, resultOf(event))
      return
    case 'tool_unknown':
      // A call that a person has to resolve gets its result with the resolution.
      if (event.ask) transcript.open?.asked.add(event.callId)
      else addResult(transcript, event, resultOf(event))
      return
    case 'run_completed':
    case 'run_interrupted':
      closeCalls(transcript, event.seq)
      return
    case 'recovery_started':
      if (event.strategy === 'restart_run') restartNewestRun(transcript, event.seq)
      else {
        const keptSeq = answersLeftAfter(transcript, event)
        if (keptSeq !== undefined) leaveAnswers(transcript, keptSeq, event.seq)
      }
      return
    case 'rolled_back':
      rollBack(transcript, event)
      return
    case 'forked':
      becomeFork(transcript, event)
      return
    default:
      return
  }
}

/** A call that was approved with other arguments completes another effect. */
function replacePendingKey({ pendingKeys }: Transcript, callId: string, key: string | undefined): void {
  if (key === undefined) pendingKeys.delete(callId)
  else pendingKeys.set(callId, key)
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
  if (event.replayOf === undefined) return { content: contentOf(event), isError: false }
  const note = `[idempotent replay of ${event.replayOf}]`
  if (replayed === undefined || typeof replayed === 'string') {
    return { content: replayed ? `${note}\n${replayed}` : note, isError: false }
  }
  return { content: [{ type: 'text', text: note }, ...replayed], isError: false }
}

/** What the model sees of a completed call; for a large result that was not restored, its beginning. */
function contentOf({ content, value, blob }: EventOf<'tool_completed' | 'tool_resolved'>): ResultContent {
  if (content !== undefined) return content
  return value === undefined && blob ? placeholderOf(blob) : resultText(value ?? null)
}

/** A JSON value as the text or blocks of a tool result. */
export function resultText(value: Json): ResultContent {
  if (typeof value === 'string') return value
  if (isBlocks(value)) return value
  return JSON.stringify(value)
}

/** Tools may return data that resembles blocks: a block must have all members of its type and no others. */
/** Whether a value is a list of blocks that a tool result may contain. */
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

function startRun(transcript: Transcript, { run, messageId, seq }: EventOf<'run_started'>): void {
  const metadata = transcript.waiting.get(messageId)?.metadata ?? {}
  transcript.newestRun = { run, seq, from: transcript.messages.length, took: new Map(), metadata }
}

function forgetRun(transcript: Transcript): void {
  const { run, seq } = transcript.newestRun
  transcript.newestRun = { run, seq, from: transcript.messages.length, took: new Map(), metadata: {} }
}

function takeMessages(transcript: Transcript, { takes, seq }: EventOf<'turn_started'>): void {
  for (const messageId of takes) {
    const message = transcript.waiting.get(messageId)
    if (message === undefined) continue
    transcript.waiting.delete(messageId)
    transcript.newestRun.took.set(messageId, message)
    put(transcript, seq, { role: 'user', content: message.content as string | ContentBlock[] })
  }
}

function put(transcript: Transcript, seq: number, message: Message): void {
  transcript.messages.push(message)
  transcript.seqs.push(seq)
}

function addAnswer(transcript: Transcript, event: EventOf<'model_completed'>): void {
  if (event.content.length === 0) return
  const content = withCallIds(event.content, event.run, event.turn)
  put(transcript, event.seq, { role: 'assistant', content })
  const callIds = content.flatMap((block) => (block.type === 'tool_use' ? [block.id] : []))
  if (callIds.length > 0) transcript.open = { callIds, results: new Map(), asked: new Set() }
}

function addResult(transcript: Transcript, { callId, seq }: { callId: string; seq: number }, result: ToolResult): void {
  const { open } = transcript
  if (!open?.callIds.includes(callId)) return
  open.results.set(callId, result)
  if (open.results.size === open.callIds.length) closeCalls(transcript, seq)
}

/** Adds the message with the results. The API refuses a tool_use without a result, so a call that never ran gets one that says so. */
function closeCalls(transcript: Transcript, seq: number): void {
  const { open } = transcript
  if (!open) return
  transcript.open = null
  put(transcript, seq, {
    role: 'user',
    content: open.callIds.map((callId) => {
      const none = { content: open.asked.has(callId) ? NEVER_KNOWN : NEVER_RAN, isError: true }
      return resultBlock(callId, open.results.get(callId) ?? none)
    }),
  })
}

/** The block for a result in the transcript. */
function resultBlock(callId: string, result: ToolResult): ToolResultBlock {
  return { type: 'tool_result', tool_use_id: callId, content: result.content, ...(result.isError && { is_error: true }) }
}

/** The run's messages wait again, and all that it said leaves the transcript. */
function restartNewestRun(transcript: Transcript, seq: number): void {
  const { from, took, seq: startedAt } = transcript.newestRun
  truncate(transcript, from)
  transcript.waiting = new Map([...took, ...transcript.waiting])
  took.clear()
  cut(transcript, seq, startedAt)
}

/** The event after which a recovery takes answers and results out of the transcript; undefined if it takes none. */
export function answersLeftAfter({ newestRun }: Transcript, { strategy, toSeq }: EventOf<'recovery_started'>): number | undefined {
  if (strategy === 'abandon') return newestRun.seq
  return strategy === 'restart_from_last_effect' ? toSeq : undefined
}

/** Answers and results after `keptSeq` leave the transcript; what users said stays. Calls of an answer that stays were never run. */
function leaveAnswers(transcript: Transcript, keptSeq: number, seq: number): void {
  const { messages, seqs } = transcript
  if ((seqs.at(-1) ?? 0) <= keptSeq) closeCalls(transcript, seq)
  const first = seqs.findIndex((at) => at > keptSeq)
  const from = first < 0 ? messages.length : first
  const isKept = (message: Message, index: number): boolean => isSaid(message) || seqs[index] === seq
  const kept = messages
    .slice(from)
    .flatMap((message, index) => (isKept(message, from + index) ? [{ message, seq: seqs[from + index] ?? seq }] : []))
  truncate(transcript, from)
  for (const one of kept) put(transcript, one.seq, one.message)
  cut(transcript, seq, keptSeq)
}

/** Whether a user said it: results of calls are messages of the user's role, too. */
function isSaid({ role, content }: Message): boolean {
  return role === 'user' && (typeof content === 'string' || content.every((block) => block.type !== 'tool_result'))
}

/** After what came after `keptSeq` has left the transcript: tells the model which effects are left of it. */
function cut(transcript: Transcript, seq: number, keptSeq: number): void {
  transcript.open = null
  transcript.notes = transcript.notes.filter((note) => note.seq <= keptSeq)
  const effects = effectsAbove(transcript.effects, keptSeq)
  if (effects.length === 0) return
  transcript.notes.push({ after: transcript.messages.length, seq, text: noteOn(effects, transcript.completed) })
}

/** The messages for the model: those of the transcript, with the notes in their places. */
export function messagesFor({ messages, notes }: Transcript): Message[] {
  const all: Message[] = []
  let next = 0
  for (const [index, message] of messages.entries()) {
    for (; (notes[next]?.after ?? Infinity) <= index; next++) all.push(noteMessage(notes[next]))
    all.push(message)
  }
  for (; next < notes.length; next++) all.push(noteMessage(notes[next]))
  return all
}

function noteMessage(note: Note | undefined): Message {
  return { role: 'user', content: note?.text ?? '' }
}

function truncate(transcript: Transcript, length: number): void {
  transcript.messages.length = length
  transcript.seqs.length = length
}

/** Removes what was added after `toSeq`; results of completed effects stay, for replays. */
function rollBack(transcript: Transcript, { toSeq, upToSeq, keepsRun, keys, again, seq: at }: EventOf<'rolled_back'>): void {
  const kept = transcript.seqs.findIndex((seq) => seq > toSeq)
  if (kept >= 0) truncate(transcript, kept)
  if (keys === 'forgotten') forgetKeys(transcript, toSeq)
  cut(transcript, at, toSeq)
  if (keepsRun) return
  for (const [messageId, { seq }] of transcript.waiting) if (seq <= upToSeq) transcript.waiting.delete(messageId)
  const { took } = transcript.newestRun
  const saidAgain = (again?.messages ?? []).flatMap(({ messageId }): [string, WaitingMessage][] => {
    const message = took.get(messageId)
    return message ? [[messageId, message]] : []
  })
  transcript.waiting = new Map([...saidAgain, ...transcript.waiting])
  forgetRun(transcript)
}

/** The effects with an outcome after `seq` were undone outside of pawl: nothing replays them. */
function forgetKeys(transcript: Transcript, seq: number): void {
  const forgotten = new Set(effectsAbove(transcript.effects, seq).map(({ callId }) => callId))
  for (const [key, callId] of transcript.keys) if (forgotten.has(callId)) transcript.keys.delete(key)
  for (const callId of forgotten) transcript.completed.delete(callId)
  forgetEffects(transcript.effects, seq)
}

function becomeFork(transcript: Transcript, { keys }: EventOf<'forked'>): void {
  transcript.open = null
  transcript.waiting.clear()
  forgetRun(transcript)
  if (keys === 'carried') return
  transcript.keys.clear()
  transcript.pendingKeys.clear()
  transcript.completed.clear()
  transcript.effects = noEffects()
}
