// The messages of a request in a form that every provider accepts, whatever a model, a tool, a user or pawl put into the transcript. A
// single block that a provider refuses fails the request, and with it every later request of the session. Both adapters convert what this
// returns.
import {
  type AssistantBlock,
  type ContentBlock,
  isBlank,
  isThinking,
  type Message,
  type ProviderBlock,
  type RedactedThinkingBlock,
  type TextBlock,
  type ThinkingBlock,
  type ToolResultBlock,
  type UserBlock,
} from '../session/content.ts'
import { isObject, type Json, type JsonObject } from '../session/json.ts'
import { beginningOf } from '../session/beginning.ts'
import { isProviderBlock, noteOnProviderBlock } from '../session/provider-blocks.ts'
import { systemNote } from '../session/transcript/system-note.ts'
import { wellFormed } from '../session/well-formed.ts'
import type { ImageLimits } from './image-limits.ts'
import { soundImages } from './sound-images.ts'
import type { SoundAnswerBlock, SoundMessage, UserMessage } from './sound-types.ts'

/** How an adapter handles features that only some providers support. */
export interface SoundOptions {
  images: ImageLimits
  /** Whether thinking can be sent back. */
  keepsThinking(block: ThinkingBlock | RedactedThinkingBlock): boolean
  /** Whether a block of a tool that the provider runs can be sent back. */
  keepsProviderBlock(block: ProviderBlock): boolean
  /** Whether the provider continues an answer that ends the request and has such blocks. */
  continuesAnswers: boolean
}

/** Every provider accepts names and ids of this form. */
const ALLOWED = /[^A-Za-z0-9_-]/g
const NAME_CHARS = 64
/** OpenAI's Chat Completions API has the shortest ids. */
const ID_CHARS = 40

const NO_BEGINNING = systemNote('The beginning of the conversation is not shown.')
const CONTINUE = systemNote('Your answer was interrupted here. Continue it.')
const NO_RESULT = 'The result of this call was not recorded.'
const EMPTY_RESULT = 'The call returned no text.'
const EMPTY_ERROR = 'The call failed without a message.'

/** The messages of a request. The same messages and options always yield the same result. */
export function soundMessages(messages: readonly Message[], options: SoundOptions): SoundMessage[] {
  const merged: SoundMessage[] = []
  for (const { role, content } of messages) {
    const given: readonly ContentBlock[] = typeof content === 'string' ? [{ type: 'text', text: content }] : content
    if (role === 'user') append(merged, 'user', given.flatMap(userBlock))
    else append(merged, 'assistant', withoutLastThinking(given.flatMap((block) => answerBlock(block as AssistantBlock, options))))
  }
  if (merged[0]?.role !== 'user') merged.unshift({ role: 'user', content: [text(NO_BEGINNING)] })
  const paired = withPairedProviderCalls(withPairedCalls(merged), options)
  const last = paired.at(-1)
  if (last?.role === 'assistant' && !(options.continuesAnswers && last.content.some(isProviderBlock)))
    paired.push({ role: 'user', content: [text(CONTINUE)] })
  return soundImages(paired, options.images)
}

/**
 * Whether the messages end in the results of calls whose answer does not begin with thinking, or in such an answer. Works for messages in any form, because only
 * results can answer a call.
 */
export function endsInUnthoughtCalls(messages: readonly { role: string; content: string | readonly { type: string }[] }[]): boolean {
  const at = messages.findLastIndex(({ role }) => role === 'assistant')
  const blocksAt = (index: number): readonly { type: string }[] => {
    const content = messages[index]?.content ?? []
    return typeof content === 'string' ? [] : content
  }
  const [first] = blocksAt(at)
  const isContinued = at === messages.length - 1
  const isAnswered = /^tool.result$/.test(blocksAt(at + 1)[0]?.type ?? '')
  return (isContinued || isAnswered) && first !== undefined && !/^(?:thinking|redacted_thinking|reasoning)$/.test(first.type)
}

