// When what came of a call is recorded: durable in Temporal's history, and the workflow is about to go on with it. Its events pass
// through this process's channel to the supervisor within that workflow task.
import type { FromWorker } from '../../../worker/messages.ts'
import type { MarkWriter } from '../marks.ts'

/** Watches what this process tells its supervisor. */
export function watchRecords(marks: MarkWriter): void {
  const send = process.send?.bind(process)
  if (!send) return
  process.send = ((message: FromWorker, ...rest: []) => {
    if (message.type === 'log') {
      for (const { json } of message.entries) {
        const id = recordOf(JSON.parse(json) as RecordedEvent)
        if (id !== undefined) marks.reach(message.key.sessionId, { id })
      }
    }
    return send(message, ...rest)
  }) as NonNullable<typeof process.send>
}

/** The members of events that name a place; a session's checkpoints count up. */
interface RecordedEvent {
  type: string
  run?: number
  turn?: number
  callId?: string
  by?: string
  version?: number
}

/** The boundary that an event stands for, if it does. */
export function recordOf({ type, run, turn, callId, by, version }: RecordedEvent): string | undefined {
  switch (type) {
    case 'model_completed':
      return `model:${run}:${turn}/after`
    case 'tool_completed':
    case 'tool_failed':
      return `tool:${callId}/after`
    case 'tool_resolved':
      return by === 'verify' ? `verify:${callId}/after` : undefined
    case 'checkpoint_made':
      return `checkpoint:${version}/after`
    default:
      return undefined
  }
}
