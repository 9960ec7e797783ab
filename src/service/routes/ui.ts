// Routes for AI SDK UI: messages and streams as `useChat` expects them. The AI SDK's own transports work with them, too.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { MessageRejectedError, RequestRefusedError } from '../../client/errors.ts'
import type { StoredPast } from '../../client/session/stored-past.ts'
import { regeneratedAt } from '../../client/session/run.ts'
import type { SessionHandle } from '../../client/types.ts'
import type { UserBlock } from '../../session/content.ts'
import { defined } from '../../session/defined.ts'
import { blockOfFile } from '../../session/file-block.ts'
import { requestIdOf as modelsIdOf } from '../../session/ids.ts'
import { isObject, type JsonObject } from '../../session/json.ts'
import type { CallState } from '../../session/state.ts'
import type { SessionEvent } from '../../session/events.ts'
import { changesChat } from '../../ui/changes.ts'
import { newestSeq, type UiOutline } from '../../ui/outline.ts'
import { addToNewest } from '../../ui/messages.ts'
import { messagesOfPage, partOf, type UiPagePart } from '../../ui/pages.ts'
import { approvalOf, standingIn } from '../../ui/protocol.ts'
import { surviving } from '../../ui/surviving.ts'
import { resumePoint } from '../../ui/streaming.ts'
import type { ErrorTexts } from '../../ui/user-texts.ts'
import { callerOf, requireOwnId, requireScope } from '../access.ts'
import { ServiceError } from '../errors.ts'
import { requireOwnFilesInResult } from '../provider-files.ts'
import { KEY, requestIdOf, REPEATABLE } from '../request-id.ts'
import { type RouteCall, MEMORY, route, typed } from '../route.ts'
import { after, matching, OF_SESSION, OPENING, sessionId, streamOf } from '../schemas.ts'
import type { StreamItem, StreamSource } from '../streams.ts'
import { agentChunks } from '../ui-children.ts'
import { contentsOf, knownPastFor, MAX_VALUE_BYTES, pageIn, pastFor, pastSince } from '../ui-past.ts'
import { cursorOf, UI_HEADERS, uiEnding, uiEvents, type UiStreamRequest } from '../ui-stream.ts'
import { checkSending, sendTo } from './sessions.ts'
import { LAST, requireEvent, startOf, STREAM as EVENT_STREAM } from './watch.ts'

const SHOW = z.strictObject({
  show: z
    .enum(['pieces', 'steps'])
    .optional()
    .describe('`pieces`: also partial answers; the client must know `reset-step`. Default `steps`: finished answers only.'),
})
const RESUME = SHOW.extend({
  loaded: after.describe('`seq` of the page of messages that the client has just loaded. Default: one of the last 30 seconds.'),
})
const PART = z.looseObject({ type: z.string() })
const UI_MESSAGE = z.looseObject({
  id: z.string().min(1).max(200),
  role: z.enum(['user', 'assistant', 'system']),
  metadata: z.unknown().optional(),
  parts: z.array(PART),
})
const CHAT = z.strictObject({
  id: sessionId,
  messages: z
    .array(UI_MESSAGE)
    .min(1)
    .describe('The route reads only the message that is sent, or whose calls are decided on: the session has the others.'),
  trigger: z.enum(['submit-message', 'regenerate-message']).optional(),
  messageId: z.string().max(200).optional(),
  requestId: KEY.optional().describe('For `regenerate-message`, the same as the header `Idempotency-Key`, which has priority.'),
  ...OPENING,
  agent: OPENING.agent.optional(),
})
const STREAM = { status: 200, type: 'text/event-stream', description: 'The UI message stream.' } as const

/** Characters of JSON in a page of messages, approximately. */
const PAGE_CHARACTERS = 2_000_000
/** A page may ask to resume this long after it has loaded its messages. */
const LOADED_WITHIN_MS = 30_000

type Chat = z.output<typeof CHAT>
type MessageOfPage = z.output<typeof UI_MESSAGE>
type Show = { show?: 'pieces' | 'steps' | undefined }
type ChatCall = RouteCall<unknown, Show, Chat>

type ChatStreamRequest = Omit<UiStreamRequest, 'show' | 'errorTexts' | 'open'>

