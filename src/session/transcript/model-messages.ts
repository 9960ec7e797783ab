// The messages of a request, built from the transcript: with summaries in place of compacted parts, with notes at their positions, and
// without refused answers.
import { type ContentBlock, labelledText, type Message, type ToolResultBlock } from '../content.ts'
import { compactionNote } from './compaction-note.ts'
import { hasDocuments, type SummarisedDocuments, summarisedDocuments, withLabels } from './kept-documents.ts'
import { bytesOfMessages, cutMiddle } from './measure.ts'
import { notedRepeats, withRepeatNotes } from './repeats.ts'
import { withNotes } from './replaced.ts'
import { type Compaction, fromSystem, isFromUser, type Note, type Transcript } from './transcript.ts'

/** The messages for the model. */
export function messagesFor(transcript: Transcript): Message[] {
  const from = sentFrom(transcript)
  const compaction = transcript.compactions.at(-1)
  const head = compaction && from > 0 ? [headOf(transcript, from, compaction)] : []
  return [...head, ...messagesBetween(transcript, from)]
}

/** The indexes of the messages that are sent, whole or only their documents, in their order. */
export function sentIndexes(transcript: Transcript): number[] {
  const { messages, refused } = transcript
  const from = sentFrom(transcript)
  const opening = from > 0 ? openingIndexes(transcript, from) : []
  const isSent = (message: Message, index: number): boolean =>
    index >= from ? !refused.has(message) : opening.includes(index) || hasDocuments(message)
  return messages.flatMap((message, index) => (isSent(message, index) ? [index] : []))
}

/** The index of the first message that no summary replaces. */
export function sentFrom({ messages, seqs, compactions }: Transcript): number {
  const upToSeq = compactions.at(-1)?.upToSeq ?? 0
  if (upToSeq === 0) return 0
  const first = seqs.findIndex((seq) => seq > upToSeq)
  return first < 0 ? messages.length : first
}

/** The messages between two indexes, with the notes before each of them and at the transcript's end. */
export function messagesBetween(transcript: Transcript, from: number, to = transcript.messages.length): Message[] {
  const { messages, seqs, refused, replaced } = transcript
  const shorten = shortening(transcript.compactions)
  const noted = notedRepeats(transcript, from, to)
  const notes = transcript.notes.filter(({ after }) => after >= from && (after < to || to === messages.length))
  const all: Message[] = []
  let next = 0
  for (const [offset, message] of messages.slice(from, to).entries()) {
    const index = from + offset
    for (; (notes[next]?.after ?? Infinity) <= index; next++) all.push(noteMessage(notes[next]))
    const seq = seqs[index] ?? 0
    if (!refused.has(message)) all.push(shorten(withNotes(withRepeatNotes(message, noted), seq, replaced), seq))
  }
  for (; next < notes.length; next++) all.push(noteMessage(notes[next]))
  return all
}

/** What hooks tell the model in its next call only. */
export function systemTextsOf({ systemMessages }: Transcript): string[] {
  return systemMessages.map(fromSystem)
}

function noteMessage(note: Note | undefined): Message {
  return { role: 'user', content: note?.text ?? '' }
}

/** What replaces the messages before an index: the opening messages among them, the effects, and the summary. */
function headOf(transcript: Transcript, to: number, compaction: Pick<Compaction, 'upToSeq' | 'summary' | 'window'>): Message {
  const { effects, completed } = transcript
  const { opening, documents } = openingOf(transcript, to, compaction.window)
  const said = opening.flatMap(({ content }): ContentBlock[] => (typeof content === 'string' ? [{ type: 'text', text: content }] : content))
  const effectsBefore = [...effects.byCall.values()].filter(({ since }) => since <= compaction.upToSeq)
  const note = compactionNote(compaction, { effects: effectsBefore, results: completed, hidden: documents.hidden })
  return { role: 'user', content: [...said, ...documents.named, { type: 'text', text: note }] }
}

/** The opening messages before an index as the model sees them, and the documents of the part that ends there. */
function openingOf(transcript: Transcript, to: number, window: number): { opening: Message[]; documents: SummarisedDocuments } {
  const { messages, seqs, replaced } = transcript
  const noted = (index: number, message: Message): Message => withNotes(message, seqs[index] ?? 0, replaced)
  const opening = openingIndexes(transcript, to).flatMap((index) => {
    const message = messages[index]
    return message ? [noted(index, message)] : []
  })
  const part: Message[] = []
  for (let index = 0; index < to; index++) {
    const message = messages[index]
    if (message && hasDocuments(message)) part.push(noted(index, message))
  }
  const documents = summarisedDocuments({ opening, part, later: messages.slice(to) }, window)
  return { opening: opening.map((message) => withLabels(message, documents.dropped)), documents }
}

/** Bytes of what would replace the messages before an index, without the summary. */
export function headBytes(transcript: Transcript, to: number, window: number): number {
  const upToSeq = transcript.seqs[to - 1] ?? 0
  return bytesOfMessages([headOf(transcript, to, { upToSeq, summary: '', window })])
}

/** The message that opened the session and the one that opened its newest run, if they come before the index. */
function openingIndexes({ messages, newestRun: { from, took, opener } }: Transcript, to: number): number[] {
  const first = messages.findIndex(isFromUser)
  const content = took.get(opener)?.content
  const ofRun = content === undefined ? -1 : messages.findIndex((message, index) => index >= from && message.content === content)
  return [...new Set([first, ofRun])].filter((index) => index >= 0 && index < to)
}

/** Shortens the results of a message to the smallest limit that a compaction after it sets. */
function shortening(compactions: readonly Compaction[]): (message: Message, seq: number) => Message {
  const limits = compactions.filter(({ resultBytes }) => resultBytes !== undefined)
  if (limits.length === 0) return (message) => message
  return (message, seq) => {
    const maxBytes = Math.min(...limits.flatMap((one) => (one.seq > seq ? [one.resultBytes ?? Infinity] : [])))
    if (message.role === 'assistant' || typeof message.content === 'string' || maxBytes === Infinity) return message
    return { ...message, content: message.content.map((block) => (block.type === 'tool_result' ? shortened(block, maxBytes) : block)) }
  }
}

/** A result made of blocks becomes text if it is too long, because images and files cannot be cut. */
function shortened(block: ToolResultBlock, maxBytes: number): ToolResultBlock {
  if (typeof block.content === 'string') return { ...block, content: cutMiddle(block.content, maxBytes) }
  const bytes = bytesOfMessages([{ role: 'user', content: block.content }])
  if (bytes <= maxBytes) return block
  return { ...block, content: cutMiddle(labelledText(block.content), maxBytes) }
}
