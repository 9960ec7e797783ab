// Assembles the events of an answer that Anthropic's API streams into one ModelResponse.
import type { RawContentBlockDelta, RawContentBlockStartEvent, RawMessageStreamEvent } from '@anthropic-ai/sdk/resources/messages'
import type { ModelResponse } from '../agent/model.ts'
import type { ModelDelta } from '../session/watching/deltas.ts'
import type { AssistantBlock, RedactedThinkingBlock, StopReason, TextBlock, ThinkingBlock, Usage } from '../session/content.ts'
import { NO_USAGE } from '../session/content.ts'
import type { Json, JsonObject } from '../session/json.ts'
import { defined } from '../session/defined.ts'
import {
  callNames,
  citedBy,
  isServerBlock,
  type ServerBlockDraft,
  serverBlock,
  startedCall,
  withContainer,
} from './anthropic-server-tools.ts'

/** An answer that is being received. */
export interface Assembly {
  accept(event: RawMessageStreamEvent): void
  /** Whether the answer has ended. */
  isComplete(): boolean
  /** The answer; usable once it is complete. */
  response(): ModelResponse
}

/** A call whose arguments are still text. `given` is what the block began with. */
interface ToolUseDraft {
  type: 'tool_use'
  id: string
  name: string
  given: unknown
  json: string
}

/** A text, and what it cites. */
interface TextDraft extends TextBlock {
  citations: JsonObject[]
}

/** A block of a type that pawl does not know. It is returned as it began, and refused by name. */
interface UnknownDraft {
  type: 'unknown'
  of: string
}

type Draft = TextDraft | ThinkingBlock | RedactedThinkingBlock | ToolUseDraft | ServerBlockDraft | UnknownDraft

const STOP_REASONS: readonly string[] = [
  'end_turn',
  'max_tokens',
  'stop_sequence',
  'tool_use',
  'pause_turn',
  'refusal',
  'model_context_window_exceeded',
] satisfies StopReason[]

/** Starts assembling an answer; `onDelta` is called for each piece. */
export function assemble(onDelta: (delta: ModelDelta) => void): Assembly {
  const drafts = new Map<number, Draft>()
  let usage: Usage = NO_USAGE
  let model: string | undefined
  let container: unknown
  let stop: string | null = null
  let complete = false

  return {
    accept(event) {
      switch (event.type) {
        case 'message_start':
          model = event.message.model
          usage = mergeUsage(usage, event.message.usage)
          container = event.message.container ?? container
          break
        case 'content_block_start': {
          const draft = draftOf(event.content_block)
          drafts.set(event.index, draft)
          const { index } = event
          if (draft.type === 'text' && draft.text !== '') onDelta({ type: 'text', index, text: draft.text })
          if (draft.type === 'tool_use') onDelta({ type: 'tool_input', index, partialJson: '', name: draft.name })
          const started = draft.type === 'provider' ? startedCall(draft) : undefined
          if (started) onDelta({ type: 'provider_call', index, ...started })
          break
        }
        case 'content_block_delta': {
          const draft = drafts.get(event.index)
          if (draft) grow(draft, event.index, event.delta, onDelta)
          break
        }
        case 'message_delta':
          stop = event.delta.stop_reason
          container = event.delta.container ?? container
          usage = mergeUsage(usage, event.usage)
          break
        case 'message_stop':
          complete = true
          break
        default:
          break
      }
    },
    isComplete: () => complete,
    response() {
      const stopReason = stopReasonOf(stop, drafts)
      const ordered = [...drafts.entries()].sort(([a], [b]) => a - b).map(([, draft]) => draft)
      const names = callNames(ordered.filter((draft) => draft.type === 'provider'))
      const content = ordered.flatMap((draft) => finish(draft, stopReason, names))
      return { content: withContainer(content, container), stopReason, usage, ...defined({ model }) }
    },
  }
}