function sourceOf(
  { request, query, errorTexts, reauthorize, session }: RouteCall<unknown, Show, unknown>,
  opening: ChatStreamRequest,
): Omit<StreamSource, 'caller'> {
  return {
    items: uiEvents({ ...opening, show: query.show ?? 'steps', errorTexts, open: session }),
    ending: uiEnding,
    headers: UI_HEADERS,
    signal: request.signal,
    reauthorize: () => reauthorize(opening.session.id),
  }
}

/** Carries out a request, and opens the stream that shows what follows. If no stream can be opened, the request changes nothing. */
async function streamed(call: ChatCall, carryOut: () => Promise<ChatStreamRequest>): Promise<Response> {
  const place = call.streams.take(callerOf(call.access))
  try {
    return place.open(sourceOf(call, await carryOut()))
  } finally {
    place.release()
  }
}

function invalid(at: string, detail: string): ServiceError {
  return new ServiceError('invalid_input', 400, `${at}: ${detail}.`, { parts: [{ at, detail }] })
}

/** Sends a user's message. If it edits an earlier message, the session first rolls back to the point before that message. */
async function say(call: ChatCall, message: MessageOfPage): Promise<ChatStreamRequest> {
  const { body, session, access } = call
  requireOwnId(access, body.id)
  const handle = session(body.id)
  const content = contentOf(message)
  const { agent, context, tags, idleTimeout } = body
  const metadata = isObject(message.metadata) ? (message.metadata as JsonObject) : undefined
  const sent = { ...defined({ agent, context, tags, idleTimeout, metadata }), content, messageId: message.id } as never
  const since = body.messageId === message.id ? await goBackBefore(call, handle, message.id, sent) : 0
  await sendTo(call, body.id, sent)
  const from = { message: message.id, since }
  return { session: handle, from, past: await knownPastFor(handle, from) }
}

/** Goes back to before the message, if the session has it with another content. Returns the newest event from before. */
async function goBackBefore(call: ChatCall, handle: SessionHandle, message: string, sent: Parameters<typeof sendTo>[2]): Promise<number> {
  const { outline, stored } = await pastFor(handle, { message, since: 0 })
  const isIt = ({ event }: UiPagePart): boolean => event.type === 'message_received' && event.messageId === message
  const known = surviving(outline.events).findLast(isIt)?.event
  const content = sent.content as string | UserBlock[]
  if (!known || (await isSaid(handle, known.seq, stored, content))) return 0
  requireScope(call.access, 'operate')
  // What cannot be sent must not cost the conversation anything.
  checkSending(call, call.body.id, sent)
  requireAgent(outline, sent.agent)
  const requestId = sameFor(call, outline, ['edit', known.seq, content])
  await handle.rollback({ message, by: call.by, reason: 'The message was edited.', requestId })
  return newestSeq(outline)
}

/** The id of all equal requests of a caller that are made while the session is where it is, such as both of a double click. */
function sameFor(call: ChatCall, { events }: UiOutline, what: readonly unknown[]): string {
  const wentBack = events.findLast(({ type }) => type === 'rolled_back')?.seq ?? 0
  return createHash('sha256')
    .update(`${callerOf(call.access)}\n${JSON.stringify([...what, wentBack])}`)
    .digest('hex')
}

/** @throws MessageRejectedError `agent_mismatch`, with which the session would refuse the message. */
function requireAgent({ state }: UiOutline, agent: string | undefined): void {
  if (agent === undefined || !state || agent === state.agent) return
  const text = `The session talks to the agent "${state.agent}", not to "${agent}". Use another session id.`
  throw new MessageRejectedError('agent_mismatch', text)
}

/** Whether the message of the event has this content. */
async function isSaid(
  session: SessionHandle,
  seq: number,
  stored: StoredPast | undefined,
  content: string | UserBlock[],
): Promise<boolean> {
  for await (const { event } of contentsOf(session, [{ seq, output: undefined, fits: false }], stored)) {
    if (event.type !== 'message_received') return false
    const json = JSON.stringify(content)
    // A large content is not loaded: its digest identifies it.
    return event.blob ? event.blob.sha256 === createHash('sha256').update(json).digest('hex') : JSON.stringify(event.content) === json
  }
  return false
}

