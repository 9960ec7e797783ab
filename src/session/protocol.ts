// How the outside speaks with a session's workflow: names and JSON of its signals, queries and updates. Documented in docs/protocol.md.
import { isImageSource, type UserBlock } from './content.ts'
import type { BlobRef, EffectReport, SessionEvent, Target, Watermark } from './events.ts'
import { isTooDeep, type Json, type JsonObject, MAX_DEPTH } from './json.ts'
import type { SessionState } from './state.ts'

/** Workflow type of a session. */
export const WORKFLOW_TYPE = 'pawlSession'
/** Task queue where nobody says another. */
export const DEFAULT_TASK_QUEUE = 'pawl'
/** A workflow task that was killed half way is noticed after this: the shortest that leaves a slow replay room. */
export const WORKFLOW_TASK_TIMEOUT_MS = 3_000
/** Version of fold, decisions and event encoding; an execution keeps the one it started with. 2: checkpoints. */
export const CORE_VERSION = 2

export const SIGNALS = { message: 'message', interrupt: 'interrupt', close: 'close' } as const
export const QUERIES = { state: 'state', events: 'events' } as const
export const UPDATES = {
  recover: 'recover',
  resume: 'resume',
  checkpoint: 'checkpoint',
  rollback: 'rollback',
  fork: 'fork',
  approve: 'approve',
  deny: 'deny',
  resolve: 'resolve',
  answer: 'answer',
} as const

/** The workflow id of a session. */
export function workflowIdOf(sessionId: string): string {
  return `pawl:${sessionId}`
}

/** The session of a workflow id. */
export function sessionIdOf(workflowId: string): string {
  return workflowId.slice('pawl:'.length)
}

const SESSION_ID = /^[A-Za-z0-9._:/@-]{1,200}$/

/** Whether `id` may name a session: 1 to 200 of `[A-Za-z0-9._:/@-]`. */
export function isSessionId(id: unknown): id is string {
  return typeof id === 'string' && SESSION_ID.test(id)
}

/** The one argument of the signal `message`. `agent` and `context` count when the session is new. */
export interface MessageSignal {
  messageId?: string
  content: string | UserBlock[]
  metadata?: JsonObject
  agent?: string
  context?: Json
  /** The content lies in the side store, for it is too large for a signal; `content` is then how it begins. */
  blob?: BlobRef
}

/** The one argument of the signals `interrupt` and `close`. */
export interface StopSignal {
  reason?: string
  by?: string
}

/** The argument of the update `recover`. */
export interface RecoverRequest {
  strategy: 'restart_run' | 'abandon'
  by?: string
}

/** The argument of the update `checkpoint`; answers `{ version }`. */
export interface CheckpointRequest {
  reason: string
  by?: string
}

/** The argument of the update `rollback`; answers `Moved`. A run that is going on is interrupted first. */
export interface RollbackRequest {
  target: Target
  reason?: string
  by?: string
}

/** What going back left behind. */
export interface Moved {
  /** The last event that counts. */
  toSeq: number
  /** Effects that completed, or may have, and are not undone: the newest 100. */
  effects: EffectReport[]
  /** How many more there are. */
  moreEffects: number
}

/** The argument of the update `fork` of the session that is forked from; answers `ForkPoint`. */
export interface ForkRequest {
  target?: Target
  /** Whether a run that is going on is stopped first. Default true. */
  interrupt?: boolean
  by?: string
}

/** Where a fork begins. */
export interface ForkPoint extends Moved {
  digest: string
}

/** Decides a call that awaits approval. `digest`: of the arguments that were looked at, as `approval_requested` says. */
export interface ApproveRequest {
  callId: string
  digest: string
  by?: string
  note?: string
  /** Other arguments to execute it with, in place of the model's. */
  input?: Json
}

/** Denies a call that awaits approval. */
export interface DenyRequest {
  callId: string
  digest: string
  by?: string
  note?: string
  /** What the model is told. */
  reason?: string
}

/** Says what became of a call whose outcome is unknown. */
export interface ResolveRequest {
  callId: string
  resolution: { happened: true; result: Json } | { happened: false } | 'retry' | 'skip'
  by?: string
  note?: string
}

