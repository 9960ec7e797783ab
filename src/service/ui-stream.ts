// Streams of UI chunks: what a session has done so far and does from now on, until it no longer continues by itself.
import { inTime } from '../waiting/in-time.ts'
import type { StoredPast } from '../client/session/stored-past.ts'
import type { SessionHandle } from '../client/types.ts'
import type { WatchItem } from '../session/watching/watching.ts'
import type { UiChunk } from '../ui/protocol.ts'
import { startStreaming, type UiCursor, type UiSentChunk, type UiChunkStream, type UiStreamOptions } from '../ui/streaming.ts'
import { ServiceError } from './errors.ts'
import type { ProblemBody } from './problem.ts'
import { type ChatPast, contentsOf, newContentsOf } from './ui-past.ts'
import { beginningOf } from '../session/beginning.ts'

/** Headers of the protocol. */
export const UI_HEADERS = { 'x-vercel-ai-ui-message-stream': 'v1' } as const

/** A session that waits or has failed may be about to continue: a message or a decision may be on its way. */
const GRACE_MS = 400
/** A stream to be opened. */
export interface UiStreamRequest extends Omit<UiStreamOptions, 'past'> {
  session: SessionHandle
  past: ChatPast
}

/** The stream as server-sent events. It keeps only what it needs of the session's past. */
export function uiEvents({ session, past, ...options }: UiStreamRequest): (signal: AbortSignal) => AsyncGenerator<string> {
  const { stored, outline } = past
  const begun = startStreaming({ ...options, past: outline })
  const { from } = options
  return (signal) => textsOf({ session, stored }, from, begun, signal)
}

/** Where a stream reads. */
interface ReadSource {
  session: SessionHandle
  stored: StoredPast | undefined
}

async function* textsOf(
  read: ReadSource,
  from: UiCursor,
  { stream, toShow }: ReturnType<typeof startStreaming>,
  signal: AbortSignal,
): AsyncGenerator<string> {
  yield idLine(from)
  for await (const { event, place } of contentsOf(read.session, toShow, read.stored)) {
    for (const one of stream.past(event, place)) yield textOf(one)
    if (signal.aborted) return
  }
  if (stream.end() !== 'ended') yield* rest(read, stream, signal)
  if (signal.aborted) return
  yield textOf({ chunk: stream.last() })
  yield 'data: [DONE]\n\n'
}

async function* rest(read: ReadSource, stream: UiChunkStream, signal: AbortSignal): AsyncGenerator<string> {
  const stop = new AbortController()
  const items = read.session.watch({ after: stream.seq, signal: AbortSignal.any([signal, stop.signal]) })[Symbol.asyncIterator]()
  let next = items.next()
  try {
    for (let end = stream.end(); end !== 'ended'; end = stream.end()) {
      const item = await (end === 'soon' ? inTime(next, GRACE_MS) : next)
      if (!item || item.done === true) return
      for (const one of await sentFor(read, stream, item.value)) yield textOf(one)
      next = items.next()
    }
  } finally {
    stop.abort()
    next.catch(() => undefined)
    // It may have arrived already: the watch then ends only here.
    void items.return?.().catch(() => undefined)
  }
}

async function sentFor({ session, stored }: ReadSource, stream: UiChunkStream, item: WatchItem): Promise<UiSentChunk[]> {
  switch (item.type) {
    case 'event':
      return stream.event(await newContentsOf(session, stored, item.event))
    case 'delta':
      return stream.delta(item, item.delta)
    case 'reset':
      return stream.reset()
    case 'status':
      return []
  }
}

/** The last text of a stream that the server has to end. It has no `[DONE]`, so that a client knows that there is more. */
export function uiEnding({ code, detail, userMessage }: ProblemBody): string {
  return textOf({ chunk: { type: 'error', errorText: userMessage, code, detail } satisfies UiChunk })
}

function textOf({ chunk, cursor }: UiSentChunk): string {
  return `${cursor ? idLine(cursor).trimEnd() + '\n' : ''}data: ${JSON.stringify(chunk)}\n\n`
}

function idLine(cursor: UiCursor): string {
  return `id: ${new URLSearchParams(Object.entries(cursor).map(([name, value]): [string, string] => [name, String(value)]))}\n\n`
}

/** The cursor of an event's id. @throws ServiceError `unknown_cursor`. */
export function cursorOf(id: string): UiCursor {
  const given = new URLSearchParams(id)
  const number = (name: string): number | undefined => {
    const text = given.get(name) ?? ''
    return /^\d{1,15}$/.test(text) ? Number(text) : undefined
  }
  const [after, since] = [number('after'), number('since')]
  const [message, answer] = [given.get('message'), given.get('answer')]
  if (message !== null && since !== undefined) return { message, since }
  if (after !== undefined) return { after, ...(answer !== null && { answer }) }
  throw new ServiceError(
    'unknown_cursor',
    400,
    `${JSON.stringify(beginningOf(id, 40))} is not the id of an event. Load the messages again, and resume.`,
  )
}
