// The notes that tell a model about effects that its transcript no longer shows, and about the outcomes of calls that were unknown.
import { labelledText } from '../content.ts'
import type { NotedEffect } from '../effects.ts'
import type { ResultContent } from '../call-facts.ts'
import { cutText } from '../protocol/texts.ts'

/** How many effects, the newest ones, a note names individually. */
const NAMED = 20
const RESULT_BYTES = 500

/** Why the transcript no longer shows effects. */
const CAUSES = {
  removed: 'a part of this conversation was removed here. Its effects were not undone.',
  made_again:
    'calls above were made again at the request of a person, and the earlier results are not shown. Their effects were not undone.',
} as const

/** The text of the note. `results`: by call, what the model was told. */
export function noteOn(
  effects: readonly NotedEffect[],
  results: ReadonlyMap<string, ResultContent>,
  cause: keyof typeof CAUSES = 'removed',
): string {
  const named = effects.slice(-NAMED)
  const lines = (status: NotedEffect['status']): string[] =>
    named.filter((effect) => effect.status === status).map((effect) => `- ${nameOf(effect)}${resultOf(results.get(effect.callId))}`)
  const [completed, unknown] = [lines('completed'), lines('unknown')]
  return [
    `[Note from the system, not from the user: ${CAUSES[cause]}]`,
    ...(completed.length > 0 ? ['These calls completed; do not repeat them for the same purpose:', ...completed] : []),
    ...(unknown.length > 0
      ? ['It is unknown whether these calls took effect; check with a read, or ask the user, before you request them again:', ...unknown]
      : []),
    ...(effects.length > NAMED ? [`… and ${effects.length - NAMED} earlier ones.`] : []),
  ].join('\n')
}

/**
 * The text of a note on a call whose outcome became known after the model was told that it was unknown. `result`: absent if it did not
 * happen.
 */
export function noteOnOutcome(call: NamedEffect, result: ResultContent | undefined): string {
  const outcome =
    result === undefined
      ? 'It did not take effect; it may be requested again.'
      : `It completed; do not repeat it for the same purpose${resultOf(result) || '.'}`
  return `[Note from the system, not from the user: the outcome of a call above is no longer unknown.]\n${nameOf(call)}: ${outcome}`
}

type NamedEffect = Pick<NotedEffect, 'callId' | 'tool' | 'effectId'>

function nameOf({ callId, tool, effectId }: NamedEffect): string {
  return `${tool} (${callId}${effectId === undefined ? '' : `, effect id ${effectId}`})`
}

function resultOf(content: ResultContent | undefined): string {
  if (content === undefined) return ''
  const text = labelledText(content, ' ')
  return text === '' ? '' : `: ${cutText(text, RESULT_BYTES)}`
}
