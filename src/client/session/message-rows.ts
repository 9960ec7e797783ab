// The rows of `messages`, built from events, for when the store that keeps them is unreachable.
import { answerIdOf, resultsIdOf } from '../../session/ids.ts'
import type { EventOf, SessionEvent } from '../../session/events.ts'
import type { Message } from '../../session/content.ts'
import { addToTranscript } from '../../session/transcript/adding.ts'
import { emptyTranscript } from '../../session/transcript/transcript.ts'
import type { MessageRow } from '../../store/rows.ts'

/** The columns of a row besides the message itself. */
type Origin = Omit<MessageRow, 'role' | 'content'>

/** The messages of a session, as the store would return them, from events that are added one by one. */
interface FoldedMessages {
  add(event: SessionEvent): void
  /** Messages that are not in a turn come last. */
  rows(): MessageRow[]
}

export function messageRowsOf(events: Iterable<SessionEvent>): MessageRow[] {
  const messages = messageRows()
  for (const event of events) messages.add(event)
  return messages.rows()
}

/** The messages of a session without events. */
export function messageRows(): FoldedMessages {
  const transcript = emptyTranscript()
  const received = new Map<string, EventOf<'message_received'>>()
  let scheduled: EventOf<'message_scheduled'>[] = []
  const origins = new WeakMap<Message, Origin>()
  /** The newest answer's turn, for its results. */
  let place = { run: 0, turn: 0 }

  function add(event: SessionEvent): void {
    const before = transcript.messages.length
    const takes = event.type === 'turn_started' ? event.takes.filter((id) => transcript.waiting.has(id)) : []
    addToTranscript(transcript, event)
    const { messages } = transcript
    if (event.type === 'message_received') received.set(event.messageId, event)
    scheduled = scheduledAfter(scheduled, event)
    if (event.type === 'turn_started') {
      const taken = messages.slice(messages.length - takes.length)
      for (const [index, id] of takes.entries()) {
        const message = taken[index]
        const said = received.get(id)
        if (message && said) origins.set(message, { ...originOf(said), run: event.run, turn: event.turn })
      }
    }
    if (event.type === 'model_completed') {
      place = { run: event.run, turn: event.turn }
      const answer = messages.length > before ? messages.at(-1) : undefined
      if (answer) origins.set(answer, { ...madeBy(event), ...place, messageId: answerIdOf(place), kind: 'assistant' })
    }
    // Results are closed by the last of them, by the next turn, or by the end of the run.
    const results = transcript.closed ? resultsOf(transcript, transcript.closed.seq) : undefined
    if (results && !origins.has(results))
      origins.set(results, { ...madeBy(event), ...place, messageId: resultsIdOf(place), kind: 'tool_results' })
  }

  function rows(): MessageRow[] {
    const taken = transcript.messages.flatMap((message): MessageRow[] => {
      const origin = origins.get(message)
      return origin ? [{ ...origin, role: message.role, content: message.content }] : []
    })
    // Archived messages no longer wait for a turn.
    const waiting = [...transcript.waiting.keys()].flatMap((id) => received.get(id) ?? [])
    const later = [...waiting, ...scheduled].sort((a, b) => a.seq - b.seq)
    return [...taken, ...later.map((said): MessageRow => ({ ...originOf(said), role: 'user', content: said.content }))]
  }

  return { add, rows }
}

function resultsOf({ messages, seqs }: ReturnType<typeof emptyTranscript>, answerSeq: number): Message | undefined {
  const answer = seqs.lastIndexOf(answerSeq)
  return answer < 0 ? undefined : messages[answer + 1]
}

/** The messages that are scheduled after the event. A fork inherits none. */
function scheduledAfter(scheduled: EventOf<'message_scheduled'>[], event: SessionEvent): EventOf<'message_scheduled'>[] {
  if (event.type === 'message_scheduled') return [...scheduled, event]
  if (event.type === 'message_received') return scheduled.filter(({ messageId }) => messageId !== event.messageId)
  if (event.type === 'messages_unscheduled') return scheduled.filter(({ messageId }) => !event.messageIds.includes(messageId))
  return event.type === 'session_started' || event.type === 'forked' ? [] : scheduled
}

const madeBy = ({ seq, at }: SessionEvent) => ({ seq, metadata: null, by: null, at: new Date(at), scheduledFor: null })

function originOf({ type, messageId, seq, metadata, by, at, dueAt }: EventOf<'message_received' | 'message_scheduled'>): Origin {
  const kind = type === 'message_scheduled' ? 'scheduled' : 'user'
  const scheduledFor = dueAt === undefined ? null : new Date(dueAt)
  return { messageId, seq, run: null, turn: null, kind, metadata: metadata ?? null, by: by ?? null, at: new Date(at), scheduledFor }
}