/** JSON whose texts and member names are well-formed. */
export function soundJson<T extends Json>(value: T): T {
  if (typeof value === 'string') return wellFormed(value) as T
  if (Array.isArray(value)) return value.map(soundJson) as T
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [wellFormed(name), soundJson(member as Json)])) as T
}

/** A name that providers accept, derived from one that a model wrote. */
function soundName(name: string): string {
  return beginningOf(name.replace(ALLOWED, '_'), NAME_CHARS) || 'unknown'
}

function text(value: string): TextBlock {
  return { type: 'text', text: value }
}

/** Merges adjacent messages of the same role, and omits empty ones. */
function append(all: SoundMessage[], role: 'user' | 'assistant', content: SoundMessage['content']): void {
  if (content.length === 0) return
  const last = all.at(-1)
  if (last?.role === role) (last.content as ContentBlock[]).push(...content)
  else all.push({ role, content } as SoundMessage)
}

function userBlock(block: ContentBlock): UserMessage['content'] {
  switch (block.type) {
    case 'text':
      return isBlank(block) ? [] : [text(wellFormed(block.text))]
    case 'image':
    case 'document':
      return [block]
    case 'tool_result':
      return [soundResult(block)]
    default:
      return []
  }
}

/** The text of a result may not be blank; an error may contain text only. */
function soundResult({ tool_use_id, content, is_error }: ToolResultBlock): ToolResultBlock {
  const isError = is_error === true
  const parts = typeof content === 'string' ? [text(content)] : content
  const sound = parts.flatMap((part): UserBlock[] => {
    if (part.type === 'text') return isBlank(part) ? [] : [text(wellFormed(part.text))]
    return [isError ? text(systemNote(`${part.type === 'image' ? 'An image' : 'A document'} of this error is not shown.`)) : part]
  })
  const all = sound.length > 0 ? sound : [text(isError ? EMPTY_ERROR : EMPTY_RESULT)]
  const [first] = all
  const isText = typeof content === 'string' || sound.length === 0
  return {
    type: 'tool_result',
    tool_use_id,
    content: isText && first?.type === 'text' ? first.text : all,
    ...(isError && { is_error: true }),
  }
}

function answerBlock(block: AssistantBlock, { keepsThinking, keepsProviderBlock }: SoundOptions): SoundAnswerBlock[] {
  // It must be returned exactly as it came.
  if (block.type === 'provider') return keepsProviderBlock(block) && isSound(block.block) ? [block] : noteOnProviderBlock(block)
  const sound = withSoundMetadata(block)
  switch (sound.type) {
    case 'text':
      return isBlank(sound) ? [] : [{ ...sound, text: wellFormed(sound.text) }]
    case 'thinking':
    case 'redacted_thinking':
      // Its signature covers the exact text, so thinking cannot be corrected.
      return isSound(sound) && keepsThinking(sound) ? [sound] : []
    case 'tool_use':
      return [{ ...sound, name: soundName(sound.name), input: soundJson(argumentsObject(sound.input)) }]
    default:
      return []
  }
}

/** Providers accept only objects. Wraps other arguments as Anthropic's documentation recommends. */
function argumentsObject(input: Json): JsonObject {
  if (isObject(input)) return input
  return { INVALID_JSON: typeof input === 'string' ? input : JSON.stringify(input) }
}

function withSoundMetadata<B extends AssistantBlock>(block: B): B {
  if (block.providerMetadata === undefined || isSound(block.providerMetadata)) return block
  const { providerMetadata: _, ...rest } = block
  return rest as B
}

function isSound(value: unknown): boolean {
  return !/\\u[dD][89a-fA-F]/.test(JSON.stringify(value) ?? '')
}

function withoutLastThinking(blocks: SoundAnswerBlock[]): SoundAnswerBlock[] {
  return blocks.slice(0, blocks.findLastIndex((block) => !isThinking(block)) + 1)
}

