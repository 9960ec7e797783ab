// The transcript: the messages sent to a model, folded from a session's events.
import type { Message, UserBlock } from '../content.ts'
import { type Effects, noEffects } from '../effects.ts'
import { noteOn } from './recovery-note.ts'
import { type HookRun, textsOf } from '../hooks/hooks.ts'
import type { EventOf } from '../events.ts'
import type { ResultContent } from '../call-facts.ts'
import { requestIdOf } from '../ids.ts'
import type { JsonObject } from '../json.ts'
import { abandonedAs, type TurnCalls } from '../past/call-status.ts'
import type { ReplacedContent } from './replaced.ts'
import { type ToolResult, resultBlock } from './results.ts'
import { noUnknownCalls, type UnknownCalls } from './unknown-calls.ts'

/** The result that the model sees for a call that had not begun when its run was stopped. */
const NEVER_RAN = 'This call was not run: the run was stopped first.'

/** The result that the model sees for a call that may have taken effect, which was not resolved when its run was stopped. */
const OUTCOME_UNKNOWN =
  'The outcome of this call is unknown: it may or may not have taken effect, and this was not resolved when the run was stopped. ' +
  'Do not request it again; tell the user, or check with a read.'

/** A transcript, which grows one event at a time. */
export interface Transcript {
  messages: Message[]
  /** For each message, the `seq` of the event that added it. */
  seqs: number[]
  /** Received messages that no turn has accepted. */
  waiting: Map<string, WaitingMessage>
  /** The status and outcome of the newest answer's calls. */
  calls: TurnCalls
  /** The results so far of the calls of the newest assistant message; null once they are in `messages`. */
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
  /** Calls whose outcome is unknown. */
  lost: UnknownCalls
  /** `seq` of the newest recovery; 0 if there was none. */
  recoveredAt: number
  /** Answers that a provider refused to complete. The model does not see them. */
  refused: WeakSet<Message>
  /** Notes for the model where the transcript was cut. They are not messages; `messagesFor` puts them in their places. */
  notes: Note[]
  /** Messages from hooks for the next model call only. */
  systemMessages: string[]
  /** Content that providers have refused. The model sees notes in its place. */
  replaced: ReplacedContent[]
  /** Compactions that still apply, newest last. */
  compactions: Compaction[]
  /** The newest compaction that failed since the last success, recovery or rollback. */
  compactionFailed: EventOf<'compaction_failed'> | null
  /** The turn in which a provider's refusal forced a compaction, whether or not it succeeded. */
  forcedIn: { run: number; turn: number } | null
  /** The measured size of the newest answer and its request; null if the messages before the answer have changed. */
  measured: TokenMeasurement | null
}

/** The summary that the model sees in place of the messages up to an event. */
export type Compaction = Pick<EventOf<'compacted'>, 'seq' | 'run' | 'turn' | 'upToSeq' | 'summary' | 'window' | 'resultBytes' | 'forced'>

/** A provider's token count. */
export interface TokenMeasurement {
  /** Tokens of a request and of the answer to it. */
  tokens: number
  /** How many messages these tokens cover. */
  messages: number
}

/** The results of one answer's calls, by the ids that the model sees. */
export interface TurnResults {
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
  /** The answer that the note is about, if its calls were made again or have another outcome. */
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
    lost: noUnknownCalls(),
    recoveredAt: 0,
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

export function put(transcript: Transcript, seq: number, message: Message): void {
  transcript.messages.push(message)
  transcript.seqs.push(seq)
}

/** A summary no longer applies once the messages that it covers have left the transcript. */
export function dropCompactions(transcript: Transcript, holds: (compaction: Compaction) => boolean): void {
  transcript.compactions = transcript.compactions.filter(holds)
  transcript.compactionFailed = null
  transcript.measured = null
}

/** Adds the message with the results. The API refuses a tool_use without a result, so a call that never ran gets a result that says so. */
export function closeCalls(transcript: Transcript, seq: number): void {
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
export function resultsIndex({ seqs }: Transcript, { seq }: TurnResults): number | undefined {
  const answer = seqs.lastIndexOf(seq)
  return answer < 0 ? undefined : answer + 1
}

/** Shifts the notes after messages were added or removed at an index. */
export function moveNotes({ notes }: Transcript, from: number, by: number): void {
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

/** Whether it is a user's message. Messages with results of calls have the user's role, too. */
export function isFromUser({ role, content }: Message): boolean {
  return role === 'user' && (typeof content === 'string' || content.every((block) => block.type !== 'tool_result'))
}

/** The transcript with the answers of hooks. It shares the messages with the original. `seq` belongs to the answers' events. */
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
