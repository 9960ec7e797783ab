// The transcript: the messages sent to a model, folded from a session's events.
import {
  type AssistantBlock,
  type ContentBlock,
  isImageSource,
  type Message,
  type ToolResultBlock,
  type Usage,
  type UserBlock,
} from '../content.ts'
import { defined } from '../defined.ts'
import { placeholderOf } from '../blobs.ts'
import { type Effects, effectsAbove, forgetEffects, noEffects, noteEffect } from '../effects.ts'
import { noteOn, noteOnOutcome } from './recovery-note.ts'
import { type HookRun, textsOf } from '../hooks/hooks.ts'
import type { EventOf, Resolution, ResultContent, SessionEvent } from '../events.ts'
import { callIdOf, requestIdOf } from '../events.ts'
import type { Json, JsonObject } from '../json.ts'
import {
  abandonedAs,
  abandonsCalls,
  addToCalls,
  DID_NOT_HAPPEN,
  hasEnded,
  isLate,
  madeAgain,
  type TurnCall,
  type TurnCalls,
} from '../past/calls.ts'
import { type Cut, cutOf } from '../past/cut.ts'
import type { Replaced } from './replaced.ts'

/** The result that the model sees for a call that had not begun when its run was stopped. */
const NEVER_RAN = 'This call was not run: the run was stopped first.'
/** The result that the model sees for a call that may have taken effect, which was not resolved when its run was stopped. */
const OUTCOME_UNKNOWN =
  'The outcome of this call is unknown: it may or may not have taken effect, and this was not resolved when the run was stopped. ' +
  'Do not request it again; tell the user, or check with a read.'

/** A tool's result as the model sees it. */
export interface ToolResult {
  content: ResultContent
  isError: boolean
}

/** A transcript, which grows one event at a time. */
export interface Transcript {
  messages: Message[]
  /** For each message, the `seq` of the event that added it. */
  seqs: number[]
  /** Received messages that no turn has accepted. */
  waiting: Map<string, WaitingMessage>
  /** The status and outcome of the newest answer's calls. */
  calls: TurnCalls
  /** The results so far of the newest assistant message's calls; null once they are in `messages`. */
  open: TurnResults | null
  /** The results of the newest answer's calls once they are in `messages`. A recovery may remove them again. */
  closed: TurnResults | null
  /** For each idempotency key, the call that completed it. */
  keys: Map<string, string>
  /** Keys of calls without an outcome yet, by call. `first`: the first generation's key, if it differs. */
  pendingKeys: Map<string, { key: string; first?: string | undefined }>
  /** Results of completed effects, for replays of their key. */
  completed: Map<string, ResultContent>
  /** The newest run: where it begins in `messages`, the messages that it accepted, and the metadata for its code. */
  newestRun: NewestRunSoFar
  effects: Effects
  /** Answers that a provider refused to complete. The model does not see them. */
  refused: WeakSet<Message>
  /** Notes for the model where the transcript was cut. They are not messages; `messagesFor` puts them in their places. */
  notes: Note[]
  /** Messages from hooks for the next model call only. */
  systemMessages: string[]
  /** Content that providers have refused. The model sees notes in its place. */
  replaced: Replaced[]
  /** Compactions that still apply, newest last. */
  compactions: Compaction[]
  /** The newest compaction that failed since the last success, recovery or rollback. */
  compactionFailed: EventOf<'compaction_failed'> | null
  /** The turn in which a provider's refusal forced a compaction, whether or not it succeeded. */
  forcedIn: { run: number; turn: number } | null
  /** The measured size of the newest answer and its request; null if the messages before the answer have changed. */
  measured: Measured | null
}

/** The summary that the model sees in place of the messages up to an event. */
export type Compaction = Pick<EventOf<'compacted'>, 'seq' | 'run' | 'turn' | 'upToSeq' | 'summary' | 'window' | 'resultBytes' | 'forced'>

/** A provider's token count. */
export interface Measured {
  /** Tokens of a request and of the answer to it. */
  tokens: number
  /** How many messages these tokens cover. */
  messages: number
}

