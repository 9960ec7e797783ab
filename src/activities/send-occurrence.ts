// Sends the message of a schedule's occurrence. A repeated attempt sends the same message, which its session accepts once.
import { ApplicationFailure } from '@temporalio/activity'
import type { Client } from '@temporalio/client'
import type { SendOccurrenceInput } from '../calls/activities.ts'
import { labelledSignals } from '../connect/signal-session.ts'
import { defined } from '../session/defined.ts'
import { checkMessage } from '../session/protocol/incoming.ts'
import { occurrenceIdOf } from '../session/protocol/occurrence.ts'
import { isAgentName, isSessionId, SIGNALS } from '../session/protocol/protocol.ts'

export function sendOccurrenceActivity(client: Client): (input: SendOccurrenceInput) => Promise<void> {
  const signal = labelledSignals(client)

  return async ({ start, time, taskQueue }) => {
    const { schedule, agent, content, overlap, metadata, deadlineMs, context, tags } = start
    const messageId = occurrenceIdOf(schedule, time)
    const sessionId = start.session ?? messageId
    const message = {
      messageId,
      content,
      agent,
      by: `schedule ${schedule}`,
      ...defined({ metadata, deadlineMs }),
      ...(overlap === 'interrupt' && { interrupt: true }),
      ...(overlap === 'skip' && { unlessBusy: true }),
    }
    const checked = checkMessage(message)
    if (!isAgentName(agent) || !isSessionId(sessionId) || 'refusal' in checked)
      throw ApplicationFailure.nonRetryable('The schedule sends a message that no session accepts. Create it again.', 'invalid_occurrence')
    const begin = { sessionId, agent, ...defined({ context, tags }) }
    await signal({ sessionId, taskQueue, start: begin, signal: SIGNALS.message, value: message }, { agent, tags })
  }
}