function draftOf(block: RawContentBlockStartEvent['content_block']): Draft {
  switch (block.type) {
    case 'text':
      return { type: 'text', text: block.text ?? '', citations: [...((block.citations ?? []) as unknown as JsonObject[])] }
    case 'thinking':
      return { type: 'thinking', thinking: block.thinking ?? '', signature: block.signature ?? '' }
    case 'redacted_thinking':
      return { type: 'redacted_thinking', data: block.data }
    case 'tool_use':
      return { type: 'tool_use', id: block.id, name: block.name, given: block.input, json: '' }
    default:
      return isServerBlock(block.type)
        ? { type: 'provider', block: { ...block } as unknown as JsonObject, json: '' }
        : { type: 'unknown', of: String((block as { type?: unknown }).type) }
  }
}

function grow(draft: Draft, index: number, delta: RawContentBlockDelta, onDelta: (delta: ModelDelta) => void): void {
  if (delta.type === 'text_delta' && draft.type === 'text') {
    draft.text += delta.text
    onDelta({ type: 'text', index, text: delta.text })
  } else if (delta.type === 'citations_delta' && draft.type === 'text') {
    draft.citations.push(delta.citation as unknown as JsonObject)
  } else if (delta.type === 'input_json_delta' && draft.type === 'provider') {
    draft.json += delta.partial_json
  } else if (delta.type === 'thinking_delta' && draft.type === 'thinking') {
    draft.thinking += delta.thinking
    onDelta({ type: 'thinking', index, thinking: delta.thinking })
  } else if (delta.type === 'signature_delta' && draft.type === 'thinking') {
    draft.signature = delta.signature
  } else if (delta.type === 'input_json_delta' && draft.type === 'tool_use') {
    draft.json += delta.partial_json
    onDelta({ type: 'tool_input', index, partialJson: delta.partial_json })
  }
}

/** Drops empty text, which must not be sent back. */
function finish(draft: Draft, stopReason: StopReason, names: ReadonlyMap<string, string>): AssistantBlock[] {
  if (draft.type === 'text') {
    const { citations, ...block } = draft
    return draft.text === '' ? [] : [{ ...block, ...citedBy(citations) }]
  }
  if (draft.type === 'provider') return [serverBlock(draft, names)]
  if (draft.type === 'unknown') return [{ type: draft.of } as unknown as AssistantBlock]
  if (draft.type !== 'tool_use') return [draft]
  return [{ type: 'tool_use', id: draft.id, name: draft.name, input: inputOf(draft, stopReason) }]
}

/**
 * The arguments of a call. Text that is not JSON stays text, so that the call gets an error result from which the model can learn.
 * Empty text means no arguments, but only if the model completed its call.
 */
function inputOf(draft: ToolUseDraft, stopReason: StopReason): Json {
  if (draft.json.trim() === '') {
    const given = draft.given as Json | undefined
    const began = typeof given === 'object' && given !== null && Object.keys(given).length > 0
    if (began) return given
    return stopReason === 'tool_use' ? {} : ''
  }
  try {
    return JSON.parse(draft.json) as Json
  } catch {
    return draft.json
  }
}

/** An unknown stop reason counts as the end of the answer: `tool_use` with calls, otherwise `end_turn`. */
function stopReasonOf(stop: string | null, drafts: ReadonlyMap<number, Draft>): StopReason {
  if (stop !== null && STOP_REASONS.includes(stop)) return stop as StopReason
  return [...drafts.values()].some((draft) => draft.type === 'tool_use') ? 'tool_use' : 'end_turn'
}

type TokenCount = Exclude<keyof Usage, 'web_search_requests'>
type GivenUsage = Partial<Record<TokenCount, number | null>> & { server_tool_use?: { web_search_requests: number } | null }

/** Counters are running totals; null or absent means no change. */
function mergeUsage(before: Usage, given: GivenUsage | null | undefined): Usage {
  const searches = given?.server_tool_use?.web_search_requests ?? before.web_search_requests
  const pick = (key: TokenCount): number => (typeof given?.[key] === 'number' ? given[key] : before[key])
  return {
    input_tokens: pick('input_tokens'),
    output_tokens: pick('output_tokens'),
    cache_creation_input_tokens: pick('cache_creation_input_tokens'),
    cache_read_input_tokens: pick('cache_read_input_tokens'),
    ...(searches !== undefined && searches > 0 && { web_search_requests: searches }),
  }
}