/** The results of one answer's calls, by the ids that the model sees. */
interface TurnResults {
  /** `seq` of the answer. */
  seq: number
  callIds: string[]
  results: Map<string, ToolResult>
  /** Calls whose results another generation replaces. */
  replaced: string[]
  /** The `seq` of the results when they were first in `messages`. */
  resultsSeq?: number
}

/** A text for the model that comes neither from the user nor from the model: about effects no longer shown, or from a hook. */
export interface Note {
  /** How many messages come before it. */
  after: number
  /** The event that cut the transcript, or the hook's event. */
  seq: number
  /** The answer whose calls were made again, or have another outcome, if the note is about those calls. */
  answerSeq?: number
  /** The call whose outcome became known, if the note is about that. */
  outcome?: { callId: string; happened: boolean }
  text: string
}

/** The newest run, and the metadata of the message that opened it. */
interface NewestRunSoFar {
  run: number
  /** `seq` of its `run_started`. */
  seq: number
  from: number
  took: Map<string, WaitingMessage>
  /** The message that opened it. */
  opener: string
  metadata: JsonObject
}

/** A user's content, and the `seq` of its `message_received`. */
export interface WaitingMessage {
  content: string | UserBlock[]
  metadata?: JsonObject
  seq: number
}

/** An empty transcript. */
export function emptyTranscript(): Transcript {
  return {
    messages: [],
    seqs: [],
    waiting: new Map(),
    calls: new Map(),
    open: null,
    closed: null,
    completed: new Map(),
    keys: new Map(),
    pendingKeys: new Map(),
    newestRun: { run: 0, seq: 0, from: 0, took: new Map(), opener: '', metadata: {} },
    effects: noEffects(),
    refused: new WeakSet(),
    notes: [],
    systemMessages: [],
    replaced: [],
    compactions: [],
    compactionFailed: null,
    forcedIn: null,
    measured: null,
  }
}

/** Adds one event to the transcript, in place. */
export function addToTranscript(transcript: Transcript, event: SessionEvent): void {
  noteEffect(transcript.effects, event)
  const before = 'callId' in event && event.callId !== undefined ? transcript.calls.get(event.callId)?.status : undefined
  // The results of abandoned calls depend on how far these had got.
  const abandons = abandonsCalls(event)
  if (!abandons) addToCalls(transcript.calls, event)
  addToMessages(transcript, event, before)
  if (abandons) addToCalls(transcript.calls, event)
}

/** `before`: the status, before the event, of the call that the event concerns. */
function addToMessages(transcript: Transcript, event: SessionEvent, before: TurnCall['status'] | undefined): void {
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
    case 'compacted':
      addCompaction(transcript, event)
      return
    case 'content_replaced':
      transcript.replaced = [...transcript.replaced, ...event.content.map((one) => ({ ...one, reason: event.reason }))]
      return
    case 'compaction_failed':
      transcript.compactionFailed = event
      noteForced(transcript, event)
      return
    case 'hook_answered':
      Object.assign(transcript, withAnswers(transcript, [event], event.seq))
      return
    case 'tool_issued':
      if (event.key !== undefined) transcript.pendingKeys.set(event.callId, { key: event.key, first: event.resolution?.firstKey })
      return
    case 'approval_decided':
      if (event.resolution) replacePendingKey(transcript, event.callId, event.resolution)
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
      if (isLate(event, before)) noteLateOutcome(transcript, event)
      return
    case 'tool_failed':
      transcript.pendingKeys.delete(event.callId)
      addResult(transcript, event, resultOf(event))
      return
    case 'tool_unknown':
      // A call that a person must resolve gets its result with the resolution.
      if (!event.ask) addResult(transcript, event, resultOf(event))
      return
    case 'run_completed':
    case 'run_interrupted':
      closeCalls(transcript, event.seq)
      return
    case 'recovery_started': {
      transcript.compactionFailed = null
      transcript.forcedIn = null
      const cut = cutOf(event, transcript.newestRun)
      if (cut?.outcomes) reopenTurn(transcript, event)
      else if (cut?.taken === 'wait') restartNewestRun(transcript, cut)
      else if (cut) removeAnswers(transcript, cut)
      return
    }
    case 'rolled_back': {
      const cut = cutOf(event, transcript.newestRun)
      if (cut) rollBack(transcript, cut, event)
      return
    }
    case 'forked':
      becomeFork(transcript, event)
      return
    default:
      return
  }
}

