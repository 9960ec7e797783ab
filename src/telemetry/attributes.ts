// The attributes of spans, named by OpenTelemetry's conventions for generative AI where these have a name.
import { tokensIn } from '../session/spend.ts'
import type { AssistantBlock, UserBlock } from '../session/content.ts'
import { defined } from '../session/defined.ts'
import type { SessionEvent } from '../session/events.ts'
import type { Json } from '../session/json.ts'
import { paidCallIn } from '../session/paid-call.ts'
import { costOf, providerOf } from '../session/prices.ts'
import type { Usage } from '../session/content.ts'
import type { Attributes, AttributeValue } from './span.ts'

/** What every span of a session has. */
export function sessionAttributes({ sessionId, agent }: { sessionId: string; agent: string }): Attributes {
  return { 'session.id': sessionId, 'gen_ai.conversation.id': sessionId, 'gen_ai.agent.name': agent }
}

/** The tokens of calls of a model. Of the input, the convention counts what was cached, too. */
export function usageAttributes(usage: Usage): Attributes {
  return present({
    'gen_ai.usage.input_tokens': tokensIn(usage) - usage.output_tokens,
    'gen_ai.usage.output_tokens': usage.output_tokens,
    'gen_ai.usage.cache_read.input_tokens': usage.cache_read_input_tokens || undefined,
    'gen_ai.usage.cache_creation.input_tokens': usage.cache_creation_input_tokens || undefined,
  })
}

/** What is known of a model by its name. */
export function modelAttributes(model: string | undefined): Attributes {
  return present({ 'gen_ai.request.model': model, 'gen_ai.provider.name': (model !== undefined && providerOf(model)) || undefined })
}

/** What the event has cost, where a price is known. */
export function costAttributes(event: SessionEvent): Attributes {
  const paid = paidCallIn(event)
  return present({ 'pawl.usd': paid && costOf(paid)?.usd })
}

/** Without what is undefined. */
export function present(attributes: Record<string, AttributeValue | undefined>): Attributes {
  return defined(attributes) as Attributes
}

/** The characters that a content may have in an attribute: collectors refuse requests of some megabytes. */
const CONTENT_CHARS = 32_000

/** A content, as JSON text by the convention for messages. */
export function contentAttribute(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length <= CONTENT_CHARS ? text : `${text.slice(0, CONTENT_CHARS)}…`
}

/** The messages of users, as the convention has them. */
export function inputMessages(contents: readonly (string | readonly UserBlock[])[]): string {
  return contentAttribute(contents.map((content) => ({ role: 'user', parts: partsOf(content) })))
}

/** A model's answer, as the convention has it. */
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
