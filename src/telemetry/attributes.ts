// The attributes of spans, named by OpenTelemetry's conventions for generative AI if they define a name.
import { tokensIn } from '../session/spending/spend.ts'
import type { AssistantBlock, UserBlock } from '../session/content.ts'
import { defined } from '../session/defined.ts'
import type { SessionEvent } from '../session/events.ts'
import type { Json } from '../session/json.ts'
import { paidCallIn } from '../session/spending/paid-call.ts'
import { costOf, providerOf } from '../session/spending/prices.ts'
import type { Usage } from '../session/content.ts'
import type { Attributes, AttributeValue } from './span.ts'
import { beginningOf } from '../session/beginning.ts'

/** The attributes that every span of a session has. */
export function sessionAttributes({ sessionId, agent }: { sessionId: string; agent: string }): Attributes {
  return { 'session.id': sessionId, 'gen_ai.conversation.id': sessionId, 'gen_ai.agent.name': agent }
}

/** The tokens of model calls. By the convention, input tokens include cached ones. */
export function usageAttributes(usage: Usage): Attributes {
  return present({
    'gen_ai.usage.input_tokens': tokensIn(usage) - usage.output_tokens,
    'gen_ai.usage.output_tokens': usage.output_tokens,
    'gen_ai.usage.cache_read.input_tokens': usage.cache_read_input_tokens || undefined,
    'gen_ai.usage.cache_creation.input_tokens': usage.cache_creation_input_tokens || undefined,
  })
}

/** What is known about a model from its name. The convention requires a provider. */
export function modelAttributes(model: string | undefined): Attributes {
  return present({ 'gen_ai.request.model': model, 'gen_ai.provider.name': providerName(model) })
}

/** The convention's values that the names of models indicate; Bedrock's ids begin with the vendor, perhaps after a region. */
const PROVIDERS: readonly [RegExp, string][] = [
  [/^(?:[a-z]{2,6}\.)?(?:anthropic|amazon|meta|mistral|cohere|deepseek|ai21)\./, 'aws.bedrock'],
  [/^(?:mistral|magistral|ministral|codestral|devstral|pixtral)-/, 'mistral_ai'],
  [/^grok-/, 'x_ai'],
  [/^deepseek-/, 'deepseek'],
  [/^command-/, 'cohere'],
  [/^sonar/, 'perplexity'],
  [/^(?:kimi|moonshot)-/, 'moonshot_ai'],
]

/** The provider of a model by the convention, as far as the model's name tells: `_OTHER` for others. */
export function providerName(model: string | undefined): string {
  if (model === undefined) return '_OTHER'
  const known = providerOf(model)
  return (known === 'google' ? 'gcp.gemini' : known) ?? PROVIDERS.find(([begins]) => begins.test(model))?.[1] ?? '_OTHER'
}

/** What the event cost, if the price is known. */
export function costAttributes(event: SessionEvent): Attributes {
  const paid = paidCallIn(event)
  return present({ 'pawl.usd': paid && costOf(paid)?.usd })
}

/** The attributes without undefined values. */
export function present(attributes: Record<string, AttributeValue | undefined>): Attributes {
  return defined(attributes) as Attributes
}

/** The maximum length of content in an attribute, in characters: collectors reject requests of several megabytes. */
const CONTENT_CHARS = 32_000

/** Content as text: strings unchanged, anything else as JSON; cut at the maximum length. */
export function contentAttribute(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length <= CONTENT_CHARS ? text : `${beginningOf(text, CONTENT_CHARS)}…`
}

/** The messages of users in the format of the convention. */
export function inputMessages(contents: readonly (string | readonly UserBlock[])[]): string {
  return contentAttribute(contents.map((content) => ({ role: 'user', parts: partsOf(content) })))
}

/** A model's answer in the format of the convention. */
export function outputMessages(content: readonly AssistantBlock[], stopReason: string): string {
  return contentAttribute([{ role: 'assistant', parts: content.map(partOf), finish_reason: stopReason }])
}

function partsOf(content: string | readonly UserBlock[]): Json[] {
  if (typeof content === 'string') return [{ type: 'text', content }]
  return content.map((block) => (block.type === 'text' ? { type: 'text', content: block.text } : { type: 'image' }))
}

function partOf(block: AssistantBlock): Json {
  switch (block.type) {
    case 'text':
      return { type: 'text', content: block.text }
    case 'thinking':
      return { type: 'reasoning', content: block.thinking }
    case 'redacted_thinking':
      return { type: 'reasoning', content: '' }
    case 'tool_use':
      return { type: 'tool_call', id: block.id, name: block.name, arguments: block.input }
  }
}