/** A call that was approved with other arguments completes a different effect. */
function replacePendingKey({ pendingKeys }: Transcript, callId: string, { key, firstKey: first }: Resolution): void {
  if (key === undefined) pendingKeys.delete(callId)
  else pendingKeys.set(callId, { key, first })
}

function complete(transcript: Transcript, callId: string, content: ResultContent): void {
  transcript.completed.set(callId, content)
  const { key, first } = transcript.pendingKeys.get(callId) ?? {}
  transcript.pendingKeys.delete(callId)
  if (key !== undefined && !transcript.keys.has(key)) transcript.keys.set(key, callId)
  // Later requests for the same effect get the newest result.
  if (first !== undefined) transcript.keys.set(first, callId)
}

/**
 * A call's result as the model sees it: text and blocks unchanged, anything else as JSON.
 * `replayed` is the first call's result, for the replay of a completed key.
 */
function resultOf(event: EventOf<'tool_completed' | 'tool_failed' | 'tool_unknown'>, replayed?: ResultContent): ToolResult {
  if (event.type !== 'tool_completed') return { content: event.message, isError: true }
  if (event.replayOf === undefined) return { content: contentOf(event), isError: false }
  const note = `[idempotent replay of ${event.replayOf}]`
  if (replayed === undefined) return { content: `${note}\n${PRUNED}`, isError: false }
  if (typeof replayed === 'string') {
    return { content: replayed ? `${note}\n${replayed}` : note, isError: false }
  }
  return { content: [{ type: 'text', text: note }, ...replayed], isError: false }
}

const PRUNED = 'This effect has already happened. Its result is no longer stored.'

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

/**
 * Whether a value is a list of blocks that a tool result may contain. A block must have all members of its type and no others, because
 * tools may return data that resembles blocks.
 */
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
  transcript.newestRun = { run, seq, from: transcript.messages.length, took: new Map(), opener: messageId, metadata }
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
  transcript.closed = null
  transcript.systemMessages = []
  addAnswerMessage(transcript, event)
  transcript.measured = measuredAt(transcript, event.usage)
  if (event.outputProblem === undefined) return
  transcript.notes.push({ after: transcript.messages.length, seq: event.seq, text: fromSystem(event.outputProblem) })
}

/** Some models report no usage. */
function measuredAt({ messages }: Transcript, usage: Usage): Measured | null {
  const { input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens } = usage
  const input = input_tokens + cache_creation_input_tokens + cache_read_input_tokens
  return input > 0 ? { tokens: input + output_tokens, messages: messages.length } : null
}

function addCompaction(transcript: Transcript, event: EventOf<'compacted'>): void {
  const { seq, run, turn, upToSeq, summary, window, resultBytes, forced } = event
  transcript.compactions.push({ seq, run, turn, upToSeq, summary, window, ...defined({ resultBytes, forced }) })
  transcript.compactionFailed = null
  transcript.measured = null
  noteForced(transcript, event)
}

function noteForced(transcript: Transcript, { forced, run, turn }: EventOf<'compacted' | 'compaction_failed'>): void {
  if (forced) transcript.forcedIn = { run, turn }
}

/** A summary no longer applies once the messages that it covers have left the transcript. */
function dropCompactions(transcript: Transcript, holds: (compaction: Compaction) => boolean): void {
  transcript.compactions = transcript.compactions.filter(holds)
  transcript.compactionFailed = null
  transcript.measured = null
}

