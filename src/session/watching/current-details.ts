// What a session is doing, for Temporal's own view of its workflow: names and numbers, but no text from a user, a model or a tool.
import type { SessionState } from '../state.ts'
import { labelOf } from './label.ts'
import { workOf } from './progress.ts'
import { waitPhrase } from './wait-text.ts'
import { waitsOf } from './waits.ts'

const MAX_WAITS = 10

/** Markdown, as Temporal's web UI shows it. */
export function currentDetailsOf(state: SessionState): string {
  const { agent, tags, status, current, error, inbox, usage } = state
  const waits = waitsOf(state).map(({ for: who, to, callId, tool, attempt }) => {
    const phrase = waitPhrase({ for: who, ...(to && { to }), ...(callId !== undefined && { callId }), ...(tool !== undefined && { tool }) })
    return attempt !== undefined && attempt > 1 ? `${phrase}, attempt ${attempt}` : phrase
  })
  const { done, steps } = workOf(state)
  const lines = [
    `${labelOf(`**${agent}**`, tags)} is ${status}${error ? ` (${error.code})` : ''}${current ? `, run ${current.run}, turn ${current.turn}` : ''}`,
    ...waits.slice(0, MAX_WAITS).map((wait) => `waits for ${wait}`),
    ...(waits.length > MAX_WAITS ? [`and ${waits.length - MAX_WAITS} more`] : []),
    ...(steps > 0 ? [`plan: ${done} of ${steps} steps are done`] : []),
    ...(inbox.length > 0 ? [`${inbox.length} messages wait for a turn`] : []),
    `${usage.input_tokens + usage.output_tokens} tokens so far`,
  ]
  return lines.map((line) => `- ${line}`).join('\n')
}