/** The content of a message's parts: text, or blocks of text, images and documents. */
function contentOf({ parts }: MessageOfPage): string | UserBlock[] {
  const blocks = parts.flatMap((part, n) => blockOf(part, `body.messages.parts.${n}`))
  const texts = blocks.flatMap((block) => (block.type === 'text' ? [block.text] : []))
  if (blocks.length === 0) throw invalid('body.messages', 'the message has no text and no file')
  return texts.length === 1 && blocks.length === 1 ? (texts[0] ?? '') : blocks
}

/** Parts of other types are the page's own. A text or a file that cannot be read is refused: the model would answer without it. */
function blockOf(part: z.output<typeof PART>, at: string): UserBlock[] {
  const { type, text, url } = part
  if (type === 'text') {
    if (typeof text !== 'string') throw invalid(`${at}.text`, 'must be text')
    return text === '' ? [] : [{ type, text }]
  }
  if (type !== 'file') return []
  if (typeof url !== 'string') throw invalid(`${at}.url`, 'must be a data URL or an http address')
  return [fileOf({ ...part, url }, at)]
}

/** The types of images that models accept, and those of the AI SDK for any image. */
const IMAGE_TYPE = /^image(?:\/(?:\*|jpeg|jpg|png|gif|webp))?$/i
/** `data:<type>[;<parameter>…];base64,<data>`, as browsers read files. */
const DATA_URL = /^data:([^;,]*)(?:;[^;,]*)*;base64,/

function fileOf({ url, mediaType, filename }: Record<string, unknown> & { url: string }, at: string): UserBlock {
  const title = typeof filename === 'string' && filename.trim() !== '' ? filename : undefined
  const [begin, type = ''] = DATA_URL.exec(url) ?? []
  if (begin !== undefined) {
    const block = blockOfFile({ data: url.slice(begin.length), mediaType: type || (typeof mediaType === 'string' ? mediaType : ''), title })
    if (block) return block
  } else if (/^https?:\/\/\S+$/.test(url)) {
    if (IMAGE_TYPE.test(String(mediaType))) return { type: 'image', source: { type: 'url', url } }
    if (mediaType === 'application/pdf') return { type: 'document', source: { type: 'url', url }, ...defined({ title }) }
  }
  throw invalid(at, 'a file must be an image (JPEG, PNG, GIF or WebP), a PDF or text, inline or, except text, at an http address')
}

/** Lets the session answer the newest run's messages again. */
async function regenerate(call: ChatCall): Promise<ChatStreamRequest> {
  const { body, session, by } = call
  const handle = session(body.id)
  const said = body.messages.findLast(({ role }) => role === 'user')?.id ?? ''
  const { outline } = await pastFor(handle, { message: said, since: 0 })
  const run = outline.events.findLast((event) => event.type === 'run_started')?.seq ?? 0
  const isNewest = outline.events.some((event) => event.seq > run && event.type === 'turn_started' && event.takes.includes(said))
  if (!isNewest) {
    throw new ServiceError('not_newest', 409, 'Only the newest answer can be regenerated. Edit the older message, or roll back to it.')
  }
  const newest = newestSeq(outline)
  if (isRegenerated(outline, body.messageId)) {
    const from = { message: said, since: run - 1 }
    return { session: handle, from, past: await pastFor(handle, from) }
  }
  const repeated = await handle.regenerate({
    by,
    requestId: sameFor(call, outline, ['regenerate', run]),
    ...requestIdOf(call, body.requestId),
  })
  // A request that was sent before has begun the answer already.
  const from = { message: repeated.messageId, since: Math.min(newest, (regeneratedAt(repeated) ?? newest) - 1) }
  return { session: handle, from, past: await pastFor(handle, from) }
}

/** Whether the answer that the page names has been replaced by that of a later run: the request was repeated, or another page was faster. */
function isRegenerated({ events }: UiOutline, answer: string | undefined): boolean {
  const [, run] = /^m_(\d+)_\d+$/.exec(answer ?? '') ?? []
  const newest = events.findLast((event) => event.type === 'run_started')?.run ?? 0
  return run !== undefined && Number(run) < newest
}

/** Codes of refusals for calls that no longer wait for a decision: the stream shows what was decided, and what followed. */
const DECIDED = ['not_waiting', 'already_completed', 'call_has_ended', 'call_not_found', 'approval_expired']

