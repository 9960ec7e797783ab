// The results of tool calls as the model sees them.
import { type AssistantBlock, isDocument, isImageSource, type ToolResultBlock } from '../content.ts'
import { placeholderOf } from '../blobs.ts'
import type { EventOf } from '../events.ts'
import type { ResultContent } from '../call-facts.ts'
import { callIdOf } from '../ids.ts'
import type { Json } from '../json.ts'

/** A tool's result as the model sees it. */
export interface ToolResult {
  content: ResultContent
  isError: boolean
}

/**
 * A call's result as the model sees it: text and blocks unchanged, anything else as JSON.
 * `replayed` is the first call's result, for the replay of a completed key.
 */
export function resultOf(event: EventOf<'tool_completed' | 'tool_failed' | 'tool_unknown'>, replayed?: ResultContent): ToolResult {
  if (event.type !== 'tool_completed') return { content: event.message, isError: true }
  if (event.replayOf === undefined) return { content: contentOf(event), isError: false }
  const note = `[idempotent replay of ${event.replayOf}]`
  if (replayed === undefined) return { content: `${note}\n${PRUNED}`, isError: false }
  if (typeof replayed === 'string') {
    return { content: replayed ? `${note}\n${replayed}` : note, isError: false }
  }
  return { content: [{ type: 'text', text: note }, ...replayed], isError: false }
}

const PRUNED = 'This effect has already happened. Its result is no longer stored.'

/** What the model sees of a completed call; for a large result that was not restored, its beginning. */
export function contentOf({ content, value, blob }: EventOf<'tool_completed' | 'tool_resolved'>): ResultContent {
  if (content !== undefined) return content
  return value === undefined && blob ? placeholderOf(blob) : resultText(value ?? null)
}

/** A JSON value as the text or blocks of a tool result. */
export function resultText(value: Json): ResultContent {
  if (typeof value === 'string') return value
  if (isBlocks(value)) return value
  return JSON.stringify(value)
}

/**
 * Whether a value is a list of blocks that a tool result may contain. A block must have all members of its type and no others, because
 * tools may return data that resembles blocks.
 */
export function isBlocks(value: Json): value is Json & ResultContent & unknown[] {
  return Array.isArray(value) && value.length > 0 && value.every(isBlock)
}

function isBlock(value: Json): boolean {
  if (isDocument(value)) return true
  if (value === null || typeof value !== 'object' || Array.isArray(value) || Object.keys(value).length !== 2) return false
  return (value.type === 'text' && typeof value.text === 'string') || (value.type === 'image' && isImageSource(value.source))
}

/** An assistant message's content with the model's tool_use ids replaced by pawl's call ids. */
export function withCallIds(content: readonly AssistantBlock[], run: number, turn: number): AssistantBlock[] {
  let index = 0
  return content.map((block) => (block.type === 'tool_use' ? { ...block, id: callIdOf(run, turn, index++) } : block))
}

/** The block for a result in the transcript. */
export function resultBlock(callId: string, result: ToolResult): ToolResultBlock {
  return { type: 'tool_result', tool_use_id: callId, content: result.content, ...(result.isError && { is_error: true }) }
}
