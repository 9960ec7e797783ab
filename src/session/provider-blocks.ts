// Blocks of tools that a model's provider runs. Only the provider understands them: pawl keeps them whole, and shows what they say.
import type { AnswerTextBlock, AssistantBlock, ProviderBlock, AnswerSource } from './content.ts'
import { beginningOf } from './beginning.ts'
import { isObject, type Json, type JsonObject } from './json.ts'
import { systemNote } from './transcript/system-note.ts'

/** Whether a block belongs to a tool that the provider ran. */
export function isProviderBlock(block: { type: string }): block is ProviderBlock {
  return block.type === 'provider'
}

/** The providers' own blocks in an answer, in order; null for one that is absent. */
export function blocksIn(content: readonly AssistantBlock[]): (JsonObject | null)[] {
  return content.flatMap((block) => (isProviderBlock(block) ? [block.block ?? null] : []))
}

/** The answer without the providers' own blocks, which are then in a blob. */
export function withoutBlocks(content: readonly AssistantBlock[]): AssistantBlock[] {
  return content.map((block) => {
    if (!isProviderBlock(block)) return block
    const { block: _, ...rest } = block
    return rest
  })
}

/** The answer with the providers' own blocks put back in. A value other than a list of blocks changes nothing. */
export function withBlocks(content: readonly AssistantBlock[], blocks: Json): AssistantBlock[] {
  const values: readonly Json[] = Array.isArray(blocks) ? blocks : []
  let next = 0
  return content.map((block) => {
    if (!isProviderBlock(block)) return block
    const value = values[next++]
    return isObject(value) ? { ...block, block: value } : block
  })
}

/** The content of a provider's block, for people: what only the provider can read is left out. Null if the block is absent. */
export function shownContent({ block }: ProviderBlock): Json {
  if (!block) return null
  const { content, result, output } = block
  return readable(content ?? result ?? output ?? block) ?? null
}

/** Encrypted members, and base64 that no reader of JSON understands. */
const UNREADABLE = /^(?:encrypted_|signature$|providerMetadata$)/
const MAX_BASE64 = 1_000

function readable(value: Json): Json | undefined {
  if (Array.isArray(value)) return value.map((one) => readable(one) ?? null)
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, member]): [string, Json][] => {
      if (member === undefined || UNREADABLE.test(name)) return []
      if (name === 'data' && typeof member === 'string' && member.length > MAX_BASE64) return [[name, `[${member.length} characters]`]]
      return [[name, readable(member as Json) ?? null]]
    }),
  )
}

/** What the texts of an answer cite, and its sources, each once. */
export function sourcesOf(content: readonly AssistantBlock[]): AnswerSource[] {
  const found = new Map<string, AnswerSource>()
  for (const block of content) {
    const sources = block.type === 'text' || (isProviderBlock(block) && block.part === 'source') ? (block.sources ?? []) : []
    for (const source of sources) {
      const key = source.type === 'url' ? source.url : `${source.mediaType}\n${source.title}`
      if (!found.get(key)?.title) found.set(key, source)
    }
  }
  return [...found.values()]
}

/** A source in a line of text. */
export function sourceText(source: AnswerSource): string {
  if (source.type === 'document') return source.title
  return source.title === undefined || source.title === '' ? source.url : `${source.title} (${source.url})`
}

const TEXT_CHARS = 2_000

/** What a block says, as text for people and for other models. Empty for a source, which the text alongside it repeats. */
export function textOfProviderBlock(block: ProviderBlock): string {
  const { part, name, input, sources = [], is_error: isError } = block
  if (part === 'source') return ''
  if (part === 'call') return `${name} ${beginningOf(JSON.stringify(input ?? {}), TEXT_CHARS)}`
  if (sources.length > 0) return `${name}: ${beginningOf(sources.map(sourceText).join('; '), TEXT_CHARS)}`
  const shown = shownContent(block)
  const said =
    shown === null ? 'its result is not shown' : beginningOf(typeof shown === 'string' ? shown : JSON.stringify(shown), TEXT_CHARS)
  return `${name}${isError ? ' failed' : ''}: ${said}`
}

/** What remains of a block for a model that cannot read it: a note, so that the model knows what its predecessor knew. None for a source. */
export function noteOnProviderBlock(block: ProviderBlock): AnswerTextBlock[] {
  const said = textOfProviderBlock(block)
  if (said === '') return []
  return [{ type: 'text', text: systemNote(block.part === 'call' ? `the provider ran ${said}` : `the result of ${said}`) }]
}
