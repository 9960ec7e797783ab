// The messages of a request in the form that every provider accepts.
import type {
  AnswerTextBlock,
  ProviderBlock,
  RedactedThinkingBlock,
  ThinkingBlock,
  ToolResultBlock,
  ToolUseBlock,
  UserBlock,
} from '../session/content.ts'
import type { JsonObject } from '../session/json.ts'

/**
 * A message of a request. The roles alternate, and the first message is the user's. The last one is, too, unless the provider continues its own
 * answer (`pause_turn`).
 */
export type SoundMessage = UserMessage | AnswerMessage

/** Begins with one result for each call of the previous answer. */
export interface UserMessage {
  role: 'user'
  content: (UserBlock | ToolResultBlock)[]
}

/** It does not end in thinking. */
export interface AnswerMessage {
  role: 'assistant'
  content: SoundAnswerBlock[]
}

/** The arguments of calls are objects. */
export type SoundAnswerBlock =
  | AnswerTextBlock
  | ProviderBlock
  | ThinkingBlock
  | RedactedThinkingBlock
  | (ToolUseBlock & { input: JsonObject })
