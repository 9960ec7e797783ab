// A `ChatTransport` of AI SDK UI for pawl sessions.
import { ChatError, errorOf, unreachable } from './errors.ts'
import { type ChatPage, followChat, type Newest } from './following.ts'
import { isPiece, OLD_CLIENT, withoutContinuing } from './old-client.ts'
import { ownChats } from './own-streams.ts'
import { type FollowedMessage, standingIn, type UiChunk, type UiMessage, type UiMessageChunk, type UiShow } from './protocol.ts'
import { serverSent, SILENCE_MS } from './server-sent.ts'
import { checkTransport, type PawlChatTransportOptions } from './transport-options.ts'

/** The members of a chat message that the transport reads. */
export interface SentMessage {
  /** Its id. */
  id: string
  /** Its author. */
  role: string
  /** Its metadata. */
  metadata?: unknown
  /** Its content. */
  parts: readonly { type: string }[]
}

/** A chat's request to its transport to reconnect. */
export interface ReconnectRequest {
  /** The chat's id, which is the session's id. */
  chatId: string
  /** Aborts when the chat is stopped. */
  abortSignal?: AbortSignal | undefined
  /** Additional headers. */
  headers?: Record<string, string> | Headers | undefined
  /** Additional members of the body: `agent`, `context`, `tags`, `idleTimeout`. */
  body?: object | undefined
  /** Not used. */
  metadata?: unknown
}

/** A chat's request to its transport to send something. */
export interface ChatRequest extends ReconnectRequest {
  /** `submit-message`: a message, decisions or results of client tools. `regenerate-message`: generate the newest answer again. */
  trigger: 'submit-message' | 'regenerate-message'
  /** The message that is edited, or whose calls were decided. */
  messageId?: string | undefined
  /** The conversation of the page. */
  messages: readonly SentMessage[]
}

const MAX_FAILURES = 10
const BASE_DELAY_MS = 250
const MAX_DELAY_MS = 5_000
/** Codes with which the server ends a stream that can resume later or on another server. */
const PASSING = ['draining', 'too_many_watches', 'store_unavailable', 'session_unavailable', 'no_temporal']

/**
 * The transport of `useChat` for sessions of pawl: `useChat({ id, transport, messages, resume: true })`. The chat's id is the session's.
 * A stream that is cut off resumes where it stopped. Requests reject with a `ChatError` that has the server's code.
 */
export class PawlChatTransport {
  /** A resumed stream shows the answer in progress from its beginning. */
  readonly resumeStreamIsReplay = true
  readonly #options: PawlChatTransportOptions
  readonly #own = ownChats()
  /** Whether the page's AI SDK cannot retract text. */
  #isOld = false

  /** @throws InvalidOptionError `invalid_option`. */
  constructor(options: PawlChatTransportOptions = {}) {
    checkTransport(options)
    this.#options = options
  }

