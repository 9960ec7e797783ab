// Pages of a chat's messages, newest first: which events a page needs, and how much of each of them fits.
import { blobOf } from '../session/blobs.ts'
import type { SessionEvent } from '../session/events.ts'
import { startMapping } from './mapping.ts'
import { messagesFrom } from './messages.ts'
import type { UiOutline } from './outline.ts'
import { outputSeq } from './outputs.ts'
import type { UiMessage } from './protocol.ts'
import { type SurvivingEvent, surviving } from './surviving.ts'
import type { ErrorTexts } from './user-texts.ts'
import { beginningOf } from '../session/beginning.ts'

/** Selects a page. */
export interface UiPageRequest {
  /** The page before this one, by its cursor. Default: the newest messages. */
  before?: number | undefined
  /** Maximum messages, approximately: a user's message and its answer stay together. */
  limit: number
  /** Maximum characters of JSON. The parts of a single answer that do not fit are shortened. */
  characters: number
  /** Larger values are not loaded. */
  maxValueBytes: number
}

/** An event whose contents a page needs. */
export interface UiToRead {
  seq: number
  isArchived: boolean
  /** Whether it fits unshortened. */
  fits: boolean
  /** `seq` of the event whose output it shows, if not its own. */
  output: number | undefined
}

/** The plan for reading a page. */
export interface UiPagePlan {
  toRead: UiToRead[]
  /** The page ends with the beginning of an answer that belongs to the next page. */
  hasTail: boolean
  /** The cursor of the page before this one; absent on the first page. */
  cursor?: number
  /** Whether the outline reaches back far enough. Otherwise, another exchange may belong to the page. */
  isComplete: boolean
}

/** An exchange: users' messages, and the answer to them. */
interface Exchange {
  /** Where it begins and ends in the conversation. */
  from: number
  to: number
  /** The place where it begins. */
  at: number
  /** The users' messages. */
  said: SurvivingEvent[]
  /** Where the answer begins; absent if there is none. */
  answer?: number
}

interface PagedConversation extends UiPageRequest {
  outline: UiOutline
  kept: readonly SurvivingEvent[]
  /** The size of an event in characters, with its large value if that is loaded. */
  sizeOf(one: SurvivingEvent): number
}

export function planPage(outline: UiOutline, paging: UiPageRequest): UiPagePlan {
  const kept = surviving(outline.events)
  const sizes = new Map(
    outline.events.map((event, n) => {
      const bytes = blobOf(event)?.bytes ?? 0
      return [event.seq, (outline.sizes[n] ?? 0) + (bytes <= paging.maxValueBytes ? bytes : 0)]
    }),
  )
  const sizeAt = (seq: number | undefined): number => (seq === undefined ? 0 : (sizes.get(seq) ?? 0))
  const sizeOf = ({ event }: SurvivingEvent): number => sizeAt(event.seq) + sizeAt(outputSeq(outline.events, event))
  const all = { ...paging, outline, kept, sizeOf }
  const { exchanges, waiting } = exchangesIn(kept)
  const before = paging.before ?? Number.POSITIVE_INFINITY
  const older = exchanges.filter(({ at }) => at < before)
  const isNewest = paging.before === undefined
  const chosen = newestThatFit(all, older, isNewest ? waiting : [])
  const { events: tail, beginsAnswer } = tailIn(kept, exchanges.slice(older.length))
  const parts = [
    ...chosen.flatMap(({ said, from, to }) => [...said, ...withoutMessages(kept.slice(from, to))]),
    ...tail,
    ...(isNewest ? waiting : []),
  ]
  const first = chosen[0]
  return {
    toRead: fitted(all, parts),
    hasTail: beginsAnswer,
    isComplete: outline.start === 0 || chosen.length < older.length,
    ...(first && chosen.length < older.length && { cursor: first.at }),
  }
}

/** What later exchanges say about the answer before them, such as that its run was interrupted: all until the next answer begins. */
function tailIn(kept: readonly SurvivingEvent[], later: readonly Exchange[]): { events: SurvivingEvent[]; beginsAnswer: boolean } {
  const from = later[0]?.from ?? kept.length
  const next = later.find(({ answer }) => answer !== undefined)?.answer
  return { events: withoutMessages(kept.slice(from, next === undefined ? kept.length : next + 1)), beginsAnswer: next !== undefined }
}

