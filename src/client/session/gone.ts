// Notices that a message's events were pruned or erased: its handle would wait for them forever.
import { setTimeout as sleep } from 'node:timers/promises'
import { WorkflowNotFoundError } from '@temporalio/client'
import { workflowIdOf } from '../../session/protocol/protocol.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import type { SessionSource } from './events.ts'
import type { RunEnd } from './run-outcome.ts'

/** How often a waiting handle checks again: both are rare, and a check costs a query. */
const LOOK_EVERY_MS = 30_000

const WHY = {
  pruned: (session: string) =>
    `The session was pruned, including the outcome of the run. \`${SUGGESTIONS.listArchived(session)}\` lists its messages in the archive. Send a new message to start over.`,
  erased: () => 'The session was erased. Send a new message to start over.',
}

/** Whether a message is rejected with this code because its events are gone. */
export const isGone = (code: string): boolean => Object.hasOwn(WHY, code)

/** Resolves once the message's events are gone; never, if they are not. Rejects with the signal's reason. */
export async function untilGone(
  source: SessionSource,
  { messageId, isSent }: { messageId: string; isSent?: true | undefined },
  signal: AbortSignal,
): Promise<RunEnd> {
  for (;;) {
    const code = await goneNow(source, messageId, isSent)
    if (code) return { status: 'rejected', code, reason: WHY[code](source.sessionId) }
    await sleep(LOOK_EVERY_MS, undefined, { signal, ref: false })
  }
}

/** Why the message's events are gone; undefined if they are not, or if that cannot be determined now. */
async function goneNow(
  { sessionId, client, store }: SessionSource,
  messageId: string,
  isSent = false,
): Promise<keyof typeof WHY | undefined> {
  try {
    const { gone, isPruned } = (await store?.locateMessage(sessionId, messageId)) ?? {}
    if (!gone) return undefined
    // A message that is sent again with the id of an old one is not stored yet.
    if (isPruned && !isSent) return gone
    // A later message has reopened the session, and is not stored yet.
    const { status } = await client.workflow.getHandle(workflowIdOf(sessionId)).describe()
    return status.name === 'RUNNING' ? undefined : gone
  } catch (error) {
    return error instanceof WorkflowNotFoundError
      ? (await store?.locateMessage(sessionId, messageId).catch(() => undefined))?.gone
      : undefined
  }
}