function addAnswerMessage(transcript: Transcript, event: EventOf<'model_completed'>): void {
  if (event.content.length === 0) return
  const content = withCallIds(event.content, event.run, event.turn)
  const message: Message = { role: 'assistant', content }
  put(transcript, event.seq, message)
  if (event.stopReason === 'refusal') transcript.refused.add(message)
  const callIds = content.flatMap((block) => (block.type === 'tool_use' ? [block.id] : []))
  if (callIds.length === 0) return
  const { seq } = event
  transcript.open = { seq, callIds, results: new Map(), replaced: [] }
}

function addResult(transcript: Transcript, { callId, seq }: { callId: string; seq: number }, result: ToolResult): void {
  const { open } = transcript
  const request = requestIdOf(callId)
  if (!open?.callIds.includes(request) || newestOf(transcript, request) !== callId) return
  open.results.set(request, result)
  if (open.results.size === open.callIds.length) closeCalls(transcript, seq)
}

/** Adds the message with the results. The API refuses a tool_use without a result, so a call that never ran gets a result that says so. */
function closeCalls(transcript: Transcript, seq: number): void {
  const { open } = transcript
  if (!open) return
  transcript.open = null
  transcript.closed = open
  // The results of a reopened turn return to their old place, before messages that a later turn accepted.
  const at = resultsIndex(transcript, open) ?? transcript.messages.length
  open.resultsSeq ??= seq
  transcript.seqs.splice(at, 0, open.resultsSeq)
  transcript.messages.splice(at, 0, {
    role: 'user',
    content: open.callIds.map((callId) => resultBlock(callId, open.results.get(callId) ?? withoutResult(transcript, callId))),
  })
  moveNotes(transcript, at, 1)
  noteReplaced(transcript, open, at + 1)
}

function withoutResult(transcript: Transcript, request: string): ToolResult {
  const call = transcript.calls.get(newestOf(transcript, request))
  return { content: call && abandonedAs(call) !== 'never_ran' ? OUTCOME_UNKNOWN : NEVER_RAN, isError: true }
}

/** The index of the turn's results in `messages`; undefined if the answer is not there. */
function resultsIndex({ seqs }: Transcript, { seq }: TurnResults): number | undefined {
  const answer = seqs.lastIndexOf(seq)
  return answer < 0 ? undefined : answer + 1
}

/** Shifts the notes after messages were added or removed at an index. */
function moveNotes({ notes }: Transcript, from: number, by: number): void {
  for (const note of notes) if (note.after >= from) note.after += by
}

/** The newest generation of a call of the newest answer. */
export function newestOf({ calls }: Pick<Transcript, 'calls'>, request: string): string {
  if (calls.has(request)) return request
  for (const callId of calls.keys()) if (requestIdOf(callId) === request) return callId
  return request
}

/** Tells the model that the replaced generations of calls that were made again may have taken effect, too. */
function noteReplaced(transcript: Transcript, { seq: answerSeq, replaced, resultsSeq: seq = 0 }: TurnResults, after: number): void {
  const effects = replaced.flatMap((callId) => transcript.effects.byCall.get(callId) ?? [])
  if (effects.length === 0) return
  transcript.notes.push({ after, seq, answerSeq, text: noteOn(effects, transcript.completed, 'made_again') })
  transcript.notes.sort((a, b) => a.after - b.after)
}

/**
 * The model was told that the outcome is unknown, and now it is known. The result stays as the model saw it, and a note states the outcome.
 * The result itself changes only if the results are not in `messages`, or return there.
 */
function noteLateOutcome(transcript: Transcript, event: EventOf<'tool_resolved'>): void {
  const { callId, tool, effectId, happened, seq } = event
  const { open, closed, messages, seqs } = transcript
  const request = requestIdOf(callId)
  const result = happened ? { content: contentOf(event), isError: false } : { content: DID_NOT_HAPPEN.message, isError: true }
  const turn = open ?? closed
  if (turn?.results.has(request)) turn.results.set(request, result)
  if (open?.results.has(request)) return
  const answer = messages.findLastIndex(({ content }) => requests(content, request))
  transcript.notes.push({
    after: messages.length,
    seq,
    ...defined({ answerSeq: seqs[answer] }),
    outcome: { callId, happened },
    text: noteOnOutcome({ callId, tool, ...defined({ effectId }) }, happened ? result.content : undefined),
  })
}

