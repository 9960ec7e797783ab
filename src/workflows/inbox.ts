// Checks, deduplicates and records incoming messages. No input can fail the workflow.
import { uuid4 } from '@temporalio/workflow'
import { shortHash } from '../session/digest.ts'
import { checkMessage } from '../session/protocol/incoming.ts'
import type { MessageSignal } from '../session/protocol/protocol.ts'
import { hasRoomFor } from '../session/fold/queue.ts'
import { cutText, TEXT_BYTES } from '../session/protocol/texts.ts'
import type { Journal } from './journal.ts'
import { defined } from '../session/defined.ts'

/** Records a message and returns it. Returns undefined if it is rejected, or if its id was accepted before, which changes nothing. */
export function receive(journal: Journal, raw: unknown): MessageSignal | undefined {
  const checked = checkMessage(raw)
  if ('refusal' in checked) {
    const { messageId } = checked
    journal.append({ type: 'message_rejected', ...defined({ messageId }), ...checked.refusal })
    return undefined
  }
  const { messageId = uuid4(), content, metadata, agent, blob, deadlineMs, by, traceparent } = checked.message
  const { state } = journal
  if (agent !== undefined && agent !== state.agent) {
    const reason = `The session talks to the agent "${state.agent}", not to "${cutText(agent, TEXT_BYTES.name)}": use another session id.`
    journal.append({ type: 'message_rejected', messageId, code: 'agent_mismatch', reason })
    return undefined
  }
  if (state.accepted.includes(shortHash(messageId))) return undefined
  if (!hasRoomFor(state, { messageId, deadlineMs })) {
    const reason = `${state.inbox.length} messages already wait for the agent, as many as a session can hold: send the message again once the agent has seen them.`
    journal.append({ type: 'message_rejected', messageId, code: 'inbox_full', reason })
    return undefined
  }
  journal.append({
    type: 'message_received',
    messageId,
    content,
    ...(metadata && { metadata }),
    ...(blob && { blob }),
    ...defined({ deadlineMs, by, traceparent }),
  })
  return checked.message
}
