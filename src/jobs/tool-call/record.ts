// The record of a tool's result: the value, what the model sees instead, and the effect's id in the external system.
import { sha256Hex } from '../../agent/canonical.ts'
import type { Tool, ToolContext } from '../../agent/tool.ts'
import type { RecordedResult } from '../../calls/activities.ts'
import { BLOB_THRESHOLD_BYTES, blobOfJson } from '../../session/blobs.ts'
import type { ResultContent } from '../../session/call-facts.ts'
import { labelledText } from '../../session/content.ts'
import { copyOf, type Json, jsonBytes } from '../../session/json.ts'
import { isBlocks, resultText } from '../../session/transcript/results.ts'
import { inTimeOrThrow } from '../../waiting/in-time.ts'
import { plainJson } from '../json.ts'
import type { LargeValues } from '../large-values.ts'
import { defined } from '../../session/defined.ts'
import { beginningOf } from '../../session/beginning.ts'

/** A result in history must fit into an activity's result; the server's limit is 2 MB. */
const MAX_INLINE_BYTES = 1_000_000
/** Larger results are useless to a model or a person: only their beginning is recorded. */
const MAX_BYTES = 64_000_000
const PREVIEW_CHARS = 8_000
/** An async `effectId` or `toModel` must not delay a finished call for longer than this. */
const DESCRIBE_MS = 3_000

export interface ResultStorage {
  values: LargeValues
  /** The execution that waits for the result. */
  executionId: string
  /** Milliseconds that a result too large for history may wait for the store; an abort ends the wait. */
  waitMs: number
  signal: AbortSignal
}

/** The arguments as `toModel` receives them, which the body cannot change. A circular value cannot be copied. */
export function inputForModel({ toModel }: Tool, input: unknown): unknown {
  if (!toModel) return undefined
  try {
    return copyOf(input)
  } catch {
    return input
  }
}

interface CompletedCall {
  tool: Tool
  /** The arguments for `toModel`. */
  input: unknown
  result: unknown
}

/** Makes the record. Never throws: the effect has happened, whatever its result looks like. */
export async function recordResult(
  { tool, input, result }: CompletedCall,
  ctx: ToolContext,
  storage: ResultStorage,
): Promise<RecordedResult> {
  const plain = plainOf(result)
  // Each function gets its own copy. A result without a JSON form may be circular.
  const own = (): unknown => ('value' in plain ? copyOf(result) : result)
  const effectId = await attemptTo(async () => asName(await tool.effectId?.(own())), 'effectId', ctx)
  const content = await attemptTo(async () => (tool.toModel ? asContent(await tool.toModel(own(), ctx, input)) : undefined), 'toModel', ctx)
  return {
    ...(await bounded(plain, content, ctx, storage)),
    ...(effectId !== undefined && { effectId: beginningOf(effectId, 1_000) }),
  }
}

/** The effect's id, if the tool names one. */
function asName(name: string | number | null | undefined): string | undefined {
  return name === undefined || name === null ? undefined : `${name}`
}

/** Validates what `toModel` returned: text or blocks, as plain JSON. */
function asContent(content: unknown): ResultContent {
  const plain = plainJson(content)
  if (typeof plain === 'string' || isBlocks(plain)) return plain
  throw new TypeError('it returned neither a string nor blocks of text, images and documents')
}

async function attemptTo<T>(make: () => Promise<T>, what: string, ctx: ToolContext): Promise<T | undefined> {
  try {
    return await inTimeOrThrow(make(), DESCRIBE_MS)
  } catch (error) {
    ctx.log.warn({ err: error }, `${what} failed: the call is recorded without it`)
    return undefined
  }
}

/** The result as JSON, or why it has no JSON form. */
function plainOf(result: unknown): { value: Json } | { reason: string } {
  try {
    return { value: plainJson(result) }
  } catch (error) {
    return { reason: error instanceof Error ? error.message : String(error) }
  }
}

async function bounded(
  plain: ReturnType<typeof plainOf>,
  content: ResultContent | undefined,
  { sessionId }: ToolContext,
  { values, executionId, waitMs, signal }: ResultStorage,
): Promise<RecordedResult> {
  if ('reason' in plain) {
    return {
      value: null,
      content: content ?? `The call completed, but its result cannot be recorded, because it has no JSON form: ${plain.reason}`,
    }
  }
  const { value } = plain
  const whole = { value, ...defined({ content }) }
  const bytes = jsonBytes(value) + (content === undefined ? 0 : jsonBytes(content))
  if (bytes <= BLOB_THRESHOLD_BYTES) return whole
  const fits = bytes <= MAX_INLINE_BYTES
  const blob = bytes <= MAX_BYTES ? blobOfJson(whole as Json, textFor(content ?? value), sha256Hex) : undefined
  const ref = blob && (await values.keep(sessionId, blob, { executionId, signal, ...(!fits && { waitMs }) }))
  if (ref) return { blob: ref }
  return fits ? whole : { value: null, content: noteOf(value, content, bytes) }
}

/** The result as the model would see it. */
function textFor(shown: Json | ResultContent): string {
  return labelledText(resultText(shown as Json))
}

function noteOf(value: Json, content: ResultContent | undefined, bytes: number): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  const about = `Its result has ${bytes} bytes, more than could be recorded (sha256 ${sha256Hex(text)})`
  return `The call completed. ${about}; it begins:\n${beginningOf(textFor(content ?? value), PREVIEW_CHARS)}`
}
