// Streams of UI chunks: what a session has done so far and does from now on, until it no longer continues by itself.
import { inTime } from '../waiting/in-time.ts'
import type { StoredPast } from '../client/session/stored-past.ts'
import type { SessionHandle, TreeItem } from '../client/types.ts'
import type { UiChunk } from '../ui/protocol.ts'
import { startStreaming, type UiCursor, type UiSentChunk, type UiChunkStream, type UiStreamOptions } from '../ui/streaming.ts'
import { ServiceError } from './errors.ts'
import type { ProblemBody } from './problem.ts'
import { type ChildTexts, startChildTexts } from './ui-children.ts'
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
  /** Opens the sessions of agents that answer its calls. */
  open(sessionId: string): SessionHandle
}

/** The stream as server-sent events. It keeps only what it needs of the session's past. */
export function uiEvents({ session, past, open, ...options }: UiStreamRequest): (signal: AbortSignal) => AsyncGenerator<string> {
  const { stored, outline } = past
  const begun = startStreaming({ ...options, past: outline })
  const { from, show } = options
  return (signal) => {
    const { errorTexts } = options
    const children = startChildTexts({ sessionId: session.id, show, errorTexts, isResumed: 'after' in from && !options.isFresh, open })
    return textsOf({ session, stored, children }, from, begun, signal)
  }
}

/** Where a stream reads. */
interface ReadSource {
  session: SessionHandle
  stored: StoredPast | undefined
  children: ChildTexts
}

async function* textsOf(
  read: ReadSource,
  from: UiCursor,
  { stream, toShow }: ReturnType<typeof startStreaming>,
  signal: AbortSignal,
): AsyncGenerator<string> {
  yield idLine(from)
  for await (const { event, place } of contentsOf(read.session, toShow, read.stored)) {
    const sent = stream.past(event, place)
    // An archived turn has only users' messages.
    for (const one of place.isArchived ? sent : read.children.parent(event, sent, true)) yield textOf(one)
    if (signal.aborted) return
  }
  if (stream.end() !== 'ended') yield* rest(read, stream, signal)
  if (signal.aborted) return
  yield textOf({ chunk: stream.last() })
  yield 'data: [DONE]\n\n'
}

async function* rest(read: ReadSource, stream: UiChunkStream, signal: AbortSignal): AsyncGenerator<string> {
  const stop = new AbortController()
  const { children } = read
  const after = await children.begin(stream.seq)
  const items = read.session.watch({ tree: true, after, signal: AbortSignal.any([signal, stop.signal]) })[Symbol.asyncIterator]()
  let next = items.next()
  /** When a stream ends that nothing continues. What agents in the background say does not keep it open. */
  let endsAt: number | undefined
  try {
    for (let end = stream.end(); end !== 'ended'; end = stream.end()) {
      if (end === 'open') endsAt = undefined
      else endsAt ??= performance.now() + GRACE_MS
      const item = await before(next, [children.dueIn(), endsAt === undefined ? undefined : endsAt - performance.now()])
      if (item?.done === true) return
      const isOver = endsAt !== undefined && performance.now() >= endsAt
      if (!item) for (const one of children.due(isOver ? 'last' : undefined)) yield textOf(one)
      if (!item && isOver) return
      if (!item) continue
      if (item.value.sessionId === read.session.id) endsAt = undefined
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

/** The result of `work`, or undefined if it takes longer than the shortest of these times. */
function before<T>(work: Promise<T>, times: readonly (number | undefined)[]): Promise<T | undefined> {
  const ms = Math.min(...times.map((time) => time ?? Number.POSITIVE_INFINITY))
  return ms === Number.POSITIVE_INFINITY ? work : inTime(work, Math.max(0, ms))
}

async function sentFor({ session, stored, children }: ReadSource, stream: UiChunkStream, item: TreeItem): Promise<readonly UiSentChunk[]> {
  if (item.sessionId !== session.id) {
    children.child(item)
    return children.due()
  }
  switch (item.type) {
    case 'event':
      return children.parent(item.event, stream.event(await newContentsOf(session, stored, item.event)))
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
