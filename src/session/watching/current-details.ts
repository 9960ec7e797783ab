// What a session is doing, for Temporal's own view of its workflow: names and numbers, but no text from a user, a model or a tool.
import type { SessionState } from '../state.ts'
import { labelOf } from './label.ts'
import { workOf } from './progress.ts'
import { waitPhrase } from './wait-text.ts'
import { type CallWait, waitsOf } from './waits.ts'
import { counted } from '../counted.ts'
import { defined } from '../defined.ts'

const MAX_WAITS = 10

/** Markdown, as Temporal's web UI shows it. `calls`: what no event records. */
export function currentDetailsOf(state: SessionState, calls: readonly CallWait[]): string {
  const { agent, tags, status, current, error, inbox, usage } = state
  // The other waits of calls need their reasons, which may quote a tool.
  const atGate = calls.filter(({ for: who }) => who === 'gate')
  const waits = waitsOf(state, { steps: [], calls: atGate }).map(({ for: who, to, callId, tool, account, attempt }) => {
    const phrase = waitPhrase({ for: who, ...defined({ to, callId, tool, account }) })
    return attempt !== undefined && attempt > 1 ? `${phrase}, attempt ${attempt}` : phrase
  })
  const { done, steps } = workOf(state)
  const lines = [
    `${labelOf(`**${agent}**`, tags)} is ${status}${error ? ` (${error.code})` : ''}${current ? `, run ${current.run}, turn ${current.turn}` : ''}`,
    ...waits.slice(0, MAX_WAITS).map((wait) => `waits for ${wait}`),
    ...(waits.length > MAX_WAITS ? [`and ${waits.length - MAX_WAITS} more`] : []),
    ...(steps > 0 ? [`plan: ${done} of ${counted(steps, 'step')} done`] : []),
    ...(inbox.length > 0 ? [counted(inbox.length, 'message waits for a turn', 'messages wait for a turn')] : []),
    `${counted(usage.input_tokens + usage.output_tokens, 'token')} so far`,
  ]
  return lines.map((line) => `- ${line}`).join('\n')
}