/** Carries out a user's decisions on calls, or a browser's answers to them; the stream continues after what the client already has. */
async function decide(call: ChatCall, message: MessageOfPage): Promise<ChatStreamRequest> {
  const { body, session, access } = call
  const handle = session(body.id)
  const after = standingIn(message.metadata)?.seq
  if (typeof after !== 'number' || !Number.isSafeInteger(after)) {
    throw invalid('body.messages', 'the answer lacks metadata.pawl.seq: load the messages again')
  }
  const from = { after, answer: message.id }
  const { outline } = await pastFor(handle, from)
  const decisions = decisionsOf(message, outline, after, call)
  if (decisions.some(({ scope }) => scope === 'approve')) requireScope(access, 'approve')
  const decided = new Set<string>()
  for (const { callId, make } of decisions) {
    decided.add(callId)
    await make(handle).catch((error: unknown) => {
      if (!(error instanceof RequestRefusedError && DECIDED.includes(error.code))) throw error
    })
  }
  return { session: handle, from, past: await pastFor(handle, from), decided }
}

interface UiDecision {
  callId: string
  scope: 'approve' | 'send'
  make(session: SessionHandle): Promise<unknown>
}

/** `after`: the newest event that the page shows. */
function decisionsOf({ parts }: MessageOfPage, { state: now, events }: UiOutline, after: number, { by, access }: ChatCall): UiDecision[] {
  const calls = now?.current?.calls ?? []
  const { roles = [] } = access
  return parts.flatMap((part, n): UiDecision[] => {
    const { state, toolCallId, approval } = part
    const asked = state === 'approval-responded' && isObject(approval) ? approvalOf(approval.id) : undefined
    if (asked && isObject(approval)) {
      const { callId, digest } = asked
      const reason = typeof approval.reason === 'string' ? approval.reason : undefined
      const make = (session: SessionHandle) =>
        approval.approved === true
          ? session.approve(callId, { digest, by, roles, ...defined({ note: reason }) })
          : session.deny(callId, { digest, by, roles, ...defined({ reason }) })
      return [{ callId, scope: 'approve', make }]
    }
    const waiting = calls.find((one) => modelsIdOf(one.callId) === toolCallId && waitsForPage(one))
    const isOfEarlierCall = events.some((event) => event.seq > after && makesAgain(event, waiting?.callId))
    if (!waiting || isOfEarlierCall || (state !== 'output-available' && state !== 'output-error')) return []
    const result =
      state === 'output-available'
        ? (part.output ?? null)
        : { error: typeof part.errorText === 'string' ? part.errorText : 'The tool failed.' }
    requireOwnFilesInResult(access, result, `body.messages.parts.${n}.output`)
    return [{ callId: waiting.callId, scope: 'send', make: (session) => session.answer(waiting.callId, result as never, { by }) }]
  })
}

function makesAgain(event: SessionEvent, callId: string | undefined): boolean {
  return event.type === 'recovery_started' && (event.redo ?? []).some((one) => one.as === callId && one.callId !== callId)
}

/** Whether a page may answer the call. It also has outputs of other calls, such as what an agent that answers one has said so far. */
function waitsForPage({ status, asked, asking }: CallState): boolean {
  return status === 'awaiting_answer' && asked?.child === undefined && asking?.question === undefined
}

