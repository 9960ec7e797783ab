// Breakpoints of Anthropic's prompt cache: at most four per request.
import type { TextBlockParam, ToolUnion } from '@anthropic-ai/sdk/resources/messages'
import type { WireMessage } from './anthropic-messages.ts'

/** The parts of a request that can have a breakpoint. */
export interface CacheableParams {
  system?: TextBlockParam[]
  tools?: ToolUnion[]
  messages: WireMessage[]
}

const EPHEMERAL = { type: 'ephemeral' } as const

/**
 * The same parameters with breakpoints on the last tool, the system prompt, the last message and the user's message before it.
 * The previous call ended at that earlier message. It needs a breakpoint because the API looks only about 20 blocks back from one,
 * and a turn of many parallel calls has more. Tools have their own, because instructions rendered from the state change.
 * `volatileBlocks`: blocks at the end of the last message that the next request will not have, so caching them would be wasteful.
 */
export function withCacheBreakpoints<P extends CacheableParams>(params: P, volatileBlocks = 0): P {
  const messages = [...params.messages]
  const last = messages.length - 1
  const before = messages.findLastIndex((message, index) => index < last && message.role === 'user')
  for (const index of new Set([last, before])) {
    const message = messages[index]
    if (message) messages[index] = { ...message, content: markLast(message.content, index === last ? volatileBlocks : 0) }
  }
  return {
    ...params,
    ...(params.system && { system: markLast(params.system) }),
    ...(params.tools && { tools: markLast(params.tools) }),
    messages,
  }
}

/** The last block before those can always have a breakpoint, because no message that pawl sends ends in thinking or contains empty text. */
function markLast<T>(items: readonly T[], without = 0): T[] {
  return items.map((item, index) => (index === items.length - 1 - without ? { ...item, cache_control: EPHEMERAL } : item))
}
