// Finds calls that a model repeats without progress: equal calls in a row, each with an equal result.
import type { ContentBlock, Message, ToolResultBlock, ToolUseBlock } from '../content.ts'
import { numberText } from '../number-text.ts'
import { systemNote } from './system-note.ts'
import { isFromUser, type Transcript } from './transcript.ts'

/** From this many equal calls in a row on, each result has a note for the model. */
const NOTED_FROM = 20

/** A result, and how many equal calls in a row it ends. */
interface RepeatedResult {
  tool: string
  result: ToolResultBlock
  count: number
}

/** The results of all calls in order. A user's message between two calls ends a row. */
function* repeatsIn(messages: Iterable<Message>): Generator<RepeatedResult> {
  let calls = new Map<string, ToolUseBlock>()
  let last: { call: ToolUseBlock; result: ToolResultBlock; count: number } | undefined
  for (const message of messages) {
    if (isFromUser(message)) last = undefined
    if (typeof message.content === 'string') continue
    if (message.role === 'assistant')
      calls = new Map(message.content.flatMap((block) => (block.type === 'tool_use' ? [[block.id, block]] : [])))
    for (const result of message.content) {
      const call = result.type === 'tool_result' ? calls.get(result.tool_use_id) : undefined
      if (result.type !== 'tool_result' || !call) continue
      const isRepeated =
        last?.call.name === call.name && isSame(last.call.input, call.input) && isSame(outcomeOf(last.result), outcomeOf(result))
      last = { call, result, count: isRepeated && last ? last.count + 1 : 1 }
      yield { tool: call.name, result, count: last.count }
    }
  }
}

const outcomeOf = ({ content, is_error }: ToolResultBlock): unknown => [content, is_error ?? false]

/** Whether two JSON values are equal, whatever the order of their members. */
function isSame(one: unknown, other: unknown): boolean {
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return one === other
  const [names, others] = [Object.keys(one), Object.keys(other)]
  if (Array.isArray(one) !== Array.isArray(other) || names.length !== others.length) return false
  return names.every((name) => name in other && isSame((one as Record<string, unknown>)[name], (other as Record<string, unknown>)[name]))
}

/** The results from a message on that have a note, each with its length of row. */
export function notedRepeats({ messages }: Pick<Transcript, 'messages'>, from: number, to: number): Map<ContentBlock, number> {
  const noted = new Map<ContentBlock, number>()
  for (const { result, count } of repeatsIn(messages.slice(rowStart(messages, from), to))) if (count >= NOTED_FROM) noted.set(result, count)
  return noted
}

/** The messages that are searched first for the beginning of a row. */
const FIRST_SEARCHED = 16

/**
 * The index of a message such that counts from it on are right from message `before` on. Almost always, it is close: a session of
 * 100,000 events must not be read for each of its turns.
 */
function rowStart(messages: readonly Message[], before: number): number {
  for (let searched = FIRST_SEARCHED; searched < before; searched *= 2) {
    const start = before - searched
    if (endsRow(messages.slice(start, before))) return start
  }
  return 0
}

/** Whether a row ends in these messages: with a user's message, or with a result that does not continue the row of the one before it. */
function endsRow(messages: readonly Message[]): boolean {
  if (messages.some(isFromUser)) return true
  let isFirst = true
  // The first result may continue a row that began earlier.
  for (const { count } of repeatsIn(messages)) {
    if (!isFirst && count === 1) return true
    isFirst = false
  }
  return false
}

/** The message with the notes on repeated calls, each at the end of its result. */
export function withRepeatNotes(message: Message, noted: ReadonlyMap<ContentBlock, number>): Message {
  if (noted.size === 0 || message.role === 'assistant' || typeof message.content === 'string') return message
  const content = message.content.map((block) => {
    const count = noted.get(block)
    return count === undefined || block.type !== 'tool_result' ? block : { ...block, content: withNote(block.content, count) }
  })
  return { ...message, content }
}

function withNote(content: ToolResultBlock['content'], count: number): ToolResultBlock['content'] {
  const note = systemNote(
    `you have made this call ${numberText(count)} times in a row, and its result was the same each time. Try something else, or tell the user what prevents you from going on.`,
  )
  return typeof content === 'string' ? `${content}\n\n${note}` : [...content, { type: 'text', text: note }]
}

/** The row of equal calls that the newest run ends with, counted since its last recovery; undefined if it does not end with a call. */
export function newestRepeats({ messages, seqs, newestRun, recoveredAt }: Transcript): { tool: string; count: number } | undefined {
  const since = Math.max(newestRun.seq, recoveredAt)
  const at = seqs.findIndex((seq) => seq > since)
  if (at < 0) return undefined
  let newest: RepeatedResult | undefined
  for (const one of repeatsIn(messages.slice(Math.max(at, rowStart(messages, messages.length))))) newest = one
  const last = messages.at(-1)?.content
  return newest && Array.isArray(last) && last.some((block) => block === newest.result) ? newest : undefined
}
