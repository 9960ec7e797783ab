// Sends heartbeats for attempts of activities by pawl's own RPCs. They tell the server that an attempt is alive, and report which attempts
// must stop. The code has two halves, because in one-process mode the sending half runs in a thread whose event loop no tool can block.
import type { Client } from '@temporalio/client'
import type { Payload } from '@temporalio/common'

/** The server's answer to a heartbeat. */
export type HeartbeatAnswer = 'mine' | 'cancelled' | 'lost'

/** Messages to the sending half. */
export type ToSender =
  | { type: 'start'; id: number; taskToken: Uint8Array; everyMs: number; details: Payload[] }
  /** Changes the details of the heartbeats; the next one is sent soon. */
  | { type: 'note'; id: number; details: Payload[] }
  /**
   * Sends a heartbeat now and reports the answer. `alone`: only if the outcome of all earlier ones is known. `last`: only after all earlier
   * ones have ended, so that none of them replaces its details.
   */
  | { type: 'tell'; id: number; request: number; details?: Payload[]; alone?: true; last?: true }
  | { type: 'end'; id: number }
  /** The event loop that runs the attempts is not blocked. */
  | { type: 'alive' }

/** Messages from the sending half. */
export type FromSender =
  | { type: 'told'; request: number; answer: HeartbeatAnswer }
  | { type: 'not_told'; request: number; reason: string }
  /** The server has confirmed the attempt, by a heartbeat that was sent `agoMs` ago. */
  | { type: 'kept'; id: number; agoMs: number }
  /** The attempt must stop; sent once. */
  | { type: 'stop'; id: number; why: 'cancelled' | 'lost' }

/** One RPC. Rejects when the server cannot be reached. */
export type SendHeartbeat = (taskToken: Uint8Array, details: Payload[]) => Promise<HeartbeatAnswer>

const RPC_TIMEOUT_MS = 5_000
/** Minimum time before changed details are sent: each heartbeat is a write on the server and a billed action in Temporal Cloud. */
const NOTE_EVERY_MS = 1_000
/** gRPC's code for an attempt that the server no longer knows. */
const NOT_FOUND = 5

/** Heartbeats over a client's connection. An operator's pause or reset of an activity does not stop it; only a request to cancel does. */
export function sendBy(client: Client): SendHeartbeat {
  const { namespace, identity } = client.options
  const { connection } = client
  // The SDK aborts RPCs on the worker's connection once it considers the activity lost; heartbeats must not depend on that.
  const never = new AbortController().signal
  return async (taskToken, payloads) => {
    try {
      const answer = await connection.withAbortSignal(never, () =>
        connection.withDeadline(Date.now() + RPC_TIMEOUT_MS, () =>
          connection.workflowService.recordActivityTaskHeartbeat({ namespace, identity, taskToken, details: { payloads } }),
        ),
      )
      return answer.cancelRequested ? 'cancelled' : 'mine'
    } catch (error) {
      if ((error as { code?: unknown }).code === NOT_FOUND) return 'lost'
      throw error
    }
  }
}

interface AttemptHeartbeats {
  taskToken: Uint8Array
  details: Payload[]
  timer: NodeJS.Timeout
  noted?: NodeJS.Timeout
  sentAt: number
  underWay: Set<Promise<unknown>>
  /** Whether a heartbeat was sent and may not have arrived. */
  hasUnknown: boolean
  isStopped: boolean
}

/**
 * Starts the sending half; returns the function that accepts its messages. Heartbeats may overlap, so a slow one does not delay the others.
 */
export function heartbeatSender(send: SendHeartbeat, post: (message: FromSender) => void): (message: ToSender) => void {
  const sendings = new Map<number, AttemptHeartbeats>()

  async function sendHeartbeat(id: number, sending: AttemptHeartbeats): Promise<HeartbeatAnswer> {
    const sentAt = performance.now()
    sending.sentAt = sentAt
    const sent = send(sending.taskToken, sending.details)
    sending.underWay.add(sent)
    try {
      const answer = await sent
      if (answer !== 'lost' && sendings.get(id) === sending) post({ type: 'kept', id, agoMs: performance.now() - sentAt })
      if (answer !== 'mine' && !sending.isStopped && sendings.get(id) === sending) {
        sending.isStopped = true
        post({ type: 'stop', id, why: answer })
      }
      return answer
    } catch (error) {
      sending.hasUnknown = true
      throw error
    } finally {
      sending.underWay.delete(sent)
    }
  }

  const sendQuietly = (id: number, sending: AttemptHeartbeats): void => void sendHeartbeat(id, sending).catch(() => undefined)

  async function tell({ id, request, details, alone, last }: ToSender & { type: 'tell' }): Promise<void> {
    const sending = sendings.get(id)
    if (!sending) return post({ type: 'told', request, answer: 'lost' })
    try {
      const { hasUnknown, underWay } = sending
      const earlier = [...underWay]
      // Set before the wait, because heartbeats sent during it must already carry the new details.
      if (details) sending.details = details
      if (alone || last) {
        const fates = await Promise.allSettled(earlier)
        if (alone && (hasUnknown || fates.some(({ status }) => status === 'rejected')))
          throw new Error('an earlier heartbeat may still be in flight')
      }
      post({ type: 'told', request, answer: await sendHeartbeat(id, sending) })
    } catch (error) {
      post({ type: 'not_told', request, reason: error instanceof Error ? error.message : String(error) })
    }
  }

  function note(id: number, details: Payload[]): void {
    const sending = sendings.get(id)
    if (!sending) return
    sending.details = details
    sending.noted ??= setTimeout(
      () => {
        delete sending.noted
        if (sendings.get(id) === sending) sendQuietly(id, sending)
      },
      Math.max(0, sending.sentAt + NOTE_EVERY_MS - performance.now()),
    ).unref()
  }

  function end(id: number): void {
    const sending = sendings.get(id)
    clearInterval(sending?.timer)
    clearTimeout(sending?.noted)
    sendings.delete(id)
  }

  return (message) => {
    switch (message.type) {
      case 'start': {
        const { id, taskToken, everyMs, details } = message
        const timer = setInterval(() => sendQuietly(id, sending), everyMs).unref()
        const sending: AttemptHeartbeats = {
          taskToken,
          details,
          timer,
          sentAt: Number.NEGATIVE_INFINITY,
          underWay: new Set(),
          hasUnknown: false,
          isStopped: false,
        }
        sendings.set(id, sending)
        return
      }
      case 'note':
        return note(message.id, message.details)
      case 'tell':
        return void tell(message)
      case 'end':
        return end(message.id)
      case 'alive':
        return
    }
  }
}
