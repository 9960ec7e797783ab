// Follows a chat while its page does nothing, so that changes made elsewhere appear in the page without a reload.
import { ChatError } from './errors.ts'
import type { OwnChat } from './own-streams.ts'
import type { FollowedMessage, LoosePart } from './protocol.ts'
import { serverSent, SILENCE_MS } from './server-sent.ts'

/** A page that shows a chat: what `useChat` returns has these members. */
export interface ChatPage {
  /** Changes the messages that the page shows, whatever their type. */
  setMessages(update: <M extends FollowedMessage>(shown: M[]) => M[]): void
  /** Resumes the answer in progress. */
  resumeStream(): Promise<void>
}

/** The newest messages of a conversation. */
export interface Newest {
  messages: FollowedMessage[]
  /** Present if there are earlier ones. */
  cursor?: string
  seq: number
}

/** What following needs from the transport. */
export interface ChatFollowing {
  page: ChatPage
  own: OwnChat
  load(signal: AbortSignal): Promise<Newest>
  /** Whether an answer is in progress after `seq`. */
  isAnswering(seq: number, signal: AbortSignal): Promise<boolean>
  /** Opens the stream of changes after `seq`. */
  open(seq: number, signal: AbortSignal): Promise<Response>
  /** Called with the page's messages after something was retracted from them. */
  look(shown: readonly FollowedMessage[]): void
  signal: AbortSignal
}

const BASE_DELAY_MS = 1_000
const MAX_DELAY_MS = 30_000
/** Statuses after which retrying is pointless. */
const FINAL: readonly number[] = [401, 403, 404, 410]

/** Follows until `signal` aborts, or the server refuses for good. Never rejects. */
export async function followChat(following: ChatFollowing): Promise<void> {
  const { own, signal } = following
  for (let failures = 0; !signal.aborted; ) {
    try {
      await own.idle(signal)
      await visible(signal)
      if (signal.aborted) return
      if (own.resets.isUncertain) lookAt(following)
      if (own.seq === undefined || own.isStale || (await isChanged(following, own.seq))) await refresh(following)
      failures = 0
    } catch (error) {
      if (error instanceof ChatError && FINAL.includes(error.status)) return
      if (error instanceof ChatError && error.code === 'unknown_cursor') own.isStale = true
      await pause(Math.min(BASE_DELAY_MS * 2 ** failures++, MAX_DELAY_MS) * (0.5 + Math.random() / 2), signal)
    }
  }
}

function lookAt({ page, look }: ChatFollowing): void {
  page.setMessages((shown) => {
    look(shown)
    return shown
  })
}

/** Waits for a change after `seq`. False: the page started something itself, or is hidden. */
async function isChanged({ own, open, signal }: ChatFollowing, seq: number): Promise<boolean> {
  const busy = own.untilBusy()
  const hidden = whenHidden()
  const stop = new AbortController()
  const signals = AbortSignal.any([signal, busy.signal, hidden.signal, stop.signal])
  try {
    signals.throwIfAborted()
    const response = await open(seq, signals)
    if (response.body) {
      for await (const { event, data } of serverSent(response.body, SILENCE_MS)) {
        if (event === 'change') return true
        if (event === 'end') throw endOf(data)
      }
    }
    if (signals.aborted) return false
    throw new TypeError('network error: the stream of changes was cut off')
  } catch (error) {
    if (signals.aborted) return false
    throw error
  } finally {
    stop.abort()
    busy.done()
    hidden.done()
  }
}

function endOf(data: string | undefined): ChatError {
  const { code, status, userMessage, detail } = JSON.parse(data ?? '{}') as { [name: string]: string | undefined } & { status?: number }
  return new ChatError(code ?? 'unexpected_response', userMessage ?? '', status ?? 200, detail ?? '')
}

