// Blocks of the tools that Anthropic runs: as pawl records them, and as Anthropic demands them back.
import type { ContentBlockParam } from '@anthropic-ai/sdk/resources/messages'
import type { AnswerTextBlock, AssistantBlock, Message, ProviderBlock, AnswerSource } from '../session/content.ts'
import { isObject, type Json, type JsonObject } from '../session/json.ts'
import { isProviderBlock, noteOnProviderBlock } from '../session/provider-blocks.ts'
import type { SoundMessage } from './sound-types.ts'

/** A block of a server tool that is being received. `json`: the arguments of a call, so far. */
export interface ServerBlockDraft {
  type: 'provider'
  block: JsonObject
  json: string
}

const CALL = 'server_tool_use'
const RESULTS: readonly string[] = [
  'web_search_tool_result',
  'web_fetch_tool_result',
  'code_execution_tool_result',
  'bash_code_execution_tool_result',
  'text_editor_code_execution_tool_result',
]
/** A file that code has made, by its id in Anthropic's Files API. */
const UPLOAD = 'container_upload'

/** Whether pawl knows this type of block of the server tools. */
export function isServerBlock(type: string): boolean {
  return type === CALL || type === UPLOAD || RESULTS.includes(type)
}

/** The call that a block begins; undefined for a result. */
export function startedCall({ block }: ServerBlockDraft): { id: string; name: string } | undefined {
  return block.type === CALL ? { id: textIn(block, 'id'), name: textIn(block, 'name') } : undefined
}

/** The tools' names by the ids of their calls. */
export function callNames(drafts: readonly ServerBlockDraft[]): Map<string, string> {
  return new Map(drafts.flatMap((draft) => startedCall(draft) ?? []).map(({ id, name }) => [id, name]))
}

/** The block as it is recorded. `names`: the tools' names by the ids of the answer's calls. */
export function serverBlock({ block, json }: ServerBlockDraft, names: ReadonlyMap<string, string>): ProviderBlock {
  const type = textIn(block, 'type')
  if (type === CALL) {
    const input = inputOf(block.input ?? {}, json)
    return { type: 'provider', part: 'call', id: textIn(block, 'id'), name: textIn(block, 'name'), input, block: { ...block, input } }
  }
  if (type === UPLOAD) return { type: 'provider', part: 'source', id: textIn(block, 'file_id'), name: UPLOAD, block }
  const id = textIn(block, 'tool_use_id')
  const sources = foundIn(block)
  const isError = isObject(block.content) && textIn(block.content, 'type').endsWith('_error')
  return {
    type: 'provider',
    part: 'result',
    id,
    name: names.get(id) ?? type.replace(/_tool_result$/, ''),
    ...(sources.length > 0 && { sources }),
    ...(isError && { is_error: true }),
    block,
  }
}

/** Arguments that were cut off stay as the block began. */
function inputOf(given: Json, json: string): Json {
  if (json.trim() === '') return given
  try {
    return JSON.parse(json) as Json
  } catch {
    return given
  }
}

function foundIn({ type, content }: JsonObject): AnswerSource[] {
  if (type === 'web_search_tool_result') return listOf(content).flatMap((one) => pageOf(one.url, one.title))
  if (type !== 'web_fetch_tool_result' || !isObject(content)) return []
  const document = isObject(content.content) ? content.content : {}
  return pageOf(content.url, document.title)
}

/** What goes onto a text that cites: the citations for Anthropic, and their sources to show. */
export function citedBy(citations: readonly JsonObject[]): Pick<AnswerTextBlock, 'sources' | 'providerMetadata'> {
  if (citations.length === 0) return {}
  const sources = citations.flatMap(sourceOf)
  return { ...(sources.length > 0 && { sources }), providerMetadata: { citations: [...citations] } }
}

function sourceOf({ type, url, source, title, document_title: document }: JsonObject): AnswerSource[] {
  if (type === 'web_search_result_location') return pageOf(url, title)
  if (type === 'search_result_location') return pageOf(source, title)
  return [{ type: 'document', title: typeof document === 'string' && document !== '' ? document : 'a document', mediaType: 'text/plain' }]
}