function requests(content: Message['content'], request: string): boolean {
  return typeof content !== 'string' && content.some((block) => block.type === 'tool_use' && block.id === request)
}

/** Removes the newest answer's results from the messages for a recovery, and drops those of calls that are made again or skipped. */
function reopenTurn(transcript: Transcript, event: EventOf<'recovery_started'>): void {
  const turn = transcript.open ?? transcript.closed
  if (!turn || turn.seq !== event.toSeq) return
  if (!transcript.open) removeResults(transcript, turn)
  transcript.open = turn
  transcript.closed = null
  for (const callId of madeAgain(event).keys()) {
    turn.replaced.push(callId)
    transcript.pendingKeys.delete(callId)
  }
  for (const [callId, call] of transcript.calls) if (!hasEnded(call)) turn.results.delete(requestIdOf(callId))
  if (turn.results.size === turn.callIds.length) closeCalls(transcript, event.seq)
}

function removeResults(transcript: Transcript, turn: TurnResults): void {
  transcript.notes = transcript.notes.filter(({ answerSeq }) => answerSeq !== turn.seq)
  const at = resultsIndex(transcript, turn)
  if (at === undefined) return
  transcript.messages.splice(at, 1)
  transcript.seqs.splice(at, 1)
  moveNotes(transcript, at, -1)
}

/** The block for a result in the transcript. */
function resultBlock(callId: string, result: ToolResult): ToolResultBlock {
  return { type: 'tool_result', tool_use_id: callId, content: result.content, ...(result.isError && { is_error: true }) }
}

/** Returns the run's messages to the queue, and removes its answers and results from the transcript. */
function restartNewestRun(transcript: Transcript, { at }: Cut): void {
  const { from, took, seq: startedAt } = transcript.newestRun
  truncate(transcript, from)
  transcript.waiting = new Map([...took, ...transcript.waiting])
  took.clear()
  // The beginning of the run closed an earlier turn if the message took the session out of an error.
  follow(transcript, at, startedAt)
}

/** Removes answers and results after the cut from the transcript; users' messages stay. Closes the open calls of an answer that stays. */
function removeAnswers(transcript: Transcript, { at: seq, after: keptSeq }: Cut): void {
  const { messages, seqs } = transcript
  if ((seqs.at(-1) ?? 0) <= keptSeq) closeCalls(transcript, seq)
  const first = seqs.findIndex((at) => at > keptSeq)
  const from = first < 0 ? messages.length : first
  const isKept = (message: Message, index: number): boolean => isFromUser(message) || seqs[index] === seq
  const kept = messages
    .slice(from)
    .flatMap((message, index) => (isKept(message, from + index) ? [{ message, seq: seqs[from + index] ?? seq }] : []))
  truncate(transcript, from)
  for (const one of kept) put(transcript, one.seq, one.message)
  follow(transcript, seq, keptSeq)
}

/** Whether it is a user's message. Messages with results of calls have the user's role, too. */
export function isFromUser({ role, content }: Message): boolean {
  return role === 'user' && (typeof content === 'string' || content.every((block) => block.type !== 'tool_result'))
}

/** Called after the removal of everything after `keptSeq`: adds a note that tells the model which effects remain from that part. */
function follow(transcript: Transcript, seq: number, keptSeq: number): void {
  transcript.systemMessages = []
  transcript.open = null
  transcript.closed = null
  // Of each call that stays, the newest known outcome stays.
  const isAboutKept = ({ outcome, answerSeq = Infinity }: Note): boolean => outcome !== undefined && answerSeq <= keptSeq
  const notes = transcript.notes.filter((note) => note.seq <= keptSeq || isAboutKept(note))
  transcript.notes = notes.map((note) => ({ ...note, after: Math.min(note.after, transcript.messages.length) }))
  const told = new Set(notes.map(({ outcome }) => outcome?.callId))
  // A later compaction still applies if everything that it summarises has stayed. Otherwise, a restart would pay for it again.
  dropCompactions(transcript, ({ upToSeq }) => upToSeq <= keptSeq)
  const shown = shownAsCompleted(transcript)
  const effects = effectsAbove(transcript.effects, keptSeq).filter(
    ({ callId, status }) => !told.has(callId) && (status === 'unknown' || !shown.has(requestIdOf(callId))),
  )
  if (effects.length === 0) return
  transcript.notes.push({ after: transcript.messages.length, seq, text: noteOn(effects, transcript.completed) })
}

