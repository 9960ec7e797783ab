// What people and other systems are notified of: a notification's type, and the facts of its event that name no content.
import { defined } from './defined.ts'
import type { EventType, SessionEvent } from './events.ts'
import type { JsonObject } from './json.ts'

/**
 * `call.waiting`: a call waits for an approval, an answer, or a person who knows its outcome. `session.error`: the session has entered an
 * error. `budget.warning`: 80 % of a limit is spent.
 */
export type NotificationType = 'call.waiting' | 'run.completed' | 'run.interrupted' | 'session.error' | 'budget.warning'

/** The events behind each type. */
const EVENTS: Readonly<Record<NotificationType, readonly EventType[]>> = {
  'call.waiting': ['approval_requested', 'answer_requested', 'tool_unknown'],
  'run.completed': ['run_completed'],
  'run.interrupted': ['run_interrupted'],
  'session.error': ['error_entered'],
  'budget.warning': ['budget_warning'],
}

export const NOTIFICATION_TYPES = Object.keys(EVENTS) as NotificationType[]

/** The events to read for these types. */
export function eventsBehind(types: readonly NotificationType[]): EventType[] {
  return types.flatMap((type) => EVENTS[type])
}

/** The notification of an event; undefined if nobody is notified of it. `facts` contains nothing that a user, a model or a tool has written. */
export function notificationOf(event: SessionEvent): { type: NotificationType; facts: JsonObject } | undefined {
  switch (event.type) {
    case 'approval_requested': {
      const { run, turn, callId, tool, digest, approvers, expiresAt } = event
      const about = { digest, expiresAt: timeOf(expiresAt), ...defined({ role: approvers?.role }) }
      return { type: 'call.waiting', facts: { kind: 'approval', run, turn, callId, tool, ...about } }
    }
    case 'answer_requested': {
      const { run, turn, callId, tool, expiresAt, asks, child } = event
      // A session of another agent answers.
      if (child) return undefined
      const expires = defined({ expiresAt: expiresAt === undefined ? undefined : timeOf(expiresAt) })
      return { type: 'call.waiting', facts: { kind: asks ? 'question' : 'answer', run, turn, callId, tool, ...expires } }
    }
    case 'tool_unknown': {
      const { run, turn, callId, tool, ask } = event
      return ask ? { type: 'call.waiting', facts: { kind: 'unknown', run, turn, callId, tool } } : undefined
    }
    case 'run_completed': {
      const { run, turns, stopReason, usage } = event
      return { type: 'run.completed', facts: { run, turns, stopReason, usage: { ...usage } } }
    }
    case 'run_interrupted': {
      const { run, by } = event
      return { type: 'run.interrupted', facts: { run, ...defined({ by }) } }
    }
    case 'error_entered': {
      const { run, turn, code, strategy, options, nextAttemptAt } = event
      const retried = nextAttemptAt === undefined ? undefined : timeOf(nextAttemptAt)
      return { type: 'session.error', facts: { code, strategy, ...defined({ run, turn, options, nextAttemptAt: retried }) } }
    }
    case 'budget_warning': {
      const { scope, unit, budget, run, limit, spent } = event
      return { type: 'budget.warning', facts: { scope, unit, limit, spent, ...defined({ budget, run }) } }
    }
    default:
      return undefined
  }
}

/** ISO text: the form that receivers read in any language. */
function timeOf(ms: number): string {
  return new Date(ms).toISOString()
}
