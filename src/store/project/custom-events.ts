// The projection of `custom_events`: what tools and hooks reported by `ctx.emit`.
import type { EventOf } from '../../session/events.ts'
import type { CUSTOM_EVENTS, RowOf } from '../postgres/tables.ts'
import { sanitiser } from '../postgres/sanitise.ts'

export function customEventRow(event: EventOf<'emitted'>): RowOf<typeof CUSTOM_EVENTS> {
  const { seq, run, turn, callId = null, tool = null, hook = null, attempt, name, data = null, at } = event
  const safe = sanitiser()
  return {
    seq,
    run,
    turn,
    call_id: safe.key(callId),
    tool: safe.key(tool),
    hook: safe.key(hook),
    attempt,
    name: safe.key(name),
    data: event.data === undefined ? null : safe.json(data),
    at: new Date(at).toISOString(),
    raw: safe.raw({ callId, tool, hook, name, data }),
  }
}
