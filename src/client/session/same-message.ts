// Ids of messages that are used again for another message, which the session would take for the first one.
import { shortHash } from '../../session/digest.ts'
import { scheduledIn } from '../../session/fold/scheduled.ts'
import type { MessageSignal } from '../../session/protocol/protocol.ts'
import { canonicalJson } from '../../session/canonical.ts'
import { inTime } from '../../waiting/in-time.ts'
import { RequestRefusedError } from '../errors.ts'
import { type SessionSource, STORE_PATIENCE_MS } from './events.ts'
import { askState } from './state.ts'

/**
 * Refuses a message whose id belongs to another one. A session has only the ids of its messages, so the store is asked: it knows a message
 * moments after it was accepted. @throws RequestRefusedError `request_id_reused`.
 */
export async function requireSameMessage(source: SessionSource, sent: MessageSignal): Promise<void> {
  const { store, sessionId } = source
  const { messageId = '' } = sent
  const stored =
    store &&
    (await inTime(
      store.sentMessage(sessionId, messageId).catch(() => null),
      STORE_PATIENCE_MS,
    ))
  const textOf = ({ content, metadata }: { content: unknown; metadata?: object | null | undefined }): string =>
    canonicalJson({ content, metadata: metadata ?? {} })
  if (!stored || textOf(stored) === textOf(sent)) return
  // The session may have gone back behind the message, or forgotten its id, and accepts another one then.
  const { state } = await askState(source)
  const isAccepted =
    !state || state.accepted.includes(shortHash(messageId)) || scheduledIn(state).some((message) => message.messageId === messageId)
  if (!isAccepted) return
  throw new RequestRefusedError(
    'request_id_reused',
    `Session "${sessionId}" has another message with the id ${JSON.stringify(messageId)}, so this one was not sent. Send it with an id of its own.`,
  )
}