async function refresh({ page, own, load, isAnswering, signal }: ChatFollowing): Promise<void> {
  const busy = own.untilBusy()
  const signals = AbortSignal.any([signal, busy.signal])
  try {
    const newest = await load(signals)
    // The page's own activity is newer.
    if (signals.aborted) return
    const { refused, unsent } = own
    page.setMessages((shown) => merged(shown, newest, { refused, unsent }))
    Object.assign(own, { seq: newest.seq, isStale: false, refused: undefined })
    // A chat that resumes without an answer in progress clears its error. Here, the user has not seen the error yet, or has to act on it.
    own.isFresh = !(refused || unsent !== undefined) || (await isAnswering(newest.seq, signals))
    if (!own.isFresh) return
  } catch (error) {
    if (signals.aborted) return
    throw error
  } finally {
    busy.done()
  }
  await page.resumeStream()
}

/** The newest messages, after those that were shown before them. Keeps what the user has not sent yet, but not what was refused. */
export function merged<M extends FollowedMessage>(
  shown: readonly M[],
  newest: Pick<Newest, 'messages' | 'cursor'>,
  { refused, unsent }: Pick<OwnChat, 'refused' | 'unsent'> = {},
): M[] {
  const { cursor } = newest
  // pawl's messages have the page's message type.
  const messages = newest.messages as M[]
  const first = messages[0]
  const before =
    cursor === undefined || !first
      ? 0
      : Math.max(
          0,
          shown.findIndex(({ id }) => id === first.id),
        )
  const known = new Map(shown.map((message) => [message.id, message]))
  const lost = shown.slice(before).filter(({ id }) => id === unsent && !messages.some((message) => message.id === id))
  return [...shown.slice(0, before), ...messages.map((message) => withUnsent(message, known.get(message.id), refused)), ...lost]
}

/** The message, with the decisions and results that the page has not sent yet. */
function withUnsent<M extends FollowedMessage>(message: M, shown: M | undefined, refused: ReadonlySet<string> = new Set()): M {
  if (!shown) return message
  const decided = (shown.parts as LoosePart[]).filter((part) => isUnsent(part) && !refused.has(part.toolCallId as string))
  const unsent = new Map(decided.map((part) => [part.toolCallId, part]))
  if (unsent.size === 0) return message
  const parts = (message.parts as LoosePart[]).map((part) => {
    const mine = unsent.get(part.toolCallId)
    return mine && isStillAsked(part, mine) ? mine : part
  })
  return { ...message, parts }
}

function isUnsent({ toolCallId, state, providerExecuted }: LoosePart): boolean {
  if (typeof toolCallId !== 'string') return false
  return state === 'approval-responded' || (providerExecuted !== true && (state === 'output-available' || state === 'output-error'))
}

function isStillAsked(part: LoosePart, mine: LoosePart): boolean {
  if (mine.state !== 'approval-responded') return part.state === 'input-available'
  const [asked, answered] = [part.approval, mine.approval] as ({ id?: unknown } | undefined)[]
  return part.state === 'approval-requested' && asked?.id === answered?.id
}

/** The document of the page, if there is one. */
interface PageDocument {
  visibilityState: string
  addEventListener(type: 'visibilitychange', listener: () => void): void
  removeEventListener(type: 'visibilitychange', listener: () => void): void
}

const documentOf = (): PageDocument | undefined => (globalThis as { document?: PageDocument }).document
const isHidden = (): boolean => documentOf()?.visibilityState === 'hidden'

/** Aborts when the page is hidden, because browsers open few connections to one server, and hidden pages would use them up. */
function whenHidden(): { signal: AbortSignal; done(): void } {
  const stop = new AbortController()
  const look = (): void => {
    if (isHidden()) stop.abort()
  }
  documentOf()?.addEventListener('visibilitychange', look)
  look()
  return { signal: stop.signal, done: () => documentOf()?.removeEventListener('visibilitychange', look) }
}

function visible(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const look = (): void => {
      if (isHidden() && !signal.aborted) return
      documentOf()?.removeEventListener('visibilitychange', look)
      signal.removeEventListener('abort', look)
      resolve()
    }
    documentOf()?.addEventListener('visibilitychange', look)
    signal.addEventListener('abort', look)
    look()
  })
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal.addEventListener('abort', done)
    if (signal.aborted) done()
  })
}
