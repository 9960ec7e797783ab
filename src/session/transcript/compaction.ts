// Compaction: which messages a summary replaces, and when. Messages are cut between turns, so that calls keep their results.
import type { Message } from '../content.ts'
import { bytesOfContent, bytesOfMessages, bytesOfText, BYTES_PER_TOKEN } from './measure.ts'
import { headBytes, messagesBetween, messagesFor, sentFrom } from './model-messages.ts'
import { isFromUser, type Transcript } from './transcript.ts'

/** When an agent's conversations are compacted, and what stays. */
export interface CompactionPolicy {
  /** Share of the window at which the conversation is compacted. */
  readonly at: number
  /** How many of the newest turns stay unchanged. */
  readonly keepTurns: number
}

/** The share of the window below which a cut is not worth a summary. */
const WORTH = 0.1
/** The share of the window by which a request must have grown before pawl retries a failed compaction. */
const RETRY_AFTER = 0.05
/** How much of the window a summary may fill, in tokens. */
const SUMMARY = { share: 0.05, min: 200, max: 8_000 } as const
const SUMMARY_BYTES_PER_TOKEN = 4
/** Limits for results that the model still sees, in bytes. The first limit with which the request fits applies. */
const RESULT_LIMITS = [64_000, 32_000, 16_000, 8_000, 4_000, 2_000, 1_000] as const
const MIN_RESULT_BYTES = 500

/** Tokens that a summary may have. */
export function summaryTokens(window: number): number {
  return Math.min(SUMMARY.max, Math.max(SUMMARY.min, Math.round(window * SUMMARY.share)))
}

/** Bytes that a summary may have. The rest is cut off. */
export function summaryBytes(window: number): number {
  return summaryTokens(window) * SUMMARY_BYTES_PER_TOKEN
}

/**
 * Tokens of the next request: those measured at the newest answer, plus an estimate of what was added since. `besides`: bytes of everything
 * that is not a message.
 */
export function requestTokens(transcript: Transcript, besides: () => number): number {
  const { measured } = transcript
  const counted = measured?.tokens ?? 0
  const bytes = measured ? bytesOfMessages(messagesBetween(transcript, measured.messages)) : bytesOfRequest(transcript, besides())
  return counted + Math.ceil(bytes / BYTES_PER_TOKEN)
}

/** Bytes of the next request. */
export function bytesOfRequest(transcript: Transcript, besides: number): number {
  return bytesOfMessages(messagesFor(transcript)) + besides
}

/** Whether the conversation should be compacted before a request of this many tokens. */
export function isDue(
  transcript: Transcript,
  { at, keepTurns }: CompactionPolicy,
  { run, turn, tokens, window }: { run: number; turn: number; tokens: number; window: number },
): boolean {
  const { compactions, compactionFailed: failed } = transcript
  const isNow = (one: { run: number; turn: number } | null | undefined): boolean => one?.run === run && one.turn === turn
  if (tokens < at * window || isNow(compactions.at(-1)) || isNow(failed)) return false
  if (failed && tokens < failed.tokens + RETRY_AFTER * window) return false
  const part = bytesOfMessages(messagesBetween(transcript, sentFrom(transcript), cutFor(transcript, keepTurns)))
  return part / BYTES_PER_TOKEN >= WORTH * window
}

/** Whether a provider's refusal of the request may still force a compaction in this turn. */
export function mayForce({ forcedIn }: Transcript, { run, turn }: { run: number; turn: number }): boolean {
  return forcedIn?.run !== run || forcedIn.turn !== turn
}

/** A compaction: it replaces the messages before `to`, and shortens the results after them to `resultBytes`. */
export interface CompactionCut {
  to: number
  resultBytes?: number
}

/** What a request must fit into. */
export interface RequestRoom {
  /** Bytes of the whole request. */
  bytes: number
  /** Bytes of the request that are not messages. */
  besides: number
  window: number
}

/** The cut of a compaction; undefined if nothing can be cut. `fit`: what the request must fit into, if a provider refused it. */
export function chooseCut(transcript: Transcript, keepTurns: number, fit?: RequestRoom): CompactionCut | undefined {
  const from = sentFrom(transcript)
  const usual = cutFor(transcript, keepTurns)
  if (!fit) return usual > from ? { to: usual } : undefined
  const bytesAfter = (to: number): number => {
    const head = to > 0 ? headBytes(transcript, to, fit.window) + summaryBytes(fit.window) : 0
    return fit.besides + head + bytesOfMessages(messagesBetween(transcript, to))
  }
  for (let turns = keepTurns; turns >= 1; turns--) {
    const to = cutFor(transcript, turns)
    if (to > from && bytesAfter(to) <= fit.bytes) return { to }
  }
  const to = cutFor(transcript, 1)
  const results = resultSizes(messagesBetween(transcript, to))
  const others = bytesAfter(to) - results.reduce((sum, bytes) => sum + bytes, 0)
  const fits = (limit: number): boolean => results.reduce((sum, bytes) => sum + Math.min(bytes, limit), others) <= fit.bytes
  const resultBytes = RESULT_LIMITS.find(fits) ?? MIN_RESULT_BYTES
  const isShorter = results.some((bytes) => bytes > resultBytes)
  if (to === from && !isShorter) return undefined
  return { to, ...(isShorter && { resultBytes }) }
}

function resultSizes(messages: readonly Message[]): number[] {
  return messages.flatMap(({ content }) =>
    typeof content === 'string' ? [] : content.flatMap((block) => (block.type === 'tool_result' ? [bytesOfContent([block])] : [])),
  )
}

/** The index of the first message that stays if the newest `turns` turns do; never before what is already summarised. */
function cutFor(transcript: Transcript, turns: number): number {
  const { messages } = transcript
  const from = sentFrom(transcript)
  let at = messages.length
  for (let left = turns; left > 0; left--) at = messages.findLastIndex(({ role }, index) => index < at && role === 'assistant')
  if (at < 0) return from
  while (at > 0 && !isTurnStart(transcript, at)) at--
  return Math.max(at, from)
}

/**
 * Whether a turn begins with this message. A turn begins with a user's message, or with an answer that follows results or another answer.
 * One event may have added both results and the user's message after them, and such an event cannot be split.
 */
function isTurnStart({ messages, seqs }: Transcript, index: number): boolean {
  const [message, before] = [messages[index], messages[index - 1]]
  if (!message || !before || isResults(message) || seqs[index] === seqs[index - 1]) return false
  return isResults(before) || (before.role === 'assistant' && !hasCalls(before))
}

function isResults(message: Message): boolean {
  return message.role === 'user' && !isFromUser(message)
}

function hasCalls({ content }: Message): boolean {
  return typeof content !== 'string' && content.some(({ type }) => type === 'tool_use')
}

/** The end of the first piece before `to` that is not summarised yet: as many turns as fit into `maxBytes`, but at least one. */
export function pieceEnd(transcript: Transcript, to: number, maxBytes: number): number {
  const from = sentFrom(transcript)
  let end = to
  let bytes = 0
  for (let index = from, last = from; index <= to; index++) {
    if (index < to && (index === from || !isTurnStart(transcript, index))) continue
    bytes += bytesOfMessages(messagesBetween(transcript, last, index))
    if (bytes > maxBytes && last > from) return last
    end = index
    last = index
  }
  return end
}

/** Bytes of a request besides its messages. */
export function bytesBesides(system: string, tools: unknown, texts: readonly string[]): number {
  return [system, JSON.stringify(tools), ...texts].reduce((sum, text) => sum + bytesOfText(text), 0)
}