export const UI_ROUTES = [
  route({
    method: 'post',
    path: '/v1/ui',
    operation: 'chat',
    summary:
      'Send a message, decisions about calls, or results of client tools, or regenerate an answer; streams the answer. The body is that of the AI SDK’s `DefaultChatTransport`.',
    tag: 'ui',
    scope: 'send',
    memory: MEMORY.chat,
    query: SHOW,
    headers: REPEATABLE,
    body: CHAT,
    answer: STREAM,
    async handle(call) {
      const { messages, messageId, trigger } = call.body
      if (trigger === 'regenerate-message') return streamed(call, () => regenerate(call))
      const named = messages.find(({ id, role }) => id === messageId && role === 'assistant')
      const message = named ?? messages.at(-1)
      if (message?.role === 'user') return streamed(call, () => say(call, message))
      if (message?.role === 'assistant') return streamed(call, () => decide(call, message))
      throw invalid('body.messages', 'the last message must be a user’s, or an answer whose calls were decided on')
    },
  }),
  route({
    method: 'get',
    path: '/v1/ui/{session}/stream',
    operation: 'resumeChat',
    summary: 'The answer in progress from its beginning, and any that follow automatically; with Last-Event-ID, what comes after it.',
    tag: 'ui',
    scope: 'read',
    memory: MEMORY.chat,
    params: OF_SESSION,
    query: RESUME,
    headers: { 'Last-Event-ID': z.string().max(2_000).optional().describe('The id of the last event before the stream was cut off.') },
    answer: { ...STREAM, none: 'No answer is in progress.' },
    async handle(call) {
      const { session, params, request, streams, access } = call
      const handle = session(params.session)
      const last = request.headers.get('last-event-id')
      const from = last ? cursorOf(last) : undefined
      const open = (opening: ChatStreamRequest): Response => streams.open({ ...sourceOf(call, opening), caller: callerOf(access) })
      if (from) return open({ session: handle, from, past: await pastFor(handle, from) })
      const { loaded: seq } = call.query
      const loaded = seq === undefined ? { after: Date.now() - LOADED_WITHIN_MS } : { seq }
      const past = await pastSince(handle, loaded)
      const point = resumePoint(past.outline, loaded)
      return point ? open({ session: handle, from: point, past, isFresh: true }) : new Response(null, { status: 204 })
    },
  }),
  route({
    method: 'get',
    path: '/v1/ui/{session}/changes',
    operation: 'watchChat',
    summary: 'Wait for changes to a conversation: one `change` event for each. The client then loads the messages again, and resumes.',
    tag: 'ui',
    scope: 'read',
    memory: MEMORY.page,
    params: OF_SESSION,
    query: z.strictObject({ after }),
    headers: LAST,
    answer: { ...EVENT_STREAM, schema: streamOf(['change']) },
    async handle({ pawl, session, params, query, request, streams, access, reauthorize }) {
      const handle = session(params.session)
      const from = startOf(request, query.after)
      // A chat may be followed before its first message.
      if (from > 0) await requireEvent(pawl, handle, from)
      return streams.open({
        items: (signal) => changesIn(handle, from, signal),
        signal: request.signal,
        caller: callerOf(access),
        reauthorize: () => reauthorize(params.session),
      })
    },
  }),
  route({
    method: 'get',
    path: '/v1/ui/{session}/messages',
    operation: 'listUiMessages',
    summary:
      'The newest messages of the conversation as UI messages, with the recorded part of an answer in progress, or the messages before them. Empty if the session does not exist yet.',
    tag: 'ui',
    scope: 'read',
    memory: MEMORY.chat,
    params: OF_SESSION,
    query: z.strictObject({
      limit: z.int().min(1).max(1_000).optional().describe('Messages per page; one answer more may be included. Default 200.'),
      cursor: matching(/^\d{1,15}$/, 'must be the cursor of a page')
        .optional()
        .describe('The cursor of a page: the messages before it.'),
    }),
    answer: typed('A page of messages, oldest first.'),
    handle: async ({ session, params, query, errorTexts }) =>
      messagesPage(session(params.session), { ...query, errorTexts, open: session }),
  }),
]

interface AskedPage {
  limit?: number | undefined
  cursor?: string | undefined
  errorTexts: ErrorTexts
  open(sessionId: string): SessionHandle
}

async function messagesPage(session: SessionHandle, { limit = 200, cursor, errorTexts, open }: AskedPage) {
  const paging = { limit, characters: PAGE_CHARACTERS, maxValueBytes: MAX_VALUE_BYTES }
  const { plan, stored, seq } = await pageIn(session, { ...paging, before: cursor === undefined ? undefined : Number(cursor) })
  const parts: UiPagePart[] = []
  for await (const { event, place } of contentsOf(session, plan.toRead, stored)) parts.push(partOf(event, place))
  const messages = messagesOfPage(plan, parts, errorTexts)
  if (cursor === undefined) {
    const shown = parts.flatMap(({ event, isArchived }) => (isArchived ? [] : [event]))
    addToNewest(messages, await agentChunks(session.id, shown, { open, errorTexts }))
  }
  return {
    messages,
    ...(plan.cursor !== undefined && { cursor: String(plan.cursor) }),
    ...(cursor === undefined && { seq }),
  }
}

async function* changesIn(session: SessionHandle, from: number, signal: AbortSignal): AsyncGenerator<StreamItem> {
  for await (const item of session.watch({ after: from, signal })) {
    if (item.type !== 'event' || !changesChat(item.event)) continue
    const { seq } = item.event
    yield { id: String(seq), event: 'change', data: { seq } }
  }
}
