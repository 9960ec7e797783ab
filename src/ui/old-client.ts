// Pages whose AI SDK is older than version 7. They cannot retract what they have shown, so the beginning of a failed attempt would stay
// beside the next one. pawl detects this by what a page still shows, and from then on shows answers only once they are recorded.
import type { FollowedMessage, UiChunk } from './protocol.ts'

/** The parts of a message that a stream has sent: text and reasoning. */
interface SentParts {
  messageId: string
  /** Parts of earlier steps, and of the current one. */
  before: number
  current: number
  /** Parts that were retracted. */
  reset: number
}

/** Tracks what a chat's streams retract, and whether its page does, too. */
export interface ResetWatch {
  /** Says which of the page's messages the next stream adds to. */
  continues(message: FollowedMessage): void
  /** Notes a chunk that is sent to the page. */
  sent(chunk: UiChunk): void
  /** Whether something was retracted and not yet looked for in the page. */
  readonly isUncertain: boolean
  /** Whether the page still shows something that was retracted. */
  isKept(shown: readonly FollowedMessage[]): boolean
}

/** Starts tracking a chat. */
export function watchResets(): ResetWatch {
  let sent: SentParts | undefined
  return {
    continues({ id, parts }) {
      sent = { messageId: id, before: countOf(parts), current: 0, reset: 0 }
    },
    sent(chunk) {
      if (chunk.type === 'start') sent = begun(chunk.messageId, sent)
      if (!sent) return
      if (chunk.type === 'text-start' || chunk.type === 'reasoning-start') sent.current += 1
      if (chunk.type === 'start-step' || chunk.type === 'finish-step')
        Object.assign(sent, { before: sent.before + sent.current, current: 0 })
      if (chunk.type === 'reset-step') Object.assign(sent, { reset: sent.reset + sent.current, current: 0 })
    },
    get isUncertain() {
      return sent !== undefined && sent.reset > 0
    },
    isKept(shown) {
      if (!sent || sent.reset === 0) return false
      const { messageId, before, current, reset } = sent
      sent = undefined
      return countOf(shown.find(({ id }) => id === messageId)?.parts ?? []) >= before + current + reset
    },
  }
}

/** A message that is sent again from its beginning replaces the part already sent. */
function begun(messageId: string, sent: SentParts | undefined): SentParts {
  return { messageId, before: 0, current: 0, reset: sent?.messageId === messageId ? sent.before + sent.current : 0 }
}

function countOf(parts: readonly object[]): number {
  return parts.filter((part) => 'type' in part && (part.type === 'text' || part.type === 'reasoning')).length
}

/**
 * After a TypeError, version 6 appends a resumed stream to what the message had when the connection was lost. pawl's resumed streams start
 * at the message's beginning.
 */
export function withoutContinuing(error: unknown): unknown {
  return error instanceof TypeError ? new Error(error.message, { cause: error }) : error
}

/** Whether a reset retracts the chunk. */
export function isPiece({ type }: UiChunk): boolean {
  return /^(text|reasoning)-(start|delta)$|^tool-input-(start|delta)$|^reset-step$/.test(type)
}

/** For the page's developer. */
export const OLD_CLIENT =
  "pawl/ui: this page's version of the AI SDK cannot take text back, so answers now appear when they are complete. Install ai@7 and @ai-sdk/react@4, or create the transport with { show: 'steps' }."
