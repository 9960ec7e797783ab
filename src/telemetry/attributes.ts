// The attributes of spans, named by OpenTelemetry's conventions for generative AI if they define a name.
import { tokensIn } from '../session/spending/spend.ts'
import type { AssistantBlock, UserBlock } from '../session/content.ts'
import { defined } from '../session/defined.ts'
import type { SessionEvent } from '../session/events.ts'
import type { Json } from '../session/json.ts'
import { textOfProviderBlock } from '../session/provider-blocks.ts'
import { paidCallIn } from '../session/spending/paid-call.ts'
import { type CalledModel, costOf, providerOf } from '../session/spending/prices.ts'
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

/** What is known about the model of a call. The convention requires a provider. */
export function modelAttributes(called: CalledModel): Attributes {
  return present({ 'gen_ai.request.model': called.model, 'gen_ai.provider.name': providerName(called) })
}

/** Bedrock's ids begin with the vendor, perhaps after a region. */
const ON_BEDROCK = /^(?:[a-z]{2,6}\.)?(?:anthropic|amazon|meta|mistral|cohere|deepseek|ai21)\./

/** The convention's names of providers, by how Models and the AI SDK's packages name them. A provider with another name keeps its own. */
const NAMED: readonly [RegExp, string][] = [
  [/vertex/, 'gcp.vertex_ai'],
  [/bedrock/, 'aws.bedrock'],
  [/^azure/, 'azure.ai.openai'],
  [/^google/, 'gcp.gemini'],
  [/^mistral/, 'mistral_ai'],
  [/^xai/, 'x_ai'],
  [/^moonshot/, 'moonshot_ai'],
]

/** The convention's names of providers that the names of models indicate. */
const INDICATED: readonly [RegExp, string][] = [
  [/^(?:mistral|magistral|ministral|codestral|devstral|pixtral)-/, 'mistral_ai'],
  [/^grok-/, 'x_ai'],
  [/^deepseek-/, 'deepseek'],
  [/^command-/, 'cohere'],
  [/^sonar/, 'perplexity'],
  [/^(?:kimi|moonshot)-/, 'moonshot_ai'],
]

/** The provider of a model by the convention: the one that the Model names, or that its name indicates; `_OTHER` if neither is known. */
export function providerName({ model = '', provider }: CalledModel): string {
  if (ON_BEDROCK.test(model)) return 'aws.bedrock'
  const known = providerOf({ model, provider })
  const named = NAMED.find(([names]) => names.test(provider ?? '') || names.test(known ?? ''))?.[1]
  return named ?? known ?? INDICATED.find(([begins]) => begins.test(model))?.[1] ?? '_OTHER'
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
  return content.map((block) => (block.type === 'text' ? { type: 'text', content: block.text } : { type: block.type }))
}

function partOf(block: AssistantBlock): Json {
  switch (block.type) {
    case 'text':
      return { type: 'text', content: block.text }
    case 'thinking':
      return { type: 'reasoning', content: block.thinking }
    case 'redacted_thinking':
      return { type: 'reasoning', content: '' }
    case 'provider':
      if (block.part === 'call') return { type: 'tool_call', id: block.id, name: block.name, arguments: block.input ?? {} }
      return { type: 'tool_call_response', id: block.id, response: textOfProviderBlock(block) }
    case 'tool_use':
      return { type: 'tool_call', id: block.id, name: block.name, arguments: block.input }
  }
}
