// The parts of an activity's result that become events or parts of an event.
import type { RecordedResult } from '../calls/activities.ts'
import type { CustomEvent } from '../session/hooks/custom-events.ts'
import type { EventOf } from '../session/events.ts'
import type { SpendNote } from '../session/spending/spend-notes.ts'
import type { Journal } from './journal.ts'
import { defined } from '../session/defined.ts'

export function recorded(result: RecordedResult): RecordedResult {
  const { value, content, blob, effectId } = result
  return {
    ...defined({ value, content, blob, effectId }),
  }
}

type Place = Pick<EventOf<'emitted'>, 'run' | 'turn' | 'callId' | 'tool' | 'on' | 'hook'>

/** Records what an attempt or a hook reported through `ctx.emit` and `ctx.spend`. */
export function recordReports(
  journal: Journal,
  where: Place,
  { attempt, emitted = [], spent = [] }: { attempt: number; emitted?: CustomEvent[]; spent?: SpendNote[] },
): void {
  for (const { name, data } of emitted) journal.append({ type: 'emitted', ...where, attempt, name, ...defined({ data }) })
  for (const { usd, tokens, note } of spent) journal.append({ type: 'spent', ...where, attempt, ...defined({ usd, tokens, note }) })
}