function pageOf(url: Json | undefined, title: Json | undefined): AnswerSource[] {
  if (typeof url !== 'string' || !/^https?:\/\//.test(url)) return []
  return [{ type: 'url', url, ...(typeof title === 'string' && title !== '' && { title }) }]
}

/** The answer, whose last server block names the container in which code ran: later requests continue in it. */
export function withContainer(content: AssistantBlock[], container: unknown): AssistantBlock[] {
  const at = content.findLastIndex(isProviderBlock)
  const block = content[at]
  const id = isObject(container) ? container.id : undefined
  if (typeof id !== 'string' || !block) return content
  return content.with(at, { ...block, providerMetadata: { container: id } })
}

/** The container of the newest answer that has one; undefined if none has. */
export function containerIn(messages: readonly Message[]): string | undefined {
  for (const { role, content } of messages.toReversed()) {
    if (role === 'user') continue
    const id = content.findLast((block) => isProviderBlock(block) && block.providerMetadata?.container !== undefined)?.providerMetadata
      ?.container
    if (typeof id === 'string') return id
  }
  return undefined
}

/** Whether a block can be sent back as it came. */
export function isSentBack({ block }: ProviderBlock): boolean {
  return block !== undefined && isServerBlock(textIn(block, 'type'))
}

/** The block as it is sent: as it came. */
export function sentBlock({ block }: ProviderBlock): ContentBlockParam {
  return block as unknown as ContentBlockParam
}

/** The citations of each text that may be sent: those of results and documents that are in the request before the text. */
export function citationsIn(messages: readonly SoundMessage[]): Map<AnswerTextBlock, JsonObject[]> {
  const kept = new Map<AnswerTextBlock, JsonObject[]>()
  const urls = new Set<Json | undefined>()
  let hasDocument = false
  for (const { role, content } of messages) {
    if (role === 'user') hasDocument ||= content.some(hasFile)
    else {
      for (const block of content) {
        if (block.type === 'provider' && block.block) {
          if (block.block.type === 'web_search_tool_result') for (const { url } of listOf(block.block.content)) urls.add(url)
          hasDocument ||= block.block.type === 'web_fetch_tool_result'
        }
        if (block.type !== 'text') continue
        const sound = listOf(block.providerMetadata?.citations).filter(({ type, url }) =>
          type === 'web_search_result_location' ? urls.has(url) : type !== 'search_result_location' && hasDocument,
        )
        if (sound.length > 0) kept.set(block, sound)
      }
    }
  }
  return kept
}

/** Whether a part of a user's message is a document, or a result that contains one. */
function hasFile(part: { type: string; content?: unknown }): boolean {
  return (
    part.type === 'document' ||
    (Array.isArray(part.content) && (part.content as { type: string }[]).some(({ type }) => type === 'document'))
  )
}

/** Whether any answer has blocks of server tools, or citations of what they found. */
export function hasServerBlocks(messages: readonly Message[]): boolean {
  return messages.some(
    ({ role, content }) =>
      role === 'assistant' && content.some((block) => isProviderBlock(block) || (block.type === 'text' && 'providerMetadata' in block)),
  )
}

/** The messages with notes in place of these blocks, for an API that refuses them. */
export function withoutServerBlocks(messages: readonly Message[]): Message[] {
  return messages.map((message) => {
    if (message.role === 'user') return message
    const content = message.content.flatMap((block): AssistantBlock[] => {
      if (isProviderBlock(block)) return noteOnProviderBlock(block)
      if (block.type !== 'text') return [block]
      const { providerMetadata: _, ...rest } = block
      return [rest]
    })
    return { ...message, content }
  })
}

function listOf(value: Json | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter((one): one is JsonObject => isObject(one)) : []
}

function textIn(value: JsonObject, name: string): string {
  const found = value[name]
  return typeof found === 'string' ? found : ''
}
