// The past of a session for a chat: its outline, and the contents of the events that are shown, in bounded memory.
import { SessionNotFound, SessionUnavailable } from '../client/errors.ts'
import type { SessionHandle } from '../client/types.ts'
import { blobOf, withBlob } from '../session/blobs.ts'
import type { SessionEvent } from '../session/events.ts'
import type { Json } from '../session/json.ts'
import { numberText } from '../session/number-text.ts'
import { addToOutline, emptyOutline, type UiOutline } from '../ui/outline.ts'
import { hasOutput, repeatedBy, withOutputOf } from '../ui/outputs.ts'
import { ServiceError } from './errors.ts'

/** Larger values are shown as a reference: the side store holds up to 20 MB of each. */
export const MAX_VALUE_BYTES = 1_000_000
/** An outline has some hundred bytes for each event. */
const MAX_EVENTS = 100_000
/** How long to wait for a session that is being opened, and how often to check. */
const OPENING_MS = 3_000
const OPENING_LOOK_MS = 100
/** A reader skips this many events that it does not need; beyond that, it begins again. */
const MAX_SKIPPED = 200

/** The session as it is known; empty for a session that does not exist. @throws SessionUnavailable; ServiceError `chat_too_long`. */
export async function outlineOf(session: SessionHandle): Promise<UiOutline> {
  const giveUpAt = performance.now() + OPENING_MS
  for (;;) {
    try {
      return await readOutline(session)
    } catch (error) {
      // A session that was just opened may not be readable yet.
      if (!(error instanceof SessionUnavailable) || performance.now() > giveUpAt) throw error
      await new Promise((resolve) => setTimeout(resolve, OPENING_LOOK_MS))
    }
  }
}

/** The same without waiting, for a stream that follows the session anyway; empty for a session that cannot be read now. */
export async function knownOutlineOf(session: SessionHandle): Promise<UiOutline> {
  try {
    return await readOutline(session)
  } catch (error) {
    if (error instanceof SessionUnavailable) return emptyOutline()
    throw error
  }
}

async function readOutline(session: SessionHandle): Promise<UiOutline> {
  const outline = emptyOutline()
  try {
    for await (const event of session.events()) {
      if (outline.events.length === MAX_EVENTS) throw tooLong(session.id)
      addToOutline(outline, event)
    }
  } catch (error) {
    if (!(error instanceof SessionNotFound)) throw error
  }
  return outline
}

function tooLong(sessionId: string): ServiceError {
  const text = `Session "${sessionId}" has more than ${numberText(MAX_EVENTS)} events, which is too long for a chat.`
  return new ServiceError(
    'chat_too_long',
    409,
    `${text} Read its messages or events in pages, and start a new session or a fork for the chat.`,
  )
}

/** An event to be read. */
interface ToRead {
  seq: number
  /** `seq` of the event with the output that it shows, if that is another one. */
  output: number | undefined
  /** Whether its large value is needed, too. */
  fits: boolean
}

/** The events with their contents, one after another; those that are gone are left out. */
export async function* contentsOf<R extends ToRead>(
  session: SessionHandle,
  wanted: Iterable<R>,
): AsyncGenerator<{ event: SessionEvent; place: R }> {
  const [read, readOutput] = [readerOf(session), readerOf(session)]
  try {
    for (const place of wanted) {
      const event = await read.at(place.seq)
      const source = event && place.output !== undefined ? await readOutput.at(place.output) : undefined
      if (!event) continue
      const shown = source ? withOutputOf(event, source) : event
      yield { event: place.fits ? await restored(session, shown) : shown, place }
    }
  } finally {
    await Promise.all([read.close(), readOutput.close()])
  }
}

/** Reads single events, mostly in order. */
function readerOf(session: SessionHandle) {
  let events: AsyncIterator<SessionEvent> | undefined
  let last = 0

  async function close(): Promise<void> {
    await events?.return?.()
    events = undefined
  }

  return {
    close,
    async at(seq: number): Promise<SessionEvent | undefined> {
      if (!events || seq <= last || seq > last + MAX_SKIPPED) {
        await close()
        events = session.events({ after: seq - 1 })[Symbol.asyncIterator]()
      }
      for (;;) {
        const next = await events.next()
        if (next.done) return undefined
        last = next.value.seq
        if (last >= seq) return last === seq ? next.value : undefined
      }
    },
  }
}

/** A new event with what it shows. */
export async function newContentsOf(session: SessionHandle, event: SessionEvent): Promise<SessionEvent> {
  // Streams do not show what users say.
  if (event.type === 'message_received') return event
  return restored(session, await withOutput(session, event))
}

/** Searches the whole session for what a new replay shows: calls are rarely repeated. */
async function withOutput(session: SessionHandle, event: SessionEvent): Promise<SessionEvent> {
  const callId = repeatedBy(event)
  if (callId === undefined) return event
  let source: SessionEvent | undefined
  for await (const one of session.events()) {
    if (one.seq >= event.seq) break
    if (hasOutput(one, callId)) source = one
  }
  return source ? withOutputOf(event, await withOutput(session, source)) : event
}

/** The event with its large value, or with the reference if the value cannot be read. */
async function restored(session: SessionHandle, event: SessionEvent): Promise<SessionEvent> {
  const ref = blobOf(event)
  if (!ref || ref.bytes > MAX_VALUE_BYTES) return event
  const text = await session.blob(ref.sha256).catch(() => null)
  return text === null ? event : withBlob(event, JSON.parse(text) as Json)
}