/** Answers a call of a client tool. */
export interface AnswerRequest {
  callId: string
  result: Json
  by?: string
}

/** The argument of the query `events`. */
export interface EventsQuery {
  /** Only events above this `seq`. Default 0. */
  after?: number
  /** About how many bytes of JSON at most; at least one event is given. Default 1,000,000. */
  maxBytes?: number
}

/** The answer of the query `events`: what this execution holds. */
export interface EventsPage {
  epoch: string
  executionId: string
  /** The last event before this execution's own ones; older events are in the store and in `previous` executions. */
  base: Watermark
  events: SessionEvent[]
  /** The place before the first of `events`, and of the last one. */
  from: Watermark
  to: Watermark
  /** Whether there is more above `to`. */
  more: boolean
  /** The execution before this one in the chain. */
  previous?: string
}

/** What a session is when its workflow starts; all but `sessionId` is optional for a foreign client. */
export interface SessionStart {
  sessionId: string
  agent?: string
  context?: Json
  tags?: string[]
  /** The session does not exist yet: no look-up in the store is needed. */
  isNew?: true
  settings?: SessionSettings
  /** The session must exist: it is to be gone on with, not started. */
  mustExist?: true
  /** It is a fork of another session. */
  fork?: ForkStart
  /** From the execution before, at continue-as-new. */
  carried?: Carried
}

/** Of what a session is a fork. */
export interface ForkStart {
  from: string
  /** The last event of the other session that is this one's past too. */
  seq: number
  digest: string
  target?: Target
  keys: 'carried' | 'forgotten'
  by?: string
}

/** What may be set for a session at its start. */
export interface SessionSettings {
  idleTimeoutMs?: number
  notServedAfterMs?: number
}

/** What continue-as-new carries over. */
export interface Carried {
  coreVersion: number
  /** What the session was when it decided to go on; the events up to there are in the store. */
  state: SessionState
  /** Of the last event that is folded into `state`. */
  digest: string
  /** The events since, which came while the store took those before them; absent: none. */
  tail?: SessionEvent[]
  previous: string
  /** Somebody asked for the session to be closed. */
  closing?: Closing
}

/** That a session is to be closed: when nothing is left to do, or now, with what waits left for whoever resumes it. */
export interface Closing {
  when: 'idle' | 'now'
  by?: string
}

/** Bytes of JSON that a message's content and metadata may have. */
export const MAX_MESSAGE_BYTES = 1_000_000
const MAX_METADATA_BYTES = 16_000
const MAX_MESSAGE_ID = 200

/** Why a message is refused. */
export interface Refusal {
  code: 'undecodable' | 'invalid_message' | 'empty_message' | 'message_too_large' | 'invalid_metadata' | 'invalid_message_id'
  reason: string
}

/** Marks a value that the payload converter could not decode. */
export const UNDECODABLE = '__pawl_undecodable__'

/** Checks what somebody sent as a message: the client before it sends, the workflow because anyone can signal it. */
export function checkMessage(raw: unknown): { message: MessageSignal } | { refusal: Refusal; messageId?: string } {
  if (raw === null || typeof raw !== 'object' || Array.isArray(raw)) {
    return refuse('invalid_message', 'The argument of `message` is no object: send { "messageId", "content" }.')
  }
  const given = raw as Record<string, unknown>
  if (UNDECODABLE in given) return refuse('undecodable', `The signal's payload cannot be decoded: ${String(given[UNDECODABLE])}`)
  if (isTooDeep(given)) return refuse('undecodable', `The message is nested deeper than ${MAX_DEPTH} levels: flatten it.`)
  const { messageId, content, metadata, agent, context, blob } = given
  if (messageId !== undefined && (typeof messageId !== 'string' || messageId === '' || messageId.length > MAX_MESSAGE_ID)) {
    return refuse('invalid_message_id', `messageId must be a string of 1 to ${MAX_MESSAGE_ID} characters.`)
  }
  const withId = messageId === undefined ? {} : { messageId }
  if (metadata !== undefined && (!isPlainObject(metadata) || jsonBytes(metadata) > MAX_METADATA_BYTES)) {
    return { ...refuse('invalid_metadata', `metadata must be a JSON object of at most ${MAX_METADATA_BYTES} bytes.`), ...withId }
  }
  if (blob !== undefined && !isBlobRef(blob)) {
    return { ...refuse('invalid_message', 'blob must be { sha256, bytes, preview }, as the client makes it.'), ...withId }
  }
  const refusal = checkContent(content)
  if (refusal) return { refusal, ...withId }
  return {
    message: {
      ...withId,
      content: content as string | UserBlock[],
      ...(metadata !== undefined && { metadata: metadata as JsonObject }),
      ...(typeof agent === 'string' && { agent }),
      ...(context !== undefined && { context: context as Json }),
      ...(blob !== undefined && { blob: { sha256: blob.sha256, bytes: blob.bytes, preview: blob.preview } }),
    },
  }
}

