// The past of a session for a chat: the outline of the part that is shown, and the contents of its events, in bounded memory.
import { SessionNotFoundError, SessionUnavailableError } from '../client/errors.ts'
import { type StoredPast, storedPastOf } from '../client/session/stored-past.ts'
import { unlessAway } from '../client/session/unless-away.ts'
import type { SessionHandle } from '../client/types.ts'
import { blobOf, withBlob } from '../session/blobs.ts'
import type { SessionEvent } from '../session/events.ts'
import type { Json } from '../session/json.ts'
import { numberText } from '../session/number-text.ts'
import { addToOutline, emptyOutline, newestSeq, type UiOutline } from '../ui/outline.ts'
import { hasOutput, repeatedBy, withOutputOf } from '../ui/outputs.ts'
import { planPage, type UiPagePlan, type UiPageRequest } from '../ui/pages.ts'
import { readBack } from '../ui/reading-back.ts'
import { reachesBack, reachesLoaded, type UiCursor, type UiLoadPoint } from '../ui/streaming.ts'
import { ServiceError } from './errors.ts'
import { whenOpened } from './when-opened.ts'

/** Larger values are shown as a reference: the side store holds up to 20 MB of each. */
export const MAX_VALUE_BYTES = 1_000_000
/** An outline takes about a hundred bytes per event. */
const MAX_EVENTS = 100_000
/** A reader skips this many events that it does not need; beyond that, it begins again. */
const MAX_SKIPPED = 200

/** What a page or a stream needs from a session. */
export interface ChatPast {
  outline: UiOutline
  /** Where contents are read, if the store has the session. */
  stored: StoredPast | undefined
}

/** What is read from a session: at least until the outline is enough. */
interface PastRequest {
  isEnough(outline: UiOutline): boolean
  /** Only what comes before the place with which a page ended. */
  before?: number | undefined
  /** The message whose answer is shown. */
  message?: string | undefined
  /** Set if the newest state is not needed. */
  withoutState?: true
}

/**
 * A page of the messages, where its contents are read, and the newest event. @throws SessionUnavailableError; ServiceError `chat_too_long`.
 */
export async function pageIn(
  session: SessionHandle,
  paging: UiPageRequest,
): Promise<{ plan: UiPagePlan; stored: StoredPast | undefined; seq: number }> {
  const isEnough = (outline: UiOutline): boolean => planPage(outline, paging).isComplete
  const { outline, stored } = await whenOpened(() => readPast(session, { isEnough, before: paging.before, withoutState: true }))
  return { plan: planPage(outline, paging), stored, seq: newestSeq(outline) }
}

/**
 * What a stream from this position needs; empty for a session that does not exist. @throws SessionUnavailableError; ServiceError
 * `chat_too_long`.
 */
export function pastFor(session: SessionHandle, from: UiCursor): Promise<ChatPast> {
  return whenOpened(() => readFor(session, from))
}

/** The same without waiting, for a stream that follows the session in any case; empty for a session that cannot be read now. */
export async function knownPastFor(session: SessionHandle, from: UiCursor): Promise<ChatPast> {
  try {
    return await readFor(session, from)
  } catch (error) {
    if (error instanceof SessionUnavailableError) return { outline: emptyOutline(), stored: undefined }
    throw error
  }
}

/** The answers to which something was added since a page has loaded its messages, and the newest one. @throws as `pastFor`. */
export function pastSince(session: SessionHandle, loaded: UiLoadPoint): Promise<ChatPast> {
  return whenOpened(() => readPast(session, { isEnough: (outline) => reachesLoaded(outline, loaded) }))
}

function readFor(session: SessionHandle, from: UiCursor): Promise<ChatPast> {
  const message = 'message' in from ? from.message : undefined
  return readPast(session, { isEnough: () => true, message }, from)
}

/** Reads the stored session backwards, or, if the store does not have it, all of it. */
async function readPast(session: SessionHandle, wanted: PastRequest, from?: UiCursor): Promise<ChatPast> {
  const read = await unlessAway(async () => {
    const stored = await storedPastOf(session, { state: !wanted.withoutState })
    return stored && { outline: await readStored(session.id, stored, wanted, from), stored }
  })
  return read ?? { outline: await readWhole(session), stored: undefined }
}

