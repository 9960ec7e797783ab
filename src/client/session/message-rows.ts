// The rows of `messages`, built from events, for when the store that keeps them is unreachable.
import { answerIdOf, resultsIdOf, type SessionEvent } from '../../session/events.ts'
import { addToTranscript, answersRemovedAfter, emptyTranscript } from '../../session/transcript/transcript.ts'
import type { MessageRow } from '../../store/rows.ts'

/** The messages of a session, as the store would return them; messages that no turn has taken come last. */
export function messageRowsOf(events: Iterable<SessionEvent>): MessageRow[] {
  const transcript = emptyTranscript()
  const received = new Map<string, MessageRow>()
  let rows: MessageRow[] = []
  /** The place of the newest answer: an answer comes before its results. */
  let place = { run: 0, turn: 0 }

  for (const event of events) {
    const removedAfter = event.type === 'recovery_started' ? answersRemovedAfter(transcript, event) : undefined
    const seqs = removedAfter === undefined ? [] : [...transcript.seqs]
    addToTranscript(transcript, event)
    if (removedAfter !== undefined) {
      rows = rows.filter(({ kind }, index) => kind === 'user' || (seqs[index] ?? 0) <= removedAfter)
    }
    if (event.type === 'recovery_started' && event.strategy === 'selective') {
      const { run, turn } = event
      rows = rows.filter((row) => row.kind !== 'tool_results' || row.run !== run || row.turn !== turn)
    }
    const before = rows.length
    if (event.type === 'message_received') {
      const { messageId, seq, content, metadata, by, at } = event
      received.set(messageId, {
        messageId,
        seq,
        run: null,
        turn: null,
        role: 'user',
        kind: 'user',
        content,
        metadata: metadata ?? null,
        by: by ?? null,
        at: new Date(at),
      })
      continue
    }
    const taken = event.type === 'turn_started' ? [...event.takes] : []
    // A restart or a rollback takes messages out of the transcript again.
    if (transcript.messages.length < before)
      for (const row of rows.splice(transcript.messages.length))
        if (row.kind === 'user') received.set(row.messageId, { ...row, run: null, turn: null })
    if (event.type === 'model_completed') place = { run: event.run, turn: event.turn }
    const kind = event.type === 'model_completed' ? 'assistant' : 'tool_results'
    // The next turn closes results that were still missing; they belong to the turn before it.
    if (transcript.messages.length > before + taken.length) {
      const at = kind === 'assistant' ? before : resultsIndex(rows, place)
      const message = transcript.messages[at]
      const messageId = kind === 'assistant' ? answerIdOf(place) : resultsIdOf(place)
      const { role = 'user', content = '' } = message ?? {}
      rows.splice(at, 0, { messageId, seq: event.seq, ...place, role, kind, content, metadata: null, by: null, at: new Date(event.at) })
    }
    if (event.type !== 'turn_started') continue
    for (const messageId of taken) {
      const row = received.get(messageId)
      received.delete(messageId)
      if (row) rows.push({ ...row, run: event.run, turn: event.turn })
    }
  }
  // Archived messages no longer wait for a turn.
  const waiting = [...received.values()].filter((row) => transcript.waiting.has(row.messageId))
  return [...rows, ...waiting.sort((a, b) => a.seq - b.seq)]
}

/** Results come right after their answer, even if a later turn has taken messages since. */
function resultsIndex(rows: readonly MessageRow[], place: { run: number; turn: number }): number {
  const answer = answerIdOf(place)
  return rows.findLastIndex(({ kind, messageId }) => kind === 'assistant' && messageId === answer) + 1
}
