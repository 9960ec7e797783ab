// Routes that stream: the live events of a session, and the feed of all sessions.
import { z } from 'zod'
import type { Pawl } from '../../client/pawl.ts'
import { treePlaces, treeStartIn } from '../../client/session/tree-places.ts'
import type { TreeStart } from '../../client/session/tree-watch.ts'
import type { SessionHandle } from '../../client/types.ts'
import { defined } from '../../session/defined.ts'
import { callerOf, prefixOf } from '../access.ts'
import { ServiceError } from '../errors.ts'
import { MEMORY, route } from '../route.ts'
import { after, named, OF_SESSION, PAGE, streamOf } from '../schemas.ts'
import type { StreamItem } from '../streams.ts'
import { known } from './sessions.ts'
import { beginningOf } from '../../session/beginning.ts'
import { inTime } from '../../waiting/in-time.ts'

export const STREAM = {
  status: 200,
  type: 'text/event-stream',
  description: 'The stream; its last event, `end`, says why it ends.',
} as const
export const LAST = {
  'Last-Event-ID': z.string().max(2_000).optional().describe('The id of your last event; a browser sends it when it reconnects.'),
}

/** Where the stream begins. @throws ServiceError `unknown_cursor`. */
export function startOf(request: Request, given = 0): number {
  const last = request.headers.get('last-event-id')
  if (last === null || last === '') return given
  if (/^\d{1,15}$/.test(last)) return Number(last)
  throw unknownCursor(`${JSON.stringify(beginningOf(last, 40))} is not the id of an event`)
}

function unknownCursor(what: string): ServiceError {
  return new ServiceError('unknown_cursor', 400, `${what}. Read the session again, and watch from the last event that you have read.`)
}

/**
 * Checks that the session exists, and has the event. @throws SessionNotFoundError, SessionUnavailableError, ServiceError `unknown_cursor`.
 */
export async function requireEvent(pawl: Pawl, session: SessionHandle, seq: number): Promise<void> {
  const { storedSeq } = await known(pawl, session)
  // A client may be ahead of the store, but not of the session.
  if (seq > storedSeq && seq > (await session.state()).seq) throw unknownCursor(`The session has no event ${seq}`)
}

async function* itemsOf(session: SessionHandle, from: number, signal: AbortSignal): AsyncGenerator<StreamItem> {
  for await (const item of session.watch({ after: from, signal })) {
    // A client can resume after durable events only.
    yield { ...(item.type === 'event' && { id: String(item.event.seq) }), event: item.type, data: item }
  }
}

/** Where the stream of a tree begins: after an event of the session, or after one for each session that it was showing. */
function treeStartOf(request: Request, session: string, given = 0): TreeStart {
  const last = request.headers.get('last-event-id')
  if (last === null || last === '') return given
  const start = treeStartIn(session, last)
  if (start !== undefined) return start
  throw unknownCursor(`${JSON.stringify(beginningOf(last, 40))} is not the id of an event`)
}

/** The longest id of an event that a client can be expected to send back. */
const LONGEST_ID = 1_500

async function* itemsOfTree(session: SessionHandle, from: TreeStart, signal: AbortSignal): AsyncGenerator<StreamItem> {
  const places = treePlaces(session.id, from)
  for await (const item of session.watch({ tree: true, after: from, signal })) {
    const id = places.note(item)
    // Without an id, a client that reconnects sees some events again.
    yield { ...(id !== undefined && id.length <= LONGEST_ID && { id }), event: item.type, data: item }
  }
}

/** How long the first event may take. By then, a page has been read, which shows whether the cursor and the filter are valid. */
const FIRST_EVENT_MS = 2_000

/** Checks the cursor and the filter. A filter that matches little would read the whole feed before its first event. */
async function requireFeed(pawl: Pawl, filter: object, signal: AbortSignal): Promise<void> {
  const stop = new AbortController()
  const events = pawl.events({ ...filter, signal: AbortSignal.any([signal, stop.signal]) } as never)[Symbol.asyncIterator]()
  const first = events.next()
  try {
    await inTime(first, FIRST_EVENT_MS)
  } finally {
    stop.abort()
    void first.then(() => events.return?.()).catch(() => undefined)
  }
}

export const WATCH_ROUTES = [
  route({
    method: 'get',
    path: '/v1/sessions/{session}/watch',
    operation: 'watchSession',
    summary: 'Follow a session: server-sent events with the type of the item. The stream can be resumed after any durable event.',
    tag: 'sessions',
    scope: 'read',
    memory: MEMORY.page,
    params: OF_SESSION,
    query: z.strictObject({
      after,
      tree: z.boolean().optional().describe('Also the sessions that answer its agent calls: each item names its session. Default false.'),
    }),
    headers: LAST,
    answer: { ...STREAM, schema: streamOf(['event', 'delta', 'reset', 'status']) },
    async handle({ pawl, session, params, query, request, streams, access, reauthorize }) {
      const handle = session(params.session)
      const places = query.tree ? treeStartOf(request, handle.id, query.after) : startOf(request, query.after)
      await requireEvent(pawl, handle, typeof places === 'number' ? places : (places[handle.id] ?? 0))
      return streams.open({
        items: (signal) =>
          typeof places === 'number' && !query.tree ? itemsOf(handle, places, signal) : itemsOfTree(handle, places, signal),
        signal: request.signal,
        caller: callerOf(access),
        reauthorize: () => reauthorize(params.session),
      })
    },
  }),
  route({
    method: 'get',
    path: '/v1/events/watch',
    operation: 'watchFeed',
    summary: 'Follow the feed: server-sent events whose id is the cursor.',
    tag: 'lists',
    scope: 'read',
    memory: MEMORY.page,
    query: z.strictObject({ types: z.array(named).min(1).max(100).optional(), agent: named.optional(), after: PAGE.cursor }),
    headers: LAST,
    answer: { ...STREAM, schema: streamOf(['event']) },
    async handle({ pawl, query, request, streams, access, reauthorize }) {
      const last = request.headers.get('last-event-id') || undefined
      const filter = defined({ ...query, after: last ?? query.after, idPrefix: prefixOf(access) })
      await requireFeed(pawl, filter, request.signal)
      async function* items(signal: AbortSignal): AsyncGenerator<StreamItem> {
        for await (const item of pawl.events({ ...filter, follow: true, signal } as never)) {
          yield { id: item.cursor, event: 'event', data: item }
        }
      }
      return streams.open({ items, signal: request.signal, caller: callerOf(access), reauthorize: () => reauthorize() })
    },
  }),
]