  /** Sends what is new in the chat, and streams the answer. @throws ChatError `forbidden`, `not_newest`, `invalid_input`, … */
  async sendMessages(request: ChatRequest): Promise<ReadableStream<UiMessageChunk>> {
    const { messages, messageId, trigger, chatId, body } = request
    this.#look(chatId, messages)
    const { agent, context, tags } = this.#options
    const sent = messages.find(({ id, role }) => id === messageId && role === 'assistant') ?? messages.at(-1)
    const decided = sent?.role === 'assistant' ? JSON.stringify(sent) : undefined
    // With `sendAutomaticallyWhen`, `useChat` would send this endlessly while the run waits for another person. It stops after an
    // AbortError.
    if (decided !== undefined && decided === this.#own(chatId).settled)
      throw new DOMException('Nothing has changed since this was sent.', 'AbortError')
    if (sent?.role === 'assistant') {
      this.#own(chatId).resets.continues(sent)
      Object.assign(this.#own(chatId), { refused: undefined, settled: undefined })
    }
    const repeatable = trigger === 'regenerate-message' && this.#regenerating(chatId, `${sent?.id} ${messageId}`)
    const asked = { agent, context, tags, ...body, id: chatId, messages: sent ? [sent] : [], trigger, messageId, ...repeatable }
    // A stop takes effect from here on, because the message may already be in flight.
    const stopping = this.#interruptOnAbort(request, standingIn(sent?.metadata)?.run)
    const ended = this.#own(chatId).begin()
    const onEnd = (): void => {
      stopping.disarm()
      ended()
    }
    try {
      const first = await this.#ask(`/v1/ui?show=${this.#show}`, request, { method: 'POST', body: JSON.stringify(asked) })
      if (sent?.role === 'user' && trigger === 'submit-message') this.#own(chatId).unsent = undefined
      if (repeatable) this.#own(chatId).regenerating = undefined
      return this.#stream(first, request, onEnd, { onChunk: stopping.see, onDone: () => void (this.#own(chatId).settled = decided) })
    } catch (error) {
      if (error instanceof ChatError) this.#notSent(request, sent, error)
      onEnd()
      throw this.#failure(error)
    }
  }

  /**
   * Streams the answer in progress from its beginning, and those that follow without user input; null if there is none.
   * @throws ChatError `session_not_found`, `forbidden`, …
   */
  async reconnectToStream(request: ReconnectRequest): Promise<ReadableStream<UiMessageChunk> | null> {
    const own = this.#own(request.chatId)
    const loaded = own.isFresh ? `&loaded=${own.seq}` : ''
    own.isFresh = false
    const first = await this.#ask(`${this.#resumption(request)}${loaded}`, request)
    if (first.status === 204) return null
    // Interrupts from here on, not earlier: a page that is mounted twice, as in React's strict mode, aborts its first request although the
    // user did not stop the run.
    const stopping = this.#interruptOnAbort(request)
    const ended = own.begin()
    let answers = 0
    const onEnd = (): void => {
      // A stream does not contain the users' messages between two answers.
      if (answers > 1) own.isStale = true
      stopping.disarm()
      ended()
    }
    const onChunk = (chunk: UiChunk): void => {
      if (chunk.type === 'start') answers += 1
      stopping.see(chunk)
    }
    return this.#stream(first, request, onEnd, { onChunk })
  }

  /**
   * Keeps a page up to date while it does nothing itself: messages and decisions made elsewhere, and what follows from them, appear without
   * a reload. `page` is what `useChat` returns. Returns a function that stops following; a hidden page does not follow until it is visible
   * again. While it follows, the page holds one connection to the server.
   */
  follow(chatId: string, page: ChatPage, options: Omit<ReconnectRequest, 'chatId'> = {}): () => void {
    const stop = new AbortController()
    const path = `/v1/ui/${encodeURIComponent(chatId)}`
    const ask = (what: string, abortSignal: AbortSignal) => this.#ask(`${path}/${what}`, { ...options, chatId, abortSignal })
    void followChat({
      page,
      own: this.#own(chatId),
      load: async (signal) => (await (await ask('messages', signal)).json()) as Newest,
      isAnswering: async (seq, signal) => {
        const response = await ask(`stream?show=${this.#show}&loaded=${seq}`, signal)
        await response.body?.cancel()
        return response.status !== 204
      },
      open: (seq, signal) => ask(`changes?after=${seq}`, signal),
      look: (shown) => this.#look(chatId, shown),
      signal: stop.signal,
    })
    return () => stop.abort()
  }

  /** The whole conversation so far: the initial `messages` of a chat. @throws ChatError `session_not_found`, `forbidden`, … */
  async messages<M extends FollowedMessage = UiMessage>(chatId: string, options: Omit<ReconnectRequest, 'chatId'> = {}): Promise<M[]> {
    let page = await this.messagesPage<M>(chatId, options)
    const pages = [page.messages]
    while (page.cursor !== undefined) {
      page = await this.messagesPage<M>(chatId, { ...options, cursor: page.cursor })
      pages.unshift(page.messages)
    }
    return pages.flat()
  }

  /**
   * A page of the conversation, for chats that load earlier messages later: the newest messages or, with the `cursor` of a page, those
   * before it. @throws ChatError `session_not_found`, `forbidden`, …
   */
  async messagesPage<M extends FollowedMessage = UiMessage>(
    chatId: string,
    { cursor, limit, ...options }: Omit<ReconnectRequest, 'chatId'> & { cursor?: string | undefined; limit?: number | undefined } = {},
  ): Promise<{ messages: M[]; cursor?: string }> {
    const query = new URLSearchParams()
    if (cursor !== undefined) query.set('cursor', cursor)
    if (limit !== undefined) query.set('limit', String(limit))
    const which = query.size > 0 ? `?${query}` : ''
    const response = await this.#ask(`/v1/ui/${encodeURIComponent(chatId)}/messages${which}`, { chatId, ...options })
    const { seq, ...page } = (await response.json()) as { messages: M[]; cursor?: string; seq?: number }
    if (seq !== undefined) this.#own(chatId).seq = seq
    return page
  }

  /**
   * Stops the run in progress, with its model call and tools, for all pages. `run`: only this run, of which the page shows an answer. Once
   * it is over, nothing is stopped. @throws ChatError `session_not_found`, `forbidden`, …
   */
  async stop(chatId: string, { run, ...options }: Omit<ReconnectRequest, 'chatId'> & { run?: number | undefined } = {}): Promise<void> {
    const response = await this.#ask(
      `/v1/sessions/${encodeURIComponent(chatId)}/interrupt`,
      { chatId, ...options },
      { method: 'POST', body: JSON.stringify({ run }), keepalive: true },
    )
    await response.body?.cancel()
  }

  /** Checks whether the page still shows what was retracted. */
  #look(chatId: string, shown: readonly FollowedMessage[]): void {
    const own = this.#own(chatId)
    if (!own.resets.isKept(shown)) return
    own.isStale = true
    if (this.#isOld) return
    this.#isOld = true
    // The console is the only place where the page's developer looks.
    globalThis.console.warn(OLD_CLIENT)
  }

  /** The id of a request to generate an answer again: the same until the server has answered, so that it is not carried out twice. */
  #regenerating(chatId: string, of: string): { requestId: string } {
    const own = this.#own(chatId)
    if (own.regenerating?.of !== of) own.regenerating = { of, requestId: randomId() }
    return { requestId: own.regenerating.requestId }
  }

