// A ChatTransport of AI SDK UI for sessions of pawl.
import { ChatError, errorOf } from './errors.ts'
import type { UiChunk, UiMessage, UiMessageChunk, UiShow } from './protocol.ts'
import { serverSent } from './server-sent.ts'

/** Options of `PawlChatTransport`. */
export interface PawlChatTransportOptions {
  /** Where the web handler is mounted. Default `/api/pawl`. */
  api?: string
  /** The agent that new sessions are started with, and closed ones opened again. Default: none, so that sessions must be open. */
  agent?: string
  /** Context of sessions that are started; members that the server sets cannot be changed. Default: none. */
  context?: unknown
  /** Tags of sessions that are started. Default: none. */
  tags?: readonly string[]
  /** Headers of each request, or a function that is asked for them before each. Default: none. */
  headers?: Record<string, string> | (() => Record<string, string> | Promise<Record<string, string>>)
  /** Whether cookies are sent, as with `fetch`. Default `same-origin`. */
  credentials?: 'omit' | 'same-origin' | 'include'
  /** What requests are made with. Default: the global `fetch`. */
  fetch?: typeof globalThis.fetch
  /** `pieces`: what a model is saying, from `ai` 7 on. `steps`: finished answers only, for `ai` 6. Default `pieces`. */
  show?: UiShow
  /**
   * What `stop()` of a chat means. `interrupt`: the run is stopped, with its model call and tools. `leave`: only this page stops to look.
   * `useChat` also stops a chat when its component is unmounted. Default `interrupt`.
   */
  onStop?: 'interrupt' | 'leave'
}

/** A message of a chat, as far as the transport reads it. */
export interface SentMessage {
  /** Its id. */
  id: string
  /** Who says it. */
  role: string
  /** What belongs to it. */
  metadata?: unknown
  /** What it says. */
  parts: readonly { type: string }[]
}

/** What a chat asks of its transport. */
export interface ReconnectRequest {
  /** The chat's id: the session's. */
  chatId: string
  /** Aborts when the chat is stopped. */
  abortSignal?: AbortSignal | undefined
  /** Further headers. */
  headers?: Record<string, string> | Headers | undefined
  /** Further members of the body: `agent`, `context`, `tags`, `idleTimeout`. */
  body?: object | undefined
  /** Not used. */
  metadata?: unknown
}

/** What a chat asks of its transport when something is sent. */
export interface ChatRequest extends ReconnectRequest {
  /** A message, decisions or results of client tools; or that the newest answer is made again. */
  trigger: 'submit-message' | 'regenerate-message'
  /** The message that is edited, or whose calls were decided on. */
  messageId?: string | undefined
  /** The conversation of the page. */
  messages: readonly SentMessage[]
}

const MAX_FAILURES = 10
const BASE_DELAY_MS = 250
const MAX_DELAY_MS = 5_000
/** What the server ends a stream with that goes on elsewhere, or later. */
const PASSING = ['draining', 'too_many_watches', 'store_unavailable', 'session_unavailable', 'no_temporal']

/**
 * The transport of `useChat` for sessions of pawl: `useChat({ id, transport, messages, resume: true })`. The chat's id is the session's.
 * A stream that is cut is continued where it was. Requests reject with `ChatError`, by the server's code.
 */
export class PawlChatTransport {
  /** A stream that is resumed shows the answer in progress from its beginning. */
  readonly resumeStreamIsReplay = true
  readonly #options: PawlChatTransportOptions

  constructor(options: PawlChatTransportOptions = {}) {
    this.#options = options
  }

  /** Sends what the chat has new, and streams the answer. @throws ChatError `forbidden`, `not_newest`, `invalid_input`, … */
  async sendMessages(request: ChatRequest): Promise<ReadableStream<UiMessageChunk>> {
    const { messages, messageId, trigger, chatId, body } = request
    const { agent, context, tags } = this.#options
    const sent = messages.find(({ id, role }) => id === messageId && role === 'assistant') ?? messages.at(-1)
    const asked = { agent, context, tags, ...body, id: chatId, messages: sent ? [sent] : [], trigger, messageId }
    // A stop counts from now on: the message may be on its way already.
    const disarm = this.#interruptOnAbort(request)
    try {
      const first = await this.#ask(`/v1/ui?show=${this.#show}`, request, { method: 'POST', body: JSON.stringify(asked) })
      return this.#stream(first, request, disarm)
    } catch (error) {
      disarm()
      throw error
    }
  }

  /** The answer in progress, from its beginning, and those that follow by themselves; null: there is none. @throws ChatError `session_not_found`, `forbidden`, … */
  async reconnectToStream(request: ReconnectRequest): Promise<ReadableStream<UiMessageChunk> | null> {
    const first = await this.#ask(this.#resumption(request), request)
    if (first.status === 204) return null
    // Not before: a page that is set up twice, as in React's strict mode, aborts its first look, which is no wish to stop.
    return this.#stream(first, request, this.#interruptOnAbort(request))
  }

  /** The conversation so far: the `messages` that a chat begins with. @throws ChatError `session_not_found`, `forbidden`, … */
  async messages(chatId: string, options: Omit<ReconnectRequest, 'chatId'> = {}): Promise<UiMessage[]> {
    const response = await this.#ask(`/v1/ui/${encodeURIComponent(chatId)}/messages`, { chatId, ...options })
    return ((await response.json()) as { messages: UiMessage[] }).messages
  }