/** Gives each call a unique id and exactly one result, at the beginning of the next message. */
function withPairedCalls(messages: readonly SoundMessage[]): SoundMessage[] {
  const used = new Set<string>()
  const paired: SoundMessage[] = []
  let open: OpenCall[] = []
  for (const message of messages) {
    if (message.role === 'user') {
      paired.push({ role: 'user', content: withResults(message.content, open) })
      open = []
      continue
    }
    const calls: OpenCall[] = []
    const content = message.content.map((block) => {
      if (block.type !== 'tool_use') return block
      const id = freeId(block.id, used)
      calls.push({ given: block.id, id })
      return { ...block, id }
    })
    paired.push({ role: 'assistant', content })
    open = calls
  }
  if (open.length > 0) paired.push({ role: 'user', content: withResults([], open) })
  return paired
}

/**
 * Puts notes in place of calls of the provider's tools that have no result, and of results without a call: their answer was interrupted or
 * summarised. A result comes in the same answer, or in the next one if the answer also calls tools of pawl; the provider then runs its own
 * tool with the next request. So a call at the end of the request may still get its result.
 */
function withPairedProviderCalls(messages: readonly SoundMessage[], { continuesAnswers }: SoundOptions): SoundMessage[] {
  const paired = pairedProviderBlocks(messages, continuesAnswers)
  return messages.map((message): SoundMessage => {
    if (message.role === 'user' || !message.content.some(isProviderBlock)) return message
    const content = message.content.flatMap((block): SoundAnswerBlock[] =>
      !isProviderBlock(block) || block.part === 'source' || paired.has(block) ? [block] : noteOnProviderBlock(block),
    )
    return { role: 'assistant', content }
  })
}

function pairedProviderBlocks(messages: readonly SoundMessage[], continuesAnswers: boolean): Set<ProviderBlock> {
  const paired = new Set<ProviderBlock>()
  /** Calls that may still get their result, by their ids. */
  let open = new Map<string, ProviderBlock>()
  for (const message of messages) {
    if (message.role === 'user') {
      if (!message.content.every(({ type }) => type === 'tool_result')) open = new Map()
      continue
    }
    const own = new Map<string, ProviderBlock>()
    for (const block of message.content) {
      if (!isProviderBlock(block)) continue
      if (block.part === 'call') own.set(block.id, block)
      if (block.part !== 'result') continue
      const calls = own.has(block.id) ? own : open
      const call = calls.get(block.id)
      if (!call) continue
      calls.delete(block.id)
      paired.add(call).add(block)
    }
    open = own
  }
  if (continuesAnswers) for (const call of open.values()) paired.add(call)
  return paired
}

/** A call in the previous answer: its id in the transcript, and its id in the request. */
interface OpenCall {
  given: string
  id: string
}

function withResults(content: UserMessage['content'], calls: readonly OpenCall[]): UserMessage['content'] {
  const results = new Map<string, ToolResultBlock>()
  const others: UserBlock[] = []
  for (const block of content) {
    if (block.type !== 'tool_result') {
      others.push(block)
      continue
    }
    const call = calls.find(({ given, id }) => given === block.tool_use_id && !results.has(id))
    if (call) results.set(call.id, { ...block, tool_use_id: call.id })
    else others.push(...withoutCall(block))
  }
  const none = (id: string): ToolResultBlock => ({ type: 'tool_result', tool_use_id: id, content: NO_RESULT, is_error: true })
  return [...calls.map(({ id }) => results.get(id) ?? none(id)), ...others]
}

/** A result without its call becomes text of the user. */
function withoutCall({ content }: ToolResultBlock): UserBlock[] {
  const parts = typeof content === 'string' ? [text(content)] : content
  return [text(systemNote('The result of an earlier call follows.')), ...parts]
}

function freeId(given: string, used: Set<string>): string {
  const sound = beginningOf(given.replace(ALLOWED, '_'), ID_CHARS) || 'call'
  let id = sound
  for (let count = 2; used.has(id); count++) {
    const end = `_${count}`
    id = beginningOf(sound, ID_CHARS - end.length) + end
  }
  used.add(id)
  return id
}