  /** Notes what the page shows but the server does not have. */
  #notSent({ chatId, trigger, messageId }: ChatRequest, sent: SentMessage | undefined, { status }: ChatError): void {
    const own = this.#own(chatId)
    if (!mayPass(status)) own.regenerating = undefined
    const isNew = sent?.role === 'user' && trigger === 'submit-message' && (messageId === undefined || messageId === own.unsent)
    // A new message remains, because the user may want to send it again or edit it.
    if (isNew) own.unsent = mayPass(status) ? sent.id : undefined
    // Decisions, edits and answers to regenerate: a page that follows shows what is recorded.
    else if (status !== 0) Object.assign(own, { isStale: true, refused: new Set(sent?.parts.flatMap(callIdIn)) })
  }

  get #show(): UiShow {
    return this.#isOld ? 'steps' : (this.#options.show ?? 'pieces')
  }

  /** The error with which a failed request rejects. */
  #failure(error: unknown): unknown {
    return this.#show === 'steps' ? withoutContinuing(error) : error
  }

  #resumption({ chatId }: ReconnectRequest): string {
    return `/v1/ui/${encodeURIComponent(chatId)}/stream?show=${this.#show}`
  }

  /**
   * Interrupts the run when the request is aborted. `see`: a chunk of its stream, which may name the run; until one does, the run is that of
   * `run` or, for a new message, the one in progress. `disarm` removes the listener.
   */
  #interruptOnAbort({ abortSignal, chatId, headers }: ReconnectRequest, run?: number): { see(chunk: UiChunk): void; disarm(): void } {
    let newest = run
    const see = (chunk: UiChunk): void => {
      if (chunk.type === 'start') newest = chunk.messageMetadata.pawl.run
    }
    if (this.#options.onStop === 'leave') return { see, disarm: () => undefined }
    const stop = (): void => {
      // The page has nowhere to report a failed interrupt. The messages show whether the run stopped.
      void this.stop(chatId, { headers, run: newest }).catch(() => undefined)
    }
    abortSignal?.addEventListener('abort', stop, { once: true })
    return { see, disarm: () => abortSignal?.removeEventListener('abort', stop) }
  }

  async #ask(path: string, { headers: given, abortSignal }: ReconnectRequest, init: RequestInit = {}): Promise<Response> {
    const { api = '/api/pawl', headers = {}, credentials = 'same-origin', fetch = globalThis.fetch } = this.#options
    const own = typeof headers === 'function' ? await headers() : headers
    const url = `${api.replace(/\/$/, '')}${path}`
    const response = await fetch(url, {
      credentials,
      ...init,
      headers: {
        ...(init.body !== undefined && { 'content-type': 'application/json' }),
        ...own,
        ...Object.fromEntries(new Headers(given)),
        ...(init.headers as Record<string, string> | undefined),
      },
      ...(abortSignal && { signal: abortSignal }),
    }).catch((error: unknown) => {
      throw abortSignal?.aborted ? error : unreachable(url, error)
    })
    if (!response.ok) throw await errorOf(response)
    return response
  }

  #stream(
    first: Response,
    request: ReconnectRequest,
    onEnd: () => void,
    { onChunk, onDone }: { onChunk?: (chunk: UiChunk) => void; onDone?: () => void },
  ) {
    const chunks = this.#chunks(first, request, onEnd)
    const { resets } = this.#own(request.chatId)
    return new ReadableStream<UiMessageChunk>({
      pull: async (controller) => {
        const { done, value } = await chunks.next()
        if (value) {
          resets.sent(value)
          onChunk?.(value)
        }
        if (done) {
          onDone?.()
          controller.close()
        } else if (value.type === 'error') {
          if (value.code === 'history_changed') this.#own(request.chatId).isStale = true
          await chunks.return(undefined)
          controller.error(
            new ChatError(value.code ?? 'unexpected_response', value.errorText, first.status, value.detail ?? value.errorText),
          )
        }
        // The types of the AI SDK before version 7 lack the newest chunks. A page with such a version uses `steps`, which has none of them.
        else controller.enqueue(value as UiMessageChunk)
      },
      cancel: async () => void (await chunks.return(undefined)),
    })
  }

  /** The chunks of a stream, across reconnections. */
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
            cursor = outcome.cursor
            yield chunk
          }
        }
        cursor = outcome.cursor
        if (outcome.isDone) return
        abortSignal?.throwIfAborted()
        if (cursor === undefined || ++failures > MAX_FAILURES) {
          // The page may have an answer in progress although there is nothing new to send.
          this.#own(request.chatId).isStale = true
          throw this.#failure(new TypeError('network error: the chat stream was cut off'))
        }
        if (outcome.isPartial) yield { type: 'reset-step' }
        await pause(Math.min(BASE_DELAY_MS * 2 ** (failures - 1), MAX_DELAY_MS), abortSignal)
        response = await this.#again(request, cursor)
      }
    } finally {
      const after = Number(new URLSearchParams(cursor).get('after') ?? Number.NaN)
      const own = this.#own(request.chatId)
      if (after > (own.seq ?? 0)) own.seq = after
      onEnd()
    }
  }

  /** Requests the rest of a stream that was cut off; undefined if it is not available yet. */
  async #again(request: ReconnectRequest, cursor: string): Promise<Response | undefined> {
    try {
      return await this.#ask(this.#resumption(request), request, { headers: { 'last-event-id': cursor } })
    } catch (error) {
      if (error instanceof ChatError && !mayPass(error.status)) throw error
      return undefined
    }
  }
}