const SHA256 = /^[0-9a-f]{64}$/
const MAX_PREVIEW = 4_000

function isBlobRef(blob: unknown): blob is BlobRef {
  if (!isPlainObject(blob)) return false
  const { sha256, bytes, preview } = blob
  return (
    typeof sha256 === 'string' &&
    SHA256.test(sha256) &&
    Number.isSafeInteger(bytes) &&
    typeof preview === 'string' &&
    preview.length <= MAX_PREVIEW
  )
}

function refuse(code: Refusal['code'], reason: string): { refusal: Refusal } {
  return { refusal: { code, reason } }
}

function checkContent(content: unknown): Refusal | undefined {
  const bad = (code: Refusal['code'], reason: string): Refusal => ({ code, reason })
  if (typeof content === 'string') {
    if (content.trim() === '') return bad('empty_message', 'The message is empty: send some text.')
  } else if (!Array.isArray(content) || !content.every(isUserBlock)) {
    return bad(
      'invalid_message',
      'content must be a string or a list of blocks: text, and images as base64 (JPEG, PNG, GIF, WebP) or by URL.',
    )
  } else if (!content.some((block) => block.type === 'image' || block.text.trim() !== '')) {
    return bad('empty_message', 'The message is empty: send some text or an image.')
  }
  const bytes = jsonBytes(content)
  if (bytes > MAX_MESSAGE_BYTES) {
    return bad(
      'message_too_large',
      `The message has ${bytes} bytes of JSON, the limit is ${MAX_MESSAGE_BYTES}: store it elsewhere and send a reference.`,
    )
  }
  return undefined
}

function isUserBlock(block: unknown): block is UserBlock {
  if (!isPlainObject(block)) return false
  if (block.type === 'text') return typeof block.text === 'string'
  return block.type === 'image' && isImageSource(block.source)
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value)
}

/** Bytes of JSON that a session's context and its tags may have: they are carried along for as long as it lives. */
const MAX_CONTEXT_BYTES = 100_000
const MAX_TAGS_BYTES = 16_000

/** What is wrong with a session's context, if anything is. */
export function contextProblem(context: unknown): string | undefined {
  if (context === undefined || (!isTooDeep(context) && bytesOf(context) <= MAX_CONTEXT_BYTES)) return undefined
  return `The session's context must be JSON of at most ${MAX_CONTEXT_BYTES} bytes and ${MAX_DEPTH} levels: say whom it is for, and keep the rest elsewhere.`
}

/** What is wrong with a session's tags, if anything is. */
export function tagsProblem(tags: unknown): string | undefined {
  if (tags === undefined) return undefined
  const areTags = Array.isArray(tags) && tags.every((tag) => typeof tag === 'string')
  if (areTags && jsonBytes(tags) <= MAX_TAGS_BYTES) return undefined
  return `The session's tags must be a list of text, at most ${MAX_TAGS_BYTES} bytes of JSON.`
}

/** Bytes of JSON; of what has none, endlessly many. */
function bytesOf(value: unknown): number {
  try {
    return jsonBytes(value)
  } catch {
    return Number.POSITIVE_INFINITY
  }
}

/** UTF-8 bytes of a value's JSON. */
export function jsonBytes(value: unknown): number {
  return new TextEncoder().encode(JSON.stringify(value) ?? '').length
}
