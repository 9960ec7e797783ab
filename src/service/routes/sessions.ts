// Routes of one session: open it, send messages to it, read it.
import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import type { Pawl } from '../../client/pawl.ts'
import { ResultTimeoutError, SessionNotFoundError, SessionUnavailableError } from '../../client/errors.ts'
import { uuidOf } from '../../client/session/session-id.ts'
import { valueBytes } from '../../client/session/stored-past.ts'
import { checkContent, checkOpening } from '../../client/session/large-content.ts'
import type { SendOptions, SessionHandle } from '../../client/types.ts'
import { defined } from '../../session/defined.ts'
import type { Json } from '../../session/json.ts'
import type { MessageSignal } from '../../session/protocol/protocol.ts'
import { StoreError } from '../../connect/errors.ts'
import { contextFor, prefixOf, requireOwnId, requireScope, tagsFor } from '../access.ts'
import { ServiceError } from '../errors.ts'
import { firstOf } from '../first-of.ts'
import { requireOwnFiles } from '../provider-files.ts'
import { answerWith, type RouteCall, MEMORY, route, typed } from '../route.ts'
import {
  after,
  IDEMPOTENCY,
  json,
  LATER,
  matching,
  MESSAGE,
  messageId,
  OF_SESSION,
  OPENING,
  PAGE,
  runNumber,
  sessionId,
  STEPS,
} from '../schemas.ts'

const AT_CHECKPOINT = z.strictObject({ at: z.int().min(1).optional().describe('The number of a checkpoint. Default: now.') })
const MAX_EVENTS = 500
/** How often a large value is in memory while it is sent. */
const VALUE_FACTOR = 4
const MAX_WAIT_S = 60
const DEFAULT_WAIT_S = 20

const open = z.strictObject({ id: sessionId.optional(), ...OPENING, ...STEPS, ...MESSAGE, ...LATER })
const send = z.strictObject({ ...OPENING, ...STEPS, agent: OPENING.agent.optional(), ...MESSAGE, ...LATER })

type OpenBody = Omit<z.output<typeof open>, 'agent'> & { agent?: string | undefined }

/** @throws ServiceError if the caller may not send the message. */
function requireSendable(
  { access, agents }: RouteCall<unknown, unknown, unknown>,
  id: string,
  { agent, priority, heartbeatTimeout, content }: OpenBody,
): void {
  requireOwnId(access, id)
  // Only `operate` may set these: otherwise, a tenant's user could put their own sessions ahead of others.
  if (priority !== undefined || heartbeatTimeout !== undefined) requireScope(access, 'operate')
  if (agent !== undefined && agents && !agents.includes(agent)) throw unknownAgent(agent, agents)
  requireOwnFiles(access, content, 'body.content')
}

/**
 * Refuses what `sendTo` would refuse, as far as the message itself shows: for a request that changes something before it sends.
 * @throws ServiceError, InvalidMessageError.
 */
export function checkSending(call: RouteCall<unknown, unknown, unknown>, id: string, body: OpenBody): void {
  requireSendable(call, id, body)
  const { content, metadata, messageId, context, tags } = body
  checkContent({ content, ...defined({ messageId, metadata }) } as MessageSignal)
  checkOpening({ context: contextFor(call.access, context as Json | undefined), tags: tagsFor(call.access, tags) })
}

/** Sends a message to a session; returns the ids of both. */
export async function sendTo(call: RouteCall<unknown, unknown, unknown>, id: string, body: OpenBody, fresh: { isNew?: true } = {}) {
  const { pawl, access, request } = call
  requireSendable(call, id, body)
  const { agent, content, metadata, deadline, at, delay, interrupt, context, tags, idleTimeout, heartbeatTimeout, priority } = body
  const session = pawl.session(id, {
    ...defined({ agent, idleTimeout, heartbeatTimeout, priority: priority && defined(priority) }),
    // Without an agent, no session is started, so these would not be used.
    ...(agent !== undefined && defined({ tags: tagsFor(access, tags), context: contextFor(access, context as Json | undefined) })),
  } as object)
  const options = {
    ...defined({ messageId: messageIdOf(request, body), metadata, deadline, at, delay, interrupt }),
    by: call.by,
    ...fresh,
  } as SendOptions
  const run = await session.send(content as string, options)
  return { sessionId: id, messageId: run.messageId }
}

function unknownAgent(agent: string, agents: readonly string[]): ServiceError {
  const detail = `the agent ${JSON.stringify(agent)} is not available here: choose from ${agents.join(', ')}`
  return new ServiceError('unknown_agent', 400, `body.agent: ${detail}.`, { parts: [{ at: 'body.agent', detail }] })
}

