// Which documents of a summarised part the model still sees: those of the message that it works on, and those that later messages name.
import { type ContentBlock, type DocumentBlock, labelOf, type Message } from '../content.ts'
import { documentTokens } from './measure.ts'

/** The share of the window that documents of a summarised part may fill. */
const SHARE = 0.5

/** The documents of a summarised part. */
export interface SummarisedDocuments {
  /** Those that the model still sees alongside the opening messages, oldest first. */
  named: DocumentBlock[]
  /** Those of opening messages that do not fit; their labels are shown in their places. */
  dropped: ReadonlySet<DocumentBlock>
  /** Labels of those that the model no longer sees, oldest first. */
  hidden: string[]
}

/** `opening`: the messages of the part that stay, the newest last. `part`: all messages of the part. `later`: the messages after it. */
export function summarisedDocuments(
  { opening, part, later }: Record<'opening' | 'part' | 'later', readonly Message[]>,
  window: number,
): SummarisedDocuments {
  const all = uniqueIn(part)
  if (all.length === 0) return { named: [], dropped: new Set(), hidden: [] }
  const ofOpening = new Set(opening.flatMap(documentsIn))
  const isNamed = namedIn(later)
  const named = all.filter((one) => !ofOpening.has(one) && one.title !== undefined && isNamed(one.title))
  const [newest, ...earlier] = opening.toReversed().map(documentsIn)
  let left = window * SHARE
  const fits = (one: DocumentBlock): boolean => {
    const tokens = documentTokens(one)
    if (tokens > left) return false
    left -= tokens
    return true
  }
  const kept = new Set([...(newest ?? []), ...named.toReversed(), ...earlier.flat()].filter(fits))
  return {
    named: named.filter((one) => kept.has(one)),
    dropped: new Set([...ofOpening].filter((one) => !kept.has(one))),
    hidden: all.filter((one) => !kept.has(one)).map(labelOf),
  }
}

/** The message with the labels of these documents in their places. */
export function withLabels(message: Message, documents: ReadonlySet<DocumentBlock>): Message {
  if (documents.size === 0 || message.role === 'assistant' || typeof message.content === 'string') return message
  const content = message.content.map(
    (block): ContentBlock => (block.type === 'document' && documents.has(block) ? { type: 'text', text: labelOf(block) } : block),
  )
  return { ...message, content }
}

/** Whether a message has documents, itself or in results. */
export function hasDocuments(message: Message): boolean {
  return documentsIn(message).length > 0
}

/** Of each message, because a request is built in every turn, and most messages have none. */
const documentsOf = new WeakMap<Message, readonly DocumentBlock[]>()
const NONE: readonly DocumentBlock[] = []

function documentsIn(message: Message): readonly DocumentBlock[] {
  const { content } = message
  if (typeof content === 'string') return NONE
  const known = documentsOf.get(message)
  if (known) return known
  const found = content.flatMap((block: ContentBlock) => {
    if (block.type === 'document') return [block]
    if (block.type !== 'tool_result' || typeof block.content === 'string') return []
    return block.content.filter((part) => part.type === 'document')
  })
  const documents = found.length === 0 ? NONE : found
  documentsOf.set(message, documents)
  return documents
}

/** The documents; of those with one name, the newest. */
function uniqueIn(messages: readonly Message[]): DocumentBlock[] {
  const all = messages.flatMap(documentsIn)
  return all.filter(({ title }, index) => title === undefined || all.findLastIndex((other) => other.title === title) === index)
}

/** Whether the texts of the messages contain a name, in any case. */
function namedIn(messages: readonly Message[]): (title: string) => boolean {
  const texts = messages.flatMap(({ content }) => (typeof content === 'string' ? [content] : content.flatMap(textIn)))
  const lower = texts.map((text) => text.toLowerCase())
  return (title) => title.trim() !== '' && lower.some((text) => text.includes(title.trim().toLowerCase()))
}

function textIn(block: ContentBlock): string[] {
  if (block.type === 'text') return [block.text]
  return block.type === 'tool_use' ? [JSON.stringify(block.input)] : []
}
