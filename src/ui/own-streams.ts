// What a transport knows about each of its chats: whether one of its own requests is in progress, and how far the page has got.
import { type ResetWatch, watchResets } from './old-client.ts'

/** One of the transport's chats. */
export interface OwnChat {
  /** `seq` of the newest event that the page shows; undefined if unknown. */
  seq?: number
  /** Whether the page may lack something before `seq`, such as messages that another page sent. */
  isStale: boolean
  /** Whether the page was just updated to `seq`, so that the next stream resumes there. */
  isFresh: boolean
  /**
   * Ids of the calls whose decisions were refused since the page was last updated; undefined if only requests with new messages were
   * refused.
   */
  refused?: ReadonlySet<string> | undefined
  /** The message whose decisions were last sent, as JSON, if its stream has ended. */
  settled?: string | undefined
  /** Id of the newest user message, if it may not have arrived. */
  unsent?: string | undefined
  /** The newest request to generate an answer again, if it may have been carried out although its answer was lost. */
  regenerating?: { of: string; requestId: string } | undefined
  /** What its streams have retracted. */
  readonly resets: ResetWatch
  /** Whether a request or a stream of this page is in progress. */
  readonly isBusy: boolean
  /** Marks the start of a request; returns the function that marks its end, once. */
  begin(): () => void
  /** Resolves when no request is in progress, or `signal` aborts. */
  idle(signal: AbortSignal): Promise<void>
  /** Aborts when the next request begins. */
  untilBusy(): { signal: AbortSignal; done(): void }
}

/** The chats of a transport, by id. */
export function ownChats(): (chatId: string) => OwnChat {
  const chats = new Map<string, OwnChat>()
  return (chatId) => {
    const known = chats.get(chatId) ?? newChat()
    chats.set(chatId, known)
    return known
  }
}

function newChat(): OwnChat {
  let open = 0
  const changed = new Set<() => void>()
  const tell = (): void => {
    for (const listener of changed) listener()
  }
  return {
    isStale: false,
    isFresh: false,
    resets: watchResets(),
    get isBusy() {
      return open > 0
    },
    begin() {
      open += 1
      tell()
      let isOver = false
      return () => {
        if (isOver) return
        isOver = true
        open -= 1
        tell()
      }
    },
    idle(signal) {
      return new Promise((resolve) => {
        const look = (): void => {
          if (open > 0 && !signal.aborted) return
          changed.delete(look)
          signal.removeEventListener('abort', look)
          resolve()
        }
        changed.add(look)
        signal.addEventListener('abort', look)
        look()
      })
    },
    untilBusy() {
      const stop = new AbortController()
      const look = (): void => {
        if (open > 0) stop.abort()
      }
      changed.add(look)
      look()
      return { signal: stop.signal, done: () => void changed.delete(look) }
    },
  }
}
