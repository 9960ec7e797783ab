// Notices a page whose AI SDK cannot take back what it has shown: it still has text that was reset. Then answers are shown when they are
// recorded, because the beginning of a failed attempt would stay beside the next one.
import type { FollowedMessage, UiChunk } from './protocol.ts'

/** The texts of a message that a stream has sent. */
interface SentTexts {
  messageId: string
  /** Text parts of earlier steps, and of the current one. */
  before: number
  current: number
  /** Text parts that were taken back. */
  reset: number
}

/** Watches what a chat's streams take back, and whether its page does so, too. */
export interface ResetWatch {
  /** A chunk is sent to the page. */
  sent(chunk: UiChunk): void
  /** Whether something was taken back that has not been looked for. */
  readonly isUncertain: boolean
  /** Whether the page still shows something that was taken back. */
  isKept(shown: readonly FollowedMessage[]): boolean
}

/** Begins with a chat. */
export function watchResets(): ResetWatch {
  let texts: SentTexts | undefined
  return {
    sent(chunk) {
      if (chunk.type === 'start') texts = { messageId: chunk.messageId, before: 0, current: 0, reset: 0 }
      if (!texts) return
      if (chunk.type === 'text-start') texts.current += 1
      if (chunk.type === 'start-step' || chunk.type === 'finish-step')
        Object.assign(texts, { before: texts.before + texts.current, current: 0 })
      if (chunk.type === 'reset-step') Object.assign(texts, { reset: texts.reset + texts.current, current: 0 })
    },
    get isUncertain() {
      return texts !== undefined && texts.reset > 0
    },
    isKept(shown) {
      if (!texts || texts.reset === 0) return false
      const { messageId, before, current, reset } = texts
      texts = undefined
      const parts = shown.find(({ id }) => id === messageId)?.parts ?? []
      return parts.filter((part) => 'type' in part && part.type === 'text').length >= before + current + reset
    },
  }
}

/** The chunks without pieces of an answer that is not recorded yet. */
export async function* withoutPieces(chunks: AsyncGenerator<UiChunk, undefined>): AsyncGenerator<UiChunk, undefined> {
  let pieces: UiChunk[] = []
  try {
    for await (const chunk of chunks) {
      if (chunk.type === 'reset-step' || chunk.type === 'error') pieces = []
      if (chunk.type === 'reset-step') continue
      if (isPiece(chunk)) {
        pieces.push(chunk)
        continue
      }
      yield* pieces
      pieces = []
      yield chunk
    }
  } finally {
    await chunks.return(undefined)
  }
}

/** Whether a reset takes the chunk back. */
export function isPiece({ type }: UiChunk): boolean {
  return /^(text|reasoning)-(start|delta)$|^tool-input-(start|delta)$|^reset-step$/.test(type)
}

/** For the page's developer. */
export const OLD_CLIENT =
  "pawl/ui: this page's version of the AI SDK cannot take text back, so answers now appear when they are complete. Install ai@7 and @ai-sdk/react@4, or create the transport with { show: 'steps' }."
