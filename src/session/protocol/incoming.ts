// Checks messages, contexts and tags. The client checks before it sends. The workflow checks, too, because any client can signal it.
import { documentProblem, imageProblem, isDocument, isImageSource, type UserBlock } from '../content.ts'
import { isDeadlineMs } from '../deadlines.ts'
import { LONGEST_MS } from '../duration.ts'
import type { BlobRef } from '../call-facts.ts'
import { isObject, isTooDeep, type Json, jsonBytes, type JsonObject, MAX_DEPTH } from '../json.ts'
import { isAgentName, type MessageSignal } from './protocol.ts'
import { isOrdinal, MAX_MESSAGE_ID, plainOf } from './requests.ts'
import { boundedText } from './texts.ts'
import { isTraceparent } from './traceparent.ts'
import { Undecodable } from './undecodable.ts'
import { defined } from '../defined.ts'
import { numberText } from '../number-text.ts'

/** Limits of a message's content and metadata, in bytes of JSON. */
export const MAX_MESSAGE_BYTES = 1_000_000
const MAX_METADATA_BYTES = 16_000

/** Why a message is refused. */
export interface Refusal {
  code:
    | 'undecodable'
    | 'invalid_message'
    | 'empty_message'
    | 'message_too_large'
    | 'invalid_file'
    | 'encrypted_file'
    | 'invalid_metadata'
    | 'invalid_message_id'
    | 'invalid_deadline'
    | 'invalid_time'
  reason: string
}

/** Checks the argument of a message. */
export function checkMessage(raw: unknown): { message: MessageSignal } | { refusal: Refusal; messageId?: string } {
  if (raw instanceof Undecodable) return refuse('undecodable', `The signal's payload cannot be decoded: ${raw.reason}.`)
  if (isTooDeep(raw)) return refuse('undecodable', `The message is nested deeper than ${MAX_DEPTH} levels: flatten it.`)
  const given = plainOf(raw)
  if (!isObject(given)) {
    return refuse('invalid_message', 'The argument of `message` is not an object: send { "messageId", "content" }.')
  }
  const { messageId, content, metadata, agent, context, blob, interrupt, unlessBusy, deadlineMs, at, receivedAt, by, traceparent } = given
  if (messageId !== undefined && (typeof messageId !== 'string' || messageId === '' || messageId.length > MAX_MESSAGE_ID)) {
    return refuse('invalid_message_id', `messageId must be a string of 1 to ${MAX_MESSAGE_ID} characters.`)
  }
  const withId = messageId === undefined ? {} : { messageId }
  if (metadata !== undefined && (!isObject(metadata) || jsonBytes(metadata) > MAX_METADATA_BYTES)) {
    return {
      ...refuse('invalid_metadata', `metadata must be a JSON object of at most ${numberText(MAX_METADATA_BYTES)} bytes.`),
      ...withId,
    }
  }
  if (blob !== undefined && !isBlobRef(blob)) {
    return { ...refuse('invalid_message', 'blob must be { sha256, bytes, preview }, as the client makes it.'), ...withId }
  }
  if (agent !== undefined && !isAgentName(agent)) {
    return { ...refuse('invalid_message', 'agent must be the name of an agent: 1 to 100 of [A-Za-z0-9._-].'), ...withId }
  }
  if (interrupt !== undefined && typeof interrupt !== 'boolean') {
    return { ...refuse('invalid_message', 'interrupt must be true or false.'), ...withId }
  }
  if (unlessBusy !== undefined && typeof unlessBusy !== 'boolean') {
    return { ...refuse('invalid_message', 'unlessBusy must be true or false.'), ...withId }
  }
  if (deadlineMs !== undefined && !isDeadlineMs(deadlineMs)) {
    return { ...refuse('invalid_deadline', `deadlineMs must be an integer of 1 to ${LONGEST_MS} milliseconds.`), ...withId }
  }
  if (at !== undefined && !isMessageTime(at)) {
    return { ...refuse('invalid_time', 'at must be a time in milliseconds since 1970, before the year 10,000.'), ...withId }
  }
  const refusal = checkContent(content) ?? (at === undefined ? undefined : checkKept({ content, metadata }))
  if (refusal) return { refusal, ...withId }
  return {
    message: {
      ...withId,
      content: content as string | UserBlock[],
      ...(metadata !== undefined && { metadata: metadata as JsonObject }),
      ...defined({ agent }),
      ...(context !== undefined && { context: context as Json }),
      ...(blob !== undefined && { blob: { sha256: blob.sha256, bytes: blob.bytes, preview: blob.preview } }),
      ...(interrupt === true && { interrupt }),
      ...(unlessBusy === true && { unlessBusy }),
      ...defined({ deadlineMs, at, by: boundedText(by, 'by') }),
      ...(deadlineMs !== undefined && isOrdinal(receivedAt) && { receivedAt }),
      // An invalid trace context never causes a refusal.
      ...(isTraceparent(traceparent) && { traceparent }),
    },
  }
}