  /** Stops the run in progress, with its model call and tools, for all who look at it. @throws ChatError `session_not_found`, `forbidden`, … */
  async stop(chatId: string, options: Omit<ReconnectRequest, 'chatId'> = {}): Promise<void> {
    const response = await this.#ask(
      `/v1/sessions/${encodeURIComponent(chatId)}/interrupt`,
      { chatId, ...options },
      { method: 'POST', body: '{}', keepalive: true },
    )
    await response.body?.cancel()
  }

  get #show(): UiShow {
    return this.#options.show ?? 'pieces'
  }

  #resumption({ chatId }: ReconnectRequest): string {
    return `/v1/ui/${encodeURIComponent(chatId)}/stream?show=${this.#show}`
  }

  /** Returns what ends it. */
  #interruptOnAbort({ abortSignal, chatId, headers }: ReconnectRequest): () => void {
    if (this.#options.onStop === 'leave') return () => undefined
    const stop = (): void => {
      // Whether it ends with an error, the page has no place to say: the messages tell.
      void this.stop(chatId, { headers }).catch(() => undefined)
    }
    abortSignal?.addEventListener('abort', stop, { once: true })
    return () => abortSignal?.removeEventListener('abort', stop)
  }

  async #ask(path: string, { headers: given, abortSignal }: ReconnectRequest, init: RequestInit = {}): Promise<Response> {
    const { api = '/api/pawl', headers = {}, credentials = 'same-origin', fetch = globalThis.fetch } = this.#options
    const own = typeof headers === 'function' ? await headers() : headers
    const response = await fetch(`${api.replace(/\/$/, '')}${path}`, {
      credentials,
      ...init,
      headers: {
        ...(init.body !== undefined && { 'content-type': 'application/json' }),
        ...own,
        ...Object.fromEntries(new Headers(given)),
        ...(init.headers as Record<string, string> | undefined),
      },
      ...(abortSignal && { signal: abortSignal }),
    })
    if (!response.ok) throw await errorOf(response)
    return response
  }

  #stream(first: Response, request: ReconnectRequest, onEnd: () => void): ReadableStream<UiMessageChunk> {
    const chunks = this.#chunks(first, request, onEnd)
    return new ReadableStream<UiMessageChunk>({
      pull: async (controller) => {
        const { done, value } = await chunks.next()
        if (done) controller.close()
        // Types of the AI SDK before 7 lack the newest chunks; a page with one of those shows steps, which have none.
        else controller.enqueue(value as UiMessageChunk)
      },
      cancel: async () => void (await chunks.return(undefined)),
    })
  }

  /** The chunks of a stream, from connection to connection. */
  async *#chunks(first: Response, request: ReconnectRequest, onEnd: () => void): AsyncGenerator<UiChunk, undefined> {
    const { abortSignal } = request
    let response: Response | undefined = first
    let cursor: string | undefined
    let failures = 0
    try {
      for (;;) {
        const outcome: Outcome = { cursor, isPartial: false, isDone: false }
        if (response?.body) {
          for await (const chunk of read(response.body, outcome, this.#show)) {
            failures = 0
            yield chunk
          }
        }
        if (outcome.isDone) return
        abortSignal?.throwIfAborted()
        cursor = outcome.cursor
        if (cursor === undefined || ++failures > MAX_FAILURES) throw new TypeError('network error: the stream of the chat was cut')
        if (outcome.isPartial) yield { type: 'reset-step' }
        await pause(Math.min(BASE_DELAY_MS * 2 ** (failures - 1), MAX_DELAY_MS), abortSignal)
        response = await this.#again(request, cursor)
      }
    } finally {
      onEnd()
    }
  }

  /** The rest of a stream that was cut; undefined: not yet. */
  async #again(request: ReconnectRequest, cursor: string): Promise<Response | undefined> {
    try {
      return await this.#ask(this.#resumption(request), request, { headers: { 'last-event-id': cursor } })
    } catch (error) {
      if (error instanceof ChatError && error.status < 500 && error.status !== 429) throw error
      return undefined
    }
  }
}

/** How a connection ended. */
interface Outcome {
  /** Where the stream can be continued. */
  cursor: string | undefined
  /** Something of an answer was shown that is said again. */
  isPartial: boolean
  isDone: boolean
}

/** The chunks of one connection. What one event of the session has yielded is shown as a whole, or not at all. */
async function* read(body: ReadableStream<Uint8Array>, outcome: Outcome, show: UiShow): AsyncGenerator<UiChunk> {
  let held: UiChunk[] = []
  const events = serverSent(body)
  for (;;) {
    const next = await events.next().catch(() => undefined)
    if (!next || next.done) return
    const { id, data } = next.value
    if (data === undefined) {
      outcome.cursor = id ?? outcome.cursor
      continue
    }
    if (data === '[DONE]') {
      outcome.isDone = true
      return
    }
    const chunk = JSON.parse(data) as UiChunk
    const isLast = chunk.type === 'finish' || chunk.type === 'error'
    if (chunk.type === 'error' && PASSING.includes(chunk.code ?? '')) return
    if (id !== undefined || isLast) {
      yield* held
      yield chunk
      held = []
      outcome.cursor = id ?? outcome.cursor
      outcome.isPartial = false
      // A refusal ends a stream without more words.
      outcome.isDone ||= chunk.type === 'error'
    } else if (held.length > 0 || show === 'steps' || !isPiece(chunk)) held.push(chunk)
    else {
      yield chunk
      outcome.isPartial = chunk.type !== 'reset-step'
    }
  }
}

/** Whether a reset takes it back. */
function isPiece({ type }: UiChunk): boolean {
  return /^(text|reasoning)-(start|delta)$|^tool-input-(start|delta)$|^reset-step$/.test(type)
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (): void => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', done)
      if (signal?.aborted) reject(signal.reason as Error)
      else resolve()
    }
    const timer = setTimeout(done, ms)
    signal?.addEventListener('abort', done, { once: true })
  })
}