/** @throws ServiceError `invalid_input`. */
function messageIdOf(request: Request, body: OpenBody): string | undefined {
  const key = request.headers.get('idempotency-key') ?? undefined
  if (key === undefined) return body.messageId
  const isKey = messageId.safeParse(key).success
  if (isKey && (body.messageId === undefined || body.messageId === key)) return key
  const detail = isKey ? 'differs from the messageId of the body: send one of them, or the same in both' : 'must have 1 to 200 characters'
  throw new ServiceError('invalid_input', 400, `Idempotency-Key ${detail}.`, { parts: [{ at: 'header.Idempotency-Key', detail }] })
}

/** A new session's id; a repeated request gets the same one. */
function newIdFor(call: RouteCall<unknown, unknown, unknown>, body: OpenBody): { id: string; isNew?: true } {
  const prefix = prefixOf(call.access) ?? ''
  const key = messageIdOf(call.request, body)
  if (key === undefined) return { id: `${prefix}${randomUUID()}`, isNew: true }
  return { id: `${prefix}${uuidOf(`${prefix}\n${call.by}\n${key}`)}` }
}

/**
 * Checks that the session exists: most reads of a missing session would simply find nothing. @throws SessionNotFoundError,
 * SessionUnavailableError.
 */
export async function known(pawl: Pawl, session: SessionHandle): Promise<{ storedSeq: number }> {
  try {
    return { storedSeq: (await pawl.sessions.get(session.id)).flushedSeq }
  } catch (error) {
    if (!(error instanceof SessionNotFoundError || error instanceof StoreError)) throw error
    return { storedSeq: (await session.status()).stored?.seq ?? 0 }
  }
}

/**
 * Rows of a session from the side store, which has none in the moments after its first message. @throws SessionNotFoundError,
 * SessionUnavailableError.
 */
async function whenStored<T>(session: SessionHandle, rows: PromiseLike<T>): Promise<T> {
  try {
    return await rows
  } catch (error) {
    if (!(error instanceof SessionNotFoundError) || error.erasedAt !== undefined) throw error
    // Rejects, with the reason, if there is no such session or it cannot be read now.
    await session.state()
    throw new SessionUnavailableError(session.id, { what: 'is not stored yet', advice: 'Ask again.', isOpening: true, cause: error })
  }
}

const READ = { method: 'get', tag: 'sessions', scope: 'read', params: OF_SESSION } as const
const READ_PAGE = { ...READ, memory: MEMORY.page } as const
const SEND = { method: 'post', tag: 'sessions', scope: 'send', params: OF_SESSION } as const

