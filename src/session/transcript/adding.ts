// Adds events to a transcript: what each of them means for the messages.
import type { ContentBlock, Message, Usage } from '../content.ts'
import { defined } from '../defined.ts'
import { noteEffect } from '../effects.ts'
import { noteOnOutcome } from './recovery-note.ts'
import type { EventOf, SessionEvent } from '../events.ts'
import type { Resolution, ResultContent } from '../call-facts.ts'
import { requestIdOf } from '../ids.ts'
import { abandonsCalls, addToCalls, DID_NOT_HAPPEN, isLate, type TurnCall } from '../past/call-status.ts'
import { cutOf } from '../past/cut.ts'
import { type ToolResult, resultOf, contentOf, withCallIds } from './results.ts'
import {
  type Transcript,
  type TokenMeasurement,
  emptyTranscript,
  put,
  closeCalls,
  newestOf,
  withAnswers,
  fromSystem,
} from './transcript.ts'
import { noteUnknown } from './unknown-calls.ts'
import { reopenTurn, restartNewestRun, removeAnswers, rollBack, becomeFork } from './going-back.ts'

/** Adds one event to the transcript, in place. */
export function addToTranscript(transcript: Transcript, event: SessionEvent): void {
  noteEffect(transcript.effects, event)
  noteUnknown(transcript.lost, event)
  const before = 'callId' in event && event.callId !== undefined ? transcript.calls.get(event.callId)?.status : undefined
  // The results of abandoned calls depend on how far the calls had got.
  const abandons = abandonsCalls(event)
  if (!abandons) addToCalls(transcript.calls, event)
  addToMessages(transcript, event, before)
  if (abandons) addToCalls(transcript.calls, event)
}

/** `before`: the status of the event's call before the event. */
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
      transcript.recoveredAt = event.seq
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

function addAnswer(transcript: Transcript, event: EventOf<'model_completed'>): void {
  transcript.closed = null
  transcript.systemMessages = []
  addAnswerMessage(transcript, event)
  transcript.measured = measuredAt(transcript, event.usage)
  if (event.outputProblem === undefined) return
  transcript.notes.push({ after: transcript.messages.length, seq: event.seq, text: fromSystem(event.outputProblem) })
}

/** Some models report no usage. */
function measuredAt({ messages }: Transcript, usage: Usage): TokenMeasurement | null {
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

/**
 * Handles an outcome that becomes known after the model was told that it was unknown. The result stays as the model saw it, and a note
 * states the outcome. The result itself changes only if the results are not in `messages` yet, or are put back there.
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
