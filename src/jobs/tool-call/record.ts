// The record of a tool's result: whether it matches the tool's `output` schema, the value, what the model sees instead, and the effect's id
// in the external system.
import { sha256Hex } from '../../agent/sha256.ts'
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
import { check } from '../../agent/schema.ts'

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

/**
 * Makes the record of a call's result. `input`: the arguments for `toModel`. `problem`: how the result fails to match the tool's `output`
 * schema. Never throws: the effect has happened, whatever its result looks like.
 */
export async function recordResult(
  call: { tool: Tool; input: unknown; result: unknown; problem?: string | undefined },
  ctx: ToolContext,
  storage: ResultStorage,
): Promise<RecordedResult> {
  const { input, result, problem } = call
  const tool = problem === undefined ? call.tool : withMismatchNote(call.tool, problem)
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

/** An async refinement of the schema must not delay a finished call for longer than this. */
const CHECK_MS = 3_000
const MAX_PROBLEM = 4_000

/** What is wrong with a result, for the model; undefined if it matches or the tool has no `output`. Does not change the result. */
export async function outputProblem({ output }: Tool, result: unknown): Promise<string | undefined> {
  if (!output) return undefined
  try {
    const checked = await inTimeOrThrow(check(output, result), CHECK_MS)
    return 'problem' in checked ? beginningOf(checked.problem, MAX_PROBLEM) : undefined
  } catch (error) {
    return beginningOf(`It could not be checked: ${error instanceof Error ? error.message : String(error)}`, MAX_PROBLEM)
  }
}

/** The tool with a `toModel` that also tells the model that the effect completed and how its result fails to match. */
function withMismatchNote(tool: Tool, problem: string): Tool {
  const note = `The call completed, but its result does not match the tool's output schema. ${problem}`
  return {
    ...tool,
    async toModel(result, ctx, input) {
      const shown = await shownOf(tool, result, ctx, input)
      if (shown === undefined) return note
      return typeof shown === 'string' ? `${note}\nThe result:\n${shown}` : [{ type: 'text', text: note }, ...shown]
    },
  }
}

/** What the model would see of the result. The tool's `toModel` expects results that match the schema. */
async function shownOf({ toModel }: Tool, result: unknown, ctx: ToolContext, input: unknown): Promise<ResultContent | undefined> {
  try {
    return resultText(plainJson(toModel ? await toModel(result, ctx, input) : result))
  } catch {
    return undefined
  }
}