/** Whether the same request may succeed later. Status 0 means that there was no response. */
function mayPass(status: number): boolean {
  return status === 0 || status === 429 || status >= 500
}

/** Pages without TLS have no `crypto.randomUUID`. */
function randomId(): string {
  return Array.from(globalThis.crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

function callIdIn(part: { type: string; toolCallId?: unknown }): string[] {
  return typeof part.toolCallId === 'string' ? [part.toolCallId] : []
}

/** How a connection ended. */
interface Outcome {
  /** Where the stream can resume. */
  cursor: string | undefined
  /** Whether part of an answer was shown that will be sent again. */
  isPartial: boolean
  isDone: boolean
}

/** The chunks of one connection. The chunks of one session event are shown together or not at all. */
async function* read(body: ReadableStream<Uint8Array>, outcome: Outcome, show: UiShow): AsyncGenerator<UiChunk> {
  let held: UiChunk[] = []
  const events = serverSent(body, SILENCE_MS)
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
      // A refusal ends a stream without further chunks.
      outcome.isDone ||= chunk.type === 'error'
    } else if (held.length === 0 && replaces(chunk)) yield chunk
    else if (held.length > 0 || show === 'steps' || !isPiece(chunk)) held.push(chunk)
    else {
      yield chunk
      outcome.isPartial = chunk.type !== 'reset-step'
    }
  }
}

/** Whether the chunk replaces what the page shows, so that it can be shown again: what an agent says follows no event of the session. */
function replaces({ type }: UiChunk): boolean {
  return type === 'tool-output-available'
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