const SHA256 = /^[0-9a-f]{64}$/
const MAX_PREVIEW = 4_000

function isBlobRef(blob: unknown): blob is BlobRef {
  if (!isObject(blob)) return false
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
    return bad('invalid_message', BLOCKS)
  } else if (!content.some((block) => block.type !== 'text' || block.text.trim() !== '')) {
    return bad('empty_message', 'The message is empty: send some text, an image or a document.')
  } else {
    for (const [at, block] of content.entries()) {
      const problem = mediaProblem(block, at)
      if (problem) return problem
    }
  }
  const bytes = jsonBytes(content)
  if (bytes > MAX_MESSAGE_BYTES) {
    return bad(
      'message_too_large',
      `The message has ${numberText(bytes)} bytes of JSON, and the limit is ${numberText(MAX_MESSAGE_BYTES)}: store it elsewhere and send a reference.`,
    )
  }
  return undefined
}

/**
 * Bytes of JSON of a scheduled message that its session keeps in its state: content and metadata. Clients put longer content into the side
 * store.
 */
export const MAX_KEPT_BYTES = 4_000

/** Whether content and metadata exceed what a session keeps of a scheduled message. */
export function isTooLargeToKeep({ content, metadata }: { content: unknown; metadata?: unknown }): boolean {
  return jsonBytes({ content, metadata }) > MAX_KEPT_BYTES
}

function checkKept(kept: { content: unknown; metadata: unknown }): Refusal | undefined {
  if (!isTooLargeToKeep(kept)) return undefined
  const bytes = jsonBytes(kept)
  return {
    code: 'message_too_large',
    reason: `Content and metadata of a scheduled message have ${numberText(bytes)} bytes of JSON, and a session keeps ${numberText(MAX_KEPT_BYTES)} until it is due: put the content into the side store, as pawl's client does, and shorten the metadata.`,
  }
}

/** The first millisecond of the year 10,000. */
const YEAR_10_000 = 253_402_300_800_000

/** Whether the value is a time at which a message can be delivered, in milliseconds since 1970. */
export function isMessageTime(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0 && Number(value) < YEAR_10_000
}

const BLOCKS =
  'content must be a string or a list of blocks: text, images as base64 (JPEG, PNG, GIF, WebP) or by URL, and documents as base64 (PDF), text, by URL or by file id.'

function isUserBlock(block: unknown): block is UserBlock {
  if (!isObject(block)) return false
  if (block.type === 'text') return typeof block.text === 'string'
  return (block.type === 'image' && isImageSource(block.source)) || isDocument(block)
}

/** Why no model can see the image or read the document at this position, if the block alone shows that. */
function mediaProblem(block: UserBlock, at: number): Refusal | undefined {
  if (block.type === 'text') return undefined
  if (block.type === 'image') {
    const problem = imageProblem(block.source)
    return problem === undefined
      ? undefined
      : { code: 'invalid_message', reason: `No model can see the image in content[${at}]. ${problem}` }
  }
  const problem = documentProblem(block.source)
  return problem && { code: problem.code, reason: `No model can read the document in content[${at}]. ${problem.reason}` }
}

/** Limits of a session's context and tags, in bytes of JSON, because every continue-as-new carries them. */
export const MAX_CONTEXT_BYTES = 100_000
export const MAX_TAGS_BYTES = 16_000

/** What is wrong with a session's context, if anything is. */
export function contextProblem(context: unknown): string | undefined {
  if (context === undefined || (!isTooDeep(context) && bytesOf(context) <= MAX_CONTEXT_BYTES)) return undefined
  return `The session's context must be JSON of at most ${numberText(MAX_CONTEXT_BYTES)} bytes and ${MAX_DEPTH} levels: include only what identifies the user, and store the rest elsewhere.`
}

/** What is wrong with a session's tags, if anything is. */
export function tagsProblem(tags: unknown): string | undefined {
  if (tags === undefined) return undefined
  const areTags = Array.isArray(tags) && tags.every((tag) => typeof tag === 'string')
  if (areTags && jsonBytes(tags) <= MAX_TAGS_BYTES) return undefined
  return `The session's tags must be a list of strings of at most ${numberText(MAX_TAGS_BYTES)} bytes of JSON: shorten it.`
}

/** Bytes of JSON; infinity for a value without a JSON form. */
function bytesOf(value: unknown): number {
  try {
    return JSON.stringify(value) === undefined ? Number.POSITIVE_INFINITY : jsonBytes(value)
  } catch {
    return Number.POSITIVE_INFINITY
  }
}