const withoutMessages = (events: readonly SurvivingEvent[]): SurvivingEvent[] =>
  events.filter(({ event }) => event.type !== 'message_received')

/** An event of a page, as the page shows it. */
export type UiPagePart = Pick<SurvivingEvent, 'event' | 'isArchived'>

/** The event, or the part of it that fits. */
export function partOf(event: SessionEvent, { isArchived, fits }: UiToRead): UiPagePart {
  return { event: fits ? event : (shortened(event) as SessionEvent), isArchived }
}

export function messagesOfPage({ hasTail }: UiPagePlan, parts: readonly UiPagePart[], errorTexts?: ErrorTexts): UiMessage[] {
  const messages = messagesFrom(parts, errorTexts)
  return hasTail && messages.at(-1)?.role === 'assistant' ? messages.slice(0, -1) : messages
}

function exchangesIn(kept: readonly SurvivingEvent[]): { exchanges: Exchange[]; waiting: SurvivingEvent[] } {
  const mapping = startMapping({ show: 'steps' })
  const said = new Map<string, SurvivingEvent>()
  const exchanges: Exchange[] = []
  for (const [n, one] of kept.entries()) {
    const { event, at, isArchived } = one
    if (event.type === 'message_received') said.set(event.messageId, one)
    const start = mapping.event(event, isArchived).find(({ chunk }) => chunk.type === 'start')
    const isBeginning = event.type === 'turn_started' && (start !== undefined || event.takes.length > 0)
    // A later turn answers the messages to an archived turn, and may have accepted no messages itself.
    const answersNewest = start?.takes?.length !== 0 && event.type === 'turn_started' && event.takes.length === 0
    const newest = exchanges.at(-1)
    if (isBeginning && !answersNewest) {
      const taken = event.takes.flatMap((id) => said.get(id) ?? [])
      for (const id of event.takes) said.delete(id)
      exchanges.push({ from: n, to: n + 1, at, said: taken, ...(start && { answer: n }) })
    } else if (newest) {
      newest.to = n + 1
      if (start) newest.answer = n
    }
  }
  return { exchanges, waiting: [...said.values()] }
}

function newestThatFit(
  { kept, sizeOf, limit, characters }: PagedConversation,
  exchanges: readonly Exchange[],
  waiting: SurvivingEvent[],
): Exchange[] {
  const chosen: Exchange[] = []
  let size = sum(waiting.map(sizeOf))
  let count = waiting.length
  for (const one of exchanges.toReversed()) {
    size += sum(one.said.map(sizeOf)) + sum(kept.slice(one.from, one.to).map(sizeOf))
    count += one.said.length + (one.answer === undefined ? 0 : 1)
    if (chosen.length > 0 && (size > characters || count > limit)) break
    chosen.unshift(one)
  }
  return chosen
}

/** Keeps the newest parts. */
function fitted({ outline, sizeOf, characters }: PagedConversation, parts: readonly SurvivingEvent[]): UiToRead[] {
  let room = characters
  const toRead = parts.toReversed().map((one): UiToRead => {
    const { event, isArchived } = one
    const size = sizeOf(one)
    const fits = size <= room
    if (fits) room -= size
    return { seq: event.seq, isArchived, fits, output: outputSeq(outline.events, event) }
  })
  return toRead.reverse()
}

const sum = (numbers: readonly number[]): number => numbers.reduce((one, other) => one + other, 0)

/** Cuts off the texts of an event that does not fit at this length. */
const SHORT_TEXT = 200

function shortened(value: unknown): unknown {
  if (typeof value === 'string') {
    return value.length > SHORT_TEXT ? `${beginningOf(value, SHORT_TEXT)}… [shortened: ${value.length} characters]` : value
  }
  if (Array.isArray(value)) return value.slice(0, SHORT_TEXT).map(shortened)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, shortened(member)]))
}