/** The requests whose results say that they completed. A call that was made again later may be among those that stay. */
function shownAsCompleted({ messages }: Transcript): Set<string> {
  const shown = new Set<string>()
  for (const { content } of messages) {
    for (const block of typeof content === 'string' ? [] : content) {
      if (block.type === 'tool_result' && !block.is_error) shown.add(block.tool_use_id)
    }
  }
  return shown
}

/** The transcript with the answers of hooks. It shares the messages, and `seq` is that of the answers' events. */
export function withAnswers(transcript: Transcript, runs: readonly HookRun[], seq = Infinity): Transcript {
  const { contexts, systemMessages } = textsOf(runs)
  if (contexts.length === 0 && systemMessages.length === 0) return transcript
  const after = transcript.messages.length
  return {
    ...transcript,
    notes: [...transcript.notes, ...contexts.map((context) => ({ after, seq, text: fromSystem(context) }))],
    systemMessages: [...transcript.systemMessages, ...systemMessages],
  }
}

/** The text, marked as coming from the system and not from a user. */
export function fromSystem(text: string): string {
  return `[From the system, not from the user]\n${text}`
}

function truncate(transcript: Transcript, length: number): void {
  transcript.messages.length = length
  transcript.seqs.length = length
}

/** Removes what was added after `toSeq`; results of completed effects stay, for replays. */
function rollBack(transcript: Transcript, { at, after: toSeq, waiting }: Cut, { keepsRun, keys, again }: EventOf<'rolled_back'>): void {
  // A reopened turn that had its results at that point gets them back.
  if ((transcript.open?.resultsSeq ?? Number.POSITIVE_INFINITY) <= toSeq) closeCalls(transcript, at)
  const kept = transcript.seqs.findIndex((seq) => seq > toSeq)
  if (kept >= 0) truncate(transcript, kept)
  if (keys === 'forgotten') forgetKeys(transcript, toSeq)
  follow(transcript, at, toSeq)
  if (keepsRun) return
  dropCompactions(transcript, ({ seq }) => seq <= toSeq)
  for (const [messageId, { seq }] of transcript.waiting) if (seq <= waiting) transcript.waiting.delete(messageId)
  const { took } = transcript.newestRun
  const requeued = (again?.messages ?? []).flatMap(({ messageId }): [string, WaitingMessage][] => {
    const message = took.get(messageId)
    return message ? [[messageId, message]] : []
  })
  transcript.waiting = new Map([...requeued, ...transcript.waiting])
}

/** Forgets the effects with an outcome after `seq`, which were undone outside of pawl, so that no call replays them. */
function forgetKeys(transcript: Transcript, seq: number): void {
  const forgotten = new Set(effectsAbove(transcript.effects, seq).map(({ callId }) => callId))
  for (const [key, callId] of transcript.keys) if (forgotten.has(callId)) transcript.keys.delete(key)
  for (const callId of forgotten) transcript.completed.delete(callId)
  transcript.notes = transcript.notes.filter(({ outcome }) => outcome === undefined || !forgotten.has(outcome.callId))
  forgetEffects(transcript.effects, seq)
}

function becomeFork(transcript: Transcript, { keys }: EventOf<'forked'>): void {
  transcript.open = null
  transcript.closed = null
  transcript.waiting.clear()
  if (keys === 'carried') return
  transcript.keys.clear()
  transcript.pendingKeys.clear()
  transcript.completed.clear()
  transcript.effects = noEffects()
}
