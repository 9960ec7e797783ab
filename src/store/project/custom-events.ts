// The projection of `custom_events`: what tools reported by `ctx.emit`.
import type { EventOf } from '../../session/events.ts'
import type { CUSTOM_EVENTS, RowOf } from '../write/tables.ts'
import { sanitiser } from '../postgres/sanitise.ts'

/** The row of a custom event. */
export function customEventRow(event: EventOf<'emitted'>): RowOf<typeof CUSTOM_EVENTS> {
  const { seq, run, turn, callId, tool, attempt, name, data = null, at } = event
  const safe = sanitiser()
  return {
    seq,
    run,
    turn,
    call_id: safe.key(callId),
    tool: safe.key(tool),
    attempt,
    name: safe.key(name),
    data: event.data === undefined ? null : safe.json(data),
    at: new Date(at).toISOString(),
    raw: safe.raw({ callId, tool, name, data }),
  }
}
