// Content that a provider has refused. The model sees a note in its place; the content itself stays in the session.
import {
  type ContentBlock,
  isThinking,
  type MediaBlock,
  type Message,
  type TextBlock,
  type ToolResultBlock,
  type UserBlock,
} from '../content.ts'
import { shortHash } from '../digest.ts'
import type { RefusedContent } from '../events.ts'
import type { Json } from '../json.ts'
import { beginningOf } from '../beginning.ts'
import { systemNote } from './system-note.ts'

/** Content that is no longer sent, and what the provider said about it. */
export interface ReplacedContent extends RefusedContent {
  reason: string
}

type Kind = RefusedContent['kind']

const NAMES: Record<Kind, string> = {
  text: 'A text',
  image: 'An image',
  document: 'A document',
  result: 'The result of this call',
  call: 'The arguments of this call',
}
const REASON_CHARS = 200

/** The note in place of the content. */
function noteOnRefused({ kind, reason }: Pick<ReplacedContent, 'kind' | 'reason'>): string {
  return systemNote(`${NAMES[kind]} is left out here, because the provider of the model refuses it: ${beginningOf(reason, REASON_CHARS)}`)
}

/** The parts of a message that a provider may refuse, in order. Thinking is not among them, because adapters omit it themselves. */
export function contentIn(message: Message, seq: number): RefusedContent[] {
  const found: RefusedContent[] = []
  mapContent(message, (kind, value) => {
    found.push({ seq, kind, ...sizeAndDigest(value) })
    return undefined
  })
  return found
}

/** The message with notes in place of refused parts. `seq` belongs to the event that added the message. */
export function withNotes(message: Message, seq: number, replaced: readonly ReplacedContent[]): Message {
  const here = replaced.filter((one) => one.seq === seq)
  if (here.length === 0) return message
  return mapContent(message, (kind, value) => {
    // Compares sizes first, because a digest of megabytes takes time.
    const size = sizeOf(value)
    const candidates = here.filter((one) => one.kind === kind && one.size === size)
    if (candidates.length === 0) return undefined
    const digest = digestOf(value)
    const found = candidates.find((one) => one.digest === digest)
    return found && noteOnRefused(found)
  })
}

export function isSameContent(a: RefusedContent, b: RefusedContent): boolean {
  return a.seq === b.seq && a.kind === b.kind && a.size === b.size && a.digest === b.digest
}

type Visit = (kind: Kind, value: string | Json | MediaBlock['source']) => string | undefined

/** The message with each part replaced by what `visit` returns; undefined leaves the part unchanged. */
function mapContent(message: Message, visit: Visit): Message {
  if (typeof message.content === 'string') return { role: 'user', content: visit('text', message.content) ?? message.content }
  const content = (message.content as ContentBlock[]).map((block) => mapBlock(block, visit))
  return { role: message.role, content } as Message
}

function mapBlock(block: ContentBlock, visit: Visit): ContentBlock {
  if (isThinking(block)) return block
  switch (block.type) {
    case 'text':
    case 'image':
    case 'document':
      return mapPart(block, 'text', visit)
    case 'tool_use': {
      const note = visit('call', block.input)
      return note === undefined ? block : { ...block, input: { note } }
    }
    case 'tool_result':
      return { ...block, content: mapResult(block.content, visit) }
    default:
      return block
  }
}

function mapResult(content: ToolResultBlock['content'], visit: Visit): ToolResultBlock['content'] {
  if (typeof content === 'string') return visit('result', content) ?? content
  return content.map((part) => mapPart(part, 'result', visit))
}

function mapPart<P extends UserBlock>(part: P, kind: 'text' | 'result', visit: Visit): P | TextBlock {
  const note = part.type === 'text' ? visit(kind, part.text) : visit(part.type, part.source)
  if (note === undefined) return part
  return part.type === 'text' ? { ...part, text: note } : { type: 'text', text: note }
}

function sizeAndDigest(value: unknown): Pick<RefusedContent, 'size' | 'digest'> {
  return { size: sizeOf(value), digest: digestOf(value) }
}

function sizeOf(value: unknown): number {
  if (typeof value === 'string') return value.length
  const { data, url } = (value ?? {}) as { data?: unknown; url?: unknown }
  return typeof data === 'string' ? data.length : typeof url === 'string' ? url.length : JSON.stringify(value).length
}

function digestOf(value: unknown): string {
  return shortHash(JSON.stringify(value))
}
