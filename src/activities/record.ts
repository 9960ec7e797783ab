// What is recorded of a tool's result: the value, what the model gets instead, and the effect's name in the outside world.
import { sha256Hex } from '../agent/canonical.ts'
import type { Tool, ToolContext } from '../agent/tool.ts'
import type { ResultContent } from '../session/events.ts'
import type { Json } from '../session/json.ts'
import { jsonBytes } from '../session/protocol.ts'
import { isBlocks } from '../session/transcript.ts'
import type { RecordedResult } from './contract.ts'
import { plainJson } from './json.ts'

/** A result must fit into an activity's result; the server's limit is 2 MB. */
const MAX_RESULT_BYTES = 1_000_000
const PREVIEW_CHARS = 8_000

/** Makes the record. Never throws: the effect has happened, whatever its result looks like. */
export function recordResult(tool: Tool, result: unknown, ctx: ToolContext): RecordedResult {
  const effectId = attemptTo(() => asName(tool.effectId?.(result)), 'effectId', ctx)
  const content = attemptTo(() => (tool.toModel ? asContent(tool.toModel(result, ctx)) : undefined), 'toModel', ctx)
  return {
    ...bounded(result, content),
    ...(effectId !== undefined && { effectId: effectId.slice(0, 1_000) }),
  }
}

/** An effect's name; a tool may have none to tell. */
function asName(name: string | number | null | undefined): string | undefined {
  return name === undefined || name === null ? undefined : `${name}`
}

/** What a model takes: text or blocks, as plain JSON. */
function asContent(content: unknown): ResultContent {
  const plain = plainJson(content)
  if (typeof plain === 'string' || isBlocks(plain)) return plain
  throw new TypeError('it gave neither text nor text and image blocks')
}

function attemptTo<T>(make: () => T, what: string, ctx: ToolContext): T | undefined {
  try {
    return make()
  } catch (error) {
    ctx.log.warn({ err: error, sessionId: ctx.sessionId, callId: ctx.callId }, `${what} threw: the call is recorded without it`)
    return undefined
  }
}

function bounded(result: unknown, content: ResultContent | undefined): RecordedResult {
  let value: Json
  try {
    value = plainJson(result)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    return { value: null, content: content ?? `The call completed, but its result cannot be recorded, for it has no JSON form: ${reason}` }
  }
  const bytes = jsonBytes(value) + (content === undefined ? 0 : jsonBytes(content))
  if (bytes <= MAX_RESULT_BYTES) return { value, ...(content !== undefined && { content }) }
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  const note = `The call completed. Its result has ${bytes} bytes, more than the ${MAX_RESULT_BYTES} that can be recorded (sha256 ${sha256Hex(text)}); it begins:\n`
  return { value: null, content: note + text.slice(0, PREVIEW_CHARS) }
}
