// Routes over all sessions that the caller may see: lists, sums, the overview.
import { z } from 'zod'
import type { Pawl } from '../../client/pawl.ts'
import { CALL_STATUSES, PENDING_KINDS, SUMS } from '../../client/queries/list-options.ts'
import { defined } from '../../session/defined.ts'
import { type Access, prefixOf, requireSession } from '../access.ts'
import { firstOf } from '../first-of.ts'
import { MEMORY, type RequestMembers, type Route, route, typed } from '../route.ts'
import { named, PAGE, sessionId, SPAN, STATUS } from '../schemas.ts'

const TAGS = {
  tag: named.optional().describe('Only sessions with this tag.'),
  tags: z.array(named).min(1).max(20).optional().describe('Only sessions with all of these tags.'),
}
const agent = named.optional().describe('Only sessions of this agent.')
const session = sessionId.optional().describe('Only this session.')
const tree = z.boolean().optional().describe('With `session`: also the sessions that answer its agent calls. Default false.')

/** Restricts a filter to the caller's sessions. @throws SessionNotFoundError for any other session. */
function within(access: Access, filter: { session?: string | undefined; tree?: unknown; agent?: string | undefined }): never {
  for (const named of [filter.session, filter.tree]) if (typeof named === 'string') requireSession(access, named)
  return defined({ ...filter, idPrefix: prefixOf(access) }) as never
}

interface ListRoute extends Pick<Route, 'path' | 'operation' | 'summary'> {
  /** The members of the query. */
  query: RequestMembers['shape']
  /** What the answer is. */
  description: string
  /** Reads the list; `filter` is restricted to the caller's sessions. */
  read(pawl: Pawl, filter: never): PromiseLike<unknown>
}

/** A route that returns a page of a list over all sessions. */
function list({ query, description, read, ...what }: ListRoute): Route {
  return route({
    ...what,
    method: 'get',
    tag: 'lists',
    scope: 'read',
    memory: MEMORY.page,
    query: z.strictObject(query),
    answer: { status: 200, description, schema: 'typed' },
    handle: async (call) => read(call.pawl, within(call.access, call.query as never)),
  })
}

export const LIST_ROUTES = [
  list({
    path: '/v1/sessions',
    operation: 'listSessions',
    summary: 'Sessions by creation, newest first.',
    query: {
      status: z.array(STATUS).min(1).optional(),
      paused: z.boolean().optional(),
      children: z.boolean().optional().describe('Also sessions that answer agent calls of other sessions. Default false.'),
      tree: sessionId.optional().describe('Only this session and those that answer its agent calls, directly or further down.'),
      agent,
      ...TAGS,
      ...SPAN,
      ...PAGE,
    },
    description: 'A page of sessions.',
    read: (pawl, filter) => pawl.sessions.list(filter),
  }),
  list({
    path: '/v1/pending',
    operation: 'listPending',
    summary: 'Calls that wait for a person or a client, longest wait first.',
    query: {
      kind: z.array(z.enum(PENDING_KINDS)).min(1).optional(),
      agent,
      ...TAGS,
      session,
      tree,
      role: named.optional().describe('That a person with this role must approve.'),
      group: named.optional().describe('That one decision can settle: the `group` of one of them.'),
      ...PAGE,
    },
    description: 'A page of calls.',
    read: (pawl, filter) => pawl.pending.list(filter),
  }),
  list({
    path: '/v1/tool-calls',
    operation: 'listToolCalls',
    summary: 'Tool calls by the time of the model’s request, newest first.',
    query: {
      session,
      status: z.array(z.enum(CALL_STATUSES)).min(1).optional(),
      tool: named.optional(),
      key: z.string().min(1).max(1_000).optional().describe('With this idempotency key.'),
      effectId: z.string().min(1).max(1_000).optional(),
      ...SPAN,
      ...PAGE,
    },
    description: 'A page of calls.',
    read: (pawl, filter) => pawl.toolCalls(filter),
  }),
  list({
    path: '/v1/errors',
    operation: 'listErrors',
    summary: 'Failed attempts, and failures of whole runs, newest first.',
    query: {
      session,
      context: named.optional().describe('`model`, `tool:<name>`, `run` or `checkpoint`.'),
      ...SPAN,
      ...PAGE,
    },
    description: 'A page of errors.',
    read: (pawl, filter) => pawl.errors(filter),
  }),
  list({
    path: '/v1/usage',
    operation: 'sumUsage',
    summary: 'Sums of tokens and US dollars: days newest first, turns (of one session) in order, others highest cost first.',
    query: { by: z.enum(SUMS), session, tree, ...SPAN, ...PAGE },
    description: 'A page of sums.',
    read: (pawl, filter) => pawl.usage(filter),
  }),
  list({
    path: '/v1/overview',
    operation: 'getOverview',
    summary: 'The open sessions by what they need, most urgent first.',
    query: { agent, limit: PAGE.limit },
    description: 'Counts, and the sessions.',
    read: (pawl, filter) => pawl.overview(filter),
  }),
  route({
    method: 'get',
    path: '/v1/failures',
    operation: 'getFailures',
    summary: 'Failure statistics; by default for the last 24 hours.',
    tag: 'lists',
    scope: 'read',
    query: z.strictObject({ agent, ...SPAN }),
    answer: typed('The statistics.'),
    handle: async ({ pawl, access, query }) => pawl.failures(within(access, query)),
  }),
  route({
    method: 'get',
    path: '/v1/events',
    operation: 'listFeed',
    summary: 'The feed: the events of all sessions, each with a cursor to continue after.',
    tag: 'lists',
    scope: 'read',
    memory: MEMORY.page,
    query: z.strictObject({
      types: z.array(named).min(1).max(100).optional(),
      agent,
      after: PAGE.cursor.describe('The cursor of the last event that you have processed.'),
      limit: PAGE.limit,
    }),
    answer: typed('The next events; empty if there are no more yet.'),
    async handle({ pawl, access, query, request }) {
      const { limit = 50, ...filter } = query
      // A filter that matches nothing reads the whole feed.
      return { items: await firstOf(pawl.events({ ...(within(access, filter) as object), signal: request.signal }), limit) }
    },
  }),
]