async function readStored(id: string, stored: StoredPast, { isEnough, before, message }: PastRequest, from?: UiCursor): Promise<UiOutline> {
  const { top, tail, state } = stored
  const reading = await readBack({ source: stored, top, tail, state, before })
  const said = message === undefined ? undefined : await stored.locate(message)
  if (said?.event) reading.add(said.event)
  for (;;) {
    const outline = reading.outline()
    if ((outline?.events.length ?? 0) > MAX_EVENTS) throw tooLong(id)
    const reaches = outline && (!from || reachesBack(outline, from, said?.takenAt ?? null))
    if (outline && reaches && isEnough(outline)) return outline
    await reading.extend()
  }
}

async function readWhole(session: SessionHandle): Promise<UiOutline> {
  const outline = emptyOutline()
  try {
    for await (const event of session.events()) {
      if (outline.events.length === MAX_EVENTS) throw tooLong(session.id)
      addToOutline(outline, event)
    }
  } catch (error) {
    if (!(error instanceof SessionNotFoundError)) throw error
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

/** The events with their contents, one after another; those that are gone are omitted. */
export async function* contentsOf<R extends ToRead>(
  session: SessionHandle,
  wanted: Iterable<R>,
  stored: StoredPast | undefined,
): AsyncGenerator<{ event: SessionEvent; place: R }> {
  const places = [...wanted]
  const seqs = places.flatMap(({ seq, output }) => (output === undefined ? [seq] : [seq, output]))
  const read = readerOf(session, stored, seqs)
  try {
    for (const place of places) {
      const event = await read.next(place.seq)
      const source = place.output === undefined ? undefined : await read.next(place.output)
      if (!event) continue
      const shown = source ? withOutputOf(event, source) : event
      yield { event: place.fits ? await restored(session, shown) : shown, place }
    }
  } finally {
    await read.close()
  }
}

/** How many events are requested at a time. */
const AT_ONCE = 100

/** Reads these events, which are requested in this order: from the store or, if that is unavailable, from the session. */
function readerOf(session: SessionHandle, stored: StoredPast | undefined, seqs: readonly number[]) {
  const others = eventReader(session)
  const tail = new Map(stored?.tail.map((event) => [event.seq, event]))
  let found = new Map<number, SessionEvent>()
  let isAway = stored === undefined
  let place = 0
  let readUpTo = 0

  async function readMore(): Promise<void> {
    const wanted = seqs.slice(place, place + AT_ONCE).filter((seq) => !tail.has(seq))
    const read = await unlessAway(async () => stored?.at(wanted))
    isAway = read === undefined
    found = new Map(read?.map((event) => [event.seq, event]))
    readUpTo = place + Math.max(1, read?.length ?? 0)
  }

  return {
    close: others.close,
    async next(seq: number): Promise<SessionEvent | undefined> {
      if (!isAway && !tail.has(seq) && !found.has(seq) && place >= readUpTo) await readMore()
      place += 1
      return tail.get(seq) ?? found.get(seq) ?? (isAway ? others.at(seq) : undefined)
    },
  }
}

/** Reads single events, mostly in order. */
function eventReader(session: SessionHandle) {
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
export async function newContentsOf(session: SessionHandle, stored: StoredPast | undefined, event: SessionEvent): Promise<SessionEvent> {
  // Streams do not show users' messages.
  if (event.type === 'message_received') return event
  return restored(session, await withOutput(session, stored, event))
}

async function withOutput(session: SessionHandle, stored: StoredPast | undefined, event: SessionEvent): Promise<SessionEvent> {
  const callId = repeatedBy(event)
  if (callId === undefined) return event
  const source = (await unlessAway(async () => stored?.output(callId, event.seq))) ?? (await outputIn(session, callId, event.seq))
  return source ? withOutputOf(event, await withOutput(session, stored, source)) : event
}

/** Searches the whole session: calls are rarely repeated, and the store usually has the first one. */
async function outputIn(session: SessionHandle, callId: string, before: number): Promise<SessionEvent | undefined> {
  let source: SessionEvent | undefined
  for await (const one of session.events()) {
    if (one.seq >= before) break
    if (hasOutput(one, callId)) source = one
  }
  return source
}

/** The event with its large value, or with the reference if the value cannot be read. */
async function restored(session: SessionHandle, event: SessionEvent): Promise<SessionEvent> {
  const ref = blobOf(event)
  if (!ref || ref.bytes > MAX_VALUE_BYTES) return event
  const text = await session.blob(ref.sha256).catch(() => null)
  return text === null ? event : withBlob(event, JSON.parse(text) as Json)
}
