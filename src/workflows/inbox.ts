// Incoming messages are checked, deduplicated and recorded. No input can fail the workflow.
import { uuid4 } from '@temporalio/workflow'
import { shortHash } from '../session/digest.ts'
import { checkMessage } from '../session/incoming.ts'
import { hasRoomFor } from '../session/queue.ts'
import { cutText, TEXT_BYTES } from '../session/texts.ts'
import type { Journal } from './journal.ts'
import { defined } from '../session/defined.ts'

/** Records a message, or its rejection; a repeated message id changes nothing. */
export function receive(journal: Journal, raw: unknown): void {
  const checked = checkMessage(raw)
  if ('refusal' in checked) {
    const { messageId } = checked
    journal.append({ type: 'message_rejected', ...defined({ messageId }), ...checked.refusal })
    return
  }
  const { messageId = uuid4(), content, metadata, agent, blob } = checked.message
  const { state } = journal
  if (agent !== undefined && agent !== state.agent) {
    const reason = `The session talks to the agent "${state.agent}", not to "${cutText(agent, TEXT_BYTES.name)}": use another session id.`
    journal.append({ type: 'message_rejected', messageId, code: 'agent_mismatch', reason })
    return
  }
  if (state.accepted.includes(shortHash(messageId))) return
  if (!hasRoomFor(state, messageId)) {
    const reason = `${state.inbox.length} messages already wait for the agent, as many as a session can hold: send the message again once the agent has seen them.`
    journal.append({ type: 'message_rejected', messageId, code: 'inbox_full', reason })
    return
  }
  journal.append({ type: 'message_received', messageId, content, ...(metadata && { metadata }), ...(blob && { blob }) })
}
