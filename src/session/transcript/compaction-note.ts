// What the model is told in place of summarised messages: their effects, listed from the events, and the summary.
import { labelledText } from '../content.ts'
import type { NotedEffect } from '../effects.ts'
import type { ResultContent } from '../call-facts.ts'
import { bytesOfText, BYTES_PER_TOKEN } from './measure.ts'
import { cutText } from '../protocol/texts.ts'
import type { Compaction } from './transcript.ts'

/** The list of effects takes up at most this share of the window, and at most this many bytes. */
const LIST = { share: 0.05, maxBytes: 16_000 } as const
const ARGS_BYTES = 160
const RESULT_BYTES = 120
/** Maximum number of tools in the counts of effects that are not listed. */
const TOOLS_NAMED = 20

/** Maximum number of documents named, the newest ones. */
const DOCUMENTS_NAMED = 30

/** What is known of a summarised part. */
interface SummarisedPart {
  effects: readonly NotedEffect[]
  /** By call, what the model was told. */
  results: ReadonlyMap<string, ResultContent>
  /** Labels of documents that the model no longer sees. */
  hidden: readonly string[]
}

/** The text of the note. */
export function compactionNote(
  { summary, window }: Pick<Compaction, 'summary' | 'window'>,
  { effects, results, hidden }: SummarisedPart,
): string {
  return [
    '[Note from the system, not from the user: the conversation before this point was too long and is summarised here. What the user said at its beginning is above, word for word.]',
    ...effectLines(effects, results, Math.min(LIST.maxBytes, window * LIST.share * BYTES_PER_TOKEN)),
    ...documentLines(hidden),
    'Summary of the conversation so far:',
    summary,
  ].join('\n')
}

function documentLines(hidden: readonly string[]): string[] {
  if (hidden.length === 0) return []
  const named = hidden.slice(-DOCUMENTS_NAMED)
  return [
    'These documents were part of the conversation and are not shown here. One that is named again, by you or the user, is shown again if it fits:',
    ...named.map((label) => `- ${label}`),
    ...(named.length < hidden.length ? [`- and ${hidden.length - named.length} earlier ones`] : []),
  ]
}

/** Lists the newest effects in full and only counts the others. A list that grew with the session would fill the window again. */
function effectLines(effects: readonly NotedEffect[], results: ReadonlyMap<string, ResultContent>, maxBytes: number): string[] {
  const listed: Record<NotedEffect['status'], string[]> = { completed: [], unknown: [] }
  // Effects with an unknown outcome come first, because they are rare and must not be repeated.
  const first = effects.toSorted((a, b) => Number(b.status === 'unknown') - Number(a.status === 'unknown') || b.seq - a.seq)
  let left = maxBytes
  let count = 0
  for (const effect of first) {
    const line = lineOf(effect, results.get(effect.callId))
    left -= bytesOfText(line)
    if (left < 0) break
    listed[effect.status].unshift(line)
    count++
  }
  const others = first.slice(count)
  return [
    ...(listed.completed.length > 0 || others.length > 0
      ? ['These calls completed, and a call with the same arguments for the same purpose is not executed again:', ...listed.completed]
      : []),
    ...(others.length > 0 ? [`- and ${others.length} earlier ones: ${countsOf(others)}`] : []),
    ...(listed.unknown.length > 0
      ? [
          'It is unknown whether these calls took effect; check with a read, or ask the user, before you request them again:',
          ...listed.unknown,
        ]
      : []),
  ]
}

function lineOf({ callId, tool, effectId, args }: NotedEffect, result: ResultContent | undefined): string {
  const said = effectId === undefined ? resultText(result) : `effect id ${effectId}`
  return `- ${tool}${args === undefined ? '' : ` ${cutText(args, ARGS_BYTES)}`} (${callId}${said === '' ? '' : `, ${said}`})`
}

function resultText(result: ResultContent = ''): string {
  const text = labelledText(result, ' ')
  return text === '' ? '' : `result: ${cutText(text, RESULT_BYTES)}`
}

function countsOf(effects: readonly NotedEffect[]): string {
  const counts = new Map<string, number>()
  for (const { tool } of effects) counts.set(tool, (counts.get(tool) ?? 0) + 1)
  const named = [...counts].sort(([, a], [, b]) => b - a).slice(0, TOOLS_NAMED)
  return [...named.map(([tool, count]) => `${count} of ${tool}`), ...(counts.size > named.length ? ['…'] : [])].join(', ')
}
