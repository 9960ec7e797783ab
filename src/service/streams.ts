// Event streams: pulled by their readers and kept alive. They end when they are not read, when the caller may no longer read, and on a
// drain.
import { inTime } from '../waiting/in-time.ts'
import { ServiceError } from './errors.ts'
import { type ProblemBody, problemOf, statusOf } from './problem.ts'

/** One event of a stream. */
export interface StreamItem {
  /** A client can resume after this id; absent if it cannot resume here. */
  id?: string
  /** Its type. */
  event: string
  data: unknown
}

/** Settings of a handler's streams; times in milliseconds. */
export interface StreamSettings {
  /** A stream sends a comment after this long without an event. */
  keepAliveMs: number
  /** A stream ends when its reader has read nothing for this long. */
  stalledAfterMs: number
  /** The longest time between two checks that the caller may read. */
  reauthorizeMs: number
  /** How long a stream stays open while that cannot be checked. */
  uncheckedMs: number
  /** The maximum number of open streams. */
  max: number
  /** The maximum number of open streams of one caller. */
  maxPerCaller: number
}

export interface StreamSource {
  /** An item that is a string is sent unchanged. */
  items(signal: AbortSignal): AsyncIterable<StreamItem | string>
  /** For another protocol: returns the last text of a stream that the server has to end. Default: an event `end`. */
  ending?(problem: ProblemBody): string
  /** Further headers. */
  headers?: Readonly<Record<string, string>>
  /** Whose stream it is. */
  caller: string
  /** Rejects when the caller may no longer read, with 401, 403 or 404. Any other rejection says nothing about the caller. */
  reauthorize(): Promise<void>
  /** Aborts when the client has disconnected. */
  signal: AbortSignal
}

/** A place for a stream that will be opened: a request that changes something takes it before the change. */
export interface StreamPlace {
  /** Opens the stream. @throws ServiceError `draining`. */
  open(source: Omit<StreamSource, 'caller'>): Response
  /** Releases the place, unless the stream was opened. */
  release(): void
}

/** The open streams of a handler. */
export interface Streams {
  /** Takes a place for a caller's stream. @throws ServiceError `too_many_watches`, `draining`. */
  take(caller: string): StreamPlace
  /** Opens a stream. @throws ServiceError `too_many_watches`, `draining`. */
  open(source: StreamSource): Response
  /** Ends all streams with a hint about when to reconnect, and opens no more. */
  drain(): void
  readonly draining: boolean
}

/** How long a client waits before it reconnects. After a drain, clients wait longer, each for a different time. */
const RETRY_MS = 2_000
const DRAIN_RETRY_MS = 1_000
const DRAIN_SPREAD_MS = 4_000
/** Statuses that mean a refusal by `reauthorize`. A rate limit or a failure says nothing about the caller. */
const REFUSALS: readonly number[] = [401, 403, 404]

type End = (why: unknown, retryMs: number) => void

/** Creates the streams of a handler; none is open at first. */
export function streamsWith(settings: StreamSettings): Streams {
  const open = new Map<End, string>()
  const places = new Map<StreamPlace, string>()
  let draining = false

  function take(caller: string): StreamPlace {
    if (draining) throw drainingError()
    const callers = [...open.values(), ...places.values()]
    if (callers.length >= settings.max) throw tooMany(`This server has reached its limit for open streams: ${settings.max}`)
    if (callers.filter((one) => one === caller).length >= settings.maxPerCaller) {
      throw tooMany(`You have reached the limit for open streams of one caller: ${settings.maxPerCaller}`)
    }
    const place: StreamPlace = {
      open(source) {
        places.delete(place)
        if (draining) throw drainingError()
        return openStream({ ...source, caller }, settings, open)
      },
      release: () => void places.delete(place),
    }
    places.set(place, caller)
    return place
  }

  return {
    take,
    open: ({ caller, ...source }) => take(caller).open(source),
    drain() {
      draining = true
      for (const end of open.keys()) end(drainingError(), DRAIN_RETRY_MS + Math.random() * DRAIN_SPREAD_MS)
    },
    get draining() {
      return draining
    },
  }
}

function tooMany(what: string): ServiceError {
  return new ServiceError('too_many_watches', 429, `${what}. Close streams that you no longer read, or try again later.`)
}

function drainingError(): ServiceError {
  return new ServiceError('draining', 503, 'The server is shutting down. Reconnect, and resume after the last event that you received.')
}

