// The memory of a session: named blocks of text, and how a change makes the next version of them.
import { jsonBytes } from '../json.ts'

/** A block as an agent declares it. */
export interface MemoryLimit {
  /** Its name, unique within the agent. */
  readonly block: string
  /** Maximum `length` of its text. */
  readonly maxChars: number
}

/** A block that has text. */
export interface MemoryText {
  /** The block's name. */
  block: string
  /** Its text. */
  content: string
}

/** One block of a session's memory. */
export interface MemoryBlock extends MemoryText {
  /** Maximum `length` of its text; absent: the agent no longer declares the block. */
  maxChars?: number
}

/** One version of a session's memory. */
export interface Memory {
  /** Number of the version within the session, from 1. */
  version: number
  /** The blocks that have text, in the order in which they got it. */
  blocks: MemoryText[]
}

/** A change that makes the next version. */
export type MemoryChange =
  /** `text` is appended to the block's text unchanged; it includes any line break that it needs. */
  | { do: 'append'; block: string; text: string }
  /** `old`: the part that is replaced, which occurs once; absent: the whole block. */
  | { do: 'replace'; block: string; old?: string; content: string }

/** The memory of a session, and what a rollback or a recovery needs to know about it. */
export interface MemoryState {
  /** The newest version; null: the session has gone back to before its first change. */
  current: Memory | null
  /** The highest version number so far: going back never frees a number. */
  version: number
  /** Bytes of the largest version so far, which going back may bring back. */
  largest: number
}

/** Maximum bytes of JSON of a memory. */
export const MEMORY_BYTES = 32_000

/** The text of a block; empty if it has none. */
export function contentOf(memory: Memory | null | undefined, block: string): string {
  return memory?.blocks.find((one) => one.block === block)?.content ?? ''
}

/** The next version of a memory. A change that does not match it (a correct log has none) changes only the version. */
export function remembered(memory: Memory | null, version: number, change: MemoryChange): Memory {
  const { block } = change
  const blocks = memory?.blocks ?? []
  const content = changedText(contentOf(memory, block), change)
  if (content === '') return { version, blocks: blocks.filter((one) => one.block !== block) }
  const known = blocks.some((one) => one.block === block)
  return {
    version,
    blocks: known ? blocks.map((one) => (one.block === block ? { block, content } : one)) : [...blocks, { block, content }],
  }
}

function changedText(before: string, change: MemoryChange): string {
  if (change.do === 'append') return before + change.text
  const { old, content } = change
  if (old === undefined) return content
  const at = before.indexOf(old)
  return at < 0 ? before : (before.slice(0, at) + content + before.slice(at + old.length)).trim()
}

/** Bytes of JSON of a memory, regardless of its version. */
export function bytesOfMemory({ blocks }: Pick<Memory, 'blocks'>): number {
  return jsonBytes({ version: 1e9, blocks })
}

/** The blocks of a memory: the declared ones, in order, then others that still have text. */
export function memoryBlocks(memory: Memory | null | undefined, declared: readonly MemoryLimit[] = []): MemoryBlock[] {
  const others = (memory?.blocks ?? []).filter(({ block }) => !declared.some((one) => one.block === block))
  return [...declared.map(({ block, maxChars }) => ({ block, content: contentOf(memory, block), maxChars })), ...others]
}
