// Builds UI messages from chunks and from the events of a session.
import { type DocumentBlock, labelOf, type UserBlock } from '../session/content.ts'
import { defined } from '../session/defined.ts'
import type { EventOf, SessionEvent } from '../session/events.ts'
import { isObject, type JsonObject } from '../session/json.ts'
import { startMapping } from './mapping.ts'
import { outputSeq, withOutputOf } from './outputs.ts'
import type { LoosePart, UiChunk, UiMessage } from './protocol.ts'
import { type SurvivingEvent, surviving } from './surviving.ts'
import type { ErrorTexts } from './user-texts.ts'

/** A message that is being built. */
type Draft = Omit<UiMessage, 'parts'> & { parts: LoosePart[] }

/** The conversation after these events: finished answers, and the recorded part of one in progress. Queued messages come last. */
export function uiMessagesOf(events: readonly SessionEvent[], errorTexts?: ErrorTexts): UiMessage[] {
  return messagesFrom(
    surviving(events).map((one) => ({ ...one, event: withOutput(events, one.event) })),
    errorTexts,
  )
}

function withOutput(events: readonly SessionEvent[], event: SessionEvent): SessionEvent {
  const seq = outputSeq(events, event)
  return seq === undefined
    ? event
    : withOutputOf(
        event,
        events.find((one) => one.seq === seq),
      )
}

/** The conversation of these events, or a part of it. Replays include the outputs that they show. */
export function messagesFrom(conversation: Iterable<Pick<SurvivingEvent, 'event' | 'isArchived'>>, errorTexts?: ErrorTexts): UiMessage[] {
  const messages: Draft[] = []
  const waiting = new Map<string, EventOf<'message_received'>>()
  const mapping = startMapping({ show: 'pieces', errorTexts })
  for (const { event, isArchived } of conversation) {
    if (event.type === 'message_received') waiting.set(event.messageId, event)
    if (event.type === 'turn_started') {
      for (const id of event.takes) {
        const message = waiting.get(id)
        if (message) messages.push(saidOf(message))
        waiting.delete(id)
      }
    }
    for (const { chunk } of mapping.event(event, isArchived)) {
      if (chunk.type === 'start') messages.push({ id: chunk.messageId, role: 'assistant', parts: [] })
      const newest = messages.findLast(({ role }) => role === 'assistant')
      if (newest) addChunk(newest, chunk)
    }
  }
  return [...messages, ...[...waiting.values()].map(saidOf)] as UiMessage[]
}

/** A user's message. */
function saidOf({ messageId, content, metadata }: EventOf<'message_received'>): Draft {
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : content.map(partOf)
  return { id: messageId, role: 'user', ...(metadata && { metadata: metadata satisfies JsonObject }), parts }
}

function partOf(block: UserBlock): LoosePart {
  if (block.type === 'text') return { type: 'text', text: block.text }
  if (block.type === 'document') return documentPart(block)
  const { source } = block
  if (source.type === 'url') return { type: 'file', mediaType: 'image/*', url: source.url }
  return { type: 'file', mediaType: source.media_type, url: `data:${source.media_type};base64,${source.data}` }
}

/** A file at the model's provider has no address that a page could show. */
function documentPart(block: DocumentBlock): LoosePart {
  const { source, title } = block
  const filename = title === undefined ? {} : { filename: title }
  switch (source.type) {
    case 'base64':
      return { type: 'file', mediaType: source.media_type, ...filename, url: `data:${source.media_type};base64,${source.data}` }
    case 'text':
      return { type: 'file', mediaType: source.media_type, ...filename, url: `data:text/plain;base64,${base64Of(source.data)}` }
    case 'url':
      return { type: 'file', mediaType: 'application/pdf', ...filename, url: source.url }
    case 'file':
      return { type: 'text', text: labelOf(block) }
  }
}

/** Base64 of a text in UTF-8, in browsers, too. */
function base64Of(text: string): string {
  let bytes = ''
  for (const byte of new TextEncoder().encode(text)) bytes += String.fromCharCode(byte)
  return btoa(bytes)
}

/** Adds chunks to the newest answer of these messages, modifying it. */
export function addToNewest(messages: readonly UiMessage[], chunks: readonly UiChunk[]): void {
  const newest = messages.findLast(({ role }) => role === 'assistant')
  if (newest) for (const chunk of chunks) addChunk(newest as Draft, chunk)
}

/** Adds a chunk of a recorded answer to its message, as the AI SDK does. */
function addChunk(message: Draft, chunk: UiChunk): void {
  const { parts } = message
  const newest = parts.at(-1)
  switch (chunk.type) {
    case 'start':
    case 'message-metadata':
      message.metadata = { ...(isObject(message.metadata) ? message.metadata : {}), ...chunk.messageMetadata }
      return
    case 'start-step':
      parts.push({ type: 'step-start' })
      return
    case 'text-start':
      parts.push({ type: 'text', text: '', state: 'streaming' })
      return
    case 'reasoning-start':
      parts.push({ type: 'reasoning', id: chunk.id, text: '', state: 'streaming' })
      return
    case 'text-delta':
    case 'reasoning-delta':
      if (newest) newest.text = `${String(newest.text)}${chunk.delta}`
      return
    case 'text-end':
    case 'reasoning-end':
      if (newest) newest.state = 'done'
      return
    case 'tool-input-available': {
      const { toolCallId, toolName, input, providerExecuted, dynamic } = chunk
      const type = dynamic ? { type: 'dynamic-tool', toolName } : { type: `tool-${toolName}` }
      const known = callIn(parts, toolCallId)
      if (known) Object.assign(known, { state: 'input-available', input, output: undefined, errorText: undefined })
      else parts.push({ ...type, toolCallId, state: 'input-available', input, ...(providerExecuted && { providerExecuted }) })
      return
    }
    case 'tool-approval-request': {
      const { approvalId: id, toolCallId, reason } = chunk
      update(parts, toolCallId, { state: 'approval-requested', approval: { id, ...(reason !== undefined && { requestReason: reason }) } })
      return
    }
    case 'tool-approval-response': {
      const { approvalId: id, approved, reason } = chunk
      const known = parts.find(({ approval }) => isObject(approval) && approval.id === id)
      if (!known) return
      const approval = { ...(known.approval as object), id, approved, ...defined({ reason }) }
      Object.assign(known, { state: 'approval-responded', approval })
      return
    }
    case 'tool-output-available':
      update(parts, chunk.toolCallId, {
        state: 'output-available',
        output: chunk.output,
        preliminary: chunk.preliminary,
        errorText: undefined,
      })
      return
    case 'tool-output-error':
      update(parts, chunk.toolCallId, { state: 'output-error', output: undefined, errorText: chunk.errorText })
      return
    case 'source-url':
    case 'source-document':
      parts.push(chunk)
      return
    case 'data-question': {
      const known = parts.find(({ type, id }) => type === chunk.type && id === chunk.id)
      if (known) known.data = chunk.data
      else parts.push({ ...chunk })
      return
    }
    case 'tool-output-denied':
      update(parts, chunk.toolCallId, { state: 'output-denied' })
      return
    default:
      return
  }
}

function callIn(parts: readonly LoosePart[], toolCallId: string): LoosePart | undefined {
  return parts.findLast((part) => part.toolCallId === toolCallId)
}

function update(parts: readonly LoosePart[], toolCallId: string, now: Partial<LoosePart>): void {
  const part = callIn(parts, toolCallId)
  if (!part) return
  for (const [name, value] of Object.entries(now)) {
    if (value === undefined) delete part[name]
    else part[name] = value
  }
}
