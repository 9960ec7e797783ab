// The memory tools: what a model's call changes in the memory, and what the model is told. The workflow itself answers these calls.
import { utf8ToBytes } from '@noble/hashes/utils.js'
import type { Json, JsonObject } from '../json.ts'
import { bytesOfMemory, contentOf, type Memory, type MemoryChange, type MemoryLimit, type MemoryState, remembered } from './memory.ts'
import { numberText } from '../number-text.ts'
import { argumentsIn, invalid, type CallProblem, refuse, unlessRefused } from './refused.ts'

/** The names of the memory tools, which no other tool may have. */
export const MEMORY_TOOLS = ['memory_append', 'memory_replace'] as const

/** The name of a memory tool. */
export type MemoryTool = (typeof MEMORY_TOOLS)[number]

/** Whether a tool of that name is a memory tool. */
export function isMemoryTool(name: string): name is MemoryTool {
  return (MEMORY_TOOLS as readonly string[]).includes(name)
}

/** What the model is told about a call that succeeded. */
export type MemoryResult = { block: string; chars: number; maxChars: number } & (
  | { status: 'success' }
  /** The block already had the text: nothing has changed. */
  | { status: 'already_present' }
  /** The block already ended with the beginning of the text, and only the rest was appended. */
  | { status: 'resumed_partial'; skippedBytes: number }
)

/** The outcome of a call. Without a `change`, the block already was as requested. */
export type MemoryAnswer = { value: MemoryResult; change?: MemoryChange } | CallProblem

/** What the answer to a call depends on besides the call. */
export interface MemoryBounds {
  /** The blocks that the agent declares. */
  limits: readonly MemoryLimit[]
  /** The bytes of JSON that the memory may have. */
  room: number
}

/** The shortest end of a block that counts as the beginning of a text. A shorter one may match by chance. */
const MIN_OVERLAP = 20

/** The answer to a call of a memory tool. */
export function answerOnMemory(tool: string, input: Json, state: MemoryState | undefined, bounds: MemoryBounds): MemoryAnswer {
  return unlessRefused(() => {
    const given = argumentsIn(input)
    const memory = state?.current ?? null
    const limit = limitOf(given.block, bounds.limits)
    const before = contentOf(memory, limit.block)
    const { change, result } = tool === 'memory_replace' ? replace(limit.block, given, before) : append(limit.block, given, before)
    const after = change ? remembered(memory, (state?.version ?? 0) + 1, change) : memory
    const chars = contentOf(after, limit.block).length
    if (change && after) checkSize({ memory, after, limit, chars, before: before.length, room: bounds.room })
    return { value: { ...result, block: limit.block, chars, maxChars: limit.maxChars }, ...(change && { change }) }
  })
}

type MemoryStatus = { status: 'success' } | { status: 'already_present' } | { status: 'resumed_partial'; skippedBytes: number }

interface Step {
  change?: MemoryChange
  result: MemoryStatus
}

const ALREADY: Step = { result: { status: 'already_present' } }

function append(block: string, { content }: JsonObject, before: string): Step {
  const text = textIn('content', content).trim()
  if (text === '') throw invalid('`content` must be a string that is not blank.')
  if (before.endsWith(text)) return ALREADY
  const overlap = overlapOf(before, text)
  if (overlap >= MIN_OVERLAP) {
    const skippedBytes = utf8ToBytes(text.slice(0, overlap)).length
    return { change: { do: 'append', block, text: text.slice(overlap) }, result: { status: 'resumed_partial', skippedBytes } }
  }
  return { change: { do: 'append', block, text: before === '' ? text : `\n${text}` }, result: { status: 'success' } }
}

function replace(block: string, { content, old }: JsonObject, before: string): Step {
  const text = textIn('content', content)
  if (old === undefined || old === null || old === '') {
    const whole = text.trim()
    return whole === before ? ALREADY : { change: { do: 'replace', block, content: whole }, result: { status: 'success' } }
  }
  const part = textIn('old', old)
  const at = before.indexOf(part)
  if (at < 0) refuse('text_not_found', `Block "${block}" does not contain the text of \`old\`: use text that it has, or leave \`old\` out.`)
  if (before.includes(part, at + 1)) {
    refuse('text_ambiguous', `Block "${block}" contains the text of \`old\` more than once: include more of what surrounds it.`)
  }
  return text === part ? ALREADY : { change: { do: 'replace', block, old: part, content: text }, result: { status: 'success' } }
}

/** The length of the longest suffix of `before` that is a prefix of `text`, by the Knuth-Morris-Pratt algorithm. */
function overlapOf(before: string, text: string): number {
  const borders = bordersOf(text)
  let length = 0
  for (let at = Math.max(0, before.length - text.length); at < before.length; at++) {
    while (length > 0 && before[at] !== text[length]) length = borders[length - 1] ?? 0
    if (before[at] === text[length]) length += 1
  }
  return length
}

/** For each prefix of the text: the length of its longest proper suffix that is also a prefix of the text. */
function bordersOf(text: string): Uint32Array {
  const borders = new Uint32Array(text.length)
  for (let at = 1, length = 0; at < text.length; at++) {
    while (length > 0 && text[at] !== text[length]) length = borders[length - 1] ?? 0
    if (text[at] === text[length]) length += 1
    borders[at] = length
  }
  return borders
}

interface MemoryGrowth {
  memory: Memory | null
  after: Memory
  limit: MemoryLimit
  chars: number
  before: number
  room: number
}

/** A change that shrinks the text always fits, because a deploy may have lowered a limit. */
function checkSize({ memory, after, limit: { block, maxChars }, chars, before, room }: MemoryGrowth): void {
  if (chars > maxChars && chars > before) {
    refuse(
      'memory_full',
      `Block "${block}" would have ${numberText(chars)} characters, and the limit is ${numberText(maxChars)}: it has ${numberText(before)} now. Write less, or shorten the block first with memory_replace.`,
    )
  }
  const bytes = bytesOfMemory(after)
  if (bytes > room && bytes > (memory ? bytesOfMemory(memory) : 0)) {
    refuse(
      'memory_full',
      `The memory would have ${numberText(bytes)} bytes of JSON, and there is room for ${numberText(room)}: write less, or shorten a block first with memory_replace.`,
    )
  }
}

function limitOf(name: Json | undefined, limits: readonly MemoryLimit[]): MemoryLimit {
  const block = textIn('block', name)
  const names = limits.map((one) => one.block).join(', ')
  return (
    limits.find((one) => one.block === block) ??
    refuse('unknown_block', `The memory has no block of that name. Its blocks are: ${names === '' ? 'none' : names}.`)
  )
}

function textIn(name: string, value: Json | undefined): string {
  if (typeof value === 'string') return value
  throw invalid(`\`${name}\` must be a string.`)
}
