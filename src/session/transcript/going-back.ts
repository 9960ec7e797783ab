// What leaves a transcript, and what stays, when its session goes back: recoveries, rollbacks and forks.
import type { Message } from '../content.ts'
import { effectsAbove, forgetEffects, noEffects } from '../effects.ts'
import { noteOn } from './recovery-note.ts'
import type { EventOf } from '../events.ts'
import { requestIdOf } from '../ids.ts'
import { hasEnded, madeAgain } from '../past/call-status.ts'
import { noUnknownCalls } from './unknown-calls.ts'
import type { Cut } from '../past/cut.ts'
import {
  type Transcript,
  type TurnResults,
  type Note,
  type WaitingMessage,
  put,
  dropCompactions,
  closeCalls,
  resultsIndex,
  moveNotes,
  isFromUser,
} from './transcript.ts'

/** Removes the newest answer's results from the messages for a recovery, and drops those of calls that are made again or skipped. */
export function reopenTurn(transcript: Transcript, event: EventOf<'recovery_started'>): void {
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

/** Returns the run's messages to the queue, and removes its answers and results from the transcript. */
export function restartNewestRun(transcript: Transcript, { at }: Cut): void {
  const { from, took, seq: startedAt } = transcript.newestRun
  truncate(transcript, from)
  transcript.waiting = new Map([...took, ...transcript.waiting])
  took.clear()
  // If the message took the session out of an error, the beginning of the run closed an earlier turn.
  follow(transcript, at, startedAt)
}

/** Removes answers and results after the cut from the transcript; users' messages stay. Closes the open calls of an answer that stays. */
export function removeAnswers(transcript: Transcript, { at: seq, after: keptSeq }: Cut): void {
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

/** Called after everything after `keptSeq` was removed. Adds a note that tells the model which effects of that part remain. */
function follow(transcript: Transcript, seq: number, keptSeq: number): void {
  transcript.systemMessages = []
  transcript.open = null
  transcript.closed = null
  // Each call that stays keeps its newest known outcome.
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

function truncate(transcript: Transcript, length: number): void {
  transcript.messages.length = length
  transcript.seqs.length = length
}

/** Removes what was added after `toSeq`; results of completed effects stay, for replays. */
export function rollBack(
  transcript: Transcript,
  { at, after: toSeq, waiting }: Cut,
  { keepsRun, keys, again }: EventOf<'rolled_back'>,
): void {
  // A reopened turn gets the results back that it had at that point.
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
  for (const callId of forgotten) {
    transcript.completed.delete(callId)
    transcript.lost.unknown.delete(callId)
  }
  transcript.notes = transcript.notes.filter(({ outcome }) => outcome === undefined || !forgotten.has(outcome.callId))
  forgetEffects(transcript.effects, seq)
}

export function becomeFork(transcript: Transcript, { keys }: EventOf<'forked'>): void {
  transcript.open = null
  transcript.closed = null
  transcript.waiting.clear()
  if (keys === 'carried') return
  transcript.keys.clear()
  transcript.pendingKeys.clear()
  transcript.completed.clear()
  transcript.effects = noEffects()
  transcript.lost = noUnknownCalls()
}
