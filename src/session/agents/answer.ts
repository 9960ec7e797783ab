// What a run answered, according to the session's events: its output, or else its text.
import { textOf } from '../content.ts'
import type { SessionEvent } from '../events.ts'
import type { Json } from '../json.ts'

/** The answer of a completed run. */
export function answerOf(events: Iterable<SessionEvent>, run: number): Json {
  let text = ''
  let outputCall: string | undefined
  const values = new Map<string, Json>()
  for (const event of events) {
    if (!('run' in event) || event.run !== run) continue
    if (event.type === 'model_completed') text = textOf(event.content)
    if (event.type === 'tool_completed' && event.value !== undefined) values.set(event.callId, event.value)
    if (event.type === 'run_completed') outputCall = event.outputCall
  }
  return (outputCall === undefined ? undefined : values.get(outputCall)) ?? text
}