export const SESSION_ROUTES = [
  route({
    method: 'post',
    path: '/v1/sessions',
    operation: 'openSession',
    summary: 'Start a session with its first message, or send the message to a session that exists.',
    tag: 'sessions',
    scope: 'send',
    body: open,
    headers: IDEMPOTENCY,
    answer: { status: 201, description: 'The message is durable.', schema: 'typed', headers: { Location: 'The path of the session.' } },
    async handle(call) {
      const { id, ...fresh } = call.body.id === undefined ? newIdFor(call, call.body) : { id: call.body.id }
      const sent = await sendTo(call, id, call.body, fresh)
      return answerWith(sent, 201, { location: `${pathTo(call.request)}/${encodeURIComponent(id)}` })
    },
  }),
  route({
    ...SEND,
    path: '/v1/sessions/{session}/messages',
    operation: 'sendMessage',
    summary: 'Send a message. Name the agent to start the session, or to reopen one that has closed.',
    body: send,
    headers: IDEMPOTENCY,
    answer: typed('The message is durable, even with no worker running.', 202),
    handle: (call) => sendTo(call, call.params.session, call.body),
  }),
  route({
    ...READ,
    path: '/v1/sessions/{session}',
    operation: 'getSession',
    summary: 'The status of the session, and what it waits for. It is `loading` until a worker has opened the session.',
    answer: typed('The session.'),
    handle: ({ session, params }) => session(params.session).status(),
  }),
  route({
    ...READ_PAGE,
    path: '/v1/sessions/{session}/state',
    operation: 'getState',
    summary: 'The state: run, calls, error, context, usage, spend.',
    answer: typed('The state.'),
    handle: ({ session, params }) => session(params.session).state(),
  }),
  route({
    ...READ_PAGE,
    path: '/v1/sessions/{session}/messages',
    operation: 'listMessages',
    summary: 'The transcript in order; messages that are not in a turn yet come last.',
    query: z.strictObject(PAGE),
    answer: typed('A page of messages.'),
    async handle({ pawl, session, params, query }) {
      const handle = session(params.session)
      return whenStored(handle, pawl.messages({ session: handle.id, ...defined(query) }))
    },
  }),
  route({
    ...READ_PAGE,
    path: '/v1/sessions/{session}/scheduled',
    operation: 'listScheduled',
    summary: 'The messages that the session delivers later, the earliest first.',
    answer: typed('The messages.'),
    handle: async ({ session, params }) => ({ items: await session(params.session).scheduled() }),
  }),
  route({
    method: 'get',
    path: '/v1/sessions/{session}/messages/{message}/run',
    operation: 'awaitRun',
    summary: 'Wait until the run of a message has settled: completed, interrupted, failed, rejected, or waiting for a person or a client.',
    tag: 'sessions',
    scope: 'read',
    memory: MEMORY.none,
    params: z.strictObject({ session: sessionId, message: messageId }),
    query: z.strictObject({
      wait: z.int().min(1).max(MAX_WAIT_S).default(DEFAULT_WAIT_S).describe('The longest time to wait, in seconds.'),
    }),
    answer: typed('The status of the run; `pending`: it has not settled within that time.'),
    async handle({ pawl, session, params, query, request }) {
      const handle = session(params.session)
      await known(pawl, handle)
      try {
        return await handle.run(params.message).settled({ timeout: query.wait * 1_000, signal: request.signal })
      } catch (error) {
        if (error instanceof ResultTimeoutError) return { status: 'pending' }
        throw error
      }
    },
  }),
  route({
    method: 'get',
    path: '/v1/sessions/{session}/runs/{run}',
    operation: 'getRun',
    summary: 'One run: its calls with their attempts and effects and, if it has failed, what each strategy would keep and redo.',
    tag: 'sessions',
    scope: 'read',
    memory: MEMORY.page,
    params: z.strictObject({ session: sessionId, run: runNumber }),
    answer: typed('The run.'),
    handle: ({ session, params }) => session(params.session).runReport(params.run),
  }),
  route({
    ...READ_PAGE,
    path: '/v1/sessions/{session}/events',
    operation: 'listEvents',
    summary: 'The next events after a given one, in order.',
    query: z.strictObject({
      after,
      limit: z.int().min(1).max(MAX_EVENTS).optional().describe(`Default ${MAX_EVENTS}. A page of large events has fewer.`),
      stored: z
        .boolean()
        .optional()
        .describe('Only those in Postgres, without waiting for a worker that could have newer ones. Default false.'),
    }),
    answer: typed('The next events; empty if there are no more yet.'),
    async handle({ session, params, query }) {
      const { after = 0, limit = MAX_EVENTS, stored = false } = query
      return { items: await firstOf(session(params.session).events({ after, stored }), limit) }
    },
  }),
  route({
    ...READ_PAGE,
    path: '/v1/sessions/{session}/checkpoints',
    operation: 'listCheckpoints',
    summary: 'The checkpoints, newest first.',
    query: z.strictObject(PAGE),
    answer: typed('A page of checkpoints.'),
    async handle({ pawl, session, params, query }) {
      const handle = session(params.session)
      return whenStored(handle, pawl.checkpoints({ session: handle.id, ...defined(query) }))
    },
  }),
  route({
    ...READ,
    path: '/v1/sessions/{session}/budgets',
    operation: 'listBudgets',
    summary: 'Each limit of the session and its run: what is spent, set aside and left.',
    query: AT_CHECKPOINT,
    answer: typed('The budgets.'),
    handle: async ({ session, params, query }) => ({ items: await session(params.session).budgets(defined(query)) }),
  }),
  route({
    ...READ_PAGE,
    path: '/v1/sessions/{session}/plan',
    operation: 'getPlan',
    summary: 'The plan, with the status of each step; null: there is none.',
    query: AT_CHECKPOINT,
    answer: typed('The plan.'),
    handle: async ({ session, params, query }) => ({ plan: await session(params.session).plan(defined(query)) }),
  }),
  route({
    ...READ_PAGE,
    path: '/v1/sessions/{session}/memory',
    operation: 'getMemory',
    summary: 'The blocks of the memory.',
    query: AT_CHECKPOINT,
    answer: typed('The blocks.'),
    handle: async ({ session, params, query }) => ({ items: await session(params.session).memory(defined(query)) }),
  }),
  route({
    method: 'get',
    path: '/v1/sessions/{session}/blobs/{sha256}',
    operation: 'getBlob',
    summary: 'A large value that an event or message refers to.',
    tag: 'sessions',
    scope: 'read',
    // A tool's result may have 64 MB: the row, its text, and the bytes that are sent.
    memory: async ({ session, params }) => MEMORY.little + VALUE_FACTOR * ((await valueBytes(session(params.session), params.sha256)) ?? 0),
    params: z.strictObject({ session: sessionId, sha256: matching(/^[0-9a-f]{64}$/, 'must be a SHA-256 in hex') }),
    answer: { status: 200, description: 'The value.', schema: json },
    async handle({ session, params }) {
      const text = await session(params.session).blob(params.sha256)
      if (text === null) throw new ServiceError('blob_not_found', 404, 'The session has no such value, or no longer has it.')
      return new Response(text, { headers: { 'content-type': 'application/json', 'cache-control': 'no-store' } })
    },
  }),
]

function pathTo(request: Request): string {
  return new URL(request.url).pathname.replace(/\/$/, '')
}