function openStream(source: StreamSource, settings: StreamSettings, open: Map<End, string>): Response {
  const stop = new AbortController()
  const signal = AbortSignal.any([stop.signal, source.signal])
  const items = pulled(source.items(signal))
  let last: { text: string } | undefined
  let stalled: NodeJS.Timeout | undefined
  const endingOf = source.ending ?? ((problem: ProblemBody) => textOf({ event: 'end', data: problem }))
  const ending: End = (why, retryMs) => {
    last ??= { text: `retry: ${Math.round(retryMs)}\n${endingOf(problemOf(why))}` }
    items.wake()
  }
  const endChecks = checkAgain(source, settings, signal, ending)

  function release(): void {
    open.delete(ending)
    endChecks()
    clearTimeout(stalled)
    source.signal.removeEventListener('abort', release)
    stop.abort()
    items.end()
  }

  /** The next text of the stream, and whether it is the last; undefined if the client has disconnected. */
  async function next(): Promise<{ text: string; isLast: boolean } | undefined> {
    if (!last && !signal.aborted) await items.arrival(settings.keepAliveMs)
    if (signal.aborted) return undefined
    if (last) return { ...last, isLast: true }
    const item = items.take()
    if (!item) return { text: ': alive\n\n', isLast: false }
    if ('failed' in item) return { text: endingOf(problemOf(item.failed)), isLast: true }
    return item.done ? undefined : { text: textOf(item.value), isLast: false }
  }

  function watchReader(): void {
    stalled = setTimeout(release, settings.stalledAfterMs)
    stalled.unref?.()
  }

  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        controller.enqueue(encoded(`retry: ${RETRY_MS}\n: connected\n\n`))
        watchReader()
      },
      async pull(controller) {
        clearTimeout(stalled)
        const part = await next()
        if (part) controller.enqueue(encoded(part.text))
        if (part && !part.isLast) return watchReader()
        release()
        controller.close()
      },
      cancel: release,
    },
    // Nothing is produced before the reader wants it.
    { highWaterMark: 0 },
  )

  open.set(ending, source.caller)
  source.signal.addEventListener('abort', release, { once: true })
  // The client may have disconnected while the request was prepared.
  if (source.signal.aborted) release()
  return new Response(body, { headers: { ...HEADERS, ...source.headers } })
}

const HEADERS = {
  'content-type': 'text/event-stream',
  // `no-transform`: a middleware or a proxy that compresses would hold events back.
  'cache-control': 'no-store, no-transform',
  // Without it, nginx would buffer events.
  'x-accel-buffering': 'no',
}

type StreamArrival = IteratorResult<StreamItem | string> | { failed: unknown }

/** The items of a source, each of which is requested only when the reader wants one, so at most one is held. */
interface PulledItems {
  /** Waits for an item, for `wake`, or until the time is over. */
  arrival(withinMs: number): Promise<void>
  /** The item that has arrived. */
  take(): StreamArrival | undefined
  wake(): void
  end(): void
}

function pulled(source: AsyncIterable<StreamItem | string>): PulledItems {
  const iterator = source[Symbol.asyncIterator]()
  let isAsking = false
  let hasEnded = false
  let arrived: StreamArrival | undefined
  let wake = (): void => undefined

  function ask(): void {
    isAsking = true
    iterator.next().then(arrive, (failed: unknown) => arrive({ failed }))
  }

  function arrive(what: StreamArrival): void {
    isAsking = false
    if (hasEnded) return leave()
    arrived = what
    wake()
  }

  function leave(): void {
    void iterator.return?.().catch(() => undefined)
  }

  return {
    async arrival(withinMs) {
      if (arrived) return
      if (!isAsking) ask()
      let timer: NodeJS.Timeout | undefined
      await new Promise<void>((resolve) => {
        wake = resolve
        timer = setTimeout(resolve, withinMs)
      })
      clearTimeout(timer)
    },
    take() {
      const now = arrived
      arrived = undefined
      return now
    },
    wake: () => wake(),
    end() {
      hasEnded = true
      wake()
      // The signal ends a `next` in progress, which may still return an item.
      if (!isAsking) leave()
    },
  }
}

/** Checks at intervals that the caller may still read. The returned function ends the checks. */
function checkAgain(source: StreamSource, settings: StreamSettings, signal: AbortSignal, end: End): () => void {
  let timer: NodeJS.Timeout | undefined
  let checkedAt = performance.now()
  /** Each stream has its own limit, so that the streams of many callers do not end together. */
  const uncheckedMs = settings.uncheckedMs * between(1, 2)

  /** Checks at a random moment, so that streams that were opened together are not checked together. */
  function checkLater(): void {
    timer = setTimeout(() => void check(), settings.reauthorizeMs * between(0.5, 1))
    timer.unref?.()
  }

  async function check(): Promise<void> {
    try {
      const isAnswered = await inTime(
        source.reauthorize().then(() => true),
        settings.reauthorizeMs,
      )
      if (!isAnswered) throw new Error('authorize did not answer')
      checkedAt = performance.now()
    } catch (error) {
      if (REFUSALS.includes(statusOf(error))) return end(error, RETRY_MS)
      if (performance.now() - checkedAt > uncheckedMs) return end(uncheckedError(error), RETRY_MS)
    }
    if (!signal.aborted) checkLater()
  }

  checkLater()
  return () => clearTimeout(timer)
}

function uncheckedError(cause: unknown): ServiceError {
  return new ServiceError('unauthorized', 401, 'Your access could not be checked again for too long. Reconnect.', { cause })
}

function between(min: number, max: number): number {
  return min + Math.random() * (max - min)
}

const encoder = new TextEncoder()
const encoded = (text: string): Uint8Array => encoder.encode(text)

/** An event as its stream's text. */
function textOf(item: StreamItem | string): string {
  if (typeof item === 'string') return item
  const { id, event, data } = item
  // JSON has no line breaks.
  return `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
}
