// Streams of UI chunks: what a session has done so far and does from now on, until it does nothing more by itself.
import { SessionNotFound, SessionUnavailable } from '../client/errors.ts'
import { inTime } from '../connect/in-time.ts'
import type { SessionHandle } from '../client/types.ts'
import { blobOf, withBlob } from '../session/blobs.ts'
import type { SessionEvent } from '../session/events.ts'
import type { Json } from '../session/json.ts'
import type { WatchItem } from '../session/watching/watching.ts'
import type { UiChunk, UiShow } from '../ui/protocol.ts'
import { startStreaming, type UiCursor, type UiSent, type UiStreaming } from '../ui/streaming.ts'
import { ServiceError } from './errors.ts'
import type { Problem } from './problem.ts'

/** Headers of the protocol. */
export const UI_HEADERS = { 'x-vercel-ai-ui-message-stream': 'v1' } as const

/** Larger values are shown as a reference: the side store holds up to 20 MB of each. */
const MAX_VALUE_BYTES = 1_000_000
/** A session that waits or has failed may be about to continue: a message or a decision may be on its way. */
const GRACE_MS = 400
/** How long to wait for a session that is being opened, and how often to check. */
const OPENING_MS = 3_000
const OPENING_LOOK_MS = 100

/** A stream to be opened. */
export interface UiOpening {
  session: SessionHandle
  from: UiCursor
  show: UiShow
  past: readonly SessionEvent[]
  isFresh?: true
  decided?: ReadonlySet<string>
}

/** All known events of the session, with their large values; none for a session that does not exist. @throws SessionUnavailable. */
export async function pastOf(session: SessionHandle): Promise<SessionEvent[]> {
  const giveUpAt = performance.now() + OPENING_MS
  for (;;) {
    try {
      return await readPast(session)
    } catch (error) {
      // A session that was just opened may not be readable yet.
      if (!(error instanceof SessionUnavailable) || performance.now() > giveUpAt) throw error
      await new Promise((resolve) => setTimeout(resolve, OPENING_LOOK_MS))
    }
  }
}

/** The same without waiting, for a stream that follows the session anyway; none for a session that cannot be read now. */
export async function knownOf(session: SessionHandle): Promise<SessionEvent[]> {
  try {
    return await readPast(session)
  } catch (error) {
    if (error instanceof SessionUnavailable) return []
    throw error
  }
}

async function readPast(session: SessionHandle): Promise<SessionEvent[]> {
  const events: SessionEvent[] = []
  try {
    for await (const event of session.events()) events.push(await restored(session, event))
  } catch (error) {
    if (!(error instanceof SessionNotFound)) throw error
  }
  return events
}

/** The event with its large value, or with the reference if the value cannot be read. */
async function restored(session: SessionHandle, event: SessionEvent): Promise<SessionEvent> {
  const ref = blobOf(event)
  if (!ref || ref.bytes > MAX_VALUE_BYTES) return event
  const text = await session.blob(ref.sha256).catch(() => null)
  return text === null ? event : withBlob(event, JSON.parse(text) as Json)
}

/** The stream as server-sent events. */
export async function* uiEvents(opening: UiOpening, signal: AbortSignal): AsyncGenerator<string> {
  const { session, from } = opening
  const { sent, stream } = startStreaming(opening)
  yield idLine(from)
  for (const one of sent) yield textOf(one)
  if (stream.end() !== 'ended') yield* rest(session, stream, signal)
  if (signal.aborted) return
  yield textOf({ chunk: stream.last() })
  yield 'data: [DONE]\n\n'
}

async function* rest(session: SessionHandle, stream: UiStreaming, signal: AbortSignal): AsyncGenerator<string> {
  const stop = new AbortController()
  const items = session.watch({ after: stream.seq, signal: AbortSignal.any([signal, stop.signal]) })[Symbol.asyncIterator]()
  let next = items.next()
  try {
    for (let end = stream.end(); end !== 'ended'; end = stream.end()) {
      const item = await (end === 'soon' ? inTime(next, GRACE_MS) : next)
      if (!item || item.done === true) return
      for (const one of await sentFor(session, stream, item.value)) yield textOf(one)
      next = items.next()
    }
  } finally {
    stop.abort()
    next.catch(() => undefined)
  }
}

async function sentFor(session: SessionHandle, stream: UiStreaming, item: WatchItem): Promise<UiSent[]> {
  switch (item.type) {
    case 'event':
      return stream.event(await restored(session, item.event))
    case 'delta':
      return stream.delta(item, item.delta)
    case 'reset':
      return stream.reset()
    case 'status':
      return []
  }
}

/** The last text of a stream that the server has to end. It has no `[DONE]`, so that a client knows that there is more. */
export function uiEnding({ code, detail }: Problem): string {
  return textOf({ chunk: { type: 'error', errorText: `${code}: ${detail}`, code } satisfies UiChunk })
}

function textOf({ chunk, cursor }: UiSent): string {
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
    `${JSON.stringify(id.slice(0, 40))} is not the id of an event: load the messages again, and resume.`,
  )
}
